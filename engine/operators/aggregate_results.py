"""Computes the columns of an Aggregate's output from its accumulators, in Spark's types and with Spark's rounding.

sum, avg, min and max of no value are null. An average of integers or doubles is the exact sum, rounded to a double, divided by the count. These
are two roundings, as in Spark if Spark's sum is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Float64s, Int64s
from base.text.months import MONTHS_MAX, MONTHS_MIN, is_months
from engine.accumulators import co_moments, doubles, integers, order
from engine.accumulators.doubles import FINITE_BINS, Digits
from engine.model.aggregates import AggregateCall, ValuesCall
from engine.operators.aggregate_functions import (
    FUNCTIONS,
    TRIED,
    ExtremeFunction,
    MomentFunction,
    TotalFunction,
    ValuesFunction,
)
from engine.operators.aggregate_moments import Spread
from engine.operators.aggregate_plan import CO_MOMENT_SUMS, MOMENT_SUMS, AggregatePlan, ArgumentSums, OrderedArgument
from engine.operators.aggregate_totals import GroupTotals
from engine.operators.aggregate_values import decode_values


class Result(NamedTuple):
    """The values of one call, one for each group. `fits` is False for the groups whose value the result's type cannot hold. There the column
    is null."""

    column: pa.Array
    fits: Bools


def results_of(plan: AggregatePlan, totals: GroupTotals) -> list[Result]:
    """One column per call, with one row per group."""
    return [_with_nulls_if_tried(call, _result(plan, totals, call)) for call in plan.calls]


def _with_nulls_if_tried(call: AggregateCall, result: Result) -> Result:
    """The result, in which nothing is an error if the function is tried: NULL stands for what its type cannot hold."""
    if call.function not in TRIED or result.fits.all():
        return result
    fits = pa.array(result.fits)
    return Result(pc.if_else(fits, result.column, pa.scalar(None, result.column.type)), np.ones_like(result.fits))


def _result(plan: AggregatePlan, totals: GroupTotals, call: AggregateCall) -> Result:
    everything = np.ones(totals.count, dtype=np.bool_)
    if call.argument is None:
        return Result(pa.array(totals.sums[0]), everything)
    shared = plan.sums_of(call)
    counts = totals.sums[shared.count]
    valid = counts > 0
    function = FUNCTIONS[call.function]
    match function:
        case ExtremeFunction():
            return Result(_extreme(plan, totals, call, shared, valid), everything)
        case MomentFunction():
            values, defined = function.result(_spread(plan, totals, shared))
            return Result(pa.array(values, mask=~defined, from_pandas=False), everything)
        case ValuesFunction():
            assert isinstance(call, ValuesCall), call
            values_ = totals.values[OrderedArgument(shared.argument, shared.type, keeps_signed_zeros=True)]
            return Result(function.result(values_.once() if call.distinct else values_, call), everything)
        case TotalFunction(gives="count"):
            return Result(pa.array(counts), everything)
        case TotalFunction() if shared.digits is not None:
            sums = totals.double_sums(plan, shared.digits)
            if function.gives == "average":
                sums = sums / np.where(valid, counts, 1)
            return Result(pa.array(sums, pa.float64(), mask=~valid, from_pandas=False), everything)
        case TotalFunction(gives="sum"):
            return _sum(totals.sums[shared.limbs], call.type, valid)
        case TotalFunction(gives="average"):
            return _average(totals.sums[shared.limbs], shared, counts, call.type, valid)
        case _:
            raise AssertionError(f"{call}: no result")


def _extreme(
    plan: AggregatePlan, totals: GroupTotals, call: AggregateCall, shared: ArgumentSums, valid: Bools
) -> pa.Array:
    encoded = totals.extremes[plan.extreme(call)]
    if order.has_codes(shared.type):
        return order.values_of(encoded.to_numpy(), shared.type, valid)
    return decode_values(encoded, shared.type)


def _spread(plan: AggregatePlan, totals: GroupTotals, shared: ArgumentSums) -> Spread:
    assert shared.products is not None
    names = CO_MOMENT_SUMS if shared.is_pair else MOMENT_SUMS
    sums = {name: totals.digits_of(plan, shared.products + place) for place, name in enumerate(names)}
    if not shared.is_pair:
        sums |= {"y": sums["x"], "xy": sums["xx"], "xy scaled": sums["xx scaled"]}
        sums |= {"yy": sums["xx"], "yy scaled": sums["xx scaled"]}
    wrong = np.zeros(totals.count, np.bool_)
    for name in "xy":
        wrong[sums[name].groups[sums[name].bins >= FINITE_BINS]] = True
    finite = {name: Digits(*(column[~wrong[part.groups]] for column in part)) for name, part in sums.items()}
    counts = totals.sums[shared.count]

    def moment(a: str, b: str) -> Float64s:
        product = a + b
        result = co_moments.co_moments(counts, finite[a], finite[b], finite[product], finite[f"{product} scaled"])
        return np.where(wrong, np.nan, result)

    xx = moment("x", "x")
    xy, yy = (moment("x", "y"), moment("y", "y")) if shared.is_pair else (xx, xx)
    x, y = (np.where(wrong, np.nan, doubles.round_sums(finite[name], totals.count)) for name in "xy")
    return Spread(count=counts, x=x, y=y, xx=xx, xy=xy, yy=yy)


def _sum(limbs: Int64s, type_: pa.DataType, valid: Bools) -> Result:
    if pa.types.is_decimal(type_):
        column, fits = integers.decimal_totals(limbs, type_, valid)
        return Result(column, fits | ~valid)
    fits = _fits(limbs, type_)
    whole = pa.array(integers.int64_totals(limbs), mask=~(valid & fits))
    return Result(whole.view(type_), fits | ~valid)


def _fits(limbs: Int64s, type_: pa.DataType) -> Bools:
    fits = integers.fits_int64(limbs)
    if not is_months(type_):
        return fits
    total = integers.int64_totals(limbs)
    return fits & (total >= MONTHS_MIN) & (total <= MONTHS_MAX)


def _average(limbs: Int64s, shared: ArgumentSums, counts: Int64s, type_: pa.DataType, valid: Bools) -> Result:
    everything = np.ones(len(counts), dtype=np.bool_)
    if pa.types.is_decimal(shared.type):
        column, fits = integers.decimal_averages(limbs, shared.type.scale, counts, type_, valid)
        return Result(column, fits | ~valid)
    if pa.types.is_duration(shared.type):
        # Spark adds the intervals before it divides, so their sum must fit.
        fits = _fits(limbs, shared.type)
        return Result(pa.array(integers.rounded_averages(limbs, counts), mask=~valid).view(type_), fits | ~valid)
    averages = integers.double_totals(limbs) / np.where(valid, counts, 1)
    return Result(pa.array(averages, pa.float64(), mask=~valid, from_pandas=False), everything)
