"""Aggregate: one row per group. A step costs what the groups that change cost.

The result is exact, supports retractions, and does not depend on the order of the rows. For every group in the change, the step reads the totals
before from the traces and computes the totals after. If their results differ, it outputs the old row with weight -1 and the new one with weight
+1. A group exists while its count of rows is positive. Without group columns there is exactly one group, which always exists. The worker that
owns slot 0 outputs its first row in the first step of the node.

min and max: if the input only inserts, they are accumulators. If it can retract, the trace stores all values in order and the next one is found
from the ends of its runs (engine/state/extremes.py states the bound on the rows that are read).

Functions of all values (collect_list, percentile, ...): the same trace stores all values, and those of the changed groups are read.

distinct: a trace stores the values with their weights. The values that appear or vanish are added to the same accumulators.

State and hashes: the top 32 bits of the hash of every row of every trace are those of its group's hash. So all state of a group is in the
group's slot, even if the key of a trace has more columns than the group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Bools, Int64s
from base.text.type_names import sql_type
from engine.accumulators import doubles
from engine.accumulators.canonical import canonical, one_nan
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.node import Column
from engine.operators import node_texts
from engine.operators.aggregate_errors import USE_A_WIDER_TYPE, ResultOverflow, negative_count, text_of_group
from engine.operators.aggregate_functions import FUNCTIONS, ExtremeFunction, ValuesFunction
from engine.operators.aggregate_plan import DISTINCT_TRACE, AggregatePlan, OrderedArgument, aggregate_plan_of
from engine.operators.aggregate_results import Result, results_of
from engine.operators.aggregate_stored_values import Net, ValueTraces, find_appearing, no_change, read_ordered
from engine.operators.aggregate_totals import (
    GroupKeys,
    GroupTotals,
    TotalsTraces,
    add_extreme,
    add_values,
    combine,
    zero_totals,
)
from engine.operators.aggregate_values import encode_values
from engine.operators.arrangement import by_group
from engine.operators.context import StepContext
from engine.operators.descriptor import ContentOfState, Fed, Growth, Operator, OutputFacts, StateUse, Wording, always
from engine.operators.error_rows import ErrorRows
from engine.operators.keys import ColocatedKey, distinct_keys
from engine.operators.names import OF_GROUP_AND_CALLS
from engine.rows import zset
from engine.rows.hashing import identity_columns

COUNT_MAX = 1 << 62
"""Counts are int64. A change that could bring one past this bound is refused, so that no count can overflow."""


def step_aggregate(node: Aggregate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The change of the output. Raises NegativeCount and ResultOverflow, which name the group. The caller then discards the step's changes of
    the state."""
    delta = inputs[0]
    first = is_first_output(node.group, context)
    if delta.num_rows == 0 and not first:
        return zset.empty(node.types)
    append_only = all(context.append_only)
    plan = aggregate_plan_of(node.group, node.calls, delta.schema.types[:-1], append_only)
    batch = Batch(plan, delta, context.key(0, node.group))
    fresh = fresh_totals(plan, batch, context)
    return advance_totals(plan, node.types, batch.keys, fresh, context, first=first, batch=batch)


def is_first_output(group: Sequence[Column], context: StepContext) -> bool:
    """Whether the only row of an aggregate without group columns is output in this step, for the first time."""
    return not group and context.is_first and context.step.owns_keyless


def advance_totals(
    plan: AggregatePlan,
    types: Sequence[pa.DataType],
    keys: GroupKeys,
    fresh: GroupTotals,
    context: StepContext,
    *,
    first: bool,
    batch: Batch | None = None,
) -> pa.Table:
    """Adds the totals of a change to the state, and returns the change of the output. `first`: see is_first_output. `batch`: the change, if the
    plan may need values in order: minima and maxima of an input that can retract, and functions of all values."""
    traces = TotalsTraces(plan, keys, context)
    old = traces.read()
    try:
        new = combine(plan, old, fresh)
    except OverflowError as error:
        raise ResultOverflow.of_sum() from error
    check_counts(plan, keys, new)
    traces.write(old, new)
    if batch is not None and plan.ordered_arguments():
        read_ordered(plan, keys, batch.net, context, old=old, new=new)
    existed = np.full(keys.count, not first) if not plan.group else old.sums[0] > 0
    exists = np.ones(keys.count, np.bool_) if not plan.group else new.sums[0] > 0
    before = fit_results(plan, keys, existed, results_of(plan, old), context.errors, sign=-1)
    after = fit_results(plan, keys, exists, results_of(plan, new), context.errors, sign=1)
    return _difference(plan, types, keys, before, after)


def keys_of(columns: Sequence[pa.Array], length: int, key: ColocatedKey) -> tuple[GroupKeys, Int64s]:
    """(each group of the change once, the group of every row). Without columns there is one group. `key` says which of the columns decide the
    worker."""
    if not columns:
        return GroupKeys(pa.table({"k0": pa.array([0], pa.int8())}), np.zeros(1, np.uint64)), np.zeros(length, np.int64)
    names = [f"k{i}" for i in range(len(columns))]
    rows = pa.Table.from_arrays(list(columns), names)
    keys, hashes, groups = distinct_keys(rows, key.alone.columns, key.alone.hashes(rows))
    return GroupKeys(keys, hashes), groups


def content_of_totals(plan: AggregatePlan, inputs: Sequence[pa.DataType], context: StepContext) -> pa.Table:
    """This worker's rows of the aggregate, as a Z-set, computed from its state. `inputs`: the types of the input's columns. Without group
    columns there is always a row. Groups of which a result does not fit have none."""
    key = context.key(0, plan.group)
    keys, _ = keys_of([pa.array([], inputs[column]) for column in plan.group], 0, key)
    if plan.group:
        stored = TotalsTraces(plan, keys, context).stored_keys()
        keys, _ = keys_of([canonical(column) for column in stored.columns], stored.num_rows, key)
    totals = stored_totals(plan, keys, context)
    exists = totals.sums[0] > 0 if plan.group else np.full(1, context.reads_keyless)
    exists, results = fit_results(plan, keys, exists, results_of(plan, totals), context.errors, sign=1)
    rows = np.flatnonzero(exists)
    columns = [result.column.take(pa.array(rows)) for result in results]
    return zset.build([*(keys.arrays(rows) if plan.group else []), *columns], np.ones(len(rows), np.int64))


def stored_totals(plan: AggregatePlan, keys: GroupKeys, context: StepContext) -> GroupTotals:
    """What the state has of these groups, with all values that the calls need."""
    totals = TotalsTraces(plan, keys, context).read()
    if plan.ordered_arguments():
        read_ordered(plan, keys, no_change, context, old=totals, new=zero_totals(plan, keys.count))
    return totals


class Batch:
    """A change with its groups. `groups[i]` is the position in `keys` of row i's group."""

    def __init__(self, plan: AggregatePlan, delta: pa.Table, key: ColocatedKey) -> None:
        self._delta = delta
        self.weights = zset.weights_of(delta)
        assert not plan.kept_extremes() or (self.weights >= 0).all(), "an append-only input retracted"
        if float(np.abs(self.weights).sum(dtype=np.float64)) >= COUNT_MAX:
            raise ResultOverflow("The weights of one step exceed what a count can hold.", "Take smaller steps.")
        groups = [canonical(delta.column(i)) for i in plan.group]
        self.keys, self.groups = keys_of(groups, delta.num_rows, key)
        self._present: dict[tuple[Column, bool], tuple[pa.Array, Int64s, Int64s]] = {}

    def present(self, argument: Column, keeps_signed_zeros: bool = False) -> tuple[pa.Array, Int64s, Int64s]:
        """(values, weights, groups) of the rows whose argument is not null. The values are canonical, unless `keeps_signed_zeros`: then their
        -0.0 stay."""
        if (argument, keeps_signed_zeros) not in self._present:
            column = self._delta.column(argument)
            column = one_nan(column.combine_chunks()) if keeps_signed_zeros else canonical(column)
            weights, groups = self.weights, self.groups
            if column.null_count:
                rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
                column, weights, groups = column.take(pa.array(rows)), weights[rows], groups[rows]
            self._present[argument, keeps_signed_zeros] = (column, weights, groups)
        return self._present[argument, keeps_signed_zeros]

    def net(self, argument: OrderedArgument) -> Net:
        """(values, encoded values, weights, groups): every pair of group and value once, with a weight that is not 0."""
        values, weights, groups = self.present(argument.argument, argument.keeps_signed_zeros)
        encoded = encode_values(values)
        sequence, starts = zset.group_rows([pa.array(groups), encoded], len(groups))
        totals = np.add.reduceat(weights[sequence], starts) if len(starts) else weights[:0]
        kept = totals != 0
        rows = sequence[starts[kept]]
        chosen = pa.array(rows)
        return values.take(chosen), encoded.take(chosen), totals[kept], groups[rows]


def fresh_totals(plan: AggregatePlan, batch: Batch, context: StepContext) -> GroupTotals:
    """The totals of the change alone."""
    fresh = zero_totals(plan, batch.keys.count)
    np.add.at(fresh.sums[0], batch.groups, batch.weights)
    distinct = ValueTraces(plan, batch.keys, context, DISTINCT_TRACE, ordered=False)
    try:
        for shared in plan.argument_sums:
            if shared.distinct:
                argument = OrderedArgument(shared.argument, shared.type, keeps_signed_zeros=False)
                values, weights, groups = find_appearing(batch.keys, argument, batch.net(argument), distinct)
            else:
                values, weights, groups = batch.present(shared.argument)
            add_values(plan, shared, values, weights, groups, to=fresh)
    except OverflowError as error:
        raise ResultOverflow.of_sum() from error
    for number, extreme in enumerate(plan.kept_extremes()):
        values, weights, groups = batch.present(extreme.argument, extreme.values.keeps_signed_zeros)
        if not weights.all():
            rows = np.flatnonzero(weights)
            values, groups = values.take(pa.array(rows)), groups[rows]
        add_extreme(number, extreme, values, groups, fresh)
    return fresh


def check_counts(plan: AggregatePlan, keys: GroupKeys, new: GroupTotals) -> None:
    """Raises unless every count is at least 0 and at most the count of rows, and all totals of a group without rows are 0."""
    rows = new.sums[0]
    wrong = (rows < 0) | ((rows == 0) & new.sums.any(axis=0))
    for shared in plan.argument_sums:
        wrong |= (new.sums[shared.count] < 0) | (new.sums[shared.count] > rows)
    if plan.digit_sums:
        wrong[doubles.specials_below_zero(new.digits) // plan.digit_sums] = True
        left = new.digits.groups // plan.digit_sums
        wrong[left[rows[left] == 0]] = True
    if (rows > COUNT_MAX).any():
        raise ResultOverflow(f"The count of group {text_of_group(keys, int(np.argmax(rows)))} does not fit.", "")
    if wrong.any():
        raise negative_count(keys, int(np.flatnonzero(wrong)[0]))


def fit_results(
    plan: AggregatePlan, keys: GroupKeys, exists: Bools, results: list[Result], errors: ErrorRows | None, *, sign: int
) -> tuple[Bools, list[Result]]:
    """(whether the group has a row, the results). A group of which a result does not fit its type is an error row: it has none, and is counted
    with `sign` (see ErrorRows.add). If nothing is counted, ResultOverflow is raised."""
    for call, result in zip(plan.calls, results, strict=True):
        wrong = np.flatnonzero(exists & ~result.fits)
        if not len(wrong):
            continue
        error = overflow(call, keys, int(wrong[0]))
        if errors is None:
            raise error
        errors.add(zset.build(keys.arrays(wrong), np.ones(len(wrong), np.int64)), error, sign)
        exists = exists & result.fits
    return exists, results


def _difference(
    plan: AggregatePlan,
    types: Sequence[pa.DataType],
    keys: GroupKeys,
    old: tuple[Bools, list[Result]],
    new: tuple[Bools, list[Result]],
) -> pa.Table:
    """The old rows with weight -1 and the new rows with weight +1. Groups whose row stays the same are left out."""
    (existed, before), (exists, after) = old, new
    old_columns, new_columns = [r.column for r in before], [r.column for r in after]
    same = zset.equal_rows(identity_columns(old_columns), identity_columns(new_columns), keys.count)
    gone = np.flatnonzero(existed & ~(exists & same))
    come = np.flatnonzero(exists & ~(existed & same))
    groups = keys.arrays(np.concatenate([gone, come])) if plan.group else []
    calls = [
        pa.concat_arrays([a.take(pa.array(gone)), b.take(pa.array(come))])
        for a, b in zip(old_columns, new_columns, strict=True)
    ]
    weights = np.concatenate([np.full(len(gone), -1, np.int64), np.ones(len(come), np.int64)])
    return zset.build([*groups, *calls], weights).cast(zset.schema_of(types))


def overflow(call: AggregateCall, keys: GroupKeys, group: int) -> ResultOverflow:
    what = (
        f"{call.function}(c{call.argument}) of group {text_of_group(keys, group)} does not fit {sql_type(call.type)}."
    )
    return ResultOverflow(what, USE_A_WIDER_TYPE)


REPLACES = "an aggregate replaces a group's row when the group changes (GROUP BY, count, sum, ...)"


def _content(
    node: Aggregate, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    plan = aggregate_plan_of(node.group, node.calls, types[0], all(context.append_only))
    return content_of_totals(plan, types[0], context)


def _keeps(node: Aggregate, append_only: bool) -> str:
    extremes = [call for call in node.calls if isinstance(FUNCTIONS[call.function], ExtremeFunction)]
    values = [call for call in node.calls if isinstance(FUNCTIONS[call.function], ValuesFunction)]
    distinct = [call for call in node.calls if call.distinct and call not in extremes and call not in values]
    kept = []
    if values:
        kept.append("all values of " + ", ".join(dict.fromkeys(call.function for call in values)))
    if append_only:  # then min and max are accumulators
        kept += ["the values of distinct"] if distinct else []
    elif extremes or distinct:
        kept.append("the values of min, max and distinct")
    return ", and ".join(["one accumulator per group", *kept])


def _relies_on_growth(node: Aggregate) -> bool:
    """A minimum that is an accumulator cannot go back."""
    return any(isinstance(FUNCTIONS[call.function], ExtremeFunction) for call in node.calls)


AGGREGATE = Operator(
    node=Aggregate,
    implementation_version=1,
    step=step_aggregate,
    arrange=lambda node, inputs: by_group(node.group, inputs[0]),
    output=OutputFacts(
        unique_key=lambda node, inputs: tuple(range(len(node.group))),
        comes_without_input=lambda node: not node.group,
        counts_errors=lambda node: True,
    ),
    growth=Growth(retraction=lambda node: REPLACES, is_needed=False, is_relied_on=_relies_on_growth),
    state=StateUse(keeps=_keeps, content=ContentOfState(), fed=Fed(always, _content), traces_in_recursion=None),
    wording=Wording(
        columns=OF_GROUP_AND_CALLS,
        text=lambda node: node_texts.aggregate(node.group, node.calls, "c"),
        user_name=lambda node: None,
    ),
)
