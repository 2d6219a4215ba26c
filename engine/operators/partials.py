"""Partial aggregation: sums before a join, which are combined after it (eager aggregation: Yan and Larson, VLDB 1995).

Counts and exact sums are linear. So the sums over a join's rows are the sums of one side's groups, times the weights of the rows that they
match. The rows of that side become *partials* before they are exchanged, and the join stores one partial per group instead of the rows. Its
time and its state no longer depend on the number of rows.

    rows -> PartialAggregate ~> JoinPartials <~ rows          ~> an exchange
                                     ~> FinalAggregate -> one row per group

A partial is a row with the group's columns, then its sums as columns of int64, and a weight that multiplies them. The order of the sums is that
of `aggregate_plan.AggregatePlan`, which the first and the last of the three operators derive from the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.accumulators import integers
from engine.accumulators.canonical import canonical
from engine.errors import DataError
from engine.model.aggregates import FinalAggregate, PartialAggregate
from engine.model.joins import JoinPartials
from engine.operators import node_texts
from engine.operators.aggregate import (
    COUNT_MAX,
    REPLACES,
    Batch,
    advance_totals,
    content_of_totals,
    fresh_totals,
    is_first_output,
    keys_of,
)
from engine.operators.aggregate_errors import ResultOverflow
from engine.operators.aggregate_plan import AggregatePlan, aggregate_plan_of
from engine.operators.aggregate_totals import GroupTotals, zero_totals
from engine.operators.arrangement import Arrangement, Key, by_group, by_join_key
from engine.operators.context import StepContext
from engine.operators.descriptor import (
    FOLLOWS_INPUTS,
    NO_STATE,
    PLAIN_OUTPUT,
    ContentOfState,
    Fed,
    Growth,
    NoContent,
    Operator,
    OutputFacts,
    StateUse,
    Wording,
    always,
)
from engine.operators.join import pairs_of
from engine.operators.keys import ColocatedKey, columns_at, distinct_keys, hash_keys, matchable, only
from engine.operators.names import OF_BOTH, named_by, names_at, of_calls
from engine.rows import zset
from engine.rows.hashing import Hashes
from engine.state.runs import Combine, as_rows
from engine.state.trace import Trace

WEIGHT_MAX = 1 << 30
"""The largest weight of a row that partials are joined with. A limb of 32 bits times it is exact in int64."""


def step_partial_aggregate(node: PartialAggregate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The partials of the change. The operator has no state."""
    delta = inputs[0]
    if delta.num_rows == 0:
        return zset.empty(node.types)
    plan = aggregate_plan_of(node.group, node.calls, delta.schema.types[:-1], append_only=False)
    batch = Batch(plan, delta, _anywhere(node.group))
    totals = fresh_totals(plan, batch, context)
    return _partials(batch.keys.arrays() if node.group else [], totals.sums)


def step_join_partials(node: JoinPartials, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """By the product rule, as in `join`, the change of L x R is dL x (R + dR) + L x dR."""
    left, right = inputs
    left = only(left, matchable(left, node.left_key, node.null_safe))
    right = zset.consolidate(only(right, matchable(right, node.right_key, node.null_safe)))
    if not left.num_rows and not right.num_rows:
        return zset.empty(node.types)
    left_key, right_key = context.join_keys(node.left_key, node.right_key)
    width = left.num_columns - 1 - len(node.carries)
    right_trace = context.trace(1, right.schema.types[:-1], node.right_key)
    right_hashes = right_key.hashes(right)
    right_trace.append(as_rows(right), right_hashes)
    partials = _sum(left, width)
    left_hashes = left_key.hashes(partials)
    joined = [_check_weights(pairs_of(partials, node.left_key, left_hashes, right_trace, delta_is_left=True))]
    combines: list[Combine] = ["carry" if carries else "sum" for carries in node.carries]
    sum_types = [pa.int64()] * len(combines)
    left_trace = context.trace(0, left.schema.types[:width], node.left_key, combines, sum_types)
    if right.num_rows:
        joined.append(_with_stored(right, node.right_key, right_hashes, left_trace))
    sums = pa.Table.from_arrays(partials.columns[:-1], left_trace.layout.schema.names[:-1])
    left_trace.append(sums, left_hashes)
    return zset.add([part.cast(zset.schema_of(node.types)) for part in joined])


def step_final_aggregate(node: FinalAggregate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Returns the change of the output as `step_aggregate` does, but from partials."""
    delta = inputs[0]
    first = is_first_output(node.group, context)
    if delta.num_rows == 0 and not first:
        return zset.empty(node.types)
    plan = aggregate_plan_of(node.group, node.calls, node.argument_types, append_only=False)
    columns = [canonical(delta.column(i)) for i in node.group]
    keys, groups = keys_of(columns, delta.num_rows, context.key(0, node.group))
    sums = np.array([delta.column(node.first_sum + i).to_numpy() for i in range(plan.sums)])
    fresh = _totals(plan, sums, zset.weights_of(delta), groups, keys.count)
    return advance_totals(plan, node.types, keys, fresh, context, first=first)


def _anywhere(group: Key) -> ColocatedKey:
    """The key of groups that are not stored, so that it does not matter where they lie."""
    return ColocatedKey(group, tuple(range(len(group))))


def _partials(columns: Sequence[pa.Array], sums: Int64s) -> pa.Table:
    """Partials with these columns and sums, of weight 1. Those whose sums are all 0 are left out, because they change nothing."""
    rows = np.flatnonzero(sums.any(axis=0))
    if len(rows) < sums.shape[1]:
        chosen = pa.array(rows)
        columns, sums = [zset.take(column, chosen) for column in columns], sums[:, rows]
    return zset.build([*columns, *map(pa.array, sums)], np.ones(len(rows), np.int64))


def _sum(partials: pa.Table, width: int) -> pa.Table:
    """One partial per group, of weight 1. The first `width` columns are the group."""
    weights = zset.weights_of(partials)
    keys, _, groups = distinct_keys(partials, range(width), hash_keys(partials, range(width)))
    sums = np.zeros((partials.num_columns - 1 - width, keys.num_rows), np.int64)
    for place, total in enumerate(sums):
        np.add.at(total, groups, partials.column(width + place).to_numpy() * weights)
    return _partials([column.combine_chunks() for column in keys.columns], sums)


def _with_stored(rows: pa.Table, key: Sequence[int], hashes: Hashes, partials: Trace) -> pa.Table:
    """The stored partials, joined with the changed rows of their key. `hashes`: of the changed rows' keys."""
    matches = partials.probe(columns_at(rows, key), hashes)
    mine = zset.take_rows(rows, matches.probe)
    return _check_weights(zset.build([*matches.rows.columns, *mine.columns[:-1]], zset.weights_of(mine)))


def _check_weights(joined: pa.Table) -> pa.Table:
    weights = zset.weights_of(joined)
    if len(weights) and int(np.abs(weights).max()) > WEIGHT_MAX:
        raise DataError(
            f"A row of a join is {int(np.abs(weights).max())} times in its input, which is more than {WEIGHT_MAX}.",
            "Remove duplicates (SELECT DISTINCT, or a key for the source) before the join.",
        )
    return joined


def _totals(plan: AggregatePlan, sums: Int64s, weights: Int64s, groups: Int64s, count: int) -> GroupTotals:
    """The sums by group of partials times their weights."""
    fresh = zero_totals(plan, count)
    heaviest = float(np.abs(weights).sum(dtype=np.float64))
    try:
        for place in (0, *(shared.count for shared in plan.argument_sums)):
            if sums.size and float(np.abs(sums[place]).max()) * heaviest >= COUNT_MAX:
                raise ResultOverflow("The rows of one step exceed what a count can hold.", "Take smaller steps.")
            np.add.at(fresh.sums[place], groups, sums[place] * weights)
        for shared in plan.argument_sums:
            if shared.limbs.start < shared.limbs.stop:
                fresh.sums[shared.limbs] = integers.weight_sums(sums[shared.limbs], weights, groups, count)
    except OverflowError as error:
        raise ResultOverflow.of_sum() from error
    return fresh


def _arrange_partial(node: PartialAggregate, inputs: Sequence[Key | None]) -> Arrangement:
    """If the rows of one group are on one worker already, so are its partials."""
    (colocation,) = inputs
    if colocation is None or not set(colocation) <= set(node.group):
        return Arrangement((None,), None)
    return Arrangement((None,), tuple(node.group.index(column) for column in colocation))


def _content_of_final(
    node: FinalAggregate, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
) -> pa.Table:
    plan = aggregate_plan_of(node.group, node.calls, node.argument_types, append_only=False)
    return content_of_totals(plan, types[0], context)


PARTIAL_AGGREGATE = Operator(
    node=PartialAggregate,
    implementation_version=1,
    step=step_partial_aggregate,
    arrange=_arrange_partial,
    output=PLAIN_OUTPUT,
    growth=FOLLOWS_INPUTS,
    state=NO_STATE,
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: names_at(node.group, inputs[0])),
        text=lambda node: node_texts.aggregate(node.group, node.calls, "c"),
        user_name=lambda node: None,
    ),
)

JOIN_PARTIALS = Operator(
    node=JoinPartials,
    implementation_version=1,
    step=step_join_partials,
    arrange=lambda node, inputs: by_join_key(node.left_key, node.right_key, inputs),
    output=PLAIN_OUTPUT,
    growth=FOLLOWS_INPUTS,
    state=StateUse(
        keeps=lambda node, append_only: "the left's sums per group, and the right, by key",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_BOTH,
        text=lambda node: node_texts.join(node.left_key, node.right_key, node.null_safe, None),
        user_name=lambda node: None,
    ),
)

FINAL_AGGREGATE = Operator(
    node=FinalAggregate,
    implementation_version=1,
    step=step_final_aggregate,
    arrange=lambda node, inputs: by_group(node.group, inputs[0]),
    output=OutputFacts(
        unique_key=lambda node, inputs: tuple(range(len(node.group))),
        comes_without_input=lambda node: not node.group,
        counts_errors=lambda node: True,
    ),
    growth=Growth(retraction=lambda node: REPLACES, is_needed=False, is_relied_on=lambda node: False),
    state=StateUse(
        keeps=lambda node, append_only: "one accumulator per group",
        content=ContentOfState(),
        fed=Fed(always, _content_of_final),
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=named_by(
            lambda node, inputs, naming: of_calls(node.group, node.calls, inputs[0], naming, of_partials=True)
        ),
        text=lambda node: node_texts.aggregate(node.group, node.calls, "s"),
        user_name=lambda node: None,
    ),
)
