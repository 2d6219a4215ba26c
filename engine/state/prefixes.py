"""The first `bound` rows of each key of an ordered trace, and how they change when rows are added and retracted.

The prefix of a key is its first `bound` rows in the order of the trace; a row of weight 3 takes three places. For each key a *cursor* is kept:

    rows of the key   a a b c c c d e ...         bound = 5
    cursor                  ^ (c, 3)              c has the last place, and 3 places are taken before it

If the key has fewer rows than `bound`, its cursor is *open*: the prefix is all rows, and the number says how many they are. A change moves the
cursor. What has to be read of the trace are only the rows between its old and its new place:

- Rows that come before the cursor push others out: read backwards from the cursor until there are fewer than `bound` places before a row.
- Rows that go before the cursor make room: read forwards from the cursor until `bound` places are taken.
- A row that comes or goes behind the cursor changes nothing, and nothing is read.

Rows with equal sort bytes are one class, and the cursor points to a class. Such rows tie although their bytes end with a hash of the whole
row, so there is nearly always one row in a class; -0.0 and 0.0 are an exception. A class is read as a whole, and its rows are in the order
of `zset.group_rows`, which is exact.

A total weight below zero counts as no row. (A changelog in several partitions may retract a row in an earlier step than it inserts it.)

**Bound on the rows read for one key** (`segments.read` is the only way to read them). Let R be the number of runs that are opened, n the
number of the key's rows, d the rows of the change, m the rows that enter or leave the prefix, counted once for each row and not for its weight,
and c the largest number of rows beside them in one run that are retracted and not merged away yet. Then at most

    R * (2 + 2 * log2(n + 1) * (d + 1) + 2 + 6 * (m + d + c + 4))

rows are read: the ends of the key's rows, bisections for the cursor and for the changed rows before it, and rounds of 4, 16, 64, ... rows
beside the cursor's class. The runs are those of the bucket of the key, or, if the rows are spread over many buckets (`ordered_rows.py`), of
the buckets of the cursor, of the changed rows before it, and of the rows that are passed. The bound depends neither on the rows that are
kept (but for the logarithm), nor on `bound`. Merges of runs are not in it. They belong to the trace, which merges each changed row O(log n)
times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from engine.rows import zset
from engine.rows.hashing import identity_columns
from engine.state.ordered_rows import Located, OrderedRows
from engine.state.runs import Run
from engine.state.segments import read
from engine.state.trace import Trace

WIDTH_FIRST, WIDTH_GROWTH = 4, 4
"""Rows that the first round reads beside the cursor's class in each run, and how many times as many each further round reads. A round that
reads too little costs a pass over whole arrays, so the first one is wide enough for a step that moves a cursor by two or three rows."""

_BELOW_ALL = -(1 << 63)


@dataclass(frozen=True)
class TraceChange:
    """Rows that are added to the trace, each once. `key[i]`: the index of row i's key. `rows`: the columns of the trace. `weights`: what is
    added to the row's weight. `effects`: by how much that changes its number of places (`effects_of`)."""

    key: Int64s
    rows: pa.Table
    weights: Int64s
    effects: Int64s


class Cursors(NamedTuple):
    """One cursor for each key. `sort`: the sort bytes of its class; null if it is open. `before`: the places before the class; all places of
    the key if it is open."""

    sort: pa.Array
    before: Int64s


@dataclass(frozen=True)
class PrefixChange:
    """The change of the prefixes of all keys, and where their cursors are then. `rows`, `weights`: the change of the prefixes, in columns of
    the trace; a row may occur twice. `key[i]`: the index of row i's key. `cursors`: those after the change."""

    key: Int64s
    rows: pa.Table
    weights: Int64s
    cursors: Cursors


class _ReadRows(NamedTuple):
    """Rows of runs and of the change. `before`: weights in the trace. `added`: weights of the change. `inner`: whether this is the last row
    that was read of a run that has more rows in its direction. `at`: whether the row is in the class of the cursor. `change`: its position
    in the change, or -1."""

    key: Int64s
    rows: pa.Table
    before: Int64s
    added: Int64s
    inner: Bools
    at: Bools
    change: Int64s


class _Placed(NamedTuple):
    """Rows that were read, each once, by key and then in the order of the trace. `chosen`: their numbers among those that were read. `score`:
    the rank of their sort bytes. `places`: those before the row after the change. `weights`: its weight after the change; 0 if it is gone."""

    chosen: Int64s
    key: Int64s
    score: Int64s
    places: Int64s
    weights: Int64s


def effects_of(trace: Trace, rows: OrderedRows, change: TraceChange, some: Bools) -> Int64s:
    """By how much each row of the change, if it is one of `some`, changes the number of its places. That is its weight, unless the row's total
    weight is below zero before or after. For the other rows it is 0."""
    result = np.zeros(len(change.key), np.int64)
    asked = np.flatnonzero(some)
    stored = _stored_weights(trace, rows, change, asked)
    result[asked] = np.maximum(stored + change.weights[asked], 0) - np.maximum(stored, 0)
    return result


def before_cursor(trace: Trace, change: TraceChange, cursors: Cursors) -> tuple[Bools, Bools]:
    """For each row of the change: whether it is before the class of its key's cursor, and whether it is in it. Every row is before an open
    cursor."""
    sort, asked = _sort(trace, change.rows), cursors.sort.take(pa.array(change.key))
    is_before, is_at = fill(pc.less(sort, asked), True), fill(pc.equal(sort, asked), False)
    return is_before.to_numpy(zero_copy_only=False), is_at.to_numpy(zero_copy_only=False)


def advance_cursors(trace: Trace, rows: OrderedRows, change: TraceChange, cursors: Cursors, bound: int) -> PrefixChange:
    """Moves the cursors of the prefixes of `bound` rows. The change has not been appended to the trace yet. `rows`: those of the trace, by keys
    whose numbers are those of the cursors."""
    assert bound > 0
    search = _Search(trace, rows, change, cursors, bound)
    while search.pending.any():
        search.round()
    return search.find_moved()


class _Search:
    """The cursors that have been moved so far. `places`: those before each cursor's old class after the change. `back`: whether a cursor moves
    backwards. `pending`: the cursors that are still to be moved."""

    def __init__(self, trace: Trace, rows: OrderedRows, change: TraceChange, cursors: Cursors, bound: int) -> None:
        self._trace, self._all, self._change, self._cursors, self._bound = trace, rows, change, cursors, bound
        self._is_before, self._is_at = before_cursor(trace, change, cursors)
        self._places = cursors.before.copy()
        np.add.at(self._places, change.key[self._is_before], change.effects[self._is_before])
        self._back = self._places >= bound
        is_open = cursors.sort.is_null().to_numpy(zero_copy_only=False)
        near = np.zeros(len(cursors.before), np.bool_)
        near[change.key[self._is_before | self._is_at]] = True
        self.pending: Bools = near & (self._back | ~is_open)
        self._after = np.where(is_open, self._places, cursors.before)
        self._sources = [cursors.sort]
        self._source = np.arange(len(cursors.before))
        self._source_length = len(cursors.before)
        self._entered = np.zeros(len(change.key), np.bool_)
        self._keys: list[Int64s] = []
        self._rows: list[pa.Table] = []
        self._weights: list[Int64s] = []
        self._width, self._opened = WIDTH_FIRST, 0
        pending = np.flatnonzero(self.pending)
        self._places_of = [
            located._replace(item=pending[located.item])
            for located in rows.locate(pending, cursors.sort.take(pa.array(pending)))
        ]
        # Only a single key has more than one bucket.
        alone = len(pending) == len(cursors.sort) == 1
        self._further = rows.bucket_distance(cursors.sort, back=bool(self._back[0])) if alone else 0
        self._steps = (
            rows.steps(_sort(trace, change.rows), cursors.sort)
            if self._further
            else np.zeros(len(change.key), np.int64)
        )

    def round(self) -> None:
        """Reads some rows of each run beside the class of each pending cursor, and moves the cursors for which they suffice. The next round
        reads more of each run, or the next bucket if the runs have no more."""
        found = _concatenate([self._of_change(), *map(self._of_run, self._places_of)])
        self._move(found)
        if found.inner.any():
            self._width *= WIDTH_GROWTH
        elif self.pending.any():
            self._opened += 1
            self._places_of += self._all.bucket(self._cursors.sort, self._opened, back=bool(self._back[0]))

    def _move(self, found: _ReadRows) -> None:
        complete, score, has_more = self._complete(found)
        rows = np.flatnonzero(complete)
        order, starts = zset.group_rows(
            self._identity(found.rows.take(pa.array(rows))),
            len(rows),
            (found.key[rows] * (1 + score.max(initial=0)) + score[rows]).astype(np.uint64),
        )
        before = np.add.reduceat(found.before[rows][order], starts) if len(starts) else found.before[:0]
        added = np.add.reduceat(found.added[rows][order], starts) if len(starts) else found.added[:0]
        chosen = rows[order[starts]]
        old, new = np.maximum(before, 0), np.maximum(before + added, 0)
        key, at = found.key[chosen], found.at[chosen]
        cum_old = self._places_before(key, old, at, self._cursors.before)
        cum_new = self._places_before(key, new, at, self._places)
        hit = np.flatnonzero((cum_new < self._bound) & (self._bound <= cum_new + new))
        done = self._enter(found, _Placed(chosen, key, score[chosen], cum_new, new), hit, has_more)
        change = clip(self._bound - cum_new, new) - clip(self._bound - cum_old, old)
        kept = np.flatnonzero(done[key] & (change != 0))
        self._keys.append(key[kept])
        self._rows.append(found.rows.take(pa.array(chosen[kept])))
        self._weights.append(change[kept])
        ours = rows[(found.change[rows] >= 0) & done[found.key[rows]]]
        self._entered[found.change[ours]] = True
        self.pending &= ~done

    def find_moved(self) -> PrefixChange:
        rest = np.flatnonzero(self._is_before & ~self._entered & (self._change.effects != 0))
        key = np.concatenate([self._change.key[rest], *self._keys])
        rows = pa.concat_tables([self._change.rows.take(pa.array(rest)), *self._rows])
        weights = np.concatenate([self._change.effects[rest], *self._weights])
        sort = pa.concat_arrays(self._sources).take(pa.array(self._source, mask=self._source < 0))
        return PrefixChange(key, rows, weights, Cursors(sort, self._after))

    def _identity(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """The columns that distinguish rows. The sort bytes follow from the others."""
        place = len(self._trace.layout.key)
        return [column for i, column in enumerate(rows.columns) if i != place]

    def _of_change(self) -> _ReadRows:
        """The rows of the change in the direction of the pending cursors, as far as the buckets have been opened: in those behind, rows of
        the trace may lie between them."""
        key = self._change.key
        there = np.where(self._back[key], self._is_before | self._is_at, ~self._is_before)
        some = np.flatnonzero(self.pending[key] & there & (np.abs(self._steps) <= self._opened))
        weights = self._change.weights[some]
        nothing, no = np.zeros_like(weights), np.zeros(len(some), np.bool_)
        return _ReadRows(
            key[some],
            self._change.rows.take(pa.array(some)),
            before=nothing,
            added=weights,
            inner=no,
            at=self._is_at[some],
            change=some,
        )

    def _of_run(self, located: Located) -> _ReadRows:
        """The rows of a run in the classes of the pending cursors, and rows beside each of them in the direction of the cursor."""
        some, width = np.flatnonzero(self.pending[located.item]), self._width
        key, left, right = located.item[some], located.left[some], located.right[some]
        back = self._back[key]
        first = np.where(back, np.maximum(located.low[some], left - width), left)
        end = np.where(back, right, np.minimum(located.high[some], right + width))
        rows, of_row = _ranges(first, end)
        is_first, is_last = rows == first[of_row], rows == end[of_row] - 1
        inner = np.where(
            back[of_row], is_first & (first > located.low[some])[of_row], is_last & (end < located.high[some])[of_row]
        )
        table = _read(self._trace, located.run, rows)
        weights = table.column(table.num_columns - 1).to_numpy()
        at = (rows >= left[of_row]) & (rows < right[of_row])
        columns = table.select(range(table.num_columns - 1))
        return _ReadRows(
            key[of_row],
            columns,
            before=weights,
            added=np.zeros_like(weights),
            inner=inner,
            at=at,
            change=np.full(len(rows), -1),
        )

    def _complete(self, found: _ReadRows) -> tuple[Bools, Int64s, Bools]:
        """(whether all of the row's class has been read, in every run, and of all classes between it and the cursor; the rank of the row's sort
        bytes; for each key, whether there are more rows of it in a run or in a bucket that has not been opened)."""
        score = pc.rank(_sort(self._trace, found.rows), tiebreaker="dense").to_numpy().astype(np.int64)
        outward = np.where(self._back[found.key], score, -score)
        frontier = np.full(len(self.pending), _BELOW_ALL, np.int64)
        np.maximum.at(frontier, found.key[found.inner], outward[found.inner])
        has_more = np.zeros(len(self.pending), np.bool_)
        has_more[found.key[found.inner]] = True
        has_more |= self._opened < self._further
        return outward > frontier[found.key], score, has_more

    def _places_before(self, key: Int64s, weights: Int64s, at: Bools, places: Int64s) -> Int64s:
        """The places before each row, for rows in order; `places` are those before the class of each cursor."""
        total = np.cumsum(weights) - weights
        starts = np.searchsorted(key, np.arange(len(self.pending)), side="left")
        first = np.append(total, 0)[starts]
        # What lies between the first row that was read and the class of a cursor that moves back.
        inside = np.zeros(len(self.pending), np.int64)
        backward = self._back[key] & ~at
        np.add.at(inside, key[backward], weights[backward])
        result: Int64s = places[key] + total - first[key] - inside[key]
        return result

    def _enter(self, found: _ReadRows, placed: _Placed, hit: Int64s, has_more: Bools) -> Bools:
        """Stores the new cursors that are known, and returns which they are. `hit`: the placed rows at which the bound lies."""
        key, score = placed.key, placed.score
        is_hit = np.zeros(len(self.pending), np.bool_)
        is_hit[key[hit]] = True
        runs_out = self.pending & ~is_hit & ~has_more
        assert not (runs_out & self._back).any(), "a key has fewer rows than its cursor has places before it"
        totals = self._places.copy()
        np.add.at(totals, key, placed.weights)
        self._after[runs_out], self._source[runs_out] = totals[runs_out], -1
        new = np.ones(len(key), np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (score[1:] != score[:-1])
        class_start = np.maximum.accumulate(np.where(new, np.arange(len(key)), 0))
        self._after[key[hit]] = placed.places[class_start[hit]]
        self._source[key[hit]] = self._source_length + np.arange(len(hit))
        self._source_length += len(hit)
        self._sources.append(_sort(self._trace, found.rows).take(pa.array(placed.chosen[hit])))
        return is_hit | runs_out


def _stored_weights(trace: Trace, rows: OrderedRows, change: TraceChange, some: Int64s) -> Int64s:
    """The weights in the trace of these rows of the change."""
    result = np.zeros(len(some), np.int64)
    for located in rows.locate(change.key[some], _sort(trace, change.rows).take(pa.array(some))):
        found, of = _ranges(located.left, located.right)
        asked = located.item[of]
        table = _read(trace, located.run, found)
        ours = identity_columns(change.rows.take(pa.array(some[asked])).columns)
        equal = zset.equal_rows(ours, identity_columns(table.columns[:-1]), len(found))
        np.add.at(result, asked[equal], table.column(table.num_columns - 1).to_numpy()[equal])
    return result


def _ranges(first: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """(the numbers first[i] to end[i] - 1 for each i, the i of each)."""
    counts = end - first
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(int(counts.sum())), np.repeat(
        np.arange(len(first)), counts
    )


def _sort(trace: Trace, rows: pa.Table) -> pa.Array:
    column = rows.column(len(trace.layout.key))
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _read(trace: Trace, run: Run, rows: Int64s) -> pa.Table:
    """The columns of these rows of a run, and their weights."""
    width = len(trace.layout.types)
    names = trace.layout.schema.names[: width + 1]
    return pa.Table.from_arrays([read(run, i, rows) for i in range(width + 1)], names)


def _concatenate(parts: Sequence[_ReadRows]) -> _ReadRows:
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _ReadRows._fields if name != "rows"
    }
    return _ReadRows(rows=rows, **arrays)


def clip(room: Int64s, weights: Int64s) -> Int64s:
    """The places that a row of this weight takes if there is this much room."""
    return np.minimum(np.maximum(room, 0), weights)
