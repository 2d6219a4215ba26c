"""Arithmetic of decimals with Spark's result types. The result is exact, and is then rounded half up to the scale of its type.

Wherever the exact result fits into 38 digits, DuckDB's own decimals are used: this is the fast path. The slow path writes both operands as
text and computes with Python's integers (engine/expressions/functions/).
"""

from __future__ import annotations

import decimal

import pyarrow as pa

from base.limits import DECIMAL_DIGITS_MAX
from stepwell.lowering.expressions.fragment import Fragment, cast, derive

SCALE_KEPT_MIN = 6  # Spark drops digits after the point, but keeps this many, so that the digits before it fit


def bound_decimal(precision: int, scale: int) -> pa.Decimal128Type:
    """Spark's type of a result whose exact value would need (precision, scale)."""
    if precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(precision, scale)
    before = precision - scale
    kept = max(DECIMAL_DIGITS_MAX - before, min(scale, SCALE_KEPT_MIN))
    return pa.decimal128(DECIMAL_DIGITS_MAX, kept)


def operator(symbol: str, left: Fragment, right: Fragment) -> Fragment:
    a, b = left.type, right.type
    if symbol == "*":
        type_ = bound_decimal(a.precision + b.precision + 1, a.scale + b.scale)
        if a.precision + b.precision <= DECIMAL_DIGITS_MAX:
            # A factor of 19 digits makes DuckDB multiply in 128 bits.
            wide = pa.decimal128(max(a.precision, DECIMAL_DIGITS_MAX - b.precision), a.scale)
            return derive(cast(f"{cast(left.sql, wide)} * {right.sql}", type_), type_, left, right)
        return derive(_long("*", left, right, type_), type_, left, right, raises=True)
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    type_ = bound_decimal(precision, scale)
    if precision <= DECIMAL_DIGITS_MAX:
        sql = cast(f"{cast(left.sql, type_)} {symbol} {cast(right.sql, type_)}", type_)
        return derive(sql, type_, left, right)
    return derive(_long(symbol, left, right, type_), type_, left, right, raises=True)


def _long(symbol: str, left: Fragment, right: Fragment, type_: pa.Decimal128Type) -> str:
    call = f"spark_decimal('{symbol}', {left.sql}::VARCHAR, {right.sql}::VARCHAR, {type_.precision}, {type_.scale})"
    return cast(call, type_)


SCALA_DIGITS_MAX = 34  # Spark rounds the negative of a wider decimal to this many digits


def negative(operand: Fragment) -> str:
    if operand.type.precision > SCALA_DIGITS_MAX:
        return _long("negative", operand, operand, operand.type)
    return cast(f"- {operand.sql}", operand.type)


def quotient(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    """SQL of the quotient, for a divisor that is not zero, and its type.

    The fast path divides 128-bit integers. It doubles the dividend, so that it can round half up. The shifted numbers must fit, and the
    digits must be so few that Spark's first rounding, to 39 digits, cannot create a half that was not there."""
    a, b = left.type, right.type
    scale = max(SCALE_KEPT_MIN, a.scale + b.precision + 1)
    type_ = bound_decimal(a.precision - a.scale + b.scale + scale, scale)
    shift = type_.scale - a.scale + b.scale
    digits = (a.precision + a.scale + 1, b.precision + b.scale + 1, a.precision + shift + 1, type_.scale + b.precision)
    if shift < 0 or max(digits) > DECIMAL_DIGITS_MAX - 1:
        return _long("/", left, right, type_), type_
    top, bottom = f"(2 * abs({_whole(left)}) * {10**shift}::HUGEINT)", f"abs({_whole(right)})"
    sign = f"CASE WHEN ({left.sql} < 0) <> ({right.sql} < 0) THEN -1 ELSE 1 END"
    rounded = f"CAST(({sign}) * (({top} + {bottom}) // (2 * {bottom})) AS DECIMAL(38,0))"
    return cast(f"{rounded} * {_one(type_.scale)}", type_), type_


BIGINT_DIGITS = 18  # every integer of so many digits is a BIGINT


def whole_quotient(left: Fragment, right: Fragment) -> str:
    """SQL of the quotient without what is after the point, as BIGINT, for a divisor that is not zero."""
    a, b = left.type, right.type
    digits = min(max(a.precision - a.scale + b.scale, 1), DECIMAL_DIGITS_MAX)
    scale = max(a.scale, b.scale)
    needed = (
        a.precision + a.scale + 1,
        b.precision + b.scale + 1,
        a.precision - a.scale + scale,
        b.precision - b.scale + scale,
    )
    if digits > BIGINT_DIGITS or max(needed) > DECIMAL_DIGITS_MAX - 1:
        return f"spark_decimal_div({left.sql}::VARCHAR, {right.sql}::VARCHAR, {digits})"
    top, bottom = (f"{_whole(operand)} * {10 ** (scale - operand.type.scale)}::HUGEINT" for operand in (left, right))
    return f"(({top}) // ({bottom}))"


def _whole(operand: Fragment) -> str:
    """The decimal's digits as a 128-bit integer."""
    scale = operand.type.scale
    return f"CAST({operand.sql} * CAST({10**scale} AS DECIMAL({scale + 1},0)) AS HUGEINT)"


def _one(scale: int) -> str:
    """The least positive decimal of the scale. An integer times this value is a decimal."""
    return f"CAST('{decimal.Decimal((0, (1,), -scale)):f}' AS DECIMAL(38,{scale}))"


def remainder_type(a: pa.Decimal128Type, b: pa.Decimal128Type) -> pa.Decimal128Type:
    scale = max(a.scale, b.scale)
    return bound_decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def remainder(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    """SQL of the remainder, for a divisor that is not zero, and its type."""
    a, b = left.type, right.type
    type_ = remainder_type(a, b)
    scale = max(a.scale, b.scale)
    before = max(a.precision - a.scale, b.precision - b.scale)
    if before + scale > DECIMAL_DIGITS_MAX:
        return _long("%", left, right, type_), type_
    common = pa.decimal128(before + scale, scale)
    return cast(f"{cast(left.sql, common)} % {cast(right.sql, common)}", type_), type_


def pmod_of_negative(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    type_ = remainder_type(left.type, right.type)
    return _long("pmod", left, right, type_), type_
