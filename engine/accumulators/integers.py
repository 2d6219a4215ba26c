"""Exact sums of integers, decimals and durations, in limbs of 32 bits, and Spark's results of them.

A sum is `width` limbs, lowest first. All but the highest are in [0, 2**32), and the highest carries the sign. Each limb
is summed on its own, so sums are linear: they do not depend on order or batching, and no intermediate sum overflows.
Only a *result* can overflow, and then Spark's ANSI mode raises an error. Spark itself also raises for an intermediate
sum, which depends on the order of its rows; here only the total decides.

Two limbs hold sums of values of up to 64 bits (totals below 2**95, which is 2**32 times the largest long). Four limbs
hold sums of decimals of up to 38 digits (2**32 times the largest one). A single call beyond that raises OverflowError.

Limits: limbs times weights are exact in int64 while the sum of the absolute weights of one call is at most
`WEIGHT_SUM_MAX` = 2**30; above, the call uses Python integers. Totals are stored in normal form, which is unique, so
they do not grow with the number of steps.

Arrays of limbs have the shape (width, groups).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Float64s, Int64s, UInt64s, decimal_words
from base.limits import INT64_MAX

LIMB_BITS = 32
LIMB_MASK = (1 << LIMB_BITS) - 1
WEIGHT_SUM_MAX = 1 << 30  # limbs, or digits of doubles, below 2**32 times this are below 2**62
_EXACT_BELOW = 2.0**62


def width_of(type_: pa.DataType) -> int:
    """The number of limbs for sums of values of this type."""
    return 4 if pa.types.is_decimal(type_) and type_.precision > 18 else 2


def sum_limbs(values: pa.Array, weights: Int64s, groups: Int64s, group_count: int) -> Int64s:
    """The sum of values (without nulls) times weights of each group: limbs of shape (width, group_count), in normal
    form. `values`, `weights` and `groups` have one entry for each row."""
    width = width_of(values.type)
    heaviest = float(np.abs(weights).sum(dtype=np.float64))
    if heaviest > WEIGHT_SUM_MAX:
        return _sum_exactly(to_python(values), weights, groups, group_count, width)
    if width == 4:
        return normalise(_add_limbs(_limbs_of_decimals(values), weights, groups, group_count))
    numbers = to_int64(values)
    if not len(numbers):
        return np.zeros((width, group_count), dtype=np.int64)
    largest = max(abs(int(numbers.min())), abs(int(numbers.max())))
    if largest * heaviest < _EXACT_BELOW:
        totals = np.zeros(group_count, dtype=np.int64)
        np.add.at(totals, groups, numbers * weights)
        return _limbs_of_int64(totals)
    return normalise(_add_limbs(_limbs_of_int64(numbers), weights, groups, group_count))


def weight_sums(limbs: Int64s, weights: Int64s, groups: Int64s, group_count: int) -> Int64s:
    """Sums of sums: limbs of shape (width, rows) times weights, added by group. The result is perhaps not in normal
    form, but it is exact."""
    heaviest = float(np.abs(weights).sum(dtype=np.float64))
    if limbs.size and float(np.abs(limbs).max()) * heaviest >= _EXACT_BELOW:
        return _sum_exactly(totals(limbs), weights, groups, group_count, len(limbs))
    return _add_limbs(limbs, weights, groups, group_count)


def normalise(limbs: Int64s) -> Int64s:
    """Returns the same sums in normal form, as a new array: each carry is added to the next limb."""
    limbs = limbs.copy()
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> LIMB_BITS
        limbs[place] &= LIMB_MASK
    return limbs


def totals(limbs: Int64s) -> list[int]:
    """The sums as Python integers. This is exact and slow, for few groups."""
    columns = [column.tolist() for column in limbs]
    return [sum(limb << (LIMB_BITS * i) for i, limb in enumerate(row)) for row in zip(*columns, strict=True)]


def limbs_of_totals(numbers: list[int], width: int) -> Int64s:
    """Limbs in normal form from Python integers. Raises OverflowError where the highest limb does not fit 64 bits."""
    rows = [[(number >> (LIMB_BITS * i)) & LIMB_MASK for i in range(width - 1)] for number in numbers]
    tops = [number >> (LIMB_BITS * (width - 1)) for number in numbers]
    table = [[*row, top] for row, top in zip(rows, tops, strict=True)]
    return np.array(table, dtype=np.int64).reshape(-1, width).T.copy()


def fits_int64(limbs: Int64s) -> Bools:
    """For each sum: whether it fits 64 bits."""
    low, high = _words(limbs)
    fits = high == low.view(np.int64) >> 63
    if len(limbs) == 4:
        fits &= _fits_four_limbs(limbs)
    return cast(Bools, fits)


def int64_totals(limbs: Int64s) -> Int64s:
    """The sums where they fit int64. Elsewhere the values are undefined."""
    return cast(Int64s, (limbs[1] << LIMB_BITS) | limbs[0])


def double_totals(limbs: Int64s) -> Float64s:
    """The doubles nearest to sums of two limbs."""
    fits = fits_int64(limbs)
    result = int64_totals(limbs).astype(np.float64)
    large = np.flatnonzero(~fits)
    result[large] = [float(total) for total in totals(limbs[:, large])]
    return result


def decimal_totals(limbs: Int64s, type_: pa.Decimal128Type, valid: Bools) -> tuple[pa.Array, Bools]:
    """(sums as decimals of the type, whether each sum fits the type). A sum is null where it is not `valid` or does not
    fit."""
    low, high = _words(limbs)
    fits = _within(limbs, low, high, 10**type_.precision)
    return _decimals(low, high, type_, valid & fits), fits


def decimal_averages(
    limbs: Int64s, scale: int, counts: Int64s, type_: pa.Decimal128Type, valid: Bools
) -> tuple[pa.Array, Bools]:
    """(averages of sums with `scale`, rounded half up to the type's scale; whether each average fits the type). An
    average is null where it is not `valid` or does not fit.

    Spark divides to 39 digits after the point, truncates, and then rounds half up. This is the same as one rounding.
    """
    scaled = np.zeros((4, len(counts)), dtype=np.int64)
    factor = 10 ** (type_.scale - scale)
    small = _small_quotients(limbs, counts, factor)
    at = np.flatnonzero(small & valid)
    total, count = int64_totals(limbs[:, at]), counts[at]
    whole, rest = np.divmod(np.abs(total), count)
    quotients = np.sign(total) * (whole * factor + (2 * rest * factor + count) // (2 * count))
    sign = quotients >> 63
    scaled[:, at] = np.stack([quotients & LIMB_MASK, (quotients >> LIMB_BITS) & LIMB_MASK, sign & LIMB_MASK, sign])
    slow = np.flatnonzero(~small & valid)
    exact = [
        _half_up(total * factor, count)
        for total, count in zip(totals(limbs[:, slow]), counts[slow].tolist(), strict=True)
    ]
    scaled[:, slow] = limbs_of_totals(exact, 4)
    return decimal_totals(scaled, type_, valid)


def rounded_averages(limbs: Int64s, counts: Int64s) -> Int64s:
    """Averages of sums of two limbs, rounded half up (away from zero at ties), as Spark divides intervals. The result
    is 0 where the count is 0."""
    result = np.zeros(len(counts), dtype=np.int64)
    total = int64_totals(limbs)
    fast = fits_int64(limbs) & (total > -INT64_MAX) & (counts > 0) & (counts < 1 << 62)
    whole, rest = np.divmod(np.abs(total[fast]), counts[fast])
    result[fast] = np.sign(total[fast]) * (whole + (2 * rest >= counts[fast]))
    slow = np.flatnonzero(~fast & (counts > 0))
    for place, number in zip(slow.tolist(), totals(limbs[:, slow]), strict=True):
        result[place] = _half_up(number, int(counts[place]))
    return result


def to_int64(values: pa.Array) -> Int64s:
    """Integers, durations and decimals of up to 18 digits (their unscaled values), without nulls, as int64."""
    type_ = values.type
    if pa.types.is_decimal(type_):
        return decimal_words(values)[0].view(np.int64)
    if pa.types.is_duration(type_):
        values = values.view(pa.int64())
    return cast(Int64s, values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))


def to_python(values: pa.Array) -> list[int]:
    """Integers, durations and all decimals (their unscaled values), without nulls, as Python integers."""
    if pa.types.is_decimal(values.type):
        words = decimal_words(values)
        return [(high << 64) | low for low, high in zip(words[0].tolist(), words[1].tolist(), strict=True)]
    return cast(list[int], to_int64(values).tolist())


def _limbs_of_int64(numbers: Int64s) -> Int64s:
    return np.stack([numbers & LIMB_MASK, numbers >> LIMB_BITS])


def _limbs_of_decimals(values: pa.Array) -> Int64s:
    low, high = decimal_words(values)
    return np.stack(
        [
            (low & np.uint64(LIMB_MASK)).view(np.int64),
            (low >> np.uint64(LIMB_BITS)).view(np.int64),
            high & LIMB_MASK,
            high >> LIMB_BITS,
        ]
    )


def _add_limbs(limbs: Int64s, weights: Int64s, groups: Int64s, group_count: int) -> Int64s:
    result = np.zeros((len(limbs), group_count), dtype=np.int64)
    for place, limb in enumerate(limbs):
        np.add.at(result[place], groups, limb * weights)
    return result


def _sum_exactly(numbers: list[int], weights: Int64s, groups: Int64s, group_count: int, width: int) -> Int64s:
    result = [0] * group_count
    for number, weight, group in zip(numbers, weights.tolist(), groups.tolist(), strict=True):
        result[group] += number * weight
    return limbs_of_totals(result, width)


def _words(limbs: Int64s) -> tuple[UInt64s, Int64s]:
    """(low 64 bits, high 64 bits with the sign) of each sum. Sums of four limbs that exceed 128 bits are truncated."""
    low = limbs[0].view(np.uint64) | (limbs[1].view(np.uint64) << np.uint64(LIMB_BITS))
    if len(limbs) == 2:
        return low, limbs[1] >> LIMB_BITS
    return low, (limbs[3] << LIMB_BITS) | limbs[2]


def _within(limbs: Int64s, low: UInt64s, high: Int64s, bound: int) -> Bools:
    """For each total: whether -bound < total < bound. `bound` is below 2**127."""
    bound_low, bound_high = np.uint64(bound & ((1 << 64) - 1)), bound >> 64
    below = (high < bound_high) | ((high == bound_high) & (low < bound_low))
    lowest = -bound
    lowest_low, lowest_high = np.uint64(lowest & ((1 << 64) - 1)), lowest >> 64
    above = (high > lowest_high) | ((high == lowest_high) & (low > lowest_low))
    fits = below & above
    if len(limbs) == 4:
        fits &= _fits_four_limbs(limbs)
    return cast(Bools, fits)


def _fits_four_limbs(limbs: Int64s) -> Bools:
    return cast(Bools, (limbs[3] >= -(1 << 31)) & (limbs[3] < 1 << 31))


def _decimals(low: UInt64s, high: Int64s, type_: pa.Decimal128Type, valid: Bools) -> pa.Array:
    words = np.empty((len(low), 2), dtype=np.uint64)
    words[:, 0] = np.where(valid, low, np.uint64(0))
    words[:, 1] = np.where(valid, high, 0).view(np.uint64)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(low), [bitmap, pa.py_buffer(words)])


def _small_quotients(limbs: Int64s, counts: Int64s, factor: int) -> Bools:
    """For each group: whether int64 arithmetic divides the scaled sum by the count exactly."""
    magnitude_max = INT64_MAX // (4 * factor)
    total = int64_totals(limbs)
    small = fits_int64(limbs) & (total > -magnitude_max) & (total < magnitude_max)
    return small & (counts < magnitude_max)


def _half_up(number: int, divisor: int) -> int:
    magnitude = (2 * abs(number) + divisor) // (2 * divisor)
    return -magnitude if number < 0 else magnitude
