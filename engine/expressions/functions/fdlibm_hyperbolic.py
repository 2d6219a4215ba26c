"""expm1, log1p, sinh, cosh, tanh, asinh, acosh, the cube root and the hypotenuse as Java's StrictMath defines them, over numpy arrays.

Source of the algorithms and coefficients: fdlibm 5.3 (s_expm1, s_log1p, e_sinh, e_cosh, s_tanh, s_asinh, e_acosh, s_cbrt, e_hypot).
`fdlibm.py` says what the code may use and why. (Java's StrictMath has no asinh and acosh; Spark has its own, after fdlibm.)
"""

from __future__ import annotations

import numpy as np

from base.arrays import Bools, Float64s, Int64s
from engine.expressions.functions.fdlibm import (
    EXP_OVERFLOW,
    INV_LN2,
    LN2,
    LN2_HI,
    LN2_LO,
    LOG_POLYNOMIAL,
    exponential,
    high_word,
    logarithm,
    with_high_word,
)  # fmt: skip


def _from_high(high: Int64s) -> Float64s:
    """The double with this high word and a low word of 0."""
    return with_high_word(np.zeros(len(high)), high)


_EXPM1 = (
    -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867887942473e-05, 4.00821782732936239552e-06,
    -2.01099218183624371326e-07,
)  # fmt: skip


def exponential_minus_one(x: Float64s) -> Float64s:
    """e to the x, minus 1. With x = k ln2 + r, expm1(r) is a rational approximation with a correction for the rounding of r."""
    inside = np.where(np.isnan(x), 0.0, np.clip(x, -60.0, 710.0))
    high = high_word(np.abs(inside))
    sign = np.where(inside < 0, -1.0, 1.0)
    reduced = high > 0x3FD62E42
    k = np.where(high < 0x3FF0A2B2, sign, np.trunc(INV_LN2 * inside + 0.5 * sign))
    k = np.where(reduced, k, 0.0)
    upper, lower = inside - k * LN2_HI, k * LN2_LO
    r = np.where(reduced, upper - lower, inside)
    c = np.where(reduced, (upper - r) - lower, 0.0)
    result = _scale(r, c, k.astype(np.int64))
    result = np.where(high < 0x3C900000, inside, result)
    result = np.where((high >= 0x4043687A) & (inside < 0), -1.0, result)
    result = np.where(x > EXP_OVERFLOW, np.inf, result)
    return np.where(np.isnan(x), np.nan, result)


def _scale(x: Float64s, c: Float64s, k: Int64s) -> Float64s:
    """2^k (1 + expm1(x + c)) - 1, in the order of operations that keeps the most bits for each k."""
    q1, q2, q3, q4, q5 = _EXPM1
    half = 0.5 * x
    square = x * half
    r1 = 1.0 + square * (q1 + square * (q2 + square * (q3 + square * (q4 + square * q5))))
    t = 3.0 - r1 * half
    e = square * ((r1 - t) / (6.0 - x * t))
    near_zero = x - (x * e - square)
    e = (x * (e - c) - c) - square
    below = 0.5 * (x - e) - 0.5
    above = np.where(x < -0.25, -2.0 * (e - (x + 0.5)), 1.0 + 2.0 * (x - e))
    y = 1.0 - (e - x)
    far = with_high_word(y, high_word(y) + (k << 20)) - 1.0
    shift = np.clip(k, 0, 30)
    y = _from_high(0x3FF00000 - (np.int64(0x200000) >> shift)) - (e - x)  # 1 - 2^-k
    small_k = with_high_word(y, high_word(y) + (k << 20))
    y = (x - (e + _from_high((0x3FF - k) << 20))) + 1.0  # 2^-k
    large_k = with_high_word(y, high_word(y) + (k << 20))
    choices = [k == 0, k == -1, k == 1, (k <= -2) | (k > 56), k < 20]
    return np.select(choices, [near_zero, below, above, far, small_k], large_k)


def logarithm_of_one_plus(x: Float64s) -> Float64s:
    """log(1 + x). With 1 + x = 2^k (1 + f), it is the series of `logarithm` with a correction for the rounding of 1 + x."""
    inside = np.where((x > -1.0) & np.isfinite(x), x, 1.0)
    signed, size = high_word(inside), high_word(np.abs(inside))
    near = (signed < 0x3FDA827A) & ((signed > 0) | (signed <= 0xBFD2BEC3 - (1 << 32)))
    huge = signed >= 0x43400000
    u = np.where(huge, inside, 1.0 + inside)
    k = (high_word(u) >> 20) - 1023
    c = np.where(k > 0, 1.0 - (u - inside), inside - (u - 1.0))
    c = np.where(huge | near, 0.0, c / u)
    fraction = high_word(u) & 0x000FFFFF
    low_half = fraction < 0x6A09E
    k = np.where(near, 0, np.where(low_half, k, k + 1))
    m = with_high_word(u, np.where(low_half, fraction | 0x3FF00000, fraction | 0x3FE00000))
    f = np.where(near, inside, m - 1.0)
    rest = np.where(near, 1, np.where(low_half, fraction, (0x00100000 - fraction) >> 2))
    result = _series_of_log(f, c, k.astype(np.float64), rest == 0)
    result = np.where(size < 0x3E200000, inside - inside * inside * 0.5, result)
    result = np.where(size < 0x3C900000, inside, result)
    result = np.where(x == -1.0, -np.inf, np.where(x < -1.0, np.nan, result))
    return np.where(np.isnan(x) | (x == np.inf), x, result)


def _series_of_log(f: Float64s, c: Float64s, k: Float64s, short: Bools) -> Float64s:
    """k ln2 + log(1 + f) + c. `short`: |f| is below 2^-20."""
    half = 0.5 * f * f
    r = half * (1.0 - 0.66666666666666666 * f)
    near = np.where(k == 0, f - r, k * LN2_HI - ((r - (k * LN2_LO + c)) - f))
    near = np.where(f == 0, np.where(k == 0, 0.0, k * LN2_HI + (c + k * LN2_LO)), near)
    p1, p2, p3, p4, p5, p6, p7 = LOG_POLYNOMIAL
    s = f / (2.0 + f)
    z = s * s
    r = z * (p1 + z * (p2 + z * (p3 + z * (p4 + z * (p5 + z * (p6 + z * p7))))))
    away = k * LN2_HI - ((half - (s * (half + r) + (k * LN2_LO + c))) - f)
    away = np.where(k == 0, f - (half - s * (half + r)), away)
    return np.where(short, near, away)


_HYPERBOLIC_OVERFLOW = float.fromhex("0x1.633ce8fb9f87dp+9")  # above it, sinh and cosh are infinite


def _half_exponential(size: Float64s) -> Float64s:
    """exp(size) / 2 for size >= 22, also where exp(size) overflows."""
    root = exponential(0.5 * np.minimum(size, 1000.0))
    result = np.where(high_word(size) < 0x40862E42, 0.5 * exponential(size), (0.5 * root) * root)
    return np.where(size > _HYPERBOLIC_OVERFLOW, np.inf, result)


def hyperbolic_sine(x: Float64s) -> Float64s:
    size = np.abs(x)
    t = exponential_minus_one(np.minimum(size, 22.0))
    below_one = 0.5 * (2.0 * t - t * t / (t + 1.0))
    middle = 0.5 * (t + t / (t + 1.0))
    high = high_word(size)
    result = np.select(
        [high < 0x3E300000, high < 0x3FF00000, high < 0x40360000], [size, below_one, middle], _half_exponential(size)
    )
    return np.where(np.isnan(x), np.nan, np.copysign(result, x))


def hyperbolic_cosine(x: Float64s) -> Float64s:
    size = np.abs(x)
    high = high_word(size)
    t = exponential_minus_one(np.minimum(size, 1.0))
    w = 1.0 + t
    near_zero = np.where(high < 0x3C800000, w, 1.0 + (t * t) / (w + w))
    t = exponential(np.minimum(size, 22.0))
    middle = 0.5 * t + 0.5 / t
    result = np.select([high < 0x3FD62E43, high < 0x40360000], [near_zero, middle], _half_exponential(size))
    return np.where(np.isnan(x), np.nan, result)


def hyperbolic_tangent(x: Float64s) -> Float64s:
    size = np.abs(x)
    high = high_word(size)
    bounded = np.minimum(size, 22.0)
    t = exponential_minus_one(np.where(high >= 0x3FF00000, 2.0 * bounded, -2.0 * bounded))
    result = np.where(high >= 0x3FF00000, 1.0 - 2.0 / (t + 2.0), -t / (t + 2.0))
    result = np.where(high < 0x40360000, result, 1.0)
    result = np.where(high < 0x3C800000, size * (1.0 + size), result)
    return np.where(np.isnan(x), np.nan, np.copysign(result, x))


def area_sine(x: Float64s) -> Float64s:
    size = np.where(np.isfinite(x), np.abs(x), 1.0)
    high = high_word(size)
    square = size * size
    near = logarithm_of_one_plus(size + square / (1.0 + np.sqrt(1.0 + square)))
    middle = logarithm(2.0 * size + 1.0 / (np.sqrt(square + 1.0) + size))
    far = logarithm(size) + LN2
    result = np.select([high < 0x3E300000, high > 0x41B00000, high > 0x40000000], [size, far, middle], near)
    return np.where(np.isfinite(x), np.copysign(result, x), x)


def area_cosine(x: Float64s) -> Float64s:
    inside = np.where((x >= 1.0) & np.isfinite(x), x, 1.0)
    high = high_word(inside)
    t = inside - 1.0
    near = logarithm_of_one_plus(t + np.sqrt(2.0 * t + t * t))
    middle = logarithm(2.0 * inside - 1.0 / (inside + np.sqrt(inside * inside - 1.0)))
    result = np.select([high >= 0x41B00000, high > 0x40000000], [logarithm(inside) + LN2, middle], near)
    return np.where(x >= 1.0, np.where(np.isinf(x), x, result), np.nan)


_CUBE_NORMAL, _CUBE_SUBNORMAL = 715094163, 696219795  # what a third of the high word lacks to be that of the cube root


def cube_root(x: Float64s) -> Float64s:
    """A guess from a third of the exponent, one rational step to 20 bits, and one step of Newton's to 53 bits."""
    ordinary = np.isfinite(x) & (x != 0)
    size = np.where(ordinary, np.abs(x), 1.0)
    subnormal = high_word(size) < 0x00100000
    scaled = np.where(subnormal, size * 2.0**54, size)
    t = _from_high(high_word(scaled) // 3 + np.where(subnormal, _CUBE_SUBNORMAL, _CUBE_NORMAL))
    r = t * t / size
    s = 5.42857142857142815906e-01 + r * t
    t = t * (
        3.57142857142857150787e-01
        + 1.60714285714285720630e00 / (s + 1.41428571428571436819e00 + -7.05306122448979611050e-01 / s)
    )
    t = _from_high(high_word(t) + 1)
    s = t * t
    r = size / s
    r = (r - t) / (t + t + r)
    return np.where(ordinary, np.copysign(t + t * r, x), x)


def hypotenuse(x: Float64s, y: Float64s) -> Float64s:
    """sqrt(x^2 + y^2) with the squares split, so that their rounding does not reach the result."""
    ordinary = np.isfinite(x) & np.isfinite(y)
    x0, y0 = np.where(ordinary, np.abs(x), 1.0), np.where(ordinary, np.abs(y), 1.0)
    swap = high_word(y0) > high_word(x0)
    a, b = np.where(swap, y0, x0), np.where(swap, x0, y0)
    distant = high_word(a) - high_word(b) > 0x3C00000
    far = a + b
    exponent = np.zeros(len(a), np.int32)
    big = high_word(a) > 0x5F300000
    a, b = np.where(big, a * 2.0**-600, a), np.where(big, b * 2.0**-600, b)
    exponent = np.where(big, 600, exponent)
    small = high_word(b) < 0x20B00000
    tiny = small & (high_word(b) < 0x00100000)
    factor = np.where(tiny, 2.0**1022, np.where(small, 2.0**600, 1.0))
    exponent = np.where(tiny, exponent - 1022, np.where(small, exponent - 600, exponent))
    zero = b == 0
    alone = a
    # fdlibm keeps the high words that both had before a subnormal b was scaled. So do we, because Java's last bit depends on it.
    high_a, high_b = high_word(np.where(tiny, a, a * factor)), high_word(np.where(tiny, b, b * factor))
    a, b = a * factor, b * factor
    w = a - b
    head = _from_high(high_a)
    one = np.sqrt(head * head - (b * (-b) - (a - head) * (a + head)))
    double, y1, head = a + a, _from_high(high_b), _from_high(high_a + 0x00100000)
    two = np.sqrt(head * y1 - (w * (-w) - (head * (b - y1) + (double - head) * b)))
    result = np.ldexp(np.where(w > b, one, two), exponent)
    result = np.where(zero, np.ldexp(alone, np.where(big, 600, 0)), result)
    result = np.where(distant, far, result)
    result = np.where(ordinary, result, np.nan)
    return np.where(np.isinf(x) | np.isinf(y), np.inf, result)
