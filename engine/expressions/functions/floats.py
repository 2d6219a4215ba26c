"""Rounding of doubles, and their functions with Java's results.

Spark computes exp, log and pow with Java's StrictMath, which is defined to be fdlibm. `fdlibm.py` computes the same from IEEE additions
and multiplications alone: so the last bit is Spark's, and the same on every processor.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.functions import fdlibm
from engine.expressions.functions.function import Failure, Function, each

_WIDE = decimal.Context(prec=800, Emax=999999, Emin=-999999)
_MODES = {"half_up": decimal.ROUND_HALF_UP, "half_even": decimal.ROUND_HALF_EVEN}
Doubles = npt.NDArray[np.float64]


def _round(value: float, digits: int, mode: str) -> float:
    """Java rounds the decimal that it would print, not the binary value: 1.005 to 2 digits is 1.01."""
    if math.isnan(value) or math.isinf(value):
        return value
    exact = Decimal(repr(value)).quantize(Decimal((0, (1,), -digits)), rounding=_MODES[mode], context=_WIDE)
    return float(exact) + 0.0  # a decimal has no -0.0


EXACT_INTEGERS_END = 2.0**52  # doubles below it are told apart by less than a half
EXACT_POWERS_MAX = 22  # 10 to it, and to all below, is a double exactly


def _rounded(column: pa.ChunkedArray, digits: pa.ChunkedArray, mode: pa.ChunkedArray) -> pa.Array:
    """Whole arrays at once where the product with the power of ten is far from a half; the others exactly, one by one.

    A whole number below 2^52 divided by an exact power of ten is rounded once, as reading the decimal would be."""
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
    """As `_round`, for a float: its own shortest decimal counts."""
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


def doubles(column: pa.ChunkedArray) -> Doubles:
    """The values with NaN for null."""
    values: Doubles = column.combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _unary(name: str, function: Callable[[Doubles], Doubles]) -> Function:
    def body(column: pa.ChunkedArray) -> pa.Array:
        with np.errstate(all="ignore"):
            values = function(doubles(column))
        return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))

    return Function(name, ("DOUBLE",), "DOUBLE", body)


def _pow(base: pa.ChunkedArray, exponent: pa.ChunkedArray) -> pa.Array:
    missing = base.is_null().to_numpy(zero_copy_only=False) | exponent.is_null().to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        values = fdlibm.power(doubles(base), doubles(exponent))
    return pa.array(values, mask=missing)


def _single(column: pa.ChunkedArray) -> pa.Array:
    """Java's (float): too large a double is an infinity."""
    with np.errstate(all="ignore"):
        values = doubles(column).astype(np.float32)
    return pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False))


FUNCTIONS = (
    Function("spark_round", ("DOUBLE", "INTEGER", "VARCHAR"), "DOUBLE", _rounded),
    each("spark_round_single", "FLOAT INTEGER VARCHAR", "FLOAT", _round_single),
    each("spark_round_integer", "BIGINT INTEGER VARCHAR INTEGER", "BIGINT", _round_integer),
    Function("spark_single", ("DOUBLE",), "FLOAT", _single),
    _unary("spark_exp", fdlibm.exponential),
    _unary("spark_log", fdlibm.logarithm),
    _unary("spark_log10", fdlibm.logarithm10),
    Function("spark_pow", ("DOUBLE", "DOUBLE"), "DOUBLE", _pow),
)
