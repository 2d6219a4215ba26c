"""The functions of a Window: ranks, values of other rows, and totals of frames. Each gives its values in all rows of all partitions at once.

A total of a frame is the difference of two running totals. They are kept as the aggregates keep theirs, exact integers in limbs and doubles in
digits (engine/accumulators), so the difference is exact too, and is rounded once. The extremes of all frames are found by doubling: the extreme
of 2**k neighbours is that of two times 2**(k-1) of them, and a frame is covered by two such runs, which may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s
from engine.accumulators import doubles, integers, order
from engine.accumulators.canonical import canonical, one_nan
from engine.accumulators.doubles import Digits
from engine.errors import DataError
from engine.model.aggregates import AggregateCall, AggregateFunction
from engine.model.node import Column
from engine.model.ordered import Frame, Window, WindowCall
from engine.operators.aggregate_errors import ResultOverflow
from engine.operators.aggregate_plan import AggregatePlan, ArgumentSums, ExtremeOfArgument, aggregate_plan_of
from engine.operators.aggregate_results import results_of
from engine.operators.aggregate_totals import Totals, zero_totals
from engine.operators.window_order import Bounds, RangeExceeded, Rows
from engine.rows import zset


class Wrong(NamedTuple):
    """The rows that are in error: for which a call raises in Spark's ANSI mode. `error`: that of one of them."""

    rows: Bools
    error: DataError


def call_values(node: Window, rows: Rows) -> tuple[list[pa.Array], Wrong | None]:
    """(one column per call with the value of every row, the rows that are in error if there are any). Those have any value."""
    columns: list[pa.Array | None] = [None] * len(node.calls)
    found: list[Wrong] = []
    by_frame: dict[Frame, list[int]] = {}
    for number, call in enumerate(node.calls):
        rank = _RANKS.get(call.function)
        if rank is not None:
            columns[number] = pa.array(rank(call, rows)).cast(call.type)
        elif call.function == "lead":
            columns[number] = _lead(call, rows)
        else:
            by_frame.setdefault(call.frame, []).append(number)
    for frame, numbers in by_frame.items():
        bounds, exceeding = rows.bounds(frame, node.order)
        if exceeding is not None:
            found.append(Wrong(exceeding, RangeExceeded.of()))
        totals = [number for number in numbers if node.calls[number].function not in _NTH]
        for number in set(numbers).difference(totals):
            columns[number] = _nth(node.calls[number], rows, *bounds)
        if totals:
            made, overflowing = _frame_totals([node.calls[number] for number in totals], rows, bounds)
            found += [] if overflowing is None else [overflowing]
            for number, column in zip(totals, made, strict=True):
                columns[number] = column
    wrong = Wrong(np.logical_or.reduce([each.rows for each in found]), found[0].error) if found else None
    return [column for column in columns if column is not None], wrong


_NTH = ("first_value", "last_value", "nth_value")


# Ranks


def _row_number(call: WindowCall, rows: Rows) -> Int64s:
    return rows.here - rows.start + 1


def _rank(call: WindowCall, rows: Rows) -> Int64s:
    return rows.peer_start - rows.start + 1


def _dense_rank(call: WindowCall, rows: Rows) -> Int64s:
    return rows.peers - rows.peers[rows.start] + 1


def _percent_rank(call: WindowCall, rows: Rows) -> object:
    others = rows.end - rows.start - 1
    return (rows.peer_start - rows.start) / np.maximum(others, 1)


def _cume_dist(call: WindowCall, rows: Rows) -> object:
    return (rows.peer_end - rows.start) / (rows.end - rows.start)


def _ntile(call: WindowCall, rows: Rows) -> Int64s:
    """The first tiles have one row more than the others if the rows cannot be divided evenly."""
    size, larger = np.divmod(rows.end - rows.start, call.offset)
    place = rows.here - rows.start
    in_larger = larger * (size + 1)
    tile: Int64s = np.where(place < in_larger, place // (size + 1), larger + (place - in_larger) // np.maximum(size, 1))
    return tile + 1


_RANKS: dict[str, Callable[[WindowCall, Rows], object]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
}


# Values of other rows


def _lead(call: WindowCall, rows: Rows) -> pa.Array:
    """The value some rows ahead in the partition, or behind if the offset is negative."""
    assert call.argument is not None
    values = rows.values(call.argument)
    if call.ignore_nulls and call.offset:
        known, before = _positions(values)
        if call.offset > 0:
            number = before[rows.here + 1] + call.offset - 1
        else:
            number = before[rows.here] + call.offset
        place = np.append(known, -1)[np.where((number >= 0) & (number < len(known)), number, len(known))]
    else:
        place = rows.here + call.offset
    inside = (place >= rows.start) & (place < rows.end)
    if call.default is None:
        return _take(values, place, inside)
    both = pa.concat_arrays([values, rows.values(call.default)])
    everywhere = np.ones(rows.count, np.bool_)
    return _take(both, np.where(inside, place, rows.here + rows.count), everywhere)


def _nth(call: WindowCall, rows: Rows, low: Int64s, high: Int64s) -> pa.Array:
    """The first, last or nth value of the frame."""
    assert call.argument is not None
    values = rows.values(call.argument)
    known = rows.here
    if call.ignore_nulls:
        known, before = _positions(values)
        low, high = before[low], before[high]
    if call.function == "last_value":
        number = high - 1
    else:
        number = low + (call.offset - 1 if call.function == "nth_value" else 0)
    inside = (number >= low) & (number < high)
    return _take(values, np.append(known, 0)[np.where(inside, number, len(known))], inside)


def _positions(values: pa.Array) -> tuple[Int64s, Int64s]:
    """(the positions of the values that are not null, for each position and the end how many of them are before it)."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(valid), np.concatenate([[0], np.cumsum(valid)])


def _take(values: pa.Array, place: Int64s, inside: Bools) -> pa.Array:
    return values.take(pa.array(place, mask=None if inside.all() else ~inside))


# Totals of frames


def _frame_totals(calls: Sequence[WindowCall], rows: Rows, bounds: Bounds) -> tuple[list[pa.Array], Wrong | None]:
    """The calls over one frame. Neighbouring rows with the same frame share its total. A total that does not fit its type is wrong."""
    low, high = bounds
    new = np.ones(rows.count, np.bool_)
    new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    number = np.cumsum(new) - 1
    frames, frame = (low[new], high[new]), pa.array(number)
    aggregates = tuple(
        AggregateCall(_aggregate(call), call.argument, False, call.type, signed_zeros=call.signed_zeros)
        for call in calls
    )
    plan = aggregate_plan_of((), aggregates, [column.type for column in rows.of.table], append_only=True)
    totals = zero_totals(plan, len(frames[0]))
    totals.sums[0] = frames[1] - frames[0]
    for shared in plan.argument_sums:
        _add_argument(plan, shared, _Argument(rows, shared.argument, frames), totals)
    results = results_of(plan, totals)
    columns = [zset.take(result.column, frame) for result in results]
    fits = np.logical_and.reduce([result.fits for result in results])
    if fits.all():
        return columns, None
    error = ResultOverflow(
        "A sum or average of a window exceeds the type of its result.",
        "Spark's ANSI mode fails here too: cast the argument to a wider type, or filter the rows that are wrong.",
    )
    return columns, Wrong(~fits[number], error)


def _aggregate(call: WindowCall) -> AggregateFunction:
    assert call.function in ("count", "sum", "avg", "min", "max")
    return call.function


class _Argument:
    """The values of an argument that are not null, in order. `raw`: those values with their -0.0. `low`, `high`: the frames, as positions among
    these values."""

    def __init__(self, rows: Rows, column: Column, frames: Bounds) -> None:
        values = rows.values(column)
        self.low, self.high = frames
        if values.null_count:
            _, before = _positions(values)
            self.low, self.high = before[self.low], before[self.high]
            values = values.drop_null()
        self.values = canonical(values)
        self.raw = one_nan(values)

    def sums(self, numbers: Int64s) -> Int64s:
        """The sum of the numbers of every frame."""
        running = np.concatenate([[0], np.cumsum(numbers)])
        result: Int64s = running[self.high] - running[self.low]
        return result


def _add_argument(plan: AggregatePlan, shared: ArgumentSums, argument: _Argument, to: Totals) -> None:
    values = argument.values
    to.sums[shared.count] = argument.high - argument.low
    if shared.digits is not None:
        digits = _digit_sums(argument)
        to.digits = doubles.merge(to.digits, digits._replace(groups=digits.groups * plan.digit_sums + shared.digits))
    elif shared.limbs.start < shared.limbs.stop:
        each = np.arange(len(values))
        limbs = integers.sum_limbs(values, np.ones(len(values), np.int64), each, len(values))
        to.sums[shared.limbs] = integers.normalise(np.stack([argument.sums(limb) for limb in limbs]))
    for number, extreme in enumerate(plan.extremes):
        if extreme.argument == shared.argument:
            to.extremes[number] = _extremes(argument, extreme)


def _digit_sums(argument: _Argument) -> Digits:
    """The exact sums of doubles of all frames, in normal form. The digits of one bin are summed after those of another, so that a step needs
    memory for the digits that are there and not for all bins that there could be."""
    numbers = argument.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    exploded = doubles.explode(numbers, np.ones(len(numbers), np.int64), np.arange(len(numbers)))
    parts = [doubles.empty()]
    for bin_ in np.unique(exploded.bins).tolist():
        mine = exploded.bins == bin_
        column = np.zeros(len(numbers), np.int64)
        column[exploded.groups[mine]] = exploded.digits[mine]
        sums = argument.sums(column)
        frames = np.flatnonzero(sums)
        parts.append(Digits(frames, np.full(len(frames), bin_), sums[frames]))
    return doubles.normalise(doubles.merge(*parts))


def _extremes(argument: _Argument, extreme: ExtremeOfArgument) -> pa.Array:
    """The extreme of every frame in the form of `Totals.extremes`."""
    low, high = argument.low, argument.high
    values = argument.raw if extreme.raw else argument.values
    if extreme.coded:
        return pa.array(_doubling(order.codes_of(values), low, high, highest=extreme.highest))
    encoded = order.encode(values)
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
