"""The values that an aggregate stores: distinct ones, and all values in order.

`read_ordered` finds minima and maxima at the ends of the runs, and reads all values of the changed groups for the functions that need them.
`find_appearing` tells which distinct values came and went.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from base.arrays import Int64s, fill
from engine.operators.aggregate_errors import negative_count
from engine.operators.aggregate_plan import ORDERED_TRACE, AggregatePlan, ExtremeOfArgument, OrderedArgument
from engine.operators.aggregate_totals import GroupKeys, GroupTotals
from engine.operators.aggregate_values import GroupValues, encode_values, sorted_values
from engine.operators.context import StepContext
from engine.rows.hashing import Hashes, hash_columns
from engine.state.extremes import ValueChange, search
from engine.state.trace import Matches, Trace

Net = tuple[pa.Array, pa.Array, Int64s, Int64s]
"""(values, encoded values, weights, groups): every pair of group and value once, with a weight that is not 0."""

_TOP = np.uint64(0xFFFFFFFF00000000)
_LOW_BITS = np.uint64(32)


class ValueTraces:
    """Two traces (group, argument, value) -> weight: one of int64 values and one of binary values. Each is opened when it is needed."""

    def __init__(
        self, plan: AggregatePlan, keys: GroupKeys, context: StepContext, first_trace: int, ordered: bool
    ) -> None:
        self._keys, self._context, self._first_trace, self._ordered = keys, context, first_trace, ordered
        self._types = [column.type for column in keys.columns.columns]
        self._open: dict[pa.DataType, Trace] = {}

    def trace(self, value: pa.DataType) -> Trace:
        if value not in self._open:
            types = [*self._types, pa.int16(), value]
            key = range(len(types) - 1 if self._ordered else len(types))
            trace_number = self._first_trace + (value == pa.binary())
            self._open[value] = self._context.trace(trace_number, types, key, ordered=self._ordered)
        return self._open[value]

    def keys(self, argument: int, groups: Int64s | None = None) -> list[pa.Array]:
        """The columns (group, argument) of these groups; of all groups if None."""
        length = self._keys.count if groups is None else len(groups)
        return [*self._keys.arrays(groups), pa.array(np.full(length, argument, np.int16))]

    def hashes(self, argument: int, groups: Int64s, values: pa.Array | None = None) -> Hashes:
        group = self._keys.hashes[groups]
        parts = [pa.array(group), pa.array(np.full(len(groups), argument, np.int16))]
        own = hash_columns(parts if values is None else [*parts, values], len(groups))
        return (group & _TOP) | (own >> _LOW_BITS)

    def append(self, trace: Trace, columns: list[pa.Array], weights: Int64s, hashes: Hashes) -> None:
        rows = [*columns, pa.array(weights)]
        trace.append(pa.Table.from_arrays(rows, trace.layout.schema.names[:-1]), hashes)


def find_appearing(
    keys: GroupKeys, argument: OrderedArgument, net: Net, traces: ValueTraces
) -> tuple[pa.Array, Int64s, Int64s]:
    """(values, +1 or -1, groups) of the values that appear in or vanish from their group. The change `net` is appended to the traces."""
    values, encoded, weights, groups = net
    trace = traces.trace(encoded.type)
    columns = [*traces.keys(argument.number, groups), encoded]
    hashes = traces.hashes(argument.number, groups, encoded)
    asked = pa.Table.from_arrays(columns, trace.layout.schema.names[: len(columns)])
    before = trace.probe(asked, hashes).totals(len(groups))
    after = before + weights
    if (after < 0).any():
        raise negative_count(keys, int(groups[np.flatnonzero(after < 0)[0]]))
    traces.append(trace, columns, weights, hashes)
    change = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    rows = np.flatnonzero(change)
    return values.take(pa.array(rows)), change[rows], groups[rows]


def no_change(argument: OrderedArgument) -> Net:
    no_values, no_numbers = pa.array([], argument.type), np.zeros(0, np.int64)
    return no_values, encode_values(no_values), no_numbers, no_numbers


def read_ordered(
    plan: AggregatePlan,
    keys: GroupKeys,
    net: Callable[[OrderedArgument], Net],
    context: StepContext,
    *,
    old: GroupTotals,
    new: GroupTotals,
) -> None:
    """Sets the extremes and the values before and after the change, from the traces of values in order. The change is appended to the traces."""
    traces = ValueTraces(plan, keys, context, ORDERED_TRACE, ordered=True)
    before: dict[ExtremeOfArgument, pa.Array] = {}
    after: dict[ExtremeOfArgument, pa.Array] = {}
    for argument in plan.ordered_arguments():
        _, encoded, weights, groups = net(argument)
        trace = traces.trace(encoded.type)
        columns = traces.keys(argument.number)
        asked = pa.Table.from_arrays(columns, trace.layout.schema.names[: len(columns)])
        hashes = traces.hashes(argument.number, np.arange(keys.count))
        for extreme in plan.extremes:
            if extreme.values == argument and not plan.append_only:
                found = search(trace, asked, hashes, ValueChange(groups, encoded, weights), extreme.highest)
                if len(found.below_zero):
                    raise negative_count(keys, int(found.below_zero[0]))
                before[extreme], after[extreme] = (_without_nulls(extreme, a) for a in (found.before, found.after))
        if argument in plan.values:
            found_rows = trace.probe(asked, hashes)
            change = (groups, encoded, weights)
            old.values[argument], new.values[argument] = _all_values(argument, keys, found_rows, change)
        traces.append(trace, [*traces.keys(argument.number, groups), encoded], weights, hashes[groups])
    if before:
        old.extremes, new.extremes = ([found[extreme] for extreme in plan.extremes] for found in (before, after))


def store_ordered(
    plan: AggregatePlan, keys: GroupKeys, net: Callable[[OrderedArgument], Net], context: StepContext
) -> None:
    """Appends the change to the traces of values in order, and reads nothing."""
    traces = ValueTraces(plan, keys, context, ORDERED_TRACE, ordered=True)
    for argument in plan.ordered_arguments():
        _, encoded, weights, groups = net(argument)
        trace, hashes = traces.trace(encoded.type), traces.hashes(argument.number, np.arange(keys.count))
        traces.append(trace, [*traces.keys(argument.number, groups), encoded], weights, hashes[groups])


def _all_values(
    argument: OrderedArgument, keys: GroupKeys, matches: Matches, change: tuple[Int64s, pa.Array, Int64s]
) -> tuple[GroupValues, GroupValues]:
    """The values of the groups before and after a change of (groups, encoded values, weights), which is not in the trace yet. `matches`: what
    the trace has of the groups."""
    *_, values, stored_weights = matches.rows.columns
    stored = (matches.probe, values.combine_chunks(), stored_weights.to_numpy())
    groups, encoded, weights = change
    both = (
        np.concatenate([stored[0], groups]),
        pa.concat_arrays([stored[1], encoded]),
        np.concatenate([stored[2], weights]),
    )
    before, _ = sorted_values(argument.type, keys.count, *stored)
    after, wrong = sorted_values(argument.type, keys.count, *both)
    if len(wrong):
        raise negative_count(keys, int(wrong[0]))
    return before, after


def _without_nulls(extreme: ExtremeOfArgument, encoded: pa.Array) -> pa.Array:
    return fill(encoded, 0) if extreme.coded else encoded
