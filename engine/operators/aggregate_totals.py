"""The accumulators of some groups in memory, of a batch or of the state, and how they are read from traces and written to them.

Sums are in normal form (engine/accumulators). A trace gets the new normal form minus the old one. These differences are linear, so that runs
may be merged in any order. They are bounded, so that they cannot overflow.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Float64s, Int64s, fill
from engine.accumulators import co_moments, doubles, integers, order
from engine.accumulators.doubles import Digits
from engine.operators.aggregate_plan import (
    DIGITS_TRACE,
    TOTALS_TRACE,
    AggregatePlan,
    ArgumentSums,
    ExtremeOfArgument,
    OrderedArgument,
)
from engine.operators.aggregate_values import GroupValues, encode_values
from engine.operators.context import StepContext
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.trace import Trace


@dataclass(frozen=True)
class GroupKeys:
    """The groups that a step reads or changes. `columns` are canonical. Without group columns there is one constant column, because a table
    needs a column."""

    columns: pa.Table
    hashes: Hashes

    @property
    def count(self) -> int:
        return len(self.hashes)

    def arrays(self, rows: Int64s | None = None) -> list[pa.Array]:
        """The columns, at all rows or at `rows`."""
        chosen = None if rows is None else pa.array(rows)
        return [c.combine_chunks() if chosen is None else zset.take(c, chosen) for c in self.columns.columns]


@dataclass
class GroupTotals:
    """The accumulators of all groups that a step reads or changes. `sums[i, g]`: sum i of group g. `digits`: their group numbers are g *
    plan.digit_sums + number. `extremes[i]`: the encoded values of plan.extremes[i], one per group. They are int64 without nulls (ABOVE_ALL or
    BELOW_ALL if a group has no value), or binary with nulls."""

    sums: Int64s
    digits: Digits
    extremes: list[pa.Array]
    values: dict[OrderedArgument, GroupValues] = field(default_factory=dict)
    """All values of the arguments of plan.values; empty until they are read."""

    @property
    def count(self) -> int:
        return int(self.sums.shape[1])

    def digits_of(self, plan: AggregatePlan, number: int) -> Digits:
        """The sum of doubles of every group, exactly."""
        mine = self.digits.groups % plan.digit_sums == number
        groups, bins, digits = (column[mine] for column in self.digits)
        return Digits(groups // plan.digit_sums, bins, digits)

    def double_sums(self, plan: AggregatePlan, number: int) -> Float64s:
        """The rounded sum of doubles of every group."""
        return doubles.round_sums(self.digits_of(plan, number), self.count)


def zero_totals(plan: AggregatePlan, count: int) -> GroupTotals:
    """The totals of `count` groups without rows."""
    extremes = [_no_extremes(extreme, count) for extreme in plan.kept_extremes()]
    return GroupTotals(np.zeros((plan.sums, count), np.int64), doubles.empty(), extremes)


def add_values(
    plan: AggregatePlan, shared: ArgumentSums, values: pa.Array, weights: Int64s, groups: Int64s, *, to: GroupTotals
) -> None:
    """Adds canonical values without nulls, times their weights, to an argument's accumulators. The result is not in normal form."""
    np.add.at(to.sums[shared.count], groups, weights)
    if shared.products is not None:
        to.digits = doubles.merge(to.digits, *products_of(plan, shared, values, weights, groups))
    if shared.digits is not None:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        exploded = doubles.explode(numbers, weights, groups * plan.digit_sums + shared.digits)
        to.digits = doubles.merge(to.digits, exploded)
    elif shared.limbs.start < shared.limbs.stop:
        to.sums[shared.limbs] += integers.sum_limbs(values, weights, groups, to.count)


def products_of(
    plan: AggregatePlan, shared: ArgumentSums, values: pa.Array, weights: Int64s, groups: Int64s
) -> list[Digits]:
    """The sums that moments need, each under its own number. A part has one of them."""
    assert shared.products is not None
    columns = values.flatten() if shared.is_pair else [values]
    numbers = [column.to_numpy(zero_copy_only=False) for column in columns]
    first = groups * plan.digit_sums + shared.products
    parts = [doubles.explode(column, weights, first + number) for number, column in enumerate(numbers)]
    for x, y in itertools.combinations_with_replacement(numbers, 2):
        normal, scaled = co_moments.explode_products(x, y, weights, groups)
        for part in (normal, scaled):
            parts.append(Digits(part.groups * plan.digit_sums + (len(parts) + shared.products), part.bins, part.digits))
    return parts


def add_extreme(number: int, extreme: ExtremeOfArgument, values: pa.Array, groups: Int64s, to: GroupTotals) -> None:
    """Updates an extreme by canonical values without nulls, all of positive weight."""
    if extreme.coded:
        best = to.extremes[number].to_numpy().copy()
        (np.maximum if extreme.highest else np.minimum).at(best, groups, order.codes_of(values))
        to.extremes[number] = pa.array(best)
    else:
        _update_binary(number, extreme, encode_values(values), groups, to)


def combine(plan: AggregatePlan, old: GroupTotals, fresh: GroupTotals) -> GroupTotals:
    """The sum of both, in normal form."""
    sums = old.sums + fresh.sums
    for shared in plan.argument_sums:
        if shared.limbs.start < shared.limbs.stop:
            sums[shared.limbs] = integers.normalise(sums[shared.limbs])
    digits = doubles.normalise(doubles.merge(old.digits, fresh.digits))
    extremes = [
        (pc.max_element_wise if extreme.highest else pc.min_element_wise)(a, b, skip_nulls=True)
        for extreme, a, b in zip(plan.kept_extremes(), old.extremes, fresh.extremes, strict=True)
    ]
    return GroupTotals(sums, digits, extremes)


class TotalsTraces:
    """The traces of totals and of digits, which have the numbers 0 and 1."""

    def __init__(self, plan: AggregatePlan, keys: GroupKeys, context: StepContext) -> None:
        self._plan, self._keys = plan, keys
        types = [column.type for column in keys.columns.columns]
        self._width = len(types)
        key = range(self._width)
        self.totals = context.trace(TOTALS_TRACE, types, key, plan.combines(), plan.accumulator_types())
        self.digits: Trace | None = None
        if plan.digit_sums:
            self.digits = context.trace(DIGITS_TRACE, [*types, pa.int16(), pa.int16()], key)

    def stored_keys(self) -> pa.Table:
        """Every group of which the state has totals."""
        return self.totals.scan().select(range(self._width))

    def read(self) -> GroupTotals:
        """The totals of the keys."""
        totals = zero_totals(self._plan, self._keys.count)
        matches = self.totals.probe(self._keys.columns, self._keys.hashes)
        accumulators = matches.rows.columns[self._width :]
        for i in range(self._plan.sums):
            np.add.at(totals.sums[i], matches.probe, accumulators[i].to_numpy())
        for number, extreme in enumerate(self._plan.kept_extremes()):
            column = accumulators[self._plan.sums + number].combine_chunks()
            if extreme.coded:
                best = totals.extremes[number].to_numpy().copy()
                (np.maximum if extreme.highest else np.minimum).at(best, matches.probe, column.to_numpy())
                totals.extremes[number] = pa.array(best)
            else:
                _update_binary(number, extreme, column, matches.probe, totals)
        if self.digits is not None:
            totals.digits = self._read_digits(self.digits)
        return totals

    def write(self, old: GroupTotals, new: GroupTotals) -> None:
        """Appends the difference of the totals to the traces."""
        change = new.sums - old.sums
        moved = change.any(axis=0)
        for a, b in zip(old.extremes, new.extremes, strict=True):
            moved |= fill(pc.not_equal(a, b), True).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(moved)
        columns = [*self._keys.arrays(rows), *(pa.array(row[rows]) for row in change)]
        columns += [extreme.take(pa.array(rows)) for extreme in new.extremes]
        self.totals.append(_table(self.totals, columns), self._keys.hashes[rows])
        if self.digits is not None:
            self._write_digits(self.digits, doubles.merge(new.digits, doubles.negate(old.digits)))

    def _read_digits(self, trace: Trace) -> Digits:
        matches = trace.probe(self._keys.columns, self._keys.hashes)
        numbers, bins, digits = (matches.rows.column(self._width + i).to_numpy().astype(np.int64) for i in range(3))
        return doubles.merge(Digits(matches.probe * self._plan.digit_sums + numbers, bins, digits))

    def _write_digits(self, trace: Trace, change: Digits) -> None:
        groups, numbers = np.divmod(change.groups, self._plan.digit_sums)
        columns = [
            *self._keys.arrays(groups),
            pa.array(numbers.astype(np.int16)),
            pa.array(change.bins.astype(np.int16)),
            pa.array(change.digits),
        ]
        trace.append(_table(trace, columns), self._keys.hashes[groups])


def _table(trace: Trace, columns: list[pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(columns, trace.layout.schema.names[:-1])


def _no_extremes(extreme: ExtremeOfArgument, count: int) -> pa.Array:
    if extreme.coded:
        return pa.array(np.full(count, order.BELOW_ALL if extreme.highest else order.ABOVE_ALL))
    return pa.nulls(count, pa.binary())


def _update_binary(number: int, extreme: ExtremeOfArgument, encoded: pa.Array, groups: Int64s, to: GroupTotals) -> None:
    how = "max" if extreme.highest else "min"
    both = pa.table(
        {
            "group": np.concatenate([np.arange(to.count), groups]),
            "value": pa.concat_arrays([to.extremes[number], encoded]),
        }
    )
    best = both.group_by("group", use_threads=False).aggregate([("value", how)])
    places = np.empty(to.count, np.int64)
    places[best.column("group").to_numpy()] = np.arange(to.count)
    to.extremes[number] = zset.take(best.column(f"value_{how}"), pa.array(places))
