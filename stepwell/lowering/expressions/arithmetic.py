"""+, -, *, /, %, div, pmod and unary minus over integers, floats, decimals and intervals; bitwise operators.

DuckDB's integer operators raise on overflow, as Spark's do in ANSI mode. Decimals need rules of their own (decimals.py). Division by zero
is tested explicitly: DuckDB returns an infinity, but Spark raises an error, for floats too. If the dividend is null, the result is null.
"""

from __future__ import annotations

import pyarrow as pa

from base.text.months import MONTHS_MIN, is_months
from engine.expressions.types import duck_type
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions import decimals, intervals
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    derive,
    failure,
    strict,
    unsupported_expression,
)

BIGINT = pa.int64()
DIVIDE_BY_ZERO = failure("DIVIDE_BY_ZERO", "Division by zero.")
OVERFLOW = failure("ARITHMETIC_OVERFLOW", "The negative of the least value overflows.")
INTERVAL_OVERFLOW = failure("INTERVAL_ARITHMETIC_OVERFLOW", "The interval overflows.")
REMAINDER_BY_ZERO = failure("REMAINDER_BY_ZERO", "Remainder by zero.")


def _operator(symbol: str) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        left, right = arguments
        if pa.types.is_decimal(left.type):
            return decimals.operator(symbol, left, right)
        if pa.types.is_duration(left.type):
            return intervals_sum(symbol, left, right)
        raises = not pa.types.is_floating(left.type)
        return derive(f"({left.sql} {symbol} {right.sql})", left.type, left, right, raises=raises)

    return rule


def intervals_sum(symbol: str, left: Fragment, right: Fragment) -> Fragment:
    if is_months(left.type):
        return intervals.check_months(f"({left.sql} {symbol} {right.sql})", left.type, left, right)
    total = f"({left.sql}::HUGEINT {symbol} {right.sql}::HUGEINT)"
    fits = f"{total} BETWEEN {-(1 << 63)}::HUGEINT AND {(1 << 63) - 1}::HUGEINT"
    sql = f"CASE WHEN {total} IS NULL OR {fits} THEN {total} ELSE {INTERVAL_OVERFLOW} END"
    return derive(cast(sql, left.type), left.type, left, right, raises=True)


def negate(operand: Fragment, error: str) -> str:
    """SQL for the negative of an integer or interval. The least value of the type has none, and raises `error`."""
    bits = 32 if is_months(operand.type) else 64 if pa.types.is_duration(operand.type) else operand.type.bit_width
    least = f"CAST({-(1 << (bits - 1))} AS {duck_type(operand.type)})"
    return cast(f"CASE WHEN {operand.sql} = {least} THEN {error} ELSE 0 - {operand.sql} END", operand.type)


def unless_zero(dividend: Fragment, divisor: Fragment, quotient: str, type_: pa.DataType, error: str) -> Fragment:
    """`quotient`, or `error` where the divisor is zero and the dividend is not null."""
    if divisor.literal and divisor.value is not None and divisor.value != 0:
        return derive(cast(quotient, type_), type_, dividend, divisor)
    zero = f"CASE WHEN {dividend.sql} IS NOT NULL THEN {error} END"
    guarded = f"CASE WHEN {divisor.sql} = 0 THEN {zero} ELSE {quotient} END"
    return derive(cast(guarded, type_), type_, dividend, divisor, raises=True)


def _divide(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    left, right = arguments
    if pa.types.is_decimal(left.type):
        quotient, type_ = decimals.quotient(left, right)
        return unless_zero(left, right, quotient, type_, DIVIDE_BY_ZERO)
    return unless_zero(left, right, f"({left.sql} / {right.sql})", left.type, DIVIDE_BY_ZERO)


def _integral_divide(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    left, right = arguments
    quotient = f"({left.sql} // {right.sql})"
    if pa.types.is_decimal(left.type):
        quotient = decimals.whole_quotient(left, right)
    elif pa.types.is_duration(left.type):
        # Spark divides intervals without a look at an overflow, so the least one over -1 is itself.
        least = cast(str(MONTHS_MIN if is_months(left.type) else -(1 << 63)), BIGINT)
        quotient = f"CASE WHEN {right.sql} = -1 AND {left.sql} = {least} THEN {least} ELSE {quotient} END"
    return derive(unless_zero(left, right, quotient, BIGINT, DIVIDE_BY_ZERO).sql, BIGINT, *arguments, raises=True)


def _remainder(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    left, right = arguments
    if pa.types.is_decimal(left.type):
        remainder, type_ = decimals.remainder(left, right)
        return unless_zero(left, right, remainder, type_, REMAINDER_BY_ZERO)
    if pa.types.is_integer(left.type):
        # The least integer % -1 overflows in DuckDB. In Spark it is 0.
        if right.literal and right.value != -1:
            remainder = f"({left.sql} % {right.sql})"
        else:
            remainder = (
                f"CASE WHEN {right.sql} = -1 AND {left.sql} IS NOT NULL THEN 0 ELSE {left.sql} % {right.sql} END"
            )
    else:
        remainder = f"({left.sql} % {right.sql})"
    return unless_zero(left, right, remainder, left.type, REMAINDER_BY_ZERO)


def _pmod(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The positive remainder. With r = a % n it is r, or (r + n) % n where r is negative."""
    left, right = arguments
    remainder = _remainder(node, arguments)
    if pa.types.is_decimal(left.type):
        negative, type_ = decimals.pmod_of_negative(left, right)
    elif pa.types.is_integer(left.type):
        type_ = left.type
        total = f"({remainder.sql}::HUGEINT + {right.sql}::HUGEINT)"
        if type_.bit_width >= 32:  # Java adds these types in their own width, so the sum wraps
            least = -(1 << (type_.bit_width - 1))
            total = (
                f"CASE WHEN {total} < {least}::HUGEINT THEN {total} + {1 << type_.bit_width}::HUGEINT ELSE {total} END"
            )
        negative = f"(({total}) % {right.sql}::HUGEINT)"
    else:
        type_ = left.type
        negative = f"(({remainder.sql} + {right.sql}) % {right.sql})"
    sql = cast(f"CASE WHEN {remainder.sql} < 0 THEN {negative} ELSE {remainder.sql} END", type_)
    return derive(sql, type_, remainder, *arguments)


def _minus(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    if pa.types.is_floating(operand.type):
        return derive(f"(- {operand.sql})", operand.type, operand)
    if pa.types.is_decimal(operand.type):
        return derive(decimals.negative(operand), operand.type, operand, raises=True)
    return derive(
        negate(operand, INTERVAL_OVERFLOW if pa.types.is_duration(operand.type) else OVERFLOW),
        operand.type,
        operand,
        raises=True,
    )


def _bits(symbol: str) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        left, right = arguments
        if pa.types.is_boolean(left.type):
            raise unsupported_expression(node, "bits of booleans")
        sql = f"xor({left.sql}, {right.sql})" if symbol == "xor" else f"({left.sql} {symbol} {right.sql})"
        return derive(cast(sql, left.type), left.type, left, right)

    return rule


def _bits_not(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(cast(f"~{arguments[0].sql}", arguments[0].type), arguments[0].type, *arguments)


TABLE: dict[str, Rule] = {
    "Add": strict(_operator("+")),
    "Subtract": strict(_operator("-")),
    "Multiply": strict(_operator("*")),
    "Divide": strict(_divide, last_first=True),
    "IntegralDivide": strict(_integral_divide, last_first=True),
    "Remainder": strict(_remainder, last_first=True),
    "Pmod": strict(_pmod, last_first=True),
    "UnaryMinus": _minus,
    "BitwiseAnd": strict(_bits("&")),
    "BitwiseOr": strict(_bits("|")),
    "BitwiseXor": strict(_bits("xor")),
    "BitwiseNot": _bits_not,
}
