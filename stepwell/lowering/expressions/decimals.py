"""Arithmetic of decimals with Spark's result types: exact, then rounded half up to the result's scale.

The short way is DuckDB's own decimals, which hold 38 digits, wherever the exact result fits. The long way writes both operands as text
and computes with Python's integers (engine/expression_functions.py): slow and right.
"""

from __future__ import annotations

import pyarrow as pa

from stepwell.catalyst.types import DECIMAL_DIGITS_MAX
from stepwell.lowering.expressions.fragment import Fragment, cast, derived

SCALE_KEPT_MIN = 6  # Spark gives up digits after the point down to this many, so that those before it fit
DIVISION_SCALE = DECIMAL_DIGITS_MAX + 1  # Spark's first rounding of a quotient


def bounded(precision: int, scale: int) -> pa.Decimal128Type:
    """The type Spark gives a result that exactly would need (precision, scale)."""
    if precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(precision, scale)
    before = precision - scale
    kept = max(DECIMAL_DIGITS_MAX - before, min(scale, SCALE_KEPT_MIN))
    return pa.decimal128(DECIMAL_DIGITS_MAX, kept)


def operator(symbol: str, left: Fragment, right: Fragment) -> Fragment:
    a, b = left.type, right.type
    if symbol == "*":
        type_ = bounded(a.precision + b.precision + 1, a.scale + b.scale)
        if a.precision + b.precision <= DECIMAL_DIGITS_MAX:
            # A factor of 19 digits makes DuckDB multiply in 128 bits.
            wide = pa.decimal128(max(a.precision, DECIMAL_DIGITS_MAX - b.precision), a.scale)
            return derived(cast(f"{cast(left.sql, wide)} * {right.sql}", type_), type_, left, right)
        return derived(_long("*", left, right, type_), type_, left, right, raises=True)
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    type_ = bounded(precision, scale)
    if precision <= DECIMAL_DIGITS_MAX:
        sql = cast(f"{cast(left.sql, type_)} {symbol} {cast(right.sql, type_)}", type_)
        return derived(sql, type_, left, right)
    return derived(_long(symbol, left, right, type_), type_, left, right, raises=True)


def _long(symbol: str, left: Fragment, right: Fragment, type_: pa.Decimal128Type) -> str:
    call = f"spark_decimal('{symbol}', {left.sql}::VARCHAR, {right.sql}::VARCHAR, {type_.precision}, {type_.scale})"
    return cast(call, type_)


SCALA_DIGITS_MAX = 34  # Spark's negative of a wider decimal is rounded to as many


def negative(operand: Fragment) -> str:
    if operand.type.precision > SCALA_DIGITS_MAX:
        return _long("negative", operand, operand, operand.type)
    return cast(f"- {operand.sql}", operand.type)


def quotient(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    """SQL for a divisor that is not zero."""
    a, b = left.type, right.type
    scale = max(SCALE_KEPT_MIN, a.scale + b.precision + 1)
    type_ = bounded(a.precision - a.scale + b.scale + scale, scale)
    return _long("/", left, right, type_), type_


def remainder_type(a: pa.Decimal128Type, b: pa.Decimal128Type) -> pa.Decimal128Type:
    scale = max(a.scale, b.scale)
    return bounded(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def remainder(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    """SQL for a divisor that is not zero."""
    type_ = remainder_type(left.type, right.type)
    return _long("%", left, right, type_), type_


def pmod_of_negative(left: Fragment, right: Fragment) -> tuple[str, pa.Decimal128Type]:
    type_ = remainder_type(left.type, right.type)
    return _long("pmod", left, right, type_), type_
