"""sin, cos and tan over numpy arrays, rounded correctly but for one value in some hundred thousand.

Java leaves the last bit of these three to the processor, so Spark's answers differ in it between machines. Here all operations are IEEE
additions, multiplications and divisions, as in `fdlibm.py`, and the result is the same everywhere. It is within one unit in the last place of
Java's.

With x = k pi/2 + r and |r| <= pi/4, sin(r) and cos(r) are Taylor series. r and the first terms are pairs of doubles, which have 106 bits (a
double-double; Dekker 1971). The terms from the fourth on are below 2^-20 of the result, and 53 bits are enough for them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from base.arrays import Float64s, Int64s

Pair = tuple[Float64s, Float64s]
"""A value as the sum of two doubles, the second one being at most half a unit in the last place of the first."""

SMALL_END = 2.0**20
"""Below it, k times each part of pi/2 is exact, because the parts have 33 bits. Above it, r comes from Python's integers, which takes some 20
microseconds for a value."""

_FRACTION_BITS = (
    1200  # of pi in integers: the largest double has 1024 bits, and r needs 106 more, also if 60 of them cancel
)


@cache
def _half_pi() -> int:
    """pi/2 times 2^_FRACTION_BITS, by Machin's formula."""
    guard = 32
    one = 1 << (_FRACTION_BITS + guard)

    def arc_tangent_of_inverse(n: int) -> int:
        power, total, k = one // n, 0, 0
        while power:
            total += power // (2 * k + 1) * (-1) ** k
            power //= n * n
            k += 1
        return total

    return (16 * arc_tangent_of_inverse(5) - 4 * arc_tangent_of_inverse(239)) >> (guard + 1)


@cache
def _half_pi_parts() -> tuple[float, ...]:
    """pi/2 as a sum of four doubles, of which the first three have 33 bits."""
    rest, parts = Fraction(_half_pi(), 1 << _FRACTION_BITS), []
    for _ in range(3):
        whole = float(rest)
        exponent = np.frexp(whole)[1] - 33
        part = float(np.ldexp(np.trunc(np.ldexp(whole, -exponent)), exponent))
        parts.append(part)
        rest -= Fraction(part)
    return (*parts, float(rest))


def _sum(a: Float64s, b: Float64s) -> Pair:
    """a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _product(a: Float64s, b: Float64s) -> Pair:
    """a b exactly (Dekker), for values whose squares neither overflow nor underflow."""
    p = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _upper(a: Float64s) -> Float64s:
    c = a * 134217729.0  # 2^27 + 1
    return c - (c - a)


def _add(a: Pair, b: Pair) -> Pair:
    s, e = _sum(a[0], b[0])
    return _sum(s, e + (a[1] + b[1]))


def _multiply(a: Pair, b: Pair) -> Pair:
    p, e = _product(a[0], b[0])
    return _sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def _divide(a: Pair, b: Pair) -> Pair:
    q = a[0] / b[0]
    p, e = _product(q, b[0])
    return _sum(q, (((a[0] - p) - e) + (a[1] - q * b[1])) / b[0])


def _reduce(x: Float64s) -> tuple[Pair, Int64s]:
    """r, and k modulo 4. `x` is finite."""
    small = np.where(np.abs(x) < SMALL_END, x, 0.0)
    p1, p2, p3, p4 = _half_pi_parts()
    k = np.rint(small * (1.0 / p1))
    pair: Pair = (small - k * p1, np.zeros(len(x)))
    for part in (p2, p3, p4):
        pair = _add(pair, (-k * part, np.zeros(len(x))))
    high, low, quadrant = pair[0].copy(), pair[1].copy(), k.astype(np.int64) & 3
    for row in np.flatnonzero(np.abs(x) >= SMALL_END):
        high[row], low[row], quadrant[row] = _reduce_exactly(float(x[row]))
    return (high, low), quadrant


def _reduce_exactly(x: float) -> tuple[float, float, int]:
    numerator, denominator = x.as_integer_ratio()
    scaled, half_pi = (numerator << _FRACTION_BITS) // denominator, _half_pi()
    k = (2 * scaled + half_pi) // (2 * half_pi)
    rest = Fraction(scaled - k * half_pi, 1 << _FRACTION_BITS)
    high = float(rest)
    return high, float(rest - Fraction(high)), k & 3


@cache
def _coefficients(first: int) -> tuple[tuple[tuple[float, float], ...], tuple[float, ...]]:
    """The Taylor coefficients 1 / first!, -1 / (first + 2)!, ...: three as pairs, and the others."""
    exact, factorial, sign = [], Fraction(1), 1
    for n in range(1, first + 24):
        factorial *= n
        if n >= first and (n - first) % 2 == 0:
            exact.append(Fraction(sign) / factorial)
            sign = -sign
    pairs = tuple((float(c), float(c - Fraction(float(c)))) for c in exact[:3])
    return pairs, tuple(float(c) for c in exact[3:])


def _series(z: Pair, first: int) -> Pair:
    """1 / first! - z / (first + 2)! + z^2 / (first + 4)! - ..."""
    pairs, rest = _coefficients(first)
    tail = np.full(len(z[0]), rest[-1])
    for coefficient in reversed(rest[:-1]):
        tail = tail * z[0] + coefficient
    total: Pair = (tail, np.zeros(len(tail)))
    for high, low in reversed(pairs):
        total = _add(_multiply(total, z), (np.full(len(tail), high), np.full(len(tail), low)))
    return total


def _sine_and_cosine(x: Float64s) -> tuple[Pair, Pair]:
    """sin(x) and cos(x) of finite values."""
    r, quadrant = _reduce(x)
    z = _multiply(r, r)
    one: Pair = (np.ones(len(x)), np.zeros(len(x)))
    negative: Pair = (-z[0], -z[1])
    sine = _multiply(r, _add(one, _multiply(negative, _series(z, 3))))
    cosine = _add(one, _multiply(negative, _series(z, 2)))
    odd = (quadrant & 1) == 1
    sine_sign = np.where(quadrant >= 2, -1.0, 1.0)
    cosine_sign = np.where((quadrant == 1) | (quadrant == 2), -1.0, 1.0)
    swapped_sine = tuple(sine_sign * np.where(odd, c, s) for s, c in zip(sine, cosine, strict=True))
    swapped_cosine = tuple(cosine_sign * np.where(odd, s, c) for s, c in zip(sine, cosine, strict=True))
    return (swapped_sine[0], swapped_sine[1]), (swapped_cosine[0], swapped_cosine[1])


TINY_END = 2.0**-30
"""Below it sin(x) and tan(x) are rounded to x and cos(x) to 1, and x^2 could underflow in a pair."""


def _finite(x: Float64s) -> Float64s:
    return np.where(np.isfinite(x) & (np.abs(x) >= TINY_END), x, 1.0)


def _with_limits(x: Float64s, result: Float64s, tiny: Float64s) -> Float64s:
    result = np.where(np.abs(x) < TINY_END, tiny, result)
    return np.where(np.isfinite(x), result, np.nan)


def sine(x: Float64s) -> Float64s:
    value, _ = _sine_and_cosine(_finite(x))
    return _with_limits(x, value[0] + value[1], x)


def cosine(x: Float64s) -> Float64s:
    _, value = _sine_and_cosine(_finite(x))
    return _with_limits(x, value[0] + value[1], np.ones(len(x)))


def tangent(x: Float64s) -> Float64s:
    over, under = _sine_and_cosine(_finite(x))
    value = _divide(over, under)
    return _with_limits(x, value[0] + value[1], x)
