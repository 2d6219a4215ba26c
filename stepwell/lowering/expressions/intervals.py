"""Year-month intervals, which are numbers of months of 32 bits in BIGINT (base/text/months.py), so that every result that Spark checks for
an overflow is compared with the bounds of 32 bits."""

from __future__ import annotations

import pyarrow as pa

from base.text.months import MONTHS_MAX, MONTHS_MIN, MONTHS_OF_A_YEAR, YEAR, YEAR_TO_MONTH
from engine.expressions.functions.months import NAMES
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import Fragment, Rule, call, cast, derive, failure, strict

INT, BIGINT = pa.int32(), pa.int64()
_OVERFLOW = failure("INTERVAL_ARITHMETIC_OVERFLOW", "The interval overflows.")
_BY_ZERO = failure("INTERVAL_DIVIDED_BY_ZERO", "Division by zero.")


def check_months(total: str, type_: pa.DataType, *operands: Fragment, error: str = _OVERFLOW) -> Fragment:
    """A number of months that is computed with more than 32 bits."""
    fits = f"{total} BETWEEN {MONTHS_MIN} AND {MONTHS_MAX}"
    sql = f"CASE WHEN {total} IS NULL OR {fits} THEN {total} ELSE {error} END"
    return derive(cast(sql, type_), type_, *operands, raises=True)


def _make(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    years, months = arguments
    return check_months(f"({cast(years.sql, BIGINT)} * {MONTHS_OF_A_YEAR} + {months.sql})", YEAR_TO_MONTH, *arguments)


def _multiply(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    interval, factor = arguments
    if pa.types.is_integer(factor.type):
        return check_months(f"({interval.sql}::HUGEINT * {factor.sql}::HUGEINT)", YEAR_TO_MONTH, *arguments)
    return _by_function("spark_months_times", interval, factor)


def _by_function(name: str, interval: Fragment, number: Fragment) -> Fragment:
    if pa.types.is_decimal(number.type):
        return call(f"{name}_decimal", YEAR_TO_MONTH, interval, f"{number.sql}::VARCHAR", raises=True)
    return call(name, YEAR_TO_MONTH, interval, cast(number.sql, pa.float64()), raises=True)


def _divide(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """Rounded half up, away from zero."""
    interval, divisor = arguments
    if not pa.types.is_integer(divisor.type):
        return _by_function("spark_months_over", interval, divisor)
    top, bottom = f"abs({interval.sql}::HUGEINT)", f"abs({divisor.sql}::HUGEINT)"
    sign = f"CASE WHEN ({interval.sql} < 0) <> ({divisor.sql} < 0) THEN -1 ELSE 1 END"
    quotient = check_months(f"(({sign}) * ((2 * {top} + {bottom}) // (2 * {bottom})))", YEAR_TO_MONTH, *arguments)
    zero = f"CASE WHEN {interval.sql} IS NOT NULL THEN {_BY_ZERO} END"
    sql = f"CASE WHEN {divisor.sql} = 0 THEN {zero} ELSE {quotient.sql} END"
    return derive(cast(sql, YEAR_TO_MONTH), YEAR_TO_MONTH, quotient)


def _part(symbol: str, type_: pa.DataType) -> Rule:
    """The rule of the years or months of an interval, with its sign."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        return derive(cast(f"({arguments[0].sql} {symbol} {MONTHS_OF_A_YEAR})", type_), type_, *arguments)

    return rule


def of_integer(operand: Fragment, target: pa.DataType, error: str) -> Fragment:
    """An integer that is cast to an interval: a number of years or of months."""
    factor = MONTHS_OF_A_YEAR if target == YEAR else 1
    return check_months(f"({operand.sql}::HUGEINT * {factor})", target, operand, error=error)


def to_integer(operand: Fragment) -> Fragment:
    """An interval that is cast to a number: of whole years, if its type has nothing else, or of months."""
    number = f"({operand.sql} // {MONTHS_OF_A_YEAR})" if operand.type == YEAR else operand.sql
    return derive(cast(number, INT), INT, operand)


def to_interval(operand: Fragment, target: pa.DataType) -> Fragment:
    """An interval of another type. What is less than a year is cut off if the type has only years."""
    number = f"({operand.sql} // {MONTHS_OF_A_YEAR} * {MONTHS_OF_A_YEAR})" if target == YEAR else operand.sql
    return derive(number, target, operand)


def to_string(operand: Fragment, target: pa.DataType) -> Fragment:
    return call(f"spark_write_{NAMES[operand.type]}", target, operand)


def of_string(operand: Fragment, target: pa.DataType) -> Fragment:
    return call(f"spark_read_{NAMES[target]}", target, operand, raises=True)


TABLE: dict[str, Rule] = {
    "MakeYMInterval": strict(_make),
    "MultiplyYMInterval": strict(_multiply),
    "DivideYMInterval": strict(_divide),
    "ExtractANSIIntervalYears": _part("//", INT),
    "ExtractANSIIntervalMonths": _part("%", pa.int8()),
}
