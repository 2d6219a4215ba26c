"""Sequences of dates and of timestamps, with a step of days or of months."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from base.text.dates import civil, days, month_length
from base.text.months import MONTHS_OF_A_YEAR, is_months
from base.text.timestamps import DAY_US
from engine.expressions.functions.function import Failure
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature

ELEMENTS_MAX = 2**31 - 16  # of one array: Java's limit for arrays, as Spark has it
MONTH_US = 28 * DAY_US  # the shortest month: Spark bounds the number of elements with it


def _sequence_of_times(signature: Signature, starts: pa.Array, stops: pa.Array, *steps: pa.Array) -> pa.Array:
    """Every start, start + step, ... that is not beyond the stop."""
    of_days = pa.types.is_date(starts.type)
    unit = DAY_US if of_days else 1
    monthly = bool(steps) and is_months(steps[0].type)
    carrier = pa.int32() if of_days else pa.int64()
    columns = [starts.view(carrier).to_pylist(), stops.view(carrier).to_pylist()]
    columns += [step.view(pa.int64()).to_pylist() for step in steps]
    lists: list[list[int] | None] = []
    for start, stop, *step in zip(*columns, strict=True):
        if start is None or stop is None or None in step:
            lists.append(None)
            continue
        by = step[0] if step else DAY_US if start <= stop else -DAY_US
        lists.append([us // unit for us in _times(start * unit, stop * unit, by, monthly, of_days)])
    return pa.array(lists, pa.list_(pa.field("element", carrier))).cast(signature.result)


def _times(start: int, stop: int, step: int, monthly: bool, of_days: bool) -> list[int]:
    size = step * MONTH_US if monthly else step
    if of_days and abs(size) < DAY_US:
        raise Failure("INVALID_SEQUENCE", "The step of a sequence of dates is less than a day.")
    if (size == 0 and (monthly or start != stop)) or (size > 0 and start > stop) or (size < 0 and start < stop):
        raise Failure("INVALID_SEQUENCE", "The step of sequence does not lead from its start to its end.")
    if size == 0:
        return [start]
    if (stop - start) // size + 1 > ELEMENTS_MAX:
        raise Failure("COLLECTION_SIZE_LIMIT_EXCEEDED", "The array would have too many elements.")
    at: Callable[[int], int] = (lambda n: _months_later(start, n * step)) if monthly else (lambda n: start + n * step)
    found: list[int] = []
    time_us = start
    while time_us <= stop if size > 0 else time_us >= stop:
        found.append(time_us)
        time_us = at(len(found))
    return found


def _months_later(us: int, months: int) -> int:
    """Returns the same day and time of a later month. If that month is too short, it is its last day."""
    day, of_day = divmod(us, DAY_US)
    year, month, number = civil(day)
    year, month = divmod(year * MONTHS_OF_A_YEAR + month - 1 + months, MONTHS_OF_A_YEAR)
    return days(year, month + 1, min(number, month_length(year, month + 1))) * DAY_US + of_day


GENERIC: Mapping[str, GenericFunction] = {"sequence_of_times": _sequence_of_times}
