"""The functions that need all values of a group: lists, percentiles, the mode, and what has no inverse.

A trace has every value of every group in order, with its weight. A step reads those of the groups that change and computes their results
before and after the change. So a step costs the size of the groups that change.

The order is that of the values: Spark's ascending order, in which nulls are first and NaN is last, and -0.0 is just below 0.0. Where Spark's own
answer depends on the order in which its rows come (the order of a list, the mode of several), this order decides.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Float64s, Int64s, decimal_words
from engine.accumulators import doubles, order, order_bytes
from engine.errors import DataError
from engine.model.aggregates import ValuesCall
from engine.rows import zset

ELEMENTS_MAX = (1 << 31) - 1
"""An Arrow list has offsets of 32 bits. All lists of one step together may have this many elements."""


_WEIGHTS_MAX = 1 << 62  # so that no sum of weights overflows

_EXACT_MAX, _EXACT_POWER_MAX = 1 << 53, 22
"""Integers and powers of ten up to these are doubles exactly."""


class ListTooLong(DataError):
    """The lists of a step have more elements than an Arrow array can hold."""


class GroupValues:
    """The values of groups 0 to `count` - 1, in the order of group and value, each pair once, with a weight above 0."""

    def __init__(self, type_: pa.DataType, count: int, groups: Int64s, encoded: pa.Array, weights: Int64s) -> None:
        self.type, self.count = type_, count
        self.groups, self.weights, self._encoded = groups, weights, encoded

    @cached_property
    def values(self) -> pa.Array:
        return decode_values(self._encoded, self.type)

    @cached_property
    def starts(self) -> Int64s:
        """Where the values of each group begin, and at the end where all end."""
        return np.searchsorted(self.groups, np.arange(self.count + 1))

    @cached_property
    def before(self) -> Int64s:
        """The sum of the weights of all values before each value, and at the end that of all. Raises ListTooLong."""
        if float(self.weights.sum(dtype=np.float64)) >= _WEIGHTS_MAX:
            raise ListTooLong(
                "The groups that a step changes have more rows than a function of all values can count.",
                "Group by more columns, or take smaller steps.",
            )
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.weights)))

    @cached_property
    def sizes(self) -> Int64s:
        """The sum of the weights of each group."""
        return np.diff(self.before[self.starts])

    @cached_property
    def some(self) -> Int64s:
        """The groups that have a value."""
        return np.flatnonzero(np.diff(self.starts))

    def once(self) -> GroupValues:
        """Returns the same values, each with weight 1."""
        return GroupValues(self.type, self.count, self.groups, self._encoded, np.ones_like(self.weights))


def encode_values(values: pa.Array) -> pa.Array:
    """Values without nulls as int64 or binary in their order. -0.0 stays apart from 0.0."""
    if pa.types.is_nested(values.type):
        return order_bytes.encode(values)
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        one = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
        return order.encode(pa.array(one, values.type, from_pandas=False))
    return order.encode(values)


def decode_values(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    return order_bytes.decode(encoded, type_) if pa.types.is_nested(type_) else order.decode(encoded, type_)


def sorted_values(
    type_: pa.DataType, count: int, groups: Int64s, encoded: pa.Array, weights: Int64s
) -> tuple[GroupValues, Int64s]:
    """(the sum of pairs of group and value with weights, in order; the groups in which a weight is below 0)."""
    if pa.types.is_int64(encoded.type):
        ranks: Int64s = encoded.to_numpy()
    else:
        ranks = pc.rank(encoded, tiebreaker="dense").to_numpy().astype(np.int64)
    sequence = np.lexsort((ranks, groups))
    group, rank = groups[sequence], ranks[sequence]
    new = np.ones(len(sequence), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (rank[1:] != rank[:-1])
    starts = np.flatnonzero(new)
    totals = np.add.reduceat(weights[sequence], starts) if len(starts) else weights[:0]
    kept = totals > 0
    chosen = pa.array(sequence[starts[kept]])
    values = GroupValues(type_, count, group[starts[kept]], encoded.take(chosen), totals[kept])
    return values, np.unique(group[starts[totals < 0]])


def _payload(values: GroupValues, call: ValuesCall) -> pa.Array:
    return values.values if call.field is None else pc.struct_field(values.values, [call.field])


def _elements(values: GroupValues, call: ValuesCall) -> tuple[pa.Array, Int64s]:
    """(each value as often as its weight says, the offsets of the groups)."""
    offsets = values.before[values.starts]
    if int(offsets[-1]) > ELEMENTS_MAX:
        raise ListTooLong(
            f"{call.function}(c{call.argument}) would make lists of {int(offsets[-1])} elements in one step.",
            "Group by more columns, or filter the rows, so that no list is that long.",
        )
    payload = _payload(values, call)
    if len(payload) == int(offsets[-1]):
        return payload, offsets
    return payload.take(pa.array(np.repeat(np.arange(len(payload)), values.weights))), offsets


def collect_list(values: GroupValues, call: ValuesCall) -> pa.Array:
    """All values in order. An empty list, not null, for a group without values."""
    elements, offsets = _elements(values, call)
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), elements.cast(call.type.value_type), type=call.type
    )


def collect_set(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Each value once, in order."""
    return collect_list(values.once(), call)


def first_k(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Returns for each group as many of the first values as parameter 0 says, and null for a group without values."""
    elements, offsets = _elements(values, call)
    lengths = np.minimum(np.diff(offsets), int(call.parameters[0]))
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    chosen = np.repeat(offsets[:-1] - ends[:-1], lengths) + np.arange(int(ends[-1]))
    kept = elements.take(pa.array(chosen)).cast(call.type.value_type)
    return _with_nulls(pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), kept, type=call.type), values)


def listagg(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Strings or binaries in order, with parameter 0 between them. Null without values."""
    elements, offsets = _elements(values, call)
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), elements)
    return _with_nulls(pc.binary_join(lists, pa.scalar(call.parameters[0], elements.type)).cast(call.type), values)


def mode(values: GroupValues, call: ValuesCall) -> pa.Array:
    """The value of the greatest weight; of several the least, or the greatest if parameter 0 is 1."""
    best = np.zeros(values.count, np.int64)
    np.maximum.at(best, values.groups, values.weights)
    tied = np.flatnonzero(values.weights == best[values.groups])
    chosen = np.zeros(values.count, np.int64)
    # Of several assignments to one place the last one wins.
    ascending = tied if call.parameters[0] else tied[::-1]
    chosen[values.groups[ascending]] = ascending
    return _at(values, chosen)


def bit_and(values: GroupValues, call: ValuesCall) -> pa.Array:
    return _bits(values, np.bitwise_and)


def bit_or(values: GroupValues, call: ValuesCall) -> pa.Array:
    return _bits(values, np.bitwise_or)


def bit_xor(values: GroupValues, call: ValuesCall) -> pa.Array:
    """A value that is there an even number of times cancels itself out."""
    return _bits(values, np.bitwise_xor, values.weights)


def _bits(values: GroupValues, combine: np.ufunc, weights: Int64s | None = None) -> pa.Array:
    numbers = values.values.to_numpy(zero_copy_only=False).astype(np.int64)
    if weights is not None:
        numbers = np.where(weights & 1, numbers, 0)
    result = np.zeros(values.count, np.int64)
    if len(values.some):
        result[values.some] = combine.reduceat(numbers, values.starts[values.some])
    return pa.array(result, mask=values.sizes == 0).cast(values.type)


def percentile_cont(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Spark's percentile and median: interpolation between the two values around the position (count - 1) * fraction. Parameter 0: whether
    positions count from the greatest value; then the fractions."""

    def of(fraction: float) -> Float64s:
        position = (values.sizes - 1) * fraction
        lower, higher = np.floor(position), np.ceil(position)
        low, high = (_doubles_at(values, rank.astype(np.int64), call) for rank in (lower, higher))
        with np.errstate(invalid="ignore"):
            between = low + (position - lower) * (high - low)  # as Spark rounds it since 4.3
        return cast(Float64s, np.where((lower == higher) | (low == high), low, between))

    return _of_fractions(values, call, [pa.array(of(fraction), from_pandas=False) for fraction in _fractions(call)])


def percentile_disc(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Spark's percentile_disc, which does not interpolate: the first value such that at least the fraction of all values is at or before it. The
    parameters are those of `percentile_cont`."""

    def of(fraction: float) -> Float64s:
        return _doubles_at(values, np.maximum(np.ceil(values.sizes * fraction).astype(np.int64) - 1, 0), call)

    return _of_fractions(values, call, [pa.array(of(fraction), from_pandas=False) for fraction in _fractions(call)])


def percentile_approx(values: GroupValues, call: ValuesCall) -> pa.Array:
    """Spark's percentile_approx: the value of `percentile_disc`, but of the argument's type. The answer is exact, so it is within any accuracy
    that is asked for."""
    results = []
    for fraction in _fractions(call):
        ranks = np.maximum(np.ceil(values.sizes * fraction).astype(np.int64) - 1, 0)
        results.append(_at(values, _places(values, ranks, call)))
    return _of_fractions(values, call, results)


def skewness(values: GroupValues, call: ValuesCall) -> pa.Array:
    """sqrt(n) * m3 / m2 ** 1.5, where mk is the sum of (x - mean) ** k. Null if all values are equal."""
    second, third = _central(values, 2), _central(values, 3)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result = np.sqrt(values.sizes) * third / np.sqrt(second * second * second)
    return pa.array(result, mask=_flat(values, second), from_pandas=False)


def kurtosis(values: GroupValues, call: ValuesCall) -> pa.Array:
    """n * m4 / m2 ** 2 - 3. Null if all values are equal."""
    second, fourth = _central(values, 2), _central(values, 4)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result = values.sizes * fourth / (second * second) - 3
    return pa.array(result, mask=_flat(values, second), from_pandas=False)


def _central(values: GroupValues, power: int) -> Float64s:
    """The sum of (x - mean) ** power of each group. The sums are exact, so they do not depend on how a machine adds."""
    numbers = values.values.to_numpy(zero_copy_only=False)
    total = doubles.round_sums(doubles.explode(numbers, values.weights, values.groups), values.count)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = numbers - (total / np.maximum(values.sizes, 1))[values.groups]
        powers = distance * distance
        if power == 3:
            powers = powers * distance
        elif power == 4:
            powers = powers * powers
    return doubles.round_sums(doubles.explode(powers, values.weights, values.groups), values.count)


def _flat(values: GroupValues, second: Float64s) -> Bools:
    """The groups without a spread. One value that is there often has none, even if its mean is rounded."""
    one = (np.diff(values.starts) <= 1) & ~np.isnan(second)
    return cast(Bools, (values.sizes == 0) | (second == 0) | one)


def _fractions(call: ValuesCall) -> list[float]:
    return [float(parameter) for parameter in call.parameters[1:]]


def _places(values: GroupValues, ranks: Int64s, call: ValuesCall) -> Int64s:
    """The position of the value of each group that has this rank, counted from 0."""
    if call.parameters[0]:
        ranks = values.sizes - 1 - ranks
    first = values.before[values.starts[:-1]]
    return np.searchsorted(values.before, first + np.maximum(ranks, 0), side="right") - 1


def _doubles_at(values: GroupValues, ranks: Int64s, call: ValuesCall) -> Float64s:
    """The values of these ranks as doubles; 0.0 for a group without values."""
    chosen = _at(values, _places(values, ranks, call))
    missing = values.sizes == 0
    result = np.zeros(values.count)
    present = chosen.filter(pa.array(~missing))
    if pa.types.is_decimal(values.type):
        result[~missing] = _nearest_doubles(present)
    else:
        result[~missing] = present.to_numpy(zero_copy_only=False)
    return result


def _nearest_doubles(decimals: pa.Array) -> Float64s:
    """The double nearest to each decimal. A quotient of two integers that are doubles exactly is rounded once; others go through Python's."""
    scale = decimals.type.scale
    low, high = decimal_words(decimals)
    numbers = low.view(np.int64)
    small = (high == numbers >> 63) & (np.abs(numbers) <= _EXACT_MAX) & (scale <= _EXACT_POWER_MAX)
    result = numbers / 10.0**scale
    for place in np.flatnonzero(~small).tolist():
        result[place] = ((int(high[place]) << 64) | int(low[place])) / 10**scale
    return cast(Float64s, result)


def _at(values: GroupValues, places: Int64s) -> pa.Array:
    """The value at one position of each group; null for a group without values."""
    return values.values.take(pa.array(places, mask=values.sizes == 0))


def _of_fractions(values: GroupValues, call: ValuesCall, results: list[pa.Array]) -> pa.Array:
    """One result, or all of them as a list if the type is a list."""
    if not pa.types.is_list(call.type):
        return _with_nulls(results[0].cast(call.type), values)
    count = len(results)
    columns = np.arange(values.count * count).reshape(count, values.count).T.reshape(-1)
    elements = pa.concat_arrays(results).take(pa.array(columns)).cast(call.type.value_type)
    offsets = pa.array(np.arange(0, values.count * count + 1, count, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, elements, type=call.type)
    return _with_nulls(lists, values)


def _with_nulls(results: pa.Array, values: GroupValues) -> pa.Array:
    """The results, with null for a group without values."""
    missing = values.sizes == 0
    if not missing.any():
        return results
    return zset.take(results, pa.array(np.arange(values.count), mask=missing))
