"""The lowest or highest value of each key, where values can be retracted. It is found from the ends of the runs,
without a scan.

The trace holds (key..., value) -> weight, with the rows of a key in the order of their values. When the maximum is
retracted, its row and the opposite row are in different runs until a merge drops both. So the answer is the first
value, from the top, whose weights have a sum above 0 over all runs.

All keys are searched at once, in rounds. A round reads the outermost `width` rows of each key from each run. Of each
run that has more rows, it has seen all rows beyond the innermost one that it read; so values beyond all these innermost
rows are complete. If the answer is among the complete values, the key is done. Otherwise the next round reads four
times as many rows.

Bound on the rows touched for one key: let R be the number of runs of its bucket (O(log rows)), and c the largest number
of rows at or beyond the answer in one run, which are the answer itself and retracted values that no merge has dropped
yet. At most R * (2 + max(1, 6 * c)) rows are touched, whatever the number of rows of the key: two to find the key's
rows in a run, and rounds of 1, 4, 16, ... rows, the last of which is below 4 * (c + 1). Usually one round is enough,
because the tops of all runs contain the top of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from engine.rows.hashing import Hashes
from engine.state.runs import Run
from engine.state.segments import Segment, read, segments_of
from engine.state.trace import Trace

WIDTH_GROWTH = 4
"""Rows of a run that a round reads, as a multiple of the round before. It keeps the rounds few, and reads at most 4
rows for each row that is needed."""

_BELOW_ALL = -(1 << 63)


class ValueChange(NamedTuple):
    """Weights that are to be added to values. `key[i]` is the index of the key. A pair (key, value) may occur
    repeatedly."""

    key: Int64s
    values: pa.Array
    weights: Int64s


@dataclass(frozen=True)
class Found:
    """One entry for each key. `before`: the extreme in the trace; `after`: in the trace and the change together. Both
    are null for a key without values."""

    before: pa.Array
    after: pa.Array
    below_zero: Int64s
    """Indices of keys in which a value that was read has a weight below 0, before or after the change."""
    rows_touched: int


class _Candidates(NamedTuple):
    """Rows of the runs and rows of the change. `before` and `after`: their weights without and with the change.
    `inner`: whether this is the innermost row that was read of its key in a run that has more rows of it."""

    key: Int64s
    values: pa.Array
    before: Int64s
    after: Int64s
    inner: Bools


def search(trace: Trace, keys: pa.Table, hashes: Hashes, change: ValueChange, highest: bool) -> Found:
    """The lowest (or highest) value of positive weight of each key, before and after the change. The change has not
    been appended to the trace yet. `hashes`: of the rows of `keys`."""
    assert trace.layout.ordered and trace.layout.key == tuple(range(len(trace.layout.types) - 1))
    segments = segments_of(trace, keys, hashes)
    touched = sum(segment.ends_touched for segment in segments)
    joined = _Joined.of(segments)
    results = _Results(keys.num_rows, trace.layout.types[-1])
    active = np.ones(keys.num_rows, dtype=np.bool_)
    width = 1
    while active.any():
        changed = _from_change(change, active)
        stored = _outermost(trace, joined, active, width, highest)
        candidates = _concatenate([changed, stored])
        touched += len(stored.key)
        active &= ~results.resolve(candidates, highest)
        width *= WIDTH_GROWTH
    return results.collect(touched)


class _Joined(NamedTuple):
    """All segments in one: entries bounds[i] to bounds[i + 1] - 1 of `key`, `low` and `high` are those of runs[i]."""

    runs: list[Run]
    bounds: Int64s
    key: Int64s
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> _Joined:
        nothing = np.zeros(0, np.int64)
        key, low, high = (
            np.concatenate([nothing, *(getattr(segment, name) for segment in segments)])
            for name in ("key", "low", "high")
        )
        bounds = np.cumsum([0, *(len(segment.key) for segment in segments)])
        return cls([segment.run for segment in segments], bounds, key, low, high)


class _Results:
    """The answers that have been found so far."""

    def __init__(self, keys: int, type_: pa.DataType) -> None:
        self._type = type_
        self._chosen = np.full((2, keys), -1, dtype=np.int64)
        self._values: list[pa.Array] = [pa.array([], type_)]
        self._length = 0
        self._below_zero: list[Int64s] = []

    def resolve(self, candidates: _Candidates, highest: bool) -> Bools:
        """Stores the answers of the keys for which the candidates suffice. Returns whether each key is done."""
        scores = _scores(candidates.values, highest)
        count = self._chosen.shape[1]
        frontier = np.full(count, _BELOW_ALL, dtype=np.int64)
        np.maximum.at(frontier, candidates.key[candidates.inner], scores[candidates.inner])
        has_more = np.zeros(count, dtype=np.bool_)
        has_more[candidates.key[candidates.inner]] = True
        complete = np.flatnonzero(scores >= frontier[candidates.key])
        order = complete[np.lexsort((scores[complete], candidates.key[complete]))]
        key, score = candidates.key[order], scores[order]
        starts = np.flatnonzero(np.concatenate(([True], (key[1:] != key[:-1]) | (score[1:] != score[:-1])))[: len(key)])
        chosen = np.full((2, count), -1, dtype=np.int64)
        for i, weights in enumerate((candidates.before, candidates.after)):
            total = np.add.reduceat(weights[order], starts) if len(starts) else weights[:0]
            there = total > 0
            # Scores ascend within a key, and of several assignments the last one wins.
            chosen[i, key[starts[there]]] = order[starts[there]]
            self._below_zero.append(np.unique(key[starts[total < 0]]))
        seen = np.zeros(count, dtype=np.bool_)
        seen[candidates.key] = True
        done: Bools = ~seen | (chosen >= 0).all(axis=0) | ~has_more
        self._enter(chosen, done, candidates.values)
        return done

    def _enter(self, chosen: Int64s, done: Bools, values: pa.Array) -> None:
        entered = (chosen >= 0) & done
        self._values.append(values.take(pa.array(chosen[entered])))
        numbers = self._length + np.arange(int(entered.sum()))
        self._chosen[entered] = numbers
        self._length += len(numbers)

    def collect(self, touched: int) -> Found:
        values = pa.concat_arrays(self._values)
        before, after = (values.take(pa.array(row, mask=row < 0)) for row in self._chosen)
        below_zero = np.unique(np.concatenate([np.zeros(0, np.int64), *self._below_zero]))
        return Found(before, after, below_zero, touched)


def _scores(values: pa.Array, highest: bool) -> Int64s:
    if pa.types.is_int64(values.type):
        scores: Int64s = values.to_numpy()
    else:
        scores = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
    return scores if highest else ~scores


def _from_change(change: ValueChange, active: Bools) -> _Candidates:
    some = np.flatnonzero(active[change.key])
    weights = change.weights[some]
    values = change.values if len(some) == len(change.key) else change.values.take(pa.array(some))
    return _Candidates(change.key[some], values, np.zeros_like(weights), weights, np.zeros(len(some), np.bool_))


def _outermost(trace: Trace, segments: _Joined, active: Bools, width: int, highest: bool) -> _Candidates:
    """The outermost `width` rows of each active key in each run. Only the reading itself is done run by run, because a
    call takes longer than it works on a small run."""
    some = np.flatnonzero(active[segments.key])
    low, high = segments.low[some], segments.high[some]
    first = np.maximum(low, high - width) if highest else low
    counts = np.minimum(high - low, width)
    ends = np.cumsum(counts)
    rows = np.repeat(first - (ends - counts), counts) + np.arange(int(counts.sum()))
    inner = np.zeros(len(rows), dtype=np.bool_)
    cut = counts < high - low
    inner[((ends - counts) if highest else (ends - 1))[cut]] = True
    bounds = np.concatenate([[0], ends])[np.searchsorted(some, segments.bounds)].tolist()
    value, weight = len(trace.layout.types) - 1, len(trace.layout.types)
    values = [pa.array([], trace.layout.types[-1])]
    weights = [np.zeros(0, np.int64)]
    for run, start, stop in zip(segments.runs, bounds[:-1], bounds[1:], strict=True):
        if start < stop:
            values.append(read(run, value, rows[start:stop]))
            weights.append(read(run, weight, rows[start:stop]).to_numpy())
    stored = np.concatenate(weights)
    return _Candidates(np.repeat(segments.key[some], counts), pa.concat_arrays(values), stored, stored, inner)


def _concatenate(parts: list[_Candidates]) -> _Candidates:
    key, before, after, inner = (np.concatenate([part[i] for part in parts]) for i in (0, 2, 3, 4))
    return _Candidates(key, pa.concat_arrays([part.values for part in parts]), before, after, inner)
