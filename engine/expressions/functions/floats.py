"""Rounding of doubles, and functions of doubles with Java's results.

Spark computes exp, log and pow with Java's StrictMath, which is defined as fdlibm. `fdlibm.py` computes the same from IEEE additions and
multiplications alone. So every bit is Spark's, and is the same on every processor.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from base.arrays import Float64s
from base.text.timestamps import INT64_MAX
from engine.expressions.functions import fdlibm
from engine.expressions.functions.function import Failure, Function, row_function

_WIDE = decimal.Context(prec=800, Emax=999999, Emin=-999999)
_MODES = {"half_up": decimal.ROUND_HALF_UP, "half_even": decimal.ROUND_HALF_EVEN}


def _round(value: float, digits: int, mode: str) -> float:
    """Java rounds the decimal that it would print and not the binary value: 1.005 to 2 digits is 1.01."""
    if math.isnan(value) or math.isinf(value):
        return value
    exact = Decimal(repr(value)).quantize(Decimal((0, (1,), -digits)), rounding=_MODES[mode], context=_WIDE)
    return float(exact) + 0.0  # a decimal has no -0.0


EXACT_INTEGERS_END = 2.0**52  # below it, neighbouring doubles differ by at most a half
EXACT_POWERS_MAX = 22  # the largest power of ten such that it and all smaller ones are exact as doubles


def _round_all(column: pa.ChunkedArray, digits: pa.ChunkedArray, mode: pa.ChunkedArray) -> pa.Array:
    """Rounds whole arrays at once where the product with the power of ten is far from a half, and the other values exactly, one by one.

    The quotient of an integer below 2^52 and an exact power of ten is rounded once, and so is the decimal when it is read as a double."""
    places, word = digits[0].as_py() if len(digits) else 0, mode[0].as_py() if len(mode) else ""
    values = doubles(column)
    power = 10.0 ** min(abs(places), EXACT_POWERS_MAX)
    with np.errstate(all="ignore"):
        size = np.abs(values)
        scaled = size * power if places >= 0 else size / power
        below = np.floor(scaled)
        fraction = scaled - below
        sure = (scaled < EXACT_INTEGERS_END) & (np.abs(fraction - 0.5) > np.maximum(scaled, 1.0) * 2.0**-50)
        whole = below + (fraction > 0.5)
        result = np.where(values < 0, -1.0, 1.0) * (whole / power if places >= 0 else whole * power) + 0.0
    missing = column.is_null().to_numpy(zero_copy_only=False)
    sure &= abs(places) <= EXACT_POWERS_MAX
    for row in np.flatnonzero(~sure & ~missing):
        result[row] = _round(float(values[row]), places, word)
    return pa.array(result, mask=missing)


def _round_single(value: float, digits: int, mode: str) -> float:
    """Rounds a float as `_round` rounds a double. The shortest decimal of the float is rounded, which is what Java would print."""
    if math.isnan(value) or math.isinf(value):
        return value
    shortest = np.format_float_positional(np.float32(value), unique=True)
    exact = Decimal(shortest).quantize(Decimal((0, (1,), -digits)), rounding=_MODES[mode], context=_WIDE)
    return float(exact) + 0.0


def _round_integer(value: int, digits: int, mode: str, bits: int) -> int:
    rounded = int(Decimal(value).quantize(Decimal((0, (1,), -digits)), rounding=_MODES[mode], context=_WIDE))
    if not -(1 << (bits - 1)) <= rounded < 1 << (bits - 1):
        raise Failure("ARITHMETIC_OVERFLOW", f"{value} rounded to {digits} digits overflows.")
    return rounded


def doubles(column: pa.ChunkedArray) -> Float64s:
    """The values, with NaN for null."""
    values: Float64s = column.combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def unary(name: str, function: Callable[[Float64s], Float64s]) -> Function:
    """A function over doubles. A null gives null; `function` sees NaN in its place."""

    def body(column: pa.ChunkedArray) -> pa.Array:
        with np.errstate(all="ignore"):
            values = function(doubles(column))
        return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))

    return Function(name, ("DOUBLE",), "DOUBLE", body)


def binary(name: str, function: Callable[[Float64s, Float64s], Float64s]) -> Function:
    """A function over two doubles. A null in either argument gives null. See `unary`."""

    def body(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.Array:
        missing = left.is_null().to_numpy(zero_copy_only=False) | right.is_null().to_numpy(zero_copy_only=False)
        with np.errstate(all="ignore"):
            values = function(doubles(left), doubles(right))
        return pa.array(values, mask=missing)

    return Function(name, ("DOUBLE", "DOUBLE"), "DOUBLE", body)


def _single(column: pa.ChunkedArray) -> pa.Array:
    """Java's cast `(float)`: a double that is too large becomes an infinity."""
    with np.errstate(all="ignore"):
        values = doubles(column).astype(np.float32)
    return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))


def _width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    """The number of the bucket in which a value lies, from 1; 0 below the first one, and one more than there are above the last."""
    if (
        count <= 0
        or count == INT64_MAX
        or low == high
        or math.isnan(value)
        or not (math.isfinite(low) and math.isfinite(high))
    ):
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    if value >= high:
        return count + 1
    place = float(count) * (value - low) / (high - low)
    whole = 0 if math.isnan(place) else INT64_MAX if place >= 2.0**63 else int(place)  # as Java casts to a long
    return whole + 1 if whole < INT64_MAX else -INT64_MAX - 1


FUNCTIONS = (
    row_function("spark_width_bucket", "DOUBLE DOUBLE DOUBLE BIGINT", "BIGINT", _width_bucket),
    Function("spark_round", ("DOUBLE", "INTEGER", "VARCHAR"), "DOUBLE", _round_all),
    row_function("spark_round_single", "FLOAT INTEGER VARCHAR", "FLOAT", _round_single),
    row_function("spark_round_integer", "BIGINT INTEGER VARCHAR INTEGER", "BIGINT", _round_integer),
    Function("spark_single", ("DOUBLE",), "FLOAT", _single),
    unary("spark_exp", fdlibm.exponential),
    unary("spark_log", fdlibm.logarithm),
    unary("spark_log10", fdlibm.logarithm10),
    binary("spark_pow", fdlibm.power),
)
