"""Day-time intervals, which are numbers of microseconds."""

from __future__ import annotations

import pyarrow as pa

from base.text.timestamps import DAY_US, HOUR_US, MINUTE_US
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION, narrow_interval
from stepwell.lowering.expressions.dates import BIGINT, INT, STRING
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    cast,
    derive,
    failure,
    strict,
)

_UNITS_US = {"day": DAY_US, "hour": HOUR_US, "minute": MINUTE_US}


def truncate(interval: Fragment, unit: str) -> Fragment:
    """A cast to a type that ends with `unit` drops what is smaller, toward zero. A second keeps its microseconds."""
    if unit not in _UNITS_US:
        return interval
    return derive(f"({interval.sql} - {interval.sql} % {_UNITS_US[unit]})", DURATION, interval)


def to_string(interval: Fragment, target: pa.DataType) -> Fragment:
    """The text of an INTERVAL DAY TO SECOND. The other types of day-time intervals have other texts."""
    return call("spark_write_day_time", target, interval)


_NEVER_NARROW = frozenset({
    "MakeDTInterval", "MultiplyDTInterval", "DivideDTInterval", "SubtractTimestamps", "IntegralDivide", "EqualTo", "EqualNullSafe", "LessThan",
    "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In", "InSet", "IsNull", "IsNotNull", "And", "Or", "Not", "ExtractANSIIntervalDays",
    "ExtractANSIIntervalHours", "ExtractANSIIntervalMinutes", "ExtractANSIIntervalSeconds",
})  # fmt: skip
"""The expressions whose results are INTERVAL DAY TO SECOND or no interval, whatever their operands are."""
_TYPED = frozenset({"AttributeReference", "Literal", "Cast", "NamedLambdaVariable"})


def narrow_interval_within(tree: TreeNode) -> str | None:
    """The type of an interval in the value of an expression whose text Stepwell does not write; None if there is none."""
    if tree.kind == "SubtractDates":
        return "interval day"
    if tree.kind in _NEVER_NARROW:
        return None
    if tree.kind in _TYPED:
        return narrow_interval(tree["dataType"])
    return next(filter(None, map(narrow_interval_within, tree.children)), None)


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
        return _by_function("spark_interval_times", interval, factor)
    return derive(f"({interval.sql} * {cast(factor.sql, BIGINT)})", DURATION, *arguments, raises=True)


def _by_function(name: str, interval: Fragment, number: Fragment) -> Fragment:
    if pa.types.is_decimal(number.type):
        return call(
            f"{name}_decimal", DURATION, interval, derive(f"{number.sql}::VARCHAR", STRING, number), raises=True
        )
    return call(name, DURATION, interval, derive(cast(number.sql, pa.float64()), pa.float64(), number), raises=True)


def _divide_interval(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """An interval divided by a number, rounded half up, away from zero."""
    interval, divisor = arguments
    if not pa.types.is_integer(divisor.type):
        return _by_function("spark_interval_over", interval, divisor)
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
