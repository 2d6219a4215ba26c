"""The runs of a trace: which columns their rows have, under which keys they are stored, and their form as bytes.

A run is an Arrow table, sorted by (key hash, row). It has the columns of the rows, then one column for each accumulator, and then the hash.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from engine.rows import zset
from engine.rows.hashing import HASH_BITS, Hashes, slot_of
from storage.keys import PREFIX_BYTES, slot_prefix

Combine = Literal["sum", "carry", "min", "max"]
"""How the accumulators of equal rows are combined. `carry`: a sum of limbs in [0, 2**32), whose bits above the 32nd are
added to the next accumulator. So a total has a unique form, and does not overflow however many changes it sums."""

HASH = "hash"
_RUN = struct.Struct(">QQ")


@dataclass(frozen=True)
class TraceLayout:
    """The shape of a trace's rows: columns of `types`, then one column for each accumulator.

    `key`: the indices of the columns by which rows are looked up. `ordered`: the key is the first columns, and the rows
    of one key are in the order of the column behind them (for extremes and top-k), and not of their hash. A row is
    dropped when all its sums (and limbs) are 0."""

    table: int
    types: tuple[pa.DataType, ...]
    key: tuple[int, ...]
    combines: tuple[Combine, ...] = ("sum",)
    accumulator_types: tuple[pa.DataType, ...] = (pa.int64(),)
    ordered: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        rows = [(f"c{i}", kind) for i, kind in enumerate(self.types)]
        accumulators = [(f"a{i}", kind) for i, kind in enumerate(self.accumulator_types)]
        return pa.schema([*rows, *accumulators, (HASH, pa.uint64())])

    @cached_property
    def hash_is_of_rows(self) -> bool:
        """Whether the key is the whole row, so that equal hashes mean equal rows but for collisions."""
        return self.key == tuple(range(len(self.types)))


def run_key(table: int, first: int, number: int) -> bytes:
    """The key of a run: its bucket's first hash, and its number in the table."""
    return slot_prefix(table, slot_of(first)) + _RUN.pack(first, number)


def parse_run_key(key: bytes) -> tuple[int, int]:
    """(the bucket's first hash, number)."""
    first, number = _RUN.unpack_from(key, PREFIX_BYTES)
    return first, number


@dataclass(frozen=True)
class Run:
    """One run of a trace. `table`: the columns of the rows, the accumulators, and the hash. `hashes`: its last column, ascending. A run is
    valid until the transaction ends."""

    table: pa.Table
    hashes: Hashes


def encode_run(rows: pa.Table) -> memoryview:
    """The value under which rows of one chunk are stored."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue())


def decode_run(value: bytes | memoryview) -> pa.Table:
    """The reverse of `encode_run`, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(value)).read_all()


def as_rows(change: pa.Table) -> pa.Table:
    """A Z-set as rows of a trace whose only accumulator is the weight."""
    return change.rename_columns([*change.column_names[:-1], "a0"])


def as_zset(rows: pa.Table) -> pa.Table:
    """The reverse of `as_rows`: rows of such a trace, without the hash, as a Z-set."""
    return rows.rename_columns([*rows.column_names[:-1], zset.WEIGHT])


def as_run(table: pa.Table) -> Run:
    """A table of one chunk with a hash as a run."""
    return Run(table, table.column(HASH).chunk(0).to_numpy())


def between(run: Run, low: int, high: int) -> Run:
    """The rows of a run whose hashes are at least `low` and below `high`, which may be 2**64."""
    start = int(np.searchsorted(run.hashes, np.uint64(low), side="left"))
    end = len(run.hashes) if high >> HASH_BITS else int(np.searchsorted(run.hashes, np.uint64(high), side="left"))
    return Run(run.table.slice(start, end - start), run.hashes[start:end])
