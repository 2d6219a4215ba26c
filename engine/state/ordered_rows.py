"""Where rows of an ordered trace are, by their key and their place in its order. There are two ways to file rows:

- `KeyedRows`: a row has the co-located hash of its key. So the rows of a key are neighbours, and are in one bucket of the trace, however many
  they are.
- `SpreadRows`: there is one key, and the hash of a row is a number that grows with its place in the order (`sort_bytes.spread_codes`). So the
  rows are in many buckets, in their order, and a merge of runs never touches all of them. With the hash of the key they would be in one
  bucket, which could not be split. The rows beside a row are in its bucket or in the next one, and no other bucket is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.rows.hashing import Hashes
from engine.state.runs import Run
from engine.state.segments import bisect, segments_of
from engine.state.trace import Trace


class Located(NamedTuple):
    """Values in a run. `item[i]`: which of the values that were asked for. Rows low[i] to high[i] - 1 of the run have its key, and of these rows
    left[i] to right[i] - 1 have the value."""

    run: Run
    item: Int64s
    low: Int64s
    high: Int64s
    left: Int64s
    right: Int64s


class OrderedRows(Protocol):
    """The rows of some keys, which have numbers, in an ordered trace. A value is a value of the column behind the key."""

    def locate(self, key: Int64s, values: pa.Array) -> list[Located]:
        """In each run that may have values[i] for key[i]: where it is or would be. A null is behind all rows of its key."""
        ...

    def steps(self, values: pa.Array, start: pa.Array) -> Int64s:
        """How many buckets lie between each value and the one value in `start`: 0 if both are in one bucket, negative for a value in a bucket
        before it."""
        ...

    def bucket_distance(self, start: pa.Array, *, back: bool) -> int:
        """The number of buckets behind (or before) that of the one value in `start`."""
        ...

    def bucket(self, start: pa.Array, number: int, *, back: bool) -> list[Located]:
        """The rows of one of these buckets, whose numbers begin with 1: the value would be at their edge."""
        ...


class KeyedRows:
    def __init__(self, trace: Trace, keys: pa.Table, hashes: Hashes) -> None:
        self._column, self._count = len(trace.layout.key), keys.num_rows
        self._segments = segments_of(trace, keys, hashes)

    def locate(self, key: Int64s, values: pa.Array) -> list[Located]:
        found = []
        for segment in self._segments:
            place = np.full(self._count, -1)
            place[segment.key] = np.arange(len(segment.key))
            item = np.flatnonzero(place[key] >= 0)
            low, high = segment.low[place[key[item]]], segment.high[place[key[item]]]
            found.append(_locate(segment.run, self._column, item, values, rows=(low, high), near=(low, high)))
        return found

    def steps(self, values: pa.Array, start: pa.Array) -> Int64s:
        return np.zeros(len(values), np.int64)

    def bucket_distance(self, start: pa.Array, *, back: bool) -> int:
        return 0

    def bucket(self, start: pa.Array, number: int, *, back: bool) -> list[Located]:
        raise AssertionError("the rows of a key are in one bucket")


class SpreadRows:
    """The rows of the one key of an ordered trace, which lie by the hash of their value. `spread`: the hash of each value."""

    def __init__(self, trace: Trace, spread: Callable[[pa.Array], Hashes]) -> None:
        self._trace, self._spread, self._column = trace, spread, len(trace.layout.key)

    def locate(self, key: Int64s, values: pa.Array) -> list[Located]:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        known, ends = np.flatnonzero(valid), np.flatnonzero(~valid)
        hashes = self._spread(values.take(pa.array(known)))
        order = np.argsort(hashes, kind="stable")
        found = []
        for run, start, stop in self._trace.runs_near(hashes[order]):
            asked = hashes[order[start:stop]]
            near = np.searchsorted(run.hashes, asked, side="left"), np.searchsorted(run.hashes, asked, side="right")
            item = known[order[start:stop]]
            found.append(_locate(run, self._column, item, values, rows=_whole(run, len(item)), near=near))
        if len(ends):
            last = self._trace.bucket_runs(self._trace.bucket_count - 1)
            found += [_edge(run, ends, back=True) for run in last]
        return found

    def steps(self, values: pa.Array, start: pa.Array) -> Int64s:
        return self._trace.buckets_of(self._spread(values)) - self._bucket_of(start)

    def bucket_distance(self, start: pa.Array, *, back: bool) -> int:
        at = self._bucket_of(start)
        return at if back else self._trace.bucket_count - 1 - at

    def bucket(self, start: pa.Array, number: int, *, back: bool) -> list[Located]:
        runs = self._trace.bucket_runs(self._bucket_of(start) + (-number if back else number))
        return [_edge(run, np.zeros(1, np.int64), back=back) for run in runs]

    def _bucket_of(self, start: pa.Array) -> int:
        return self._trace.bucket_count - 1 if start.null_count else int(self._trace.buckets_of(self._spread(start))[0])


def _locate(
    run: Run, column: int, item: Int64s, values: pa.Array, *, rows: tuple[Int64s, Int64s], near: tuple[Int64s, Int64s]
) -> Located:
    """`rows`: of the key. `near`: the rows among which the value is sought."""
    asked = values.take(pa.array(item))
    left, right = near[1].copy(), near[1].copy()
    some = np.flatnonzero(asked.is_valid().to_numpy(zero_copy_only=False))
    asked = asked.take(pa.array(some))
    left[some] = bisect(run, column, near[0][some], near[1][some], asked, after=False)
    right[some] = bisect(run, column, left[some], near[1][some], asked, after=True)
    low, high = rows
    return Located(run, item, low=low, high=high, left=left, right=right)


def _whole(run: Run, times: int) -> tuple[Int64s, Int64s]:
    return np.zeros(times, np.int64), np.full(times, len(run.hashes), np.int64)


def _edge(run: Run, item: Int64s, *, back: bool) -> Located:
    """All rows of a run, of values that are behind the last one, or before the first one."""
    low, high = _whole(run, len(item))
    edge = high if back else low
    return Located(run, item, low=low, high=high, left=edge, right=edge)
