"""Exchange messages: what one worker sends to another, or to the driver, after a stage.

A message holds the rows of several channels as Arrow IPC bytes, possibly of none. A receiver reads its messages in the order of their
sources, so the order in which they arrive does not matter. An error is a message too: every later task of the step sees it before it
touches its state.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.analysis.stages import Channel

DRIVER = -1
"""The target of a message to the driver."""


@dataclass(frozen=True)
class ExchangeMessage:
    """`source`: the worker that sent it. `channels`: the rows for later stages. `output`: the messages for Kafka, by Output node. Rows
    and output are Arrow IPC streams. `reports`: pickled reports for the driver. `error`: a pickled exception. A message with an error
    holds nothing else."""

    source: int
    channels: Mapping[Channel, bytes] = field(default_factory=dict)
    output: Mapping[int, bytes] = field(default_factory=dict)
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


def in_order(messages: Iterable[ExchangeMessage]) -> list[ExchangeMessage]:
    """The messages sorted by source."""
    return sorted(messages, key=lambda message: message.source)


def first_error(messages: Iterable[ExchangeMessage]) -> ExchangeMessage | None:
    """The message of the lowest source that has an error, so that every receiver reports the same error."""
    return next((message for message in in_order(messages) if message.error is not None), None)


def error_message(source: int, error: Exception) -> ExchangeMessage:
    return ExchangeMessage(source, error=pickle.dumps(error))


def error_of(message: ExchangeMessage) -> Exception:
    assert message.error is not None
    error = pickle.loads(message.error)
    assert isinstance(error, Exception)
    return error
