"""The order of the rows of a window: partitions one after another, and in each the window's order. It also finds the frame of every row.

Everything works on whole arrays of all rows of all partitions. A value of the order becomes an int64 code (engine/accumulators/order), so the
rows are sorted once, by integers, and rows tie where their codes are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from base.calendar import add_months
from base.text.months import MONTHS_MAX, MONTHS_MIN, is_months
from base.text.timestamps import DAY_US
from engine.accumulators import order
from engine.accumulators.canonical import canonical
from engine.accumulators.sort_bytes import SortedBy, sort_bytes
from engine.errors import DataError
from engine.model.node import Column
from engine.model.ordered import Months, SortKey, WindowFrame
from engine.rows import zset

Bounds = tuple[Int64s, Int64s]
"""(low, high): of each row, the first row of its frame and the row after the last one. They are equal if the frame is empty."""


@dataclass(frozen=True)
class SortedRows:
    """The different rows of some partitions, in the order of the window. `table`: their columns. `partition`: ascending numbers. `keys`: what
    they are ordered by within a partition, the most significant first. Row i is there `weights[i]` times."""

    table: list[pa.Array]
    partition: Int64s
    keys: list[Int64s]

    def expand(self, weights: Int64s) -> Rows:
        """The rows with these weights (which are at least 0), each as often as its weight says."""
        at = np.repeat(np.arange(len(weights)), weights)
        partition = self.partition[at]
        new = np.ones(len(at), np.bool_)
        new[1:] = partition[1:] != partition[:-1]
        start, end = _runs(new)
        for key in self.keys:
            values = key[at]
            new[1:] |= values[1:] != values[:-1]
        peer_start, peer_end = _runs(new)
        return Rows(self, at, start, end, peer_start=peer_start, peer_end=peer_end, peers=np.cumsum(new))


@dataclass(frozen=True)
class Rows:
    """Rows of some partitions in the order of the window, each as often as its weight says. `at[i]`: the position of row i in `of.table`.
    `start`, `end`: of each row, the first row of its partition and the row after the last one. `peer_start`, `peer_end`: the same of the rows
    that tie with it. `peers`: a number that grows by one with each set of rows that tie."""

    of: SortedRows
    at: Int64s
    start: Int64s
    end: Int64s
    peer_start: Int64s
    peer_end: Int64s
    peers: Int64s

    @property
    def count(self) -> int:
        return len(self.at)

    @cached_property
    def here(self) -> Int64s:
        """The position of every row."""
        return np.arange(self.count)

    def values(self, column: Column) -> pa.Array:
        """The column's value in every row."""
        return self.of.table[column].take(pa.array(self.at))

    def bounds(self, frame: WindowFrame, key: Sequence[SortKey]) -> tuple[Bounds, Bools | None]:
        """(the frame of every row, the rows for which Spark fails because a bound exceeds the type of the order; None if there is none). `key`:
        the window's order."""
        if frame.unit == "rows":
            assert not isinstance(frame.low, Months) and not isinstance(frame.high, Months)
            low = self.start if frame.low is None else np.maximum(self.here + int(frame.low), self.start)
            high = self.end if frame.high is None else np.minimum(self.here + int(frame.high) + 1, self.end)
            low = np.minimum(low, self.end)
            return (low, np.maximum(low, high)), None
        low, too_low = self._range_end(frame.low, key, upper=False)
        high, too_high = self._range_end(frame.high, key, upper=True)
        wrong = self._computed_bounds(frame, (low, high), too_low, too_high)
        return (low, np.maximum(low, high)), wrong

    def _computed_bounds(
        self, frame: WindowFrame, bounds: Bounds, too_low: Bools | None, too_high: Bools | None
    ) -> Bools | None:
        """The rows whose lower bound (`too_low`) or upper bound (`too_high`) exceeds the type of the order, and is computed by Spark.

        Spark goes through a partition in order and takes rows into the frame until one is behind the upper bound. It computes that bound only
        while there are rows that it has not taken yet, and the lower bound only for the first row of a frame, or for one that comes into it.
        So the bounds of a row depend on the frame of the row before it."""
        if too_low is None and too_high is None:
            return None
        first = self.here == self.start
        before = np.maximum(self.here - 1, 0)
        low_before, high_before = (np.where(first, self.start, bound[before]) for bound in bounds)
        wrong = np.zeros(self.count, np.bool_)
        if too_high is not None:
            wrong |= too_high & (high_before < self.end)
        if too_low is not None and frame.high is None:
            wrong |= too_low & (low_before < self.end)
        elif too_low is not None:
            wrong |= too_low & ((low_before < high_before) | (bounds[1] > high_before))
        return wrong if wrong.any() else None

    def _range_end(
        self, distance: int | float | Months | None, key: Sequence[SortKey], *, upper: bool
    ) -> tuple[Int64s, Bools | None]:
        """(one bound of a range for every row, the rows for which it exceeds the type of the order; None if there is none). A null has no
        distance from a value: the frame of a null is the nulls.

        A month before the 30th of March, 23:00, is later than a month before the 31st, 01:00, because both are the last day of February. Spark
        moves a bound on through a partition and never back, so a row's bound is the furthest one of the rows up to it."""
        if distance is None:
            return (self.end if upper else self.start), None
        peers = self.peer_end if upper else self.peer_start
        if not distance:
            return peers, None
        (by,) = key
        column = self.of.table[by.column]
        known = column.is_valid().to_numpy(zero_copy_only=False)[self.at]
        rows = np.flatnonzero(known)
        values = canonical(column.take(pa.array(self.at[rows])))
        moved, beyond = _move(values, distance if by.ascending else -distance)
        targets = _codes(moved, ascending=by.ascending)
        is_ahead = (distance.count if isinstance(distance, Months) else distance) > 0
        own, partition = _codes(values, ascending=by.ascending), self.of.partition[self.at[rows]]
        # A target goes before the values that equal it, or behind them. Then it stands where its frame begins or ends. One that exceeds the
        # type goes before or behind all values.
        side = np.repeat([1, 2 if upper else 0], len(rows))
        side[len(rows) :][beyond] = 2 if is_ahead else 0
        order_ = np.lexsort((side, np.concatenate([own, targets]), np.concatenate([partition, partition])))
        is_target = order_ >= len(rows)
        before = np.cumsum(~is_target)[is_target]
        result = peers.copy()
        # Of each partition, the rows with a value are neighbours: the nulls stand before or behind them all.
        place = np.append(rows, 0)
        found = np.empty(len(rows), np.int64)
        found[order_[is_target] - len(rows)] = before
        ends = np.where(found > 0, place[found - 1] + 1, 0)
        first = np.minimum(found, len(rows) - 1)
        inside = (found < len(rows)) & (partition[first] == partition)
        bounds = np.where(inside, place[first], ends)
        # The bounds of a partition are behind those of the partitions before it.
        result[rows] = np.maximum.accumulate(bounds) if isinstance(distance, Months) else bounds
        if not beyond.any() or pa.types.is_decimal(values.type):  # for decimals, Spark computes a bound without a limit
            return result, None
        exceeds = np.zeros(self.count, np.bool_)
        exceeds[rows] = beyond
        return result, exceeds


def sort_rows(
    table: list[pa.Array], partition: Int64s, order_by: Sequence[SortKey], ties: Sequence[SortKey]
) -> tuple[SortedRows, Int64s]:
    """(the rows in the order of the window, the position that each of them had). `ties`: what decides between rows that tie in `order_by`.
    `table`: different rows, in canonical order, which decides between those that tie in both. `partition`: the number of each row's
    partition."""
    keys, more = ([code for key in by for code in _key_codes(table[key.column], key)] for by in (order_by, ties))
    places = np.lexsort((*reversed([*keys, *more]), partition)).astype(np.int64, copy=False)
    chosen = pa.array(places)
    columns = [zset.take(column, chosen) for column in table]
    return SortedRows(columns, partition[places], [key[places] for key in keys]), places


def _key_codes(column: pa.Array, key: SortKey) -> list[Int64s]:
    """Whether the value is null, if any is, and the value: as integers that ascend in the order of the key."""
    if not column.null_count:
        return [_codes(canonical(column), ascending=key.ascending)]
    known = column.is_valid().to_numpy(zero_copy_only=False)
    codes = np.zeros(len(column), np.int64)
    codes[known] = _codes(canonical(column.drop_null()), ascending=key.ascending)
    return [(known if key.nulls_first else ~known).astype(np.int64), codes]


def _codes(values: pa.Array, *, ascending: bool) -> Int64s:
    """Canonical values without nulls as integers in their order."""
    if order.has_codes(values.type):
        codes = order.codes_of(values)
    else:
        encoded = sort_bytes([SortedBy(values, True, True)], np.zeros(len(values), np.uint64))
        codes = pc.rank(encoded, tiebreaker="dense").to_numpy().astype(np.int64)
    return codes if ascending else ~codes


class Wrong(NamedTuple):
    """The rows, or the frames, that are in error: for which a call raises in Spark's ANSI mode. `error`: that of one of them."""

    rows: Bools
    error: DataError


class RangeExceeded(DataError):
    """A bound of a RANGE frame, which is a value of the order and a distance, exceeds the type of the order. Spark fails too."""

    is_of_rows = True

    @classmethod
    def of(cls) -> RangeExceeded:
        return cls(
            "A bound of a window's RANGE frame exceeds the type of its ORDER BY.",
            "Spark's ANSI mode fails here too: cast the column to a wider type.",
        )


def _move(values: pa.Array, distance: int | float | Months) -> tuple[pa.Array, Bools]:
    """(the values at this distance in their type, for which of them it exceeds the type). In place of those stands the last value of the type,
    or the first one."""
    type_ = values.type
    if isinstance(distance, Months):
        return _move_by_months(values, distance.count)
    if pa.types.is_floating(type_):
        numbers = values.to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            moved = canonical(pa.array(numbers + np.array(distance, numbers.dtype), type_, from_pandas=False))
        return moved, np.zeros(len(values), np.bool_)
    codes, far = order.codes_of(values), int(distance)
    lowest, highest = order.BELOW_ALL, order.ABOVE_ALL
    if pa.types.is_integer(type_):
        lowest, highest = int(np.iinfo(type_.to_pandas_dtype()).min), int(np.iinfo(type_.to_pandas_dtype()).max)
    elif pa.types.is_date32(type_):
        lowest, highest = int(np.iinfo(np.int32).min), int(np.iinfo(np.int32).max)
    elif is_months(type_):
        lowest, highest = MONTHS_MIN, MONTHS_MAX
    # NumPy compares with a Python integer of any size exactly.
    beyond: Bools = codes > highest - far if far > 0 else codes < lowest - far
    last = highest if far > 0 else lowest
    codes = np.where(beyond, last, codes + (far if not beyond.all() else 0))
    return order.values_of(codes, type_, np.ones(len(codes), np.bool_)), beyond


def _move_by_months(values: pa.Array, months: int) -> tuple[pa.Array, Bools]:
    """Moves dates and timestamps, as `_move` moves the rest. The time of a day stays."""
    is_date = pa.types.is_date32(values.type)
    unit, kind = (1, np.int32) if is_date else (DAY_US, np.int64)
    days, time = np.divmod(order.codes_of(values), unit)
    moved = add_months(days, months)
    last = int(np.iinfo(kind).max if months > 0 else np.iinfo(kind).min)
    last_day, last_time = divmod(last, unit)
    if months > 0:
        beyond: Bools = (moved > last_day) | ((moved == last_day) & (time > last_time))
    else:
        beyond = (moved < last_day) | ((moved == last_day) & (time < last_time))
    codes = np.where(beyond, last, np.where(beyond, 0, moved) * unit + np.where(beyond, 0, time))
    return order.values_of(codes, values.type, np.ones(len(codes), np.bool_)), beyond


def _runs(new: Bools) -> Bounds:
    """Returns for each row the first row of its run and the row after the last one. A run begins where `new` is true."""
    begins = np.flatnonzero(new)
    lengths = np.diff(np.append(begins, len(new)))
    return np.repeat(begins, lengths), np.repeat(begins + lengths, lengths)


def places_of_values(values: pa.Array) -> tuple[Int64s, Int64s]:
    """(the positions of the values that are not null, for each position and the end how many of them are before it)."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid), np.concatenate([[0], np.cumsum(valid)])
