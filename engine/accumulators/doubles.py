"""Exact sums of float64: a function of the multiset of values alone, rounded once.

A finite double is an integer times 2**-1074. A sum is stored as digits in base 2**32: the digit in bin `bin` has the
weight 2**(32 * bin - 1074), and only digits other than zero are stored. Addition of digits is linear, so retraction and
any order or batching give the same digits. In the *normal form* each digit is in [-2**31, 2**31). This form is unique.
Unlike digits >= 0, it needs no chain of borrows for a small negative number below a large positive one.

NaN, +inf and -inf are counted, each in a bin of its own. The rules are those of IEEE 754: inf + -inf is NaN.

Limits: one call of `explode` adds digits below 2**32 times weights. This is exact in int64 while the sum of the
absolute weights is at most `WEIGHT_SUM_MAX` = 2**30; above, the call uses Python integers. Normal forms may be added
2**31 times before the result must be brought to normal form again. The engine does that in every step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from base.arrays import Float64s, Int64s, UInt64s
from engine.accumulators.integers import WEIGHT_SUM_MAX

DIGIT_BITS = 32
# The range 2**-1074 to 2**1024 takes 66 bins. Sums of 2**63 values of any weight reach four more.
FINITE_BINS = 70
NAN_BIN = 120
POSITIVE_INFINITY_BIN = 121
NEGATIVE_INFINITY_BIN = 122
BINS = 128  # all bins are below this, so (group, bin) is one code with 7 more bits than the group

_LOWEST_EXPONENT = -1074
_DIGIT_MASK = np.uint64((1 << DIGIT_BITS) - 1)
_HALF_DIGIT = 1 << (DIGIT_BITS - 1)


class Digits(NamedTuple):
    """Sums of many groups: one row for each digit, in the order of (group, bin). Each pair occurs once, and no digit is
    zero."""

    groups: Int64s
    bins: Int64s
    digits: Int64s


def explode(values: Float64s, weights: Int64s, groups: Int64s) -> Digits:
    """The sum of values times weights of each group, in normal form. The three arrays have one entry for each row."""
    finite = np.isfinite(values)
    parts = []
    if not finite.all():
        parts.append(_specials(values, weights, groups))
        values, weights, groups = values[finite], weights[finite], groups[finite]
    if float(np.abs(weights).sum(dtype=np.float64)) > WEIGHT_SUM_MAX:
        parts.append(_explode_exactly(values, weights, groups))
    else:
        parts.append(_explode_finite(values, weights, groups))
    return normalise(merge(*parts))


def merge(*parts: Digits) -> Digits:
    """The sum of the parts, group by group. The digits are added, but not brought to normal form."""
    codes = np.concatenate([part.groups * BINS + part.bins for part in parts])
    digits = np.concatenate([part.digits for part in parts])
    return _add_up(codes, digits)


def negate(sums: Digits) -> Digits:
    """The opposite of each sum."""
    return Digits(sums.groups, sums.bins, -sums.digits)


def normalise(sums: Digits) -> Digits:
    """Returns the same sums in normal form: all finite digits are in [-2**31, 2**31)."""
    while True:
        carries = (sums.digits + _HALF_DIGIT) >> DIGIT_BITS
        moving = np.flatnonzero((carries != 0) & (sums.bins < FINITE_BINS))
        if not len(moving):
            return sums
        kept = sums.digits.copy()
        kept[moving] -= carries[moving] << DIGIT_BITS
        carried = Digits(sums.groups[moving], sums.bins[moving] + 1, carries[moving])
        sums = merge(Digits(sums.groups, sums.bins, kept), carried)


def round_sums(sums: Digits, group_count: int) -> Float64s:
    """The double nearest to the sum of each of the groups 0 to `group_count` - 1 (ties go to even). `sums` is in normal
    form. The result is 0.0 for a group without digits."""
    finite = sums.bins < FINITE_BINS
    result = _round_finite(Digits(sums.groups[finite], sums.bins[finite], sums.digits[finite]), group_count)
    if finite.all():
        return result
    counts = np.zeros((3, group_count), dtype=np.int64)
    special = ~finite
    counts[sums.bins[special] - NAN_BIN, sums.groups[special]] = sums.digits[special]
    nan, positive, negative = counts
    result[positive != 0] = np.inf
    result[negative != 0] = -np.inf
    result[(nan != 0) | ((positive != 0) & (negative != 0))] = np.nan
    return result


def specials_below_zero(sums: Digits) -> Int64s:
    """The groups in which more NaN or infinities have been retracted than were added."""
    return np.unique(sums.groups[(sums.bins >= FINITE_BINS) & (sums.digits < 0)])


def _specials(values: Float64s, weights: Int64s, groups: Int64s) -> Digits:
    at = np.flatnonzero(~np.isfinite(values))
    infinite = np.where(values[at] > 0, POSITIVE_INFINITY_BIN, NEGATIVE_INFINITY_BIN)
    bins = np.where(np.isnan(values[at]), NAN_BIN, infinite)
    return _add_up(groups[at] * BINS + bins, weights[at])


def _explode_finite(values: Float64s, weights: Int64s, groups: Int64s) -> Digits:
    bits = values.view(np.uint64)
    exponents = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64)
    mantissas = bits & np.uint64((1 << 52) - 1)
    mantissas |= (exponents > 0).astype(np.uint64) << np.uint64(52)
    shifts = np.maximum(exponents, 1) - 1  # value = mantissa * 2**(shift - 1074)
    bins = shifts >> 5
    shift = (shifts & 31).astype(np.uint64)
    signed = np.where(values < 0, -weights, weights)
    low = (mantissas << shift) & _DIGIT_MASK
    middle = (mantissas >> (np.uint64(32) - shift)) & _DIGIT_MASK
    high = (mantissas >> np.uint64(32)) >> (np.uint64(32) - shift)
    products = [digit.astype(np.int64) * signed for digit in (low, middle, high)]
    if not len(values):
        return _add_up(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    lowest, group_count = int(bins.min()), int(groups.max()) + 1
    width = int(bins.max()) - lowest + 3
    if width * group_count > 8 * len(values) + 4096:
        codes = groups * BINS + bins
        return _add_up(np.concatenate([codes, codes + 1, codes + 2]), np.concatenate(products))
    table = np.zeros(group_count * width, dtype=np.int64)
    places = groups * width + (bins - lowest)
    for offset, product in enumerate(products):
        np.add.at(table, places + offset, product)
    used = np.flatnonzero(table)
    return Digits(used // width, used % width + lowest, table[used])


def _explode_exactly(values: Float64s, weights: Int64s, groups: Int64s) -> Digits:
    """Does what `_explode_finite` does, with Python integers, for weights that are too large for int64 products."""
    totals: dict[int, int] = {}
    for value, weight, group in zip(values.tolist(), weights.tolist(), groups.tolist(), strict=True):
        numerator, denominator = value.as_integer_ratio()
        scaled = numerator * ((1 << -_LOWEST_EXPONENT) // denominator)
        totals[group] = totals.get(group, 0) + scaled * weight
    rows: list[tuple[int, int]] = []
    for group, total in sorted(totals.items()):
        sign, rest, place = (-1 if total < 0 else 1), abs(total), 0
        while rest:
            rows.append((group * BINS + place, sign * (rest & int(_DIGIT_MASK))))
            rest >>= DIGIT_BITS
            place += 1
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return _add_up(table[:, 0], table[:, 1])


def _add_up(codes: Int64s, digits: Int64s) -> Digits:
    order = np.argsort(codes, kind="stable")
    codes, digits = codes[order], digits[order]
    if len(codes):
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        codes, digits = codes[starts], np.add.reduceat(digits, starts)
        kept = np.flatnonzero(digits)
        codes, digits = codes[kept], digits[kept]
    return Digits(codes // BINS, codes % BINS, digits)


def _round_finite(sums: Digits, group_count: int) -> Float64s:
    """Rounds the finite sums. The four leading digits, and whether there is anything below them, decide the rounding.

    A leading digit d with a negative rest amounts to at least d - 0.51 of its bin, so it determines the sign. If such a
    digit is 1, borrowing makes it 0, and the next digit is then at least 2**31 - 1. So three digits, from the first one
    that is not zero, contain at least 65 significant bits: enough for the 53 bits of a double and the rounding bit.
    """
    result = np.zeros(group_count, dtype=np.float64)
    if not len(sums.groups):
        return result
    ends = np.flatnonzero(np.concatenate((sums.groups[1:] != sums.groups[:-1], [True])))
    numbers = np.repeat(np.arange(len(ends)), np.diff(np.concatenate(([-1], ends))))
    top = sums.bins[ends]
    signs = np.sign(sums.digits[ends])
    depth = top[numbers] - sums.bins
    leading = np.zeros((4, len(ends)), dtype=np.int64)
    near = depth < 4
    leading[depth[near], numbers[near]] = sums.digits[near] * signs[numbers[near]]
    rest = np.zeros(len(ends), dtype=np.int64)
    # Bins ascend within a group, and the last assignment wins. So the highest digit below the leading four determines
    # the sign of the rest.
    rest[numbers[~near]] = np.sign(sums.digits[~near]) * signs[numbers[~near]]
    magnitudes, shifts = _leading_64_bits(leading, rest)
    exponents = (top - 1) * DIGIT_BITS - shifts + _LOWEST_EXPONENT
    with np.errstate(over="ignore"):
        result[sums.groups[ends]] = np.ldexp(magnitudes.astype(np.float64), exponents) * signs
    return result


def _leading_64_bits(leading: Int64s, rest: Int64s) -> tuple[UInt64s, Int64s]:
    """(m, s) with value = m * 2**(32 * (top - 1) - s), for each group. The highest bit of m is set. The lowest bit is
    sticky: it is set if any bit that was cut off is set."""
    digits = leading.copy()
    borrow = (rest < 0).astype(np.int64)
    for place in (3, 2, 1, 0):
        digits[place] -= borrow
        borrow = (digits[place] < 0).astype(np.int64)
        digits[place] += borrow << DIGIT_BITS
    assert not borrow.any(), "a leading digit has the sign of its sum"
    empty = digits[0] == 0
    digits[:3, empty] = digits[1:, empty]
    digits[3, empty] = 0
    first, second, third = (digits[place].astype(np.uint64) for place in range(3))
    sticky = (digits[3] != 0) | (rest != 0)
    # For an integer below 2**32, frexp is exact, and its exponent is the number of bits.
    leading_zeros = (DIGIT_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
    cut = np.uint64(DIGIT_BITS) - leading_zeros
    magnitudes = (((first << np.uint64(32)) | second) << leading_zeros) | (third >> cut)
    sticky |= (third & ((np.uint64(1) << cut) - np.uint64(1))) != 0
    magnitudes |= sticky.astype(np.uint64)
    return magnitudes, leading_zeros.astype(np.int64) + DIGIT_BITS * empty


def empty() -> Digits:
    """No digits: the sum 0 of every group."""
    nothing = np.zeros(0, dtype=np.int64)
    return Digits(nothing, nothing, nothing)
