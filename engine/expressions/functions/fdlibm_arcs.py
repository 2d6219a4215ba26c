"""asin, acos, atan and atan2 as Java's StrictMath defines them, over numpy arrays.

Source of the algorithms and coefficients: fdlibm 5.3 (e_asin, e_acos, s_atan, e_atan2). `fdlibm.py` says what the code may use and why.
"""

from __future__ import annotations

import numpy as np

from base.arrays import Bools, Float64s
from engine.expressions.functions.fdlibm import cut, high_word

_PI = float.fromhex("0x1.921fb54442d18p+1")
_PI_LO = 1.2246467991473531772e-16
_HALF_PI_HI = float.fromhex("0x1.921fb54442d18p+0")
_HALF_PI_LO = 6.12323399573676603587e-17
_QUARTER_PI = float.fromhex("0x1.921fb54442d18p-1")

_SINE_NUMERATOR = (
    1.66666666666666657415e-01, -3.25565818622400915405e-01, 2.01212532134862925881e-01,
    -4.00555345006794114027e-02, 7.91534994289814532176e-04, 3.47933107596021167570e-05,
)  # fmt: skip
_SINE_DENOMINATOR = (
    -2.40339491173441421878e00, 2.02094576023350569471e00, -6.88283971605453293030e-01, 7.70381505559019352791e-02,
)  # fmt: skip


def _sine_ratio(t: Float64s) -> Float64s:
    """The rational approximation R(t) of (asin(x) - x) / x^3 with t = x^2."""
    p0, p1, p2, p3, p4, p5 = _SINE_NUMERATOR
    q1, q2, q3, q4 = _SINE_DENOMINATOR
    p = t * (p0 + t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5)))))
    return p / (1.0 + t * (q1 + t * (q2 + t * (q3 + t * q4))))


def arc_sine(x: Float64s) -> Float64s:
    """asin: x + x^3 R(x^2) below 1/2, and pi/2 - 2 asin(sqrt((1 - x) / 2)) above."""
    inside = np.where(np.abs(x) < 1.0, x, 0.0)
    size = np.abs(inside)
    high = high_word(size)
    small = np.where(high < 0x3E400000, inside, inside + inside * _sine_ratio(inside * inside))
    t = (1.0 - size) * 0.5
    ratio = _sine_ratio(t)
    s = np.sqrt(t)
    near_one = _HALF_PI_HI - (2.0 * (s + s * ratio) - _HALF_PI_LO)
    w = cut(s)
    c = (t - w * w) / (s + w)
    p = 2.0 * s * ratio - (_HALF_PI_LO - 2.0 * c)
    between = _QUARTER_PI - (p - (_QUARTER_PI - 2.0 * w))
    large = np.copysign(np.where(high >= 0x3FEF3333, near_one, between), inside)
    result = np.where(high < 0x3FE00000, small, large)
    result = np.where(np.abs(x) == 1.0, x * _HALF_PI_HI + x * _HALF_PI_LO, result)
    return np.where(np.abs(x) <= 1.0, result, np.nan)


def arc_cosine(x: Float64s) -> Float64s:
    """acos: pi/2 - asin(x) near 0, and 2 asin(sqrt((1 - |x|) / 2)), or pi minus that, elsewhere."""
    inside = np.where(np.abs(x) < 1.0, x, 0.0)
    high = high_word(np.abs(inside))
    ratio = _sine_ratio(inside * inside)
    near_zero = _HALF_PI_HI - (inside - (_HALF_PI_LO - inside * ratio))
    near_zero = np.where(high <= 0x3C600000, _HALF_PI_HI + _HALF_PI_LO, near_zero)
    z = (1.0 - np.abs(inside)) * 0.5
    s = np.sqrt(z)
    ratio = _sine_ratio(z)
    negative = _PI - 2.0 * (s + (ratio * s - _HALF_PI_LO))
    head = cut(s)
    c = (z - head * head) / (s + head)
    positive = 2.0 * (head + (ratio * s + c))
    result = np.where(high < 0x3FE00000, near_zero, np.where(inside < 0, negative, positive))
    result = np.where(x == 1.0, 0.0, np.where(x == -1.0, _PI + 2.0 * _HALF_PI_LO, result))
    return np.where(np.abs(x) <= 1.0, result, np.nan)


_ARCS_HI = np.array([4.63647609000806093515e-01, _QUARTER_PI, 9.82793723247329054082e-01, _HALF_PI_HI, 0.0])
_ARCS_LO = np.array(
    [2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17, _HALF_PI_LO, 0.0]
)
_TANGENT = (
    3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01, -1.11111104054623557880e-01,
    9.09088713343650656196e-02, -7.69187620504482999495e-02, 6.66107313738753120669e-02, -5.83357013379057348645e-02,
    4.97687799461593236017e-02, -3.65315727442169155270e-02, 1.62858201153657823623e-02,
)  # fmt: skip
_NEAR_ZERO = 4  # the place in `_ARCS_HI` and `_ARCS_LO` of the interval around 0


def arc_tangent(x: Float64s) -> Float64s:
    """atan: |x| lies in one of five intervals, and atan(x) = atan(c) + atan((x - c) / (1 + c x)), where c is 0, 1/2, 1, 3/2 or infinity."""
    size = np.where(np.isfinite(x), np.abs(x), 1.0)
    high = high_word(size)
    bounds = [high < 0x3FDC0000, high < 0x3FE60000, high < 0x3FF30000, high < 0x40038000]
    interval = np.select(bounds, [_NEAR_ZERO, 0, 1, 2], 3)
    moved = [size, (2.0 * size - 1.0) / (2.0 + size), (size - 1.0) / (size + 1.0), (size - 1.5) / (1.0 + 1.5 * size)]
    t = np.select(bounds, moved, -1.0 / np.where(size == 0, 1.0, size))
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 = _TANGENT
    z = t * t
    w = z * z
    s1 = z * (a0 + w * (a2 + w * (a4 + w * (a6 + w * (a8 + w * a10)))))
    s2 = w * (a1 + w * (a3 + w * (a5 + w * (a7 + w * a9))))
    away = _ARCS_HI[interval] - ((t * (s1 + s2) - _ARCS_LO[interval]) - t)
    result = np.where(interval == _NEAR_ZERO, t - t * (s1 + s2), away)
    result = np.where(high < 0x3E200000, size, result)
    result = np.where((high >= 0x44100000) | np.isinf(x), _HALF_PI_HI + _HALF_PI_LO, result)
    return np.where(np.isnan(x), np.nan, np.copysign(result, x))


def arc_tangent2(y: Float64s, x: Float64s) -> Float64s:
    """atan2: the angle of the point (x, y), from -pi to pi."""
    ordinary = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    ax, ay = np.where(ordinary, np.abs(x), 1.0), np.where(ordinary, np.abs(y), 1.0)
    left = np.signbit(x)
    distance = (high_word(ay) - high_word(ax)) >> 20
    z = arc_tangent(ay / ax)
    z = np.where(left & (distance < -60), 0.0, z)
    z = np.where(distance > 60, _HALF_PI_HI + 0.5 * _PI_LO, z)
    result = np.where(left, _PI - (z - _PI_LO), z)
    result = np.where(ordinary, result, _on_an_axis(y, x, left))
    result = np.copysign(result, y)
    result = np.where(x == 1.0, arc_tangent(y), result)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, result)


def _on_an_axis(y: Float64s, x: Float64s, left: Bools) -> Float64s:
    """The size of the angle if a coordinate is zero or infinite."""
    result = np.where(np.isinf(x), np.where(left, _PI, 0.0), _HALF_PI_HI)
    result = np.where(np.isinf(x) & np.isinf(y), np.where(left, 3.0 * _QUARTER_PI, _QUARTER_PI), result)
    return np.where(y == 0, np.where(left, _PI, 0.0), result)
