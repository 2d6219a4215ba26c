"""From when and until when a row satisfies comparisons with the clock.

Every function g on the way from the clock never decreases. So for each value y there is a least time at which g reaches y:

    g*(y)  =  min { t : g(t) >= y }          g(t) >= y  if and only if  t >= g*(y)

All values are integers, so g(t) > y is g(t) >= y + 1, and g(t) < y is the opposite of g(t) >= y. That of a composition is the composition of
those of its parts, last one first. So every comparison is a bound on t alone, and it is exact.

Times are kept within `FOREVER_US`: no clock comes near it, so what lies beyond is never reached, or was always passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s, fill
from base.calendar import first_day, month_of
from engine.model.clock import ClockBound, ClockFunction

FOREVER_US = 1 << 62
"""146,000 years after 1970; within an int64, so that nothing overflows on the way."""

_DAYS_MAX = 1 << 40
"""More than any date has, and few enough for numpy's calendar."""


class Intervals(NamedTuple):
    """For each row, its times t with `since <= t < until` in microseconds. `ever`: whether there is one."""

    since: Int64s
    until: Int64s
    ever: Bools


def intervals(bounds: Sequence[ClockBound], rows: pa.Table) -> Intervals:
    """In which times each of the rows satisfies all `bounds`."""
    since = np.full(rows.num_rows, -FOREVER_US)
    until = np.full(rows.num_rows, FOREVER_US)
    valid = np.ones(rows.num_rows, np.bool_)
    for bound in bounds:
        values, there = _numbers(rows.column(bound.column))
        valid &= there
        if bound.relation in (">=", "="):
            since = np.maximum(since, first_times(bound.path, values))
        if bound.relation == ">":
            since = np.maximum(since, first_times(bound.path, values, more=1))
        if bound.relation == "<":
            until = np.minimum(until, first_times(bound.path, values))
        if bound.relation in ("<=", "="):
            until = np.minimum(until, first_times(bound.path, values, more=1))
    return Intervals(since, until, valid & (since < until) & (since < FOREVER_US))


def first_times(path: Sequence[ClockFunction], values: Int64s, more: int = 0) -> Int64s:
    """For each value, plus `more`, the first time at which the path reaches it."""
    found = _within(values) + more
    for function in reversed(path):
        found = _within(_least_argument(function, found))
    return found


def _least_argument(function: ClockFunction, values: Int64s) -> Int64s:
    """For each value the least integer for which the function is at least that."""
    n = function.amount
    match function.kind:
        case "add":
            return values - n
        case "divide":
            return np.clip(values, -FOREVER_US // n, FOREVER_US // n) * n
        case "multiply":
            return -(-values // n)
        case "to_months":
            return first_day(_few(values))
        case "of_months":
            days = _few(values)
            months = month_of(days)
            return months + (first_day(months) < days)
        case "add_months":
            days = _few(values)
            return _least_day_before(days, n)


def _least_day_before(days: Int64s, months: int) -> Int64s:
    """The first day that is at least one of `days` when so many months are added. The day with the same number, so many months before, is it.
    If that month is too short for it, it is the first day of the month after that."""
    month = month_of(days)
    number = days - first_day(month)
    first, after = first_day(month - months), first_day(month - months + 1)
    return np.minimum(first + number, after)


def _few(values: Int64s) -> Int64s:
    return np.clip(values, -_DAYS_MAX, _DAYS_MAX)


def _within(values: Int64s) -> Int64s:
    return np.clip(values, -FOREVER_US, FOREVER_US)


def _numbers(column: pa.ChunkedArray | pa.Array) -> tuple[Int64s, Bools]:
    """(the values as integers, whether there is one)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    array = array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array.cast(pa.int64())
    return fill(array, 0).to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)
