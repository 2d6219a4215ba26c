"""Where the rows of some keys lie in the runs of an ordered trace.

In such a trace the rows of one key are neighbours in every run, in the order of the column behind the key. So the rows of a key in a run are a
range of positions, a segment, and a value is found in it by bisection. All keys are searched at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from engine.rows import zset
from engine.rows.hashing import Hashes, identity_columns
from engine.state.runs import Run
from engine.state.trace import Trace


@dataclass(frozen=True)
class Segment:
    """The rows of keys in one run: rows low[i] to high[i] - 1 are those of key[i], and there is at least one. `ends_touched`: the number of rows
    that were read to find them, two for each key."""

    run: Run
    key: Int64s
    low: Int64s
    high: Int64s
    ends_touched: int


def segments_of(trace: Trace, keys: pa.Table, hashes: Hashes) -> list[Segment]:
    """The segments of these keys in all runs that have rows of one of them. `hashes`: of the rows of `keys`."""
    order = np.argsort(hashes)
    ascending = hashes[order]
    found = []
    for run, start, stop in trace.runs_near(ascending):
        low = np.searchsorted(run.hashes, ascending[start:stop], side="left")
        high = np.searchsorted(run.hashes, ascending[start:stop], side="right")
        some = np.flatnonzero(high > low)
        if len(some):
            found.append(Segment(run, order[some + start], low[some], high[some], 2 * len(some)))
    return _without_collisions(trace, found, keys)


def read(run: Run, column: int, rows: Int64s) -> pa.Array:
    """The values of a column of a run at these positions. All reading by position goes through here, and a test counts it."""
    return zset.take(run.table.column(column), pa.array(rows))


def bisect(run: Run, column: int, low: Int64s, high: Int64s, values: pa.Array, *, after: bool) -> Int64s:
    """For each i, the first position in low[i] to high[i] - 1 whose value in the column is not below values[i], or with `after` is above it;
    high[i] if there is none. The column ascends in each of these ranges. It reads O(log(high[i] - low[i])) rows for each i."""
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    while len(active):
        middle = (low[active] + high[active]) // 2
        there, asked = read(run, column, middle), values.take(pa.array(active))
        is_before = (pc.less_equal if after else pc.less)(there, asked).to_numpy(zero_copy_only=False)
        low[active[is_before]] = middle[is_before] + 1
        high[active[~is_before]] = middle[~is_before]
        active = active[low[active] < high[active]]
    return low


def _without_collisions(trace: Trace, segments: list[Segment], keys: pa.Table) -> list[Segment]:
    """The segments without rows of other keys that have the same hash. Rows of one hash are in the order of their keys,
    so if the first and the last row have the key, all have it. Otherwise all rows are compared. The ends of all
    segments are compared at once, because there are many runs, and a call of Arrow takes longer than a small run."""
    if not segments:
        return segments
    ends = [np.concatenate([segment.low, segment.high - 1]) for segment in segments]
    asked = np.concatenate([np.tile(segment.key, 2) for segment in segments])
    is_own = _have_keys(trace, [s.run for s in segments], ends, keys, asked)
    if is_own.all():
        return segments
    bounds = np.cumsum([len(rows) for rows in ends])[:-1]
    parts = zip(segments, np.split(is_own, bounds), strict=True)
    return [segment if own.all() else _own_rows(trace, segment, own.reshape(2, -1), keys) for segment, own in parts]


def _own_rows(trace: Trace, segment: Segment, ends_are_own: Bools, keys: pa.Table) -> Segment:
    low, high = segment.low.copy(), segment.high.copy()
    for i in np.flatnonzero(~ends_are_own.all(axis=0)).tolist():
        rows = np.arange(low[i], high[i])
        asked = np.full(len(rows), segment.key[i])
        equal = np.flatnonzero(_have_keys(trace, [segment.run], [rows], keys, asked))
        low[i], high[i] = (rows[equal[0]], rows[equal[-1]] + 1) if len(equal) else (0, 0)
    some = high > low
    return Segment(segment.run, segment.key[some], low[some], high[some], segment.ends_touched)


def _have_keys(trace: Trace, runs: list[Run], rows: list[Int64s], keys: pa.Table, asked: Int64s) -> Bools:
    """Whether the rows of the runs, one run after another, have the keys at `asked`."""
    pairs = list(zip(runs, rows, strict=True))
    there = [pa.concat_arrays([read(run, i, part) for run, part in pairs]) for i in trace.layout.key]
    wanted = [zset.take(column, pa.array(asked)) for column in keys.columns]
    return zset.equal_rows(identity_columns(wanted), identity_columns(there), len(asked))
