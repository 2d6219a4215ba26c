"""Rows of a trace by a time in one of their columns, so that those between two times are found without reading the others.

The hash of a row keeps its slot, so that rows can be moved with their slot. Below it come the bits of the time, and then some bits of the row's
own hash. So the rows of a slot are in the order of their times within every run. The rows of one time are in several buckets if they are many.

Where a run has few rows for each slot, one pass over its column of times is cheaper than two searches for each slot. So the cost of a look
between two times is that of the rows of the run, or of `SEARCH_ROWS` rows for each of its slots if that is less, whatever the run's size is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.slots import SLOT_BITS
from engine.rows import zset
from engine.rows.hashing import HASH_BITS, Hashes
from engine.state.runs import Run
from engine.state.trace import Trace

OWN_BITS = 12
"""The bits of a row's own hash: rows of one time and one slot, as of a date, spread over 4,096 hashes. A bucket is never split within one."""

TIME_BITS = HASH_BITS - SLOT_BITS - OWN_BITS
UNIT_BITS = 21
"""A unit of 2 seconds: 36 bits are then 4,500 years around 1970. Earlier and later times share the first and the last unit."""

SEARCH_ROWS = 16
"""Two binary searches for a slot cost about as much as a pass over so many times."""

_SLOT_SHIFT = np.uint64(HASH_BITS - SLOT_BITS)
_OWN = np.uint64((1 << OWN_BITS) - 1)
_HALF = 1 << (TIME_BITS - 1)


def timed_hashes(hashes: Hashes, times: Int64s) -> Hashes:
    """The hash of each row, of which `hashes` has the slot and the own bits, with its time in microseconds."""
    own: Hashes = ((hashes >> _SLOT_SHIFT) << _SLOT_SHIFT) | _time_bits(times) | (hashes & _OWN)
    return own


def rows_between(trace: Trace, column: int, after: int, until: int) -> pa.Table:
    """The rows whose time in `column`, an int64, is greater than `after` and at most `until`, with accumulators and hash. A row that is in
    several runs occurs once for each."""
    parts = [trace.layout.schema.empty_table()]
    for run in trace.runs():
        rows = _candidates(run, after, until)
        times = run.table.column(column).to_numpy()
        times = times if rows is None else times[rows]
        found = np.flatnonzero((times > after) & (times <= until))
        if len(found):
            parts.append(zset.take_rows(run.table, found if rows is None else rows[found]))
    return pa.concat_tables(parts)


def first_time_after(trace: Trace, column: int, time: int) -> int | None:
    """The least time in `column` that is greater than `time`; None if there is none. Rows that cancel each other out in several runs count."""
    return min(_first_times(trace, column, time), default=None)


def _first_times(trace: Trace, column: int, time: int) -> Iterator[int]:
    for run in trace.runs():
        times = run.table.column(column).to_numpy()
        later = times[times > time]
        if len(later):
            yield int(later.min())


def _candidates(run: Run, after: int, until: int) -> Int64s | None:
    """Where rows with such times can be in the run; None: anywhere."""
    first, last = int(run.hashes[0] >> _SLOT_SHIFT), int(run.hashes[-1] >> _SLOT_SHIFT)
    if (last - first + 1) * SEARCH_ROWS >= len(run.hashes):
        return None
    slots = np.arange(first, last + 1, dtype=np.uint64) << _SLOT_SHIFT
    low, high = _time_bits(np.array([after, until], np.int64))
    starts = np.searchsorted(run.hashes, slots | low, side="left")
    counts = np.searchsorted(run.hashes, slots | high | _OWN, side="right") - starts
    before = np.cumsum(counts) - counts
    found: Int64s = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return found


def _time_bits(times: Int64s) -> Hashes:
    units = np.clip(times >> UNIT_BITS, -_HALF, _HALF - 1) + _HALF
    bits: Hashes = units.astype(np.uint64) << np.uint64(OWN_BITS)
    return bits
