"""ClosingAggregate and ClosingSessions: groups that are in the output once, when the watermark has passed them.

ClosingAggregate has the same accumulators as Aggregate, in the same traces. A step adds its rows to them and computes no result. The groups
whose time lies between the watermarks before and after the step are found by one pass over the times of all groups; their rows are computed from
the state, put out, and all their state is removed. As the input only inserts and late rows are left out, a group that is closed never comes
back, so the output only inserts.

ClosingSessions keeps rows by key, each with the range of its own. A session closes when the watermark reaches its end, which is the end of one
of its rows. So the keys to look at are those of the rows whose own range ends between the two watermarks. The sessions of these keys are
computed, and the rows of those that have ended go out together and are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.model.event_time import ClosingAggregate, ClosingSessions
from engine.model.ordered import Sessions
from engine.operators import node_texts
from engine.operators.aggregate import Batch, check_counts, fit_results, fresh_totals, keys_of, stored_totals
from engine.operators.aggregate_errors import ResultOverflow
from engine.operators.aggregate_plan import DISTINCT_TRACE, ORDERED_TRACE, AggregatePlan, aggregate_plan_of
from engine.operators.aggregate_results import results_of
from engine.operators.aggregate_stored_values import ValueTraces, store_ordered
from engine.operators.aggregate_totals import GroupKeys, TotalsTraces, combine
from engine.operators.aggregate_values import encode_values
from engine.operators.arrangement import add_broadcast, by_group, by_key
from engine.operators.context import StepContext
from engine.operators.descriptor import PLAIN_OUTPUT, Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.event_time import Mark, drop_late, empty_rows, find_passed, mark_of, times_of
from engine.operators.keys import distinct_keys
from engine.operators.names import OF_FIRST, OF_GROUP_AND_CALLS
from engine.operators.sessions import merge_sessions
from engine.rows import zset
from engine.state.forgetting import forget, rows_of_groups, select_rows
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace


def step_closing_aggregate(node: ClosingAggregate, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """The rows of the groups that close. Raises ResultOverflow, which names the group, unless the step counts error rows: then such a group is
    counted when it closes, and has no row."""
    rows, told = inputs
    if not told.num_rows:
        return empty_rows([rows], node.types)
    mark = mark_of(told)
    delta = drop_late(rows, node.group[node.time], mark, context)
    plan = aggregate_plan_of(node.group, node.calls, rows.schema.types[:-1], append_only=True)
    if delta.num_rows:
        _add(plan, delta, context)
    if mark.after <= mark.before:
        return zset.empty(node.types)
    return _close_groups(node, plan, [rows.schema.types[column] for column in node.group], mark, context)


def _add(plan: AggregatePlan, delta: pa.Table, context: StepContext) -> None:
    """Adds rows to the accumulators of their groups."""
    batch = Batch(plan, delta, context.key(0, plan.group))
    fresh = fresh_totals(plan, batch, context)
    traces = TotalsTraces(plan, batch.keys, context)
    old = traces.read()
    try:
        new = combine(plan, old, fresh)
    except OverflowError as error:
        raise ResultOverflow.of_sum() from error
    check_counts(plan, batch.keys, new)
    traces.write(old, new)
    store_ordered(plan, batch.keys, batch.net, context)


def _close_groups(
    node: ClosingAggregate, plan: AggregatePlan, group_types: Sequence[pa.DataType], mark: Mark, context: StepContext
) -> pa.Table:
    """The rows of the groups between the two watermarks, whose state is removed."""
    key = context.key(0, node.group)
    no_keys, _ = keys_of([pa.array([], kind) for kind in group_types], 0, key)
    totals_trace = TotalsTraces(plan, no_keys, context).totals
    found = select_rows(totals_trace, lambda run: find_passed(run.column(node.time), mark))
    keys, _ = keys_of([found.column(i) for i in range(len(group_types))], found.num_rows, key)
    if not keys.count:
        return zset.empty(node.types)
    totals = stored_totals(plan, keys, context)
    fits, results = fit_results(plan, keys, totals.sums[0] > 0, results_of(plan, totals), context.errors, sign=1)
    exists = np.flatnonzero(fits)
    for trace in traces_of(plan, keys, context):
        forget(trace, rows_of_groups(trace, keys.columns, keys.hashes))
    columns = [*keys.arrays(exists), *(result.column.take(pa.array(exists)) for result in results)]
    return zset.build(columns, np.ones(len(exists), np.int64)).cast(zset.schema_of(node.types))


def traces_of(plan: AggregatePlan, keys: GroupKeys, context: StepContext) -> Iterator[Trace]:
    """Every trace in which these groups may have rows."""
    totals = TotalsTraces(plan, keys, context)
    yield totals.totals
    if totals.digits is not None:
        yield totals.digits
    ordered = {encode_values(pa.array([], argument.type)).type for argument in plan.ordered_arguments()}
    yield from (ValueTraces(plan, keys, context, ORDERED_TRACE, ordered=True).trace(kind) for kind in ordered)
    distinct = {encode_values(pa.array([], shared.type)).type for shared in plan.argument_sums if shared.distinct}
    yield from (ValueTraces(plan, keys, context, DISTINCT_TRACE, ordered=False).trace(kind) for kind in distinct)


def step_closing_sessions(node: ClosingSessions, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    rows, told = inputs
    if not told.num_rows:
        return empty_rows([rows], node.types)
    mark = mark_of(told)
    delta = drop_late(zset.consolidate(rows), node.window, mark, context)
    trace, key = context.trace(0, node.types, node.key), context.key(0, node.key)
    trace.append(as_rows(delta), key.hashes(delta))
    if mark.after <= mark.before:
        return zset.empty(node.types)
    ending = select_rows(trace, lambda run: find_passed(run.column(node.window), mark))
    if not ending.num_rows:
        return zset.empty(node.types)
    keys, hashes, _ = distinct_keys(ending, node.key, key.hashes(ending))
    stored = zset.consolidate(as_zset(trace.probe(keys, hashes).rows))
    in_sessions = merge_sessions(Sessions((0,), node.types, node.key, node.window), stored)
    ends, _ = times_of(in_sessions.column(node.window))
    over = pa.array(ends <= mark.after)
    gone = stored.filter(over)
    trace.append(as_rows(zset.negate(gone)), key.hashes(gone))
    return zset.consolidate(in_sessions.filter(over))


def _text_of_aggregate(node: ClosingAggregate) -> str:
    return f"{node_texts.aggregate(node.group, node.calls, 'c')}, when the watermark reaches c{node.group[node.time]}"


CLOSING_AGGREGATE = Operator(
    node=ClosingAggregate,
    implementation_version=1,
    step=step_closing_aggregate,
    arrange=lambda node, inputs: add_broadcast(by_group(node.group, inputs[0])),
    output=OutputFacts(
        unique_key=lambda node, inputs: tuple(range(len(node.group))),
        comes_without_input=lambda node: False,
        counts_errors=lambda node: bool(node.calls),
    ),
    growth=Growth(retraction=lambda node: None, is_needed=True, is_relied_on=lambda node: True),
    state=StateUse(
        keeps=lambda node, append_only: "the accumulators of the groups that are not closed",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_GROUP_AND_CALLS,
        text=_text_of_aggregate,
        user_name=lambda node: None,
    ),
)

CLOSING_SESSIONS = Operator(
    node=ClosingSessions,
    implementation_version=1,
    step=step_closing_sessions,
    arrange=lambda node, inputs: add_broadcast(by_key(node.key, inputs[0])),
    output=PLAIN_OUTPUT,
    growth=Growth(retraction=lambda node: None, is_needed=True, is_relied_on=lambda node: True),
    state=StateUse(
        keeps=lambda node, append_only: "the rows of the sessions that are not closed",
        content=NoContent(),
        fed=None,
        traces_in_recursion=None,
    ),
    wording=Wording(
        columns=OF_FIRST,
        text=lambda node: f"c{node.window} by {node_texts.columns(node.key)}, when the watermark reaches their end",
        user_name=lambda node: None,
    ),
)
