"""The aggregate functions of a Window: what each function that GROUP BY has gives for the rows of every frame.

A total of a frame is the difference of two running totals. They are kept as the aggregates keep theirs, exact integers in limbs and doubles in
digits (engine/accumulators), so the difference is exact too, and is rounded once. This holds for sums, and for the products of which variances
and correlations are made. The extremes of all frames are found by doubling: the extreme of 2**k neighbours is that of two times 2**(k-1) of
them, and a frame is covered by two such runs, which may overlap.

The functions of all values (lists, percentiles, the mode, numbers of distinct values) have no inverse. Each frame is read whole, and a step
costs the lengths of all frames. That many values would not fit into memory at once, so the frames are taken in portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s
from engine.accumulators import doubles, integers, order
from engine.accumulators.canonical import canonical, one_nan
from engine.accumulators.doubles import Digits
from engine.model.aggregates import AggregateCall, AggregateFunction, ValuesCall
from engine.model.node import Column
from engine.model.ordered import OWN_FUNCTIONS, WindowCall
from engine.operators.aggregate_errors import ResultOverflow
from engine.operators.aggregate_functions import FUNCTIONS, ValuesFunction
from engine.operators.aggregate_plan import AggregatePlan, ArgumentSums, ExtremeOfArgument, aggregate_plan_of
from engine.operators.aggregate_results import results_of
from engine.operators.aggregate_totals import GroupTotals, products_of, zero_totals
from engine.operators.aggregate_values import GroupValues, encode_values, sorted_values
from engine.operators.window_order import Bounds, Rows, Wrong, places_of_values
from engine.rows import zset

PORTION_ROWS_MAX = 1 << 21
"""The rows of frames that are read at once: some 100 MB while they are sorted. A frame with more rows is a portion of its own."""


def frame_aggregates(calls: Sequence[WindowCall], rows: Rows, bounds: Bounds) -> tuple[list[pa.Array], Wrong | None]:
    """(one column per call with the value of every row, the rows of which a value does not fit its type if there are any). `bounds`: the frames
    of the rows. Neighbouring rows with the same frame share its values. Raises ListTooLong."""
    low, high = bounds
    new = np.ones(rows.count, np.bool_)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    number = np.cumsum(new) - 1
    frames = low[new], high[new]
    summed = [call for call in calls if not _is_of_all_values(call)]
    columns, wrong = _totals(summed, rows, frames) if summed else ([], None)
    totals = iter(columns)
    made = [_of_all_values(call, rows, frames) if _is_of_all_values(call) else next(totals) for call in calls]
    values = [zset.take(column, pa.array(number)) for column in made]
    return values, None if wrong is None else Wrong(wrong.rows[number], wrong.error)


def _is_of_all_values(call: WindowCall) -> bool:
    return call.distinct or isinstance(FUNCTIONS[_name(call)], ValuesFunction)


def _name(call: WindowCall) -> AggregateFunction:
    assert call.function not in OWN_FUNCTIONS, call
    return cast(AggregateFunction, call.function)


class _Argument:
    """The values of an argument that are not null, in order. `raw`: those values with their -0.0. `low`, `high`: the frames, as positions among
    these values."""

    def __init__(self, rows: Rows, column: Column, frames: Bounds) -> None:
        values = rows.values(column)
        self.low, self.high = frames
        if values.null_count:
            _, before = places_of_values(values)
            self.low, self.high = before[self.low], before[self.high]
            values = values.drop_null()
        self.raw = one_nan(values)

    @cached_property
    def values(self) -> pa.Array:
        return canonical(self.raw)

    def sums(self, numbers: Int64s) -> Int64s:
        """The sum of the numbers of every frame."""
        running = np.concatenate([[0], np.cumsum(numbers)])
        result: Int64s = running[self.high] - running[self.low]
        return result


# From running totals


def _totals(calls: Sequence[WindowCall], rows: Rows, frames: Bounds) -> tuple[list[pa.Array], Wrong | None]:
    """(one column per call with the value of every frame, the frames of which a value does not fit its type)."""
    aggregates = tuple(
        AggregateCall(_name(call), call.argument, False, call.type, signed_zeros=call.signed_zeros) for call in calls
    )
    plan = aggregate_plan_of((), aggregates, [column.type for column in rows.of.table], append_only=True)
    totals = zero_totals(plan, len(frames[0]))
    totals.sums[0] = frames[1] - frames[0]
    for shared in plan.argument_sums:
        _add_argument(plan, shared, _Argument(rows, shared.argument, frames), totals)
    results = results_of(plan, totals)
    fits = np.logical_and.reduce([result.fits for result in results])
    error = ResultOverflow(
        "A sum or average of a window exceeds the type of its result.",
        "Spark's ANSI mode fails here too: cast the argument to a wider type, or filter the rows that are wrong.",
    )
    return [result.column for result in results], None if fits.all() else Wrong(~fits, error)


def _add_argument(plan: AggregatePlan, shared: ArgumentSums, argument: _Argument, to: GroupTotals) -> None:
    values = argument.values
    each, ones = np.arange(len(values)), np.ones(len(values), np.int64)
    to.sums[shared.count] = argument.high - argument.low
    if shared.products is not None:
        products = products_of(plan, shared, values, ones, each)
        to.digits = doubles.merge(to.digits, *(_sums_of_frames(argument, part, plan.digit_sums) for part in products))
    if shared.digits is not None:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        exploded = doubles.explode(numbers, ones, each * plan.digit_sums + shared.digits)
        to.digits = doubles.merge(to.digits, _sums_of_frames(argument, exploded, plan.digit_sums))
    elif shared.limbs.start < shared.limbs.stop:
        limbs = integers.sum_limbs(values, ones, each, len(values))
        to.sums[shared.limbs] = integers.normalise(np.stack([argument.sums(limb) for limb in limbs]))
    for number, extreme in enumerate(plan.extremes):
        if extreme.argument == shared.argument:
            to.extremes[number] = _extremes(argument, extreme)


def _sums_of_frames(argument: _Argument, exploded: Digits, sums: int) -> Digits:
    """The exact sums of doubles of all frames, in normal form. `exploded`: one of the sums of doubles, of each value by itself. The number of a
    group is that of the value, and in the result that of the frame, times `sums`, plus that of the sum.

    The digits of one bin are summed after those of another, so that a step needs memory for the digits that are there and not for all bins that
    there could be."""
    parts = [doubles.empty()]
    value, number = np.divmod(exploded.groups, sums)
    for bin_ in np.unique(exploded.bins).tolist():
        mine = exploded.bins == bin_
        column = np.zeros(len(argument.raw), np.int64)
        column[value[mine]] = exploded.digits[mine]
        totals = argument.sums(column)
        frames = np.flatnonzero(totals)
        parts.append(Digits(frames * sums + int(number[0]), np.full(len(frames), bin_), totals[frames]))
    return doubles.normalise(doubles.merge(*parts))


def _extremes(argument: _Argument, extreme: ExtremeOfArgument) -> pa.Array:
    """The extreme of every frame in the form of `GroupTotals.extremes`."""
    low, high = argument.low, argument.high
    values = argument.raw if extreme.keeps_signed_zeros else argument.values
    if extreme.coded:
        return pa.array(_doubling(order.codes_of(values), low, high, highest=extreme.highest))
    encoded = encode_values(values)
    ranks = pc.rank(encoded, tiebreaker="dense").to_numpy().astype(np.int64)
    known, first = np.unique(ranks, return_index=True)
    assert len(known) == 0 or known[-1] == len(known)
    found = _doubling(ranks, low, high, highest=extreme.highest)
    some = high > low
    return encoded.take(pa.array(np.append(first, 0)[np.where(some, found - 1, len(first))], mask=~some))


def _doubling(codes: Int64s, low: Int64s, high: Int64s, *, highest: bool) -> Int64s:
    """The highest or lowest code of every frame; of an empty one, the code that is beyond all."""
    better = np.maximum if highest else np.minimum
    found = np.full(len(low), order.BELOW_ALL if highest else order.ABOVE_ALL)
    lengths = high - low
    # For an integer below 2**53, frexp is exact, and its exponent is the number of bits.
    levels = np.frexp(lengths.astype(np.float64))[1].astype(np.int64) - 1
    runs, width = codes, 1
    for level in range(int(levels.max(initial=-1)) + 1):
        if level:
            runs, width = better(runs[:-width], runs[width:]), 2 * width
        mine = np.flatnonzero(levels == level)
        found[mine] = better(runs[low[mine]], runs[high[mine] - width])
    return found


# From all values of a frame


def _of_all_values(call: WindowCall, rows: Rows, frames: Bounds) -> pa.Array:
    """The value of every frame."""
    assert call.argument is not None
    argument = _Argument(rows, call.argument, frames)
    encoded = encode_values(argument.raw)
    parts = [pa.nulls(0, call.type)]
    for low, high in _portions(argument.low, argument.high):
        lengths = high - low
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1]) - np.repeat(ends - lengths - low, lengths)
        groups = np.repeat(np.arange(len(lengths)), lengths)
        read = _FrameRows(argument.raw.type, len(lengths), groups, encoded.take(pa.array(places)))
        parts.append(_result(call, read))
    return pa.concat_arrays(parts)


class _FrameRows(NamedTuple):
    """The rows of some frames, one frame after another: of each row the number of its frame and its value, encoded."""

    type: pa.DataType
    length: int
    frames: Int64s
    encoded: pa.Array


def _result(call: WindowCall, read: _FrameRows) -> pa.Array:
    """The value of each of these frames."""
    function = FUNCTIONS[_name(call)]
    ones = np.ones(len(read.frames), np.int64)
    if isinstance(function, ValuesFunction) and function.follows_rows:
        values = GroupValues(*read, ones)
    else:
        values, _ = sorted_values(*read, ones)
    if isinstance(function, ValuesFunction):
        of = ValuesCall(_name(call), call.argument, False, call.type, field=call.field, parameters=call.parameters)
        return function.result(values, of)
    assert call.function == "count" and call.distinct, call
    return pa.array(np.diff(values.starts))


def _portions(low: Int64s, high: Int64s) -> Iterator[Bounds]:
    """Neighbouring frames that have PORTION_ROWS_MAX rows together at most, but always at least one frame."""
    ends = np.cumsum(high - low)
    begin = 0
    while begin < len(low):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + PORTION_ROWS_MAX, side="right")))
        yield low[begin:end], high[begin:end]
        begin = end
