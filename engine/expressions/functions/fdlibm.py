"""exp, log, log10 and pow as Java's StrictMath defines them, over numpy arrays.

Source of the algorithms and coefficients: fdlibm 5.3 (e_exp, e_log, e_log10, e_pow), which StrictMath's specification names. The code uses only
IEEE additions, multiplications, divisions and bit operations. Each is rounded once: there are no fused operations and no calls of libm, so the
result does not depend on the processor. Tests compare every bit with Java's.
"""

from __future__ import annotations

import numpy as np

from base.arrays import Bools, Float64s, Int64s

LN2_HI = float.fromhex("0x1.62e42feep-1")
LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
INV_LN2 = float.fromhex("0x1.71547652b82fep0")


def high_word(x: Float64s) -> Int64s:
    """The sign, exponent and first 20 bits of the fraction, as a signed 32-bit number."""
    return (x.view(np.int64) >> 32).astype(np.int64)


def low_word(x: Float64s) -> Int64s:
    return x.view(np.int64) & 0xFFFFFFFF


def with_high_word(x: Float64s, high: Int64s) -> Float64s:
    return (((high & 0xFFFFFFFF) << 32) | low_word(x)).view(np.float64)


def cut(x: Float64s) -> Float64s:
    """The value with its low word cleared. Products of two such values are exact."""
    return (x.view(np.int64) & ~np.int64(0xFFFFFFFF)).view(np.float64)


_EXP_POLYNOMIAL = tuple(
    map(
        float.fromhex,
        (
            "0x1.555555555553ep-3",
            "-0x1.6c16c16bebd93p-9",
            "0x1.1566aaf25de2cp-14",
            "-0x1.bbd41c5d26bf1p-20",
            "0x1.6376972bea4d0p-25",
        ),
    )
)
EXP_OVERFLOW = 7.09782712893383973096e02
_EXP_UNDERFLOW = -7.45133219101941108420e02


def exponential(x: Float64s) -> Float64s:
    """e to the x. With x = k ln2 + r and |r| <= ln2 / 2, it is a rational approximation of exp(r), times 2 to the k."""
    finite = np.where(np.isfinite(x), np.clip(x, -800.0, 800.0), 0.0)
    size = high_word(finite) & 0x7FFFFFFF
    reduced = size > 0x3FD62E42
    small = size < 0x3FF0A2B2  # |x| < 1.5 ln2: k is the sign
    sign = np.where(finite < 0, -1.0, 1.0)
    k = np.where(small, sign, np.trunc(INV_LN2 * finite + 0.5 * sign))
    k = np.where(reduced, k, 0.0)
    high = np.where(reduced, finite - k * LN2_HI, finite)
    low = np.where(reduced, k * LN2_LO, 0.0)
    r = np.where(reduced, high - low, finite)
    t = r * r
    p1, p2, p3, p4, p5 = _EXP_POLYNOMIAL
    c = r - t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5))))
    y_zero = 1.0 - ((r * c) / (c - 2.0) - r)
    y_k = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    y = np.where(reduced, y_k, y_zero)
    power = k.astype(np.int64)
    normal = with_high_word(y, high_word(y) + (power << 20))
    subnormal = with_high_word(y, high_word(y) + ((power + 1000) << 20)) * 2.0**-1000
    result = np.where(power >= -1021, normal, subnormal)
    result = np.where(size < 0x3E300000, 1.0 + finite, result)
    result = np.where(x > EXP_OVERFLOW, np.inf, result)
    result = np.where(x < _EXP_UNDERFLOW, 0.0, result)
    return np.where(np.isnan(x), np.nan, result)


LOG_POLYNOMIAL = tuple(
    map(
        float.fromhex,
        (
            "0x1.5555555555593p-1", "0x1.999999997fa04p-2", "0x1.2492494229359p-2", "0x1.c71c51d8e78afp-3",
            "0x1.7466496cb03dep-3", "0x1.39a09d078c69fp-3", "0x1.2f112df3e5244p-3",
        ),
    )
)  # fmt: skip


def logarithm(x: Float64s) -> Float64s:
    """The natural logarithm. With x = 2^k (1 + f) and sqrt(1/2) < 1 + f < sqrt 2, log(1 + f) is a series in f / (2 + f)."""
    positive = np.where((x > 0) & np.isfinite(x), x, 1.0)
    subnormal = high_word(positive) < 0x00100000
    scaled = np.where(subnormal, positive * 2.0**54, positive)
    high = high_word(scaled)
    k = np.where(subnormal, -54, 0) + (high >> 20) - 1023
    high = high & 0x000FFFFF
    i = (high + 0x95F64) & 0x100000
    m = with_high_word(scaled, high | (i ^ 0x3FF00000))
    k = k + (i >> 20)
    f = m - 1.0
    dk = k.astype(np.float64)
    # Close to 1 a shorter series is sufficient.
    near = (0x000FFFFF & (2 + high)) < 3
    r_near = f * f * (0.5 - 0.33333333333333333 * f)
    near_k = dk * LN2_HI - ((r_near - dk * LN2_LO) - f)
    near_value = np.where(
        f == 0.0, np.where(k == 0, 0.0, dk * LN2_HI + dk * LN2_LO), np.where(k == 0, f - r_near, near_k)
    )
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    g1, g2, g3, g4, g5, g6, g7 = LOG_POLYNOMIAL
    t1 = w * (g2 + w * (g4 + w * g6))
    t2 = z * (g1 + w * (g3 + w * (g5 + w * g7)))
    r = t2 + t1
    half = 0.5 * f * f
    squared = ((high - 0x6147A) | (0x6B851 - high)) > 0
    with_square = np.where(
        k == 0, f - (half - s * (half + r)), dk * LN2_HI - ((half - (s * (half + r) + dk * LN2_LO)) - f)
    )
    without = np.where(k == 0, f - s * (f - r), dk * LN2_HI - ((s * (f - r) - dk * LN2_LO) - f))
    result = np.where(near, near_value, np.where(squared, with_square, without))
    result = np.where(x == 0, -np.inf, result)
    result = np.where(x < 0, np.nan, result)
    return np.where(np.isnan(x) | (x == np.inf), x, result)


_INV_LN10 = float.fromhex("0x1.bcb7b1526e50ep-2")
_LOG10_2_HI = float.fromhex("0x1.34413509f6000p-2")
_LOG10_2_LO = float.fromhex("0x1.9fef311f12b36p-42")


def logarithm10(x: Float64s) -> Float64s:
    positive = np.where((x > 0) & np.isfinite(x), x, 1.0)
    subnormal = high_word(positive) < 0x00100000
    scaled = np.where(subnormal, positive * 2.0**54, positive)
    high = high_word(scaled)
    k = np.where(subnormal, -54, 0) + (high >> 20) - 1023
    i = (k < 0).astype(np.int64)
    m = with_high_word(scaled, (high & 0x000FFFFF) | ((0x3FF - i) << 20))
    y = (k + i).astype(np.float64)
    result = (y * _LOG10_2_LO + _INV_LN10 * logarithm(m)) + y * _LOG10_2_HI
    result = np.where(x == 0, -np.inf, result)
    result = np.where(x < 0, np.nan, result)
    return np.where(np.isnan(x) | (x == np.inf), x, result)


_BP, _DP_H, _DP_L = (1.0, 1.5), (0.0, float.fromhex("0x1.2b803400p-1")), (0.0, float.fromhex("0x1.cfdeb43cfd006p-27"))
_L = tuple(
    map(
        float.fromhex,
        (
            "0x1.3333333333303p-1",
            "0x1.b6db6db6fabffp-2",
            "0x1.55555518f264dp-2",
            "0x1.17460a91d4101p-2",
            "0x1.d864a93c9db65p-3",
            "0x1.a7e284a454eefp-3",
        ),
    )
)
_P = _EXP_POLYNOMIAL
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_LG2_H = float.fromhex("0x1.62e43p-1")
_LG2_L = float.fromhex("-0x1.05c610ca86c39p-29")
_OVERFLOW_TAIL = 8.0085662595372944372e-17  # of 1024 - log2(the largest double)
_CP = float.fromhex("0x1.ec709dc3a03fdp-1")  # 2 / (3 ln2)
_CP_H = float.fromhex("0x1.ec709ep-1")
_CP_L = float.fromhex("-0x1.e2fe0145b01f5p-28")
_IVLN2_H = float.fromhex("0x1.715476p0")
_IVLN2_L = float.fromhex("0x1.4ae0bf85ddf44p-26")


def power(x: Float64s, y: Float64s) -> Float64s:
    """x to the y: log2(x) in two parts, times y in two parts, then 2 to the power of the product. `_special` has the cases without
    arithmetic."""
    ordinary = np.isfinite(x) & (x != 0) & np.isfinite(y) & (y != 0) & (np.abs(x) != 1)
    ax = np.where(ordinary, np.abs(x), 2.0)
    ey = np.where(ordinary, y, 1.0)
    t1, t2 = _log2_parts(ax)
    near_1, near_2 = _log2_near_one(ax)
    # |y| > 2^31: unless x is near 1, the result overflows or underflows.
    immense = (high_word(ey) & 0x7FFFFFFF) > 0x41E00000
    t1, t2 = np.where(immense, near_1, t1), np.where(immense, near_2, t2)
    y1 = cut(ey)
    p_l = (ey - y1) * t1 + ey * t2
    p_h = y1 * t1
    z = p_l + p_h
    result = _exp2_parts(z, p_h, p_l)
    high = high_word(ax)
    above = np.where(ey > 0, np.inf, 0.0)
    below = np.where(ey > 0, 0.0, np.inf)
    result = np.where(immense & (high < 0x3FEFFFFF), below, result)
    result = np.where(immense & (high > 0x3FF00000), above, result)
    enormous = (high_word(ey) & 0x7FFFFFFF) > 0x43F00000
    result = np.where(enormous & (high <= 0x3FEFFFFF), below, result)
    result = np.where(enormous & (high >= 0x3FF00000), above, result)
    # A power of a negative base is real only for an integer exponent.
    odd, whole = _parity(ey)
    result = np.where((x < 0) & odd, -result, result)
    result = np.where((x < 0) & ~whole, np.nan, result)
    result = np.where(ordinary & (y == 2.0), x * x, result)
    result = np.where(ordinary & (y == 1.0), x, result)
    result = np.where(ordinary & (y == -1.0), 1.0 / np.where(x == 0, 1.0, x), result)
    result = np.where(ordinary & (y == 0.5) & (x >= 0), np.sqrt(ax), result)
    return np.where(ordinary, result, _special(x, y))


def _parity(y: Float64s) -> tuple[Bools, Bools]:
    whole = np.trunc(y) == y
    odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(np.abs(y), 2.0) == 1.0)
    return odd, whole


def _special(x: Float64s, y: Float64s) -> Float64s:
    """The cases with a zero, an infinity, a NaN, or a base of 1 or -1."""
    odd, whole = _parity(np.where(np.isfinite(y), y, 0.0))
    size = np.abs(x)
    grows = (size > 1) == (y > 0)
    result = np.where(
        size == 1, np.where(np.isinf(y), np.nan, np.where((x < 0) & odd, -1.0, 1.0)), np.where(grows, np.inf, 0.0)
    )
    result = np.where((size == 1) & (x < 0) & np.isfinite(y) & ~whole, np.nan, result)
    flips = odd & np.isfinite(y) & np.signbit(x) & ((x == 0) | np.isinf(x))
    result = np.where(flips, -result, result)
    result = np.where(np.isnan(x) | np.isnan(y), np.nan, result)
    return np.where(y == 0, 1.0, result)


def _log2_near_one(ax: Float64s) -> tuple[Float64s, Float64s]:
    t = ax - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = _IVLN2_H * t
    v = t * _IVLN2_L - w * INV_LN2
    t1 = cut(u + v)
    return t1, v - (t1 - u)


def _log2_parts(ax: Float64s) -> tuple[Float64s, Float64s]:
    subnormal = high_word(ax) < 0x00100000
    m = np.where(subnormal, ax * 2.0**53, ax)
    high = high_word(m)
    n = np.where(subnormal, -53, 0) + (high >> 20) - 0x3FF
    j = high & 0x000FFFFF
    ix = j | 0x3FF00000
    third = (j > 0x3988E) & (j < 0xBB67A)
    over = j >= 0xBB67A
    n = np.where(over, n + 1, n)
    ix = np.where(over, ix - 0x00100000, ix)
    m = with_high_word(m, ix)
    bp = np.where(third, _BP[1], _BP[0])
    u = m - bp
    v = 1.0 / (m + bp)
    ss = u * v
    s_h = cut(ss)
    t_high = ((ix >> 1) | 0x20000000) + 0x00080000 + (np.where(third, 1, 0) << 18)
    t_h = (t_high << 32).view(np.float64)
    t_l = m - (t_h - bp)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = ss * ss
    l1, l2, l3, l4, l5, l6 = _L
    r = s2 * s2 * (l1 + s2 * (l2 + s2 * (l3 + s2 * (l4 + s2 * (l5 + s2 * l6)))))
    r = r + s_l * (s_h + ss)
    s2 = s_h * s_h
    t_h = cut(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u = s_h * t_h
    v = s_l * t_h + t_l * ss
    p_h = cut(u + v)
    p_l = v - (p_h - u)
    z_h = _CP_H * p_h
    z_l = _CP_L * p_h + p_l * _CP + np.where(third, _DP_L[1], 0.0)
    t = n.astype(np.float64)
    dp_h = np.where(third, _DP_H[1], 0.0)
    t1 = cut(((z_h + z_l) + dp_h) + t)
    return t1, z_l - (((t1 - t) - dp_h) - z_h)


def _exp2_parts(z: Float64s, p_h: Float64s, p_l: Float64s) -> Float64s:
    over = (z > 1024.0) | ((z == 1024.0) & (p_l + _OVERFLOW_TAIL > z - p_h))
    under = (z < -1075.0) | ((z == -1075.0) & (p_l <= z - p_h))
    j = high_word(z)
    i = j & 0x7FFFFFFF
    large = i > 0x3FE00000
    shift = np.clip((i >> 20) - 0x3FF + 1, 0, 31)
    n = j + (np.int64(0x00100000) >> shift)
    k = ((n & 0x7FFFFFFF) >> 20) - 0x3FF
    k = np.clip(k, 0, 20)
    t = ((n & ~(np.int64(0x000FFFFF) >> k)) << 32).view(np.float64)
    whole = ((n & 0x000FFFFF) | 0x00100000) >> (20 - k)
    whole = np.where(j < 0, -whole, whole)
    whole = np.where(large, whole, 0)
    p_h = np.where(large, p_h - t, p_h)
    t = cut(p_l + p_h)
    u = t * _LG2_H
    v = (p_l - (t - p_h)) * LN2 + t * _LG2_L
    z2 = u + v
    w = v - (z2 - u)
    t = z2 * z2
    p1, p2, p3, p4, p5 = _P
    t1 = z2 - t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5))))
    r = (z2 * t1) / (t1 - 2.0) - (w + z2 * w)
    result = 1.0 - (r - z2)
    scaled = high_word(result) + (whole << 20)
    normal = with_high_word(result, scaled)
    subnormal = np.ldexp(result, np.clip(whole, -5000, 5000).astype(np.int32))
    result = np.where((scaled >> 20) <= 0, subnormal, normal)
    return np.where(over, np.inf, np.where(under, 0.0, result))
