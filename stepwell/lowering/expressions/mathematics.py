"""Absolute values, rounding, roots, powers, logarithms, angles and shifts.

exp, log, pow and the functions of trigonometry.py equal Java's to the last bit, except for sin, cos and tan, whose last bit Java leaves to the
processor (engine/expressions/functions/sines.py).
"""

from __future__ import annotations

import decimal
import math

import pyarrow as pa

from base.limits import DECIMAL_DIGITS_MAX
from base.text.type_names import sql_type
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions import decimals
from stepwell.lowering.expressions.arithmetic import OVERFLOW, negate
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    calls,
    cast,
    derive,
    failure,
    literal_value,
    strict,
    unsupported_expression,
)  # fmt: skip

DOUBLE, BIGINT, INT = pa.float64(), pa.int64(), pa.int32()


def _abs(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    if pa.types.is_decimal(operand.type):
        sql = f"CASE WHEN {operand.sql} < 0 THEN {decimals.negative(operand)} ELSE {operand.sql} END"
        return derive(cast(sql, operand.type), operand.type, operand, raises=True)
    if pa.types.is_floating(operand.type):
        return derive(cast(f"abs({operand.sql})", operand.type), operand.type, operand)
    sql = f"CASE WHEN {operand.sql} < 0 THEN {negate(operand, OVERFLOW)} ELSE {operand.sql} END"
    return derive(cast(sql, operand.type), operand.type, operand, raises=True)


def rounded_type(type_: pa.Decimal128Type, digits: int) -> pa.Decimal128Type:
    """The result type of a rounding, which may need one more digit before the point."""
    before = type_.precision - type_.scale + 1
    if digits < 0:
        return pa.decimal128(min(max(before, -digits + 1), DECIMAL_DIGITS_MAX), 0)
    scale = min(type_.scale, digits)
    return pa.decimal128(min(before + scale, DECIMAL_DIGITS_MAX), scale)


def _round(mode: str) -> Rule:
    """The rule of a rounding. `mode` is the name that Python's decimal module gives it."""
    word = mode.removeprefix("ROUND_").lower()

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand = arguments[0]
        digits = literal_value(node, arguments[1], "the number of digits")
        if digits is None:
            return Fragment(cast("NULL", operand.type), operand.type)
        if pa.types.is_decimal(operand.type):
            type_ = rounded_type(operand.type, digits)
            read = f"spark_round_decimal({operand.sql}::VARCHAR, {digits}, '{mode}', {type_.precision}, {type_.scale})"
            if digits >= operand.type.scale:
                read = operand.sql
            elif word == "half_up" and digits >= 0:
                read = operand.sql  # DuckDB's cast rounds half up
            return derive(cast(read, type_), type_, operand, raises=True)
        if pa.types.is_integer(operand.type):
            if digits >= 0:
                return operand
            read = f"spark_round_integer({cast(operand.sql, BIGINT)}, {digits}, '{word}', {operand.type.bit_width})"
            return derive(cast(read, operand.type), operand.type, operand, raises=True)
        name = "spark_round" if pa.types.is_float64(operand.type) else "spark_round_single"
        return call(name, operand.type, operand, str(digits), f"'{word}'")

    return rule


def _toward(mode: str) -> Rule:
    """The rule of floor or ceiling to a whole number."""
    function = {decimal.ROUND_FLOOR: "floor", decimal.ROUND_CEILING: "ceil"}[mode]

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand = arguments[0]
        if pa.types.is_integer(operand.type):
            return derive(cast(operand.sql, BIGINT), BIGINT, operand)
        if pa.types.is_decimal(operand.type):
            type_ = pa.decimal128(min(operand.type.precision - operand.type.scale + 1, DECIMAL_DIGITS_MAX), 0)
            if operand.type.scale == 0:
                type_ = pa.decimal128(min(operand.type.precision + 1, DECIMAL_DIGITS_MAX), 0)
            return derive(_decimal_toward(operand, 0, mode, type_), type_, operand)
        top = float(1 << 63)
        value = f"{function}({operand.sql})"
        fits = f"{value} < {top!r}::DOUBLE AND {value} >= {-top!r}::DOUBLE"
        outside = failure("ARITHMETIC_OVERFLOW", "The whole number does not fit BIGINT.")
        special = f"WHEN {operand.sql} IS NULL THEN NULL WHEN isnan({operand.sql}) THEN 0"
        sql = f"CASE {special} WHEN {fits} THEN CAST({value} AS BIGINT) ELSE {outside} END"
        return derive(cast(sql, BIGINT), BIGINT, operand, raises=True)

    return rule


def _decimal_toward(operand: Fragment, digits: int, mode: str, type_: pa.Decimal128Type) -> str:
    read = f"spark_round_decimal({operand.sql}::VARCHAR, {digits}, '{mode}', {type_.precision}, {type_.scale})"
    return cast(read, type_)


def _toward_digits(mode: str) -> Rule:
    """The rule of floor(x, n) or ceil(x, n) for decimals."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand = arguments[0]
        digits = literal_value(node, arguments[1], "the number of digits")
        if not pa.types.is_decimal(operand.type) or digits is None:
            raise unsupported_expression(node, f"{sql_type(operand.type)} to {digits} digits")
        type_ = rounded_type(operand.type, digits)
        return derive(_decimal_toward(operand, digits, mode, type_), type_, operand, raises=True)

    return rule


def _sqrt(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    return derive(f"(CASE WHEN {operand.sql} < 0 THEN 'nan'::DOUBLE ELSE sqrt({operand.sql}) END)", DOUBLE, operand)


def _log(function: str, divisor: float | None = None) -> Rule:
    """The rule of a logarithm. The result is null where the logarithm is not defined."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand = arguments[0]
        value = f"{function}({operand.sql})" + ("" if divisor is None else f" / {divisor!r}::DOUBLE")
        return derive(f"(CASE WHEN {operand.sql} > 0 THEN {value} END)", DOUBLE, operand)

    return rule


def _logarithm(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    base, operand = arguments
    value = f"spark_log({operand.sql}) / spark_log({base.sql})"
    return derive(f"(CASE WHEN {operand.sql} > 0 AND {base.sql} > 0 THEN {value} END)", DOUBLE, *arguments)


def _log1p(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    return derive(f"(CASE WHEN {operand.sql} > -1 THEN spark_log1p({operand.sql}) END)", DOUBLE, operand)


def _signum(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The sign of a number. The sign of NaN and of both zeros is the value itself."""
    operand = arguments[0]
    sql = operand.sql
    if pa.types.is_duration(operand.type):
        return derive(cast(f"sign({sql})", DOUBLE), DOUBLE, operand)
    return derive(
        cast(
            f"CASE WHEN isnan({sql}) THEN {sql} WHEN {sql} > 0 THEN 1 WHEN {sql} < 0 THEN -1 ELSE {sql} END",
            operand.type,
        ),
        operand.type,
        operand,
    )


def _shift(direction: str) -> Rule:
    """The rule of a shift. Java takes the number of places modulo the width, and drops the bits that are shifted out."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        operand, places = arguments
        bits = operand.type.bit_width
        count = f"CAST((({places.sql} % {bits}) + {bits}) % {bits} AS HUGEINT)"
        size = f"{1 << bits}::HUGEINT"
        value = f"CAST({operand.sql} AS HUGEINT)"
        power = f"CAST(power(2::DOUBLE, {count}) AS HUGEINT)"
        if direction == "left":
            # Keep the low bits before shifting: 64 bits and 63 places would not fit in 127.
            low = f"((({value} % (({size}) // {power})) * {power}) % {size})"
            wrapped = f"((({low} % {size}) + {size}) % {size})"
        elif direction == "right":
            wrapped = f"(({value} - ((({value} % {power}) + {power}) % {power})) // {power})"
        else:
            wrapped = f"((({value} + {size}) % {size}) // {power})"
        signed = f"CASE WHEN {wrapped} >= {1 << (bits - 1)}::HUGEINT THEN {wrapped} - {size} ELSE {wrapped} END"
        return derive(cast(signed, operand.type), operand.type, operand, places)

    return rule


def _factorial(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """factorial: null outside of 0 to 20, beyond which it needs more than 64 bits."""
    operand = arguments[0]
    cases = " ".join(f"WHEN {n} THEN {math.factorial(n)}" for n in range(21))
    return derive(cast(f"CASE {operand.sql} {cases} END", BIGINT), BIGINT, operand)


def _bit_count(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The bits of a number of 64 bits: a negative number of fewer bits is widened first."""
    operand = arguments[0]
    wide = operand.sql if pa.types.is_boolean(operand.type) else cast(operand.sql, BIGINT)
    return derive(cast(f"bit_count({cast(wide, BIGINT)})", INT), INT, operand)


def _bit_at(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand, place = arguments
    bits = operand.type.bit_width
    bad = failure("INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE", f"getbit: the position is not from 0 to {bits - 1}.")
    power = f"CAST(power(2::DOUBLE, {place.sql}) AS HUGEINT)"
    value = f"((CAST({operand.sql} AS HUGEINT) + {1 << 64}::HUGEINT) // {power}) % 2"
    absent = f"{place.sql} IS NULL OR {operand.sql} IS NULL"
    sql = f"CASE WHEN {absent} THEN NULL WHEN {place.sql} BETWEEN 0 AND {bits - 1} THEN {value} ELSE {bad} END"
    return derive(cast(sql, pa.int8()), pa.int8(), *arguments, raises=True)


def _width_bucket(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, low, high, buckets = arguments
    if pa.types.is_duration(value.type):
        value, low, high = (derive(cast(operand.sql, DOUBLE), DOUBLE, operand) for operand in (value, low, high))
    return call("spark_width_bucket", BIGINT, value, low, high, buckets)


TABLE: dict[str, Rule] = {
    "Abs": _abs,
    "Round": strict(_round(decimal.ROUND_HALF_UP)),
    "BRound": strict(_round(decimal.ROUND_HALF_EVEN)),
    "Floor": _toward(decimal.ROUND_FLOOR),
    "Ceil": _toward(decimal.ROUND_CEILING),
    "RoundFloor": _toward_digits(decimal.ROUND_FLOOR),
    "RoundCeil": _toward_digits(decimal.ROUND_CEILING),
    "Sqrt": _sqrt,
    "Exp": calls("spark_exp", DOUBLE),
    "Expm1": calls("spark_expm1", DOUBLE),
    "Log": _log("spark_log"),
    "Log2": _log("spark_log", math.log(2)),
    "Log10": _log("spark_log10"),
    "Logarithm": strict(_logarithm),
    "Log1p": _log1p,
    "Pow": strict(calls("spark_pow", DOUBLE)),
    "Cbrt": calls("spark_cbrt", DOUBLE),
    "Hypot": strict(calls("spark_hypot", DOUBLE)),
    "Rint": calls("spark_rint", DOUBLE),
    "Sin": calls("spark_sin", DOUBLE),
    "Cos": calls("spark_cos", DOUBLE),
    "Tan": calls("spark_tan", DOUBLE),
    "Cot": calls("spark_cot", DOUBLE),
    "Sec": calls("spark_sec", DOUBLE),
    "Csc": calls("spark_csc", DOUBLE),
    "Asin": calls("spark_asin", DOUBLE),
    "Acos": calls("spark_acos", DOUBLE),
    "Atan": calls("spark_atan", DOUBLE),
    "Sinh": calls("spark_sinh", DOUBLE),
    "Cosh": calls("spark_cosh", DOUBLE),
    "Tanh": calls("spark_tanh", DOUBLE),
    "Asinh": calls("spark_asinh", DOUBLE),
    "Acosh": calls("spark_acosh", DOUBLE),
    "Atanh": calls("spark_atanh", DOUBLE),
    "ToDegrees": calls("spark_degrees", DOUBLE),
    "ToRadians": calls("spark_radians", DOUBLE),
    "Atan2": strict(calls("spark_atan2", DOUBLE)),
    "Signum": _signum,
    "Factorial": _factorial,
    "BitwiseCount": _bit_count,
    "BitwiseGet": strict(_bit_at),
    "WidthBucket": strict(_width_bucket),
    "ShiftLeft": strict(_shift("left")),
    "ShiftRight": strict(_shift("right")),
    "ShiftRightUnsigned": strict(_shift("unsigned")),
}
