"""Moves the rows of slots from a trace to the same trace of another worker, run by run.

A run is a sorted table, and all rows of a slot have neighbouring hashes. So the rows of a range of slots are one slice of each run, which is
copied without being searched or merged. Pieces may arrive in any order, because the content of a trace is the sum of its runs.

    source: parts_of(slots) -> piece_of(part), or copy_of ahead of the move -> destination: adopt(range, pieces) -> source: drop(ranges)

The functions know neither operators nor the types of rows: a table of a store is enough. Every bucket has a name, which is its first hash, and
ends where the next one begins. So rows that are filed under a bucket have to lie in it, or no lookup would find them. That is why both sides cut
their buckets at the ends of what moves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from base.ranges import Range
from base.slots import SlotSet
from engine.rows.hashing import HASH_BITS, Hashes, first_hash_of, slot_of
from engine.state.runs import HASH, decode_run, encode_run, parse_run_key, run_key
from engine.state.store import Store
from storage.keys import table_prefix


@dataclass(frozen=True)
class Piece:
    """Rows of one run, all in one bucket. `first`: the bucket's first hash at the source. `rows`: an encoded run (runs.py, `encode_run`)."""

    first: int
    rows: memoryview


class RunPart(NamedTuple):
    """The rows that one run has in a range of slots; there may be none. `first`: the first hash of the run's bucket. `number`: the run's."""

    first: int
    number: int
    span: Range

    def copy_key(self, table: int) -> bytes:
        """The key under which a copy of the part is stored. No other part of the table has it, since a run has one part in a range."""
        return run_key(table, max(self.first, first_hash_of(self.span[0])), self.number)


def parts_of(store: Store, table: int, slots: SlotSet) -> list[RunPart]:
    """Returns the parts of the runs that may have rows of these slots: range by range, bucket by bucket, and within a bucket from the oldest to
    the youngest."""
    runs = _Runs(store, table)
    return [
        RunPart(first, number, span)
        for span in slots.ranges
        for first in runs.buckets_of(*_hashes(span))
        for number in runs.numbers[first]
    ]


def piece_of(store: Store, table: int, part: RunPart) -> Piece | None:
    """The rows of a part, whose run is read; None if there are none."""
    value = store.get(run_key(table, part.first, part.number), immutable=True)
    assert value is not None, f"run {part.number} of bucket {part.first:016x} was listed and is missing"
    return _piece(value, part)


def copy_of(store: Store, table: int, part: RunPart) -> Piece | None:
    """Returns the rows of a part that was listed in an earlier transaction; None if there are none, and also if its run has another place or
    number now."""
    value = store.get(run_key(table, part.first, part.number), immutable=True)
    return None if value is None else _piece(value, part)


def _piece(value: memoryview, part: RunPart) -> Piece | None:
    rows = _between(decode_run(value), *_hashes(part.span))
    return Piece(part.first, encode_run(rows.combine_chunks())) if rows.num_rows else None


def next_number(store: Store, table: int) -> int:
    """Returns the number of the next run. All runs that are there have lower ones."""
    return _Runs(store, table).next


def make_edges(store: Store, table: int, slots: SlotSet) -> None:
    """Makes the ends of these slots edges of buckets. So no bucket reaches into them or over them. Runs with rows on both sides of an end are
    written again; where a bucket ends there already, none is."""
    runs = _Runs(store, table)
    for span in slots.ranges:
        _cut_around(runs, span)


def adopt(store: Store, table: int, span: Range, pieces: Iterable[Piece]) -> None:
    """Adds pieces, all of whose rows are in this range of slots. A piece becomes a run as it is, in the bucket that begins with its own first
    hash, or with the range's if the piece's bucket begins below it."""
    runs = _Runs(store, table)
    low, high = _cut_around(runs, span)
    for piece in pieces:
        hashes = _hashes_of(decode_run(piece.rows))
        assert low <= int(hashes[0]) and int(hashes[-1]) < high, f"a piece has rows of other slots than {span}"
        first = max(piece.first, low)
        _cut(runs, first)
        if runs.edge_between(first, int(hashes[-1])):  # the source has joined buckets since another piece was sent
            runs.put_by_bucket(first, decode_run(piece.rows))
        else:
            runs.put_encoded(first, piece.rows)


def adopt_all(store: Store, table: int, slots: SlotSet, pieces: Sequence[Piece]) -> None:
    """Adds pieces of several ranges as `adopt` adds those of one. A piece belongs to the range in which its rows are."""
    starts = [first_hash_of(first) for first, _ in slots.ranges]
    by_range: dict[int, list[Piece]] = {}
    for piece in pieces:
        first = int(_hashes_of(decode_run(piece.rows))[0])
        by_range.setdefault(bisect_right(starts, first) - 1, []).append(piece)
    for number, mine in sorted(by_range.items()):
        assert number >= 0, f"a piece has rows of other slots than {slots}"
        adopt(store, table, slots.ranges[number], mine)


def check_rows(encoded: memoryview, slots: SlotSet, first: int = 0) -> None:
    """Raises ValueError unless `encoded` is a run with rows, whose hashes ascend from `first` or above it and lie in one range of the slots."""
    try:
        rows = decode_run(encoded)
        rows.validate()
    except (pa.ArrowException, OSError) as fault:
        raise ValueError(f"rows that cannot be read: {fault}") from None
    names = rows.column_names
    if (
        names[-1:] != [HASH]
        or rows.schema.types[-1] != pa.uint64()
        or rows.column(HASH).num_chunks != 1
        or not rows.num_rows
    ):
        raise ValueError(f"{rows.num_rows} rows of {names}, which are no run")
    hashes = _hashes_of(rows)
    low, high = slot_of(int(hashes[0])), slot_of(int(hashes[-1]))
    if (hashes[1:] < hashes[:-1]).any() or not 0 <= first <= int(hashes[0]):
        raise ValueError("rows that are not in the order of their hashes, or below their bucket")
    if not any(begin <= low <= high < end for begin, end in slots.ranges):
        raise ValueError(f"rows of slots {low} to {high}, which are not in one range of {slots}")


def runs_of(store: Store, table: int) -> Iterator[tuple[int, Hashes, int]]:
    """Yields for each run the first hash of its bucket, its hashes and its bytes, in the order of the buckets."""
    runs = _Runs(store, table)
    for first, numbers in sorted(runs.numbers.items()):
        for number in numbers:
            rows = runs.rows(first, number)
            yield first, _hashes_of(rows), rows.nbytes


def drop(store: Store, table: int, slots: SlotSet) -> None:
    """Removes the rows of these slots."""
    runs = _Runs(store, table)
    for span in slots.ranges:
        low, high = _cut_around(runs, span)
        # A bucket that begins below the range has no rows in it now.
        for first in [first for first in runs.numbers if low <= first < high]:
            for number in tuple(runs.numbers[first]):
                runs.delete(first, number)


def _cut_around(runs: _Runs, span: Range) -> Range:
    """Makes both ends of a range of slots edges of buckets. Returns the first hash in it and the one after its last."""
    low, high = _hashes(span)
    _cut(runs, high)
    _cut(runs, low)
    return low, high


def _cut(runs: _Runs, edge: int) -> None:
    """Makes a hash the edge of a bucket. Runs with rows on both sides are split, and keep their order. If copies are hidden behind the edge,
    there are no rows of the trace, so the next place where there may be some does as well."""
    edge = runs.free_from(edge)
    below = max((first for first in runs.numbers if first <= edge), default=edge)
    if below == edge or edge == 1 << HASH_BITS:  # above the last slot there is nothing to cut off
        return
    is_split = False
    for number in tuple(runs.numbers[below]):
        rows = runs.rows(below, number)
        cut = int(np.searchsorted(_hashes_of(rows), np.uint64(edge), side="left"))
        is_split |= cut < rows.num_rows
        # All younger runs, which are the smaller ones, get new numbers too, so that the order of age stays.
        if is_split:
            runs.delete(below, number)
            runs.put(below, rows.slice(0, cut))
            runs.put(edge, rows.slice(cut))


class _Runs:
    """The runs of one table by bucket. `numbers[first]` ascend, so that the oldest run of a bucket comes first. `next`: the next number."""

    def __init__(self, store: Store, table: int) -> None:
        self._store, self._table = store, table
        self.numbers: dict[int, list[int]] = {}
        for key in store.keys(table_prefix(table)):
            first, number = parse_run_key(key)
            self.numbers.setdefault(first, []).append(number)
        highest = max((number for numbers in self.numbers.values() for number in numbers), default=-1)
        self.next = max(1 + highest, store.pinned_below(table))

    def buckets_of(self, low: int, high: int) -> list[int]:
        """The buckets that may have hashes from `low` on and below `high`, in their order."""
        edges = [*sorted(self.numbers), 1 << HASH_BITS]
        return [first for first, end in pairwise(edges) if first < high and end > low]

    def rows(self, first: int, number: int) -> pa.Table:
        value = self._store.get(run_key(self._table, first, number), immutable=True)
        assert value is not None, f"run {number} of bucket {first:016x} was listed and is missing"
        return decode_run(value)

    def free_from(self, edge: int) -> int:
        """The edge itself, or the end of the copies that are hidden behind it."""
        return edge if edge == 1 << HASH_BITS else max(edge, first_hash_of(self._store.free_from(slot_of(edge))))

    def edge_between(self, first: int, last: int) -> bool:
        """Whether a bucket begins above `first` and not above `last`."""
        return any(first < other <= last for other in self.numbers)

    def put(self, first: int, rows: pa.Table) -> None:
        """Adds a run to a bucket, unless there are no rows."""
        if rows.num_rows:
            self.put_encoded(first, encode_run(rows.combine_chunks()))

    def put_by_bucket(self, first: int, rows: pa.Table) -> None:
        """Adds rows that lie in several buckets, of which the first one begins with `first`."""
        edges = sorted(other for other in self.numbers if other > first)
        cuts = np.searchsorted(_hashes_of(rows), np.array(edges, dtype=np.uint64), side="left").tolist()
        for bucket, start, end in zip([first, *edges], [0, *cuts], [*cuts, rows.num_rows], strict=True):
            self.put(bucket, rows.slice(start, end - start))

    def put_encoded(self, first: int, rows: memoryview) -> None:
        self._store.put(run_key(self._table, first, self.next), rows)
        self.numbers.setdefault(first, []).append(self.next)
        self.next += 1

    def delete(self, first: int, number: int) -> None:
        self._store.delete(run_key(self._table, first, number))
        self.numbers[first].remove(number)
        if not self.numbers[first]:
            del self.numbers[first]


def _hashes(span: Range) -> Range:
    """The first hash of a range of slots, and the one after its last."""
    return first_hash_of(span[0]), first_hash_of(span[1])


def _hashes_of(rows: pa.Table) -> Hashes:
    hashes: Hashes = rows.column(HASH).to_numpy()
    return hashes


def _between(rows: pa.Table, low: int, high: int) -> pa.Table:
    hashes = _hashes_of(rows)
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    end = len(hashes) if high > int(hashes[-1]) else int(np.searchsorted(hashes, np.uint64(high), side="left"))
    return rows.slice(start, end - start)
