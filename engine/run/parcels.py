"""What travels between tasks: tables of several channels, for one worker, as bytes.

A parcel is (source worker, {channel or node: Arrow IPC stream}). A receiver takes parcels in the order of their sources, whatever
order they came in. An error travels as a parcel too, so that every later task of the step sees it before it touches its state.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.analysis.stages import Channel

DRIVER = -1
"""The target of a parcel that is for the driver."""


@dataclass(frozen=True)
class Parcel:
    """`channels`: rows for later stages; `messages`: encoded output by node; `reports`: what a source task tells the driver
    (pickled by the reader of the input); `error`: a pickled exception, then there is nothing else."""

    source: int
    channels: Mapping[Channel, bytes] = field(default_factory=dict)
    messages: Mapping[int, bytes] = field(default_factory=dict)
    reports: tuple[bytes, ...] = ()
    error: bytes | None = None


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    result: bytes = sink.getvalue().to_pybytes()
    return result


def from_bytes(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def in_order(parcels: Iterable[Parcel]) -> list[Parcel]:
    """By source: arrival order must not matter."""
    return sorted(parcels, key=lambda parcel: parcel.source)


def first_error(parcels: Iterable[Parcel]) -> Parcel | None:
    """The error of the lowest source, so that every receiver speaks of the same one."""
    return next((parcel for parcel in in_order(parcels) if parcel.error is not None), None)


def error_parcel(source: int, error: Exception) -> Parcel:
    return Parcel(source, error=pickle.dumps(error))


def error_of(parcel: Parcel) -> Exception:
    assert parcel.error is not None
    error = pickle.loads(parcel.error)
    assert isinstance(error, Exception)
    return error
