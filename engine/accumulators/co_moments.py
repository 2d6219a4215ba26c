"""The sum of (x - mean of x) * (y - mean of y), from exact sums: of x, of y and of their products.

    n * sum(xy) - sum(x) * sum(y)  =  n * sum((x - mean x) * (y - mean y))

The difference on the left loses nearly all digits if the spread is small beside the mean, and then rounded sums would leave none. Here all of
it is exact, and the result is rounded once:

- The product of two doubles is the exact sum of two doubles (Dekker 1971). Their exponents are reduced first, so that a product neither
  overflows nor loses digits; a product from 2**SCALED_FROM on is kept in a sum of its own, divided by 2**SCALE.
- An exact sum is written as a few doubles, each of which is the rounded rest (an expansion, Shewchuk 1997). The products of two expansions are
  doubles again, and `doubles` adds them up exactly. Nearly all sums are one or two doubles.
- Sums that need more than PARTS_MAX doubles, or that are so large or so small that a product of their parts would overflow or be inexact, are
  computed with Python's integers, group by group.

A product below 2**-1074 loses the digits below that, which is the smallest double.
"""

from __future__ import annotations

import numpy as np

from base.arrays import Bools, Float64s, Int64s
from engine.accumulators import doubles
from engine.accumulators.doubles import Digits

SCALED_FROM, SCALE = 1000, 1100
PARTS_MAX = 3
_LARGE, _SMALL = 2.0**480, 2.0**-400
_VERY_LARGE_BITS = 1000  # a number of more bits may be too large for a double
_COUNT_MAX = 1 << 53  # counts up to this are doubles exactly
_SPLITTER = float((1 << 27) + 1)
_LOWEST_EXPONENT = -1074


def explode_products(x: Float64s, y: Float64s, weights: Int64s, groups: Int64s) -> tuple[Digits, Digits]:
    """(the sum of the products times the weights of each group, and the part of it that is to be multiplied by 2**SCALE). Rows in which x or y
    is not finite are left out."""
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all():
        x, y, weights, groups = x[finite], y[finite], weights[finite], groups[finite]
    (x, x_exponent), (y, y_exponent) = np.frexp(x), np.frexp(y)
    product, rest = _two_product(x, y)
    exponents = x_exponent.astype(np.int64) + y_exponent
    scaled = exponents > SCALED_FROM
    exponents = exponents - SCALE * scaled
    parts = np.concatenate([np.ldexp(product, exponents), np.ldexp(rest, exponents)])
    both = np.tile(scaled, 2)
    weights, groups = np.tile(weights, 2), np.tile(groups, 2)
    normal = doubles.explode(parts[~both], weights[~both], groups[~both])
    return normal, doubles.explode(parts[both], weights[both], groups[both])


def co_moments(counts: Int64s, x: Digits, y: Digits, xy: Digits, xy_scaled: Digits) -> Float64s:
    """The sum of (x - mean of x) * (y - mean of y) of each group, rounded; 0.0 for a group without rows. `counts`: of the rows. The sums are in
    normal form and finite."""
    length = len(counts)
    x_parts, x_left = _parts(x, length)
    y_parts, y_left = (x_parts, x_left) if y is x else _parts(y, length)
    xy_parts, xy_left = _parts(xy, length)
    slow = x_left | y_left | xy_left | (counts > _COUNT_MAX)
    slow[xy_scaled.groups] = True
    number = np.where(slow, 0, counts).astype(np.float64)
    terms = [np.zeros(length)]
    for part in xy_parts:
        terms += _two_product(number, np.where(slow, 0.0, part))
    for a in x_parts:
        for b in y_parts:
            terms += _two_product(np.where(slow, 0.0, a), np.where(slow, 0.0, -b))
    everything = np.concatenate(terms)
    groups = np.tile(np.arange(length), len(terms))
    used = np.flatnonzero(everything)
    exact = doubles.explode(everything[used], np.ones(len(used), np.int64), groups[used])
    with np.errstate(invalid="ignore"):
        result = doubles.round_sums(exact, length) / np.maximum(counts, 1)
    if slow.any():
        _exactly(np.flatnonzero(slow), counts, (x, y, xy, xy_scaled), result)
    return result


def _parts(sums: Digits, length: int) -> tuple[list[Float64s], Bools]:
    """(doubles whose sum is that of each group, the groups of which they are not or cannot be multiplied)."""
    parts: list[Float64s] = []
    left = np.zeros(length, np.bool_)
    rest = sums
    while len(rest.groups) and len(parts) < PARTS_MAX:
        part = doubles.round_sums(rest, length)
        with np.errstate(invalid="ignore"):
            size = np.abs(part)
            left |= (size > _LARGE) | ((size < _SMALL) & (size > 0))
        part = np.where(left, 0.0, part)
        parts.append(part)
        used = np.flatnonzero(part)
        taken = doubles.explode(part[used], np.ones(len(used), np.int64), used)
        rest = doubles.normalise(doubles.merge(rest, doubles.negate(taken)))
        kept = ~left[rest.groups]
        rest = Digits(*(column[kept] for column in rest))
    left[rest.groups] = True
    return parts, left


def _two_product(a: Float64s, b: Float64s) -> tuple[Float64s, Float64s]:
    """(the rounded product, the rest), whose sum is the product."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Float64s) -> tuple[Float64s, Float64s]:
    """(the upper 26 bits, the rest)."""
    large = _SPLITTER * a
    high = large - (large - a)
    return high, a - high


def _exactly(groups: Int64s, counts: Int64s, sums: tuple[Digits, Digits, Digits, Digits], result: Float64s) -> None:
    """Writes the results of some groups, computed with Python's integers: exact and slow."""
    x, y, xy, xy_scaled = (_integers(part, groups) for part in sums)
    for place, group in enumerate(groups.tolist()):
        count = int(counts[group])
        products = (xy[place] + (xy_scaled[place] << SCALE)) << -_LOWEST_EXPONENT
        numerator = count * products - x[place] * y[place]
        result[group] = _quotient(numerator, count)


def _quotient(numerator: int, count: int) -> float:
    """numerator * 2**-2148 / count: rounded before the division and after it, as for the other groups, or once if it is very large."""
    unit = 1 << (-2 * _LOWEST_EXPONENT)
    if numerator.bit_length() - unit.bit_length() < _VERY_LARGE_BITS:
        return numerator / unit / count
    try:
        return numerator / (unit * count)
    except OverflowError:
        return np.inf if numerator > 0 else -np.inf


def _integers(sums: Digits, groups: Int64s) -> list[int]:
    """The sum of each of these groups, which ascend, as an integer times 2**-1074."""
    totals = [0] * len(groups)
    places = np.searchsorted(groups, sums.groups)
    mine = np.flatnonzero(np.isin(sums.groups, groups))
    for place, bin_, digit in zip(
        places[mine].tolist(), sums.bins[mine].tolist(), sums.digits[mine].tolist(), strict=True
    ):
        totals[place] += digit << (doubles.DIGIT_BITS * bin_)
    return totals
