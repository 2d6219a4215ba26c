"""Day-time intervals, which are numbers of microseconds."""

from __future__ import annotations

import pyarrow as pa

from base.text.timestamps import DAY_US, HOUR_US, MINUTE_US
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION
from stepwell.lowering.expressions.dates import BIGINT, INT
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    derive,
    failure,
    strict,
    unsupported_expression,
)

_UNITS_US = {"day": DAY_US, "hour": HOUR_US, "minute": MINUTE_US}


def truncate(interval: Fragment, unit: str) -> Fragment:
    """A cast to a type that ends with `unit` drops what is smaller, toward zero. A second keeps its microseconds."""
    if unit not in _UNITS_US:
        return interval
    return derive(f"({interval.sql} - {interval.sql} % {_UNITS_US[unit]})", DURATION, interval)


def _make_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """make_dt_interval(days, hours, mins, secs), where secs is a decimal with six digits after the point."""
    days, hours, minutes, seconds = arguments
    parts = [
        f"{days.sql}::HUGEINT * {DAY_US}",
        f"{hours.sql}::HUGEINT * {HOUR_US}",
        f"{minutes.sql}::HUGEINT * {MINUTE_US}",
    ]
    total = " + ".join(parts) + f" + CAST(CAST({seconds.sql} AS DECIMAL(38,6)) * 1000000 AS HUGEINT)"
    bad = failure("INTERVAL_ARITHMETIC_OVERFLOW", "The interval overflows.")
    fits = f"({total}) BETWEEN {-(1 << 63)}::HUGEINT AND {(1 << 63) - 1}::HUGEINT"
    sql = f"CASE WHEN {fits} OR ({total}) IS NULL THEN {total} ELSE {bad} END"
    return derive(cast(sql, DURATION), DURATION, *arguments, raises=True)


def _multiply_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    interval, factor = arguments
    if not pa.types.is_integer(factor.type):
        raise unsupported_expression(node, f"an interval times {factor.type}", "multiply by an integer")
    return derive(f"({interval.sql} * {cast(factor.sql, BIGINT)})", DURATION, *arguments, raises=True)


def _divide_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """An interval divided by a number, rounded half up, away from zero."""
    interval, divisor = arguments
    if not pa.types.is_integer(divisor.type):
        raise unsupported_expression(node, f"an interval over {divisor.type}", "divide by an integer")
    zero = failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")
    top, bottom = f"abs({interval.sql}::HUGEINT)", f"abs({divisor.sql}::HUGEINT)"
    sign = f"CASE WHEN ({interval.sql} < 0) <> ({divisor.sql} < 0) THEN -1 ELSE 1 END"
    value = f"({sign}) * ((2 * {top} + {bottom}) // (2 * {bottom}))"
    guard = f"CASE WHEN {divisor.sql} = 0 THEN CASE WHEN {interval.sql} IS NOT NULL THEN {zero} END ELSE {value} END"
    return derive(cast(guard, DURATION), DURATION, *arguments, raises=True)


def _interval_part(unit_us: int, modulus: int | None, type_: pa.DataType) -> Rule:
    """The rule of the days, hours or minutes of a day-time interval. The result is an integer with the interval's sign."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        whole = f"({arguments[0].sql} // {unit_us})"
        return derive(cast(whole if modulus is None else f"{whole} % {modulus}", type_), type_, *arguments)

    return rule


def _interval_seconds(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.decimal128(8, 6)
    return derive(cast(f"CAST({arguments[0].sql} % {MINUTE_US} AS DECIMAL(14,6)) / 1000000", type_), type_, *arguments)


TABLE: dict[str, Rule] = {
    "MakeDTInterval": strict(_make_interval),
    "MultiplyDTInterval": strict(_multiply_interval),
    "DivideDTInterval": strict(_divide_interval),
    "ExtractANSIIntervalDays": _interval_part(DAY_US, None, INT),
    "ExtractANSIIntervalHours": _interval_part(HOUR_US, 24, pa.int8()),
    "ExtractANSIIntervalMinutes": _interval_part(MINUTE_US, 60, pa.int8()),
    "ExtractANSIIntervalSeconds": _interval_seconds,
}
