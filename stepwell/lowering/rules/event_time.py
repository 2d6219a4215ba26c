"""Event time in a plan: the watermark of a flow, and what the operators above a withWatermark become.

A flow has one watermark, as a streaming query of Spark has. Each withWatermark (Catalyst's EventTimeWatermark) of its plan gives a LatestTime
node over its rows, and one Watermark node reads them all. An operator with state above a withWatermark reads it, and looks for a column that is
event time (stepwell/catalyst/event_time.py), as Spark's own operators do.

The watermark of an operator above a join of streams lies behind that of the flow, by as much as rows of the join may: a row that waited an hour
for its match is not late. This is Spark's PropagateWatermarkSimulator.

    | above a withWatermark            | becomes                                        | refused                              |
    |----------------------------------|------------------------------------------------|--------------------------------------|
    | GROUP BY a window or event time  | ClosingAggregate                               | GROUP BY without event time          |
    | GROUP BY session_window          | ClosingSessions, then ClosingAggregate         |                                      |
    | dropDuplicates, DISTINCT         | TimedDeduplicate, if a column is event time    |                                      |
    | dropDuplicatesWithinWatermark    | TimedDeduplicate                               |                                      |
    | joins, both sides with one       | TimedJoin                                      | outer ones whose rows never expire;  |
    |                                  |                                                | semi and anti joins                  |
    | joins, one side with one         | as without                                     |                                      |
    | OVER, LIMIT                      |                                                | always                               |
    | withWatermark                    |                                                | always                               |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from engine.model.event_time import WATERMARK_TYPES, LatestTime, Watermark
from engine.model.node import Expression
from engine.model.rows import Map
from stepwell.catalyst.event_time import WATERMARK
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Relation
from stepwell.lowering.rules.join_times import watermark_lag_us
from stepwell.lowering.trees import expression_id

_NOTE = "rows behind the watermark are late and left out; a group is put out once, when the watermark has passed it (docs/sql.md, Event time)"
_NOTE_HELD_BACK = (
    "the least of several watermarks counts, so an input that gets no rows any more holds event time back: no group closes and no row is "
    "forgotten until it gets some, or until it has been silent for stepwell.watermark.idle.after (docs/sql.md, Event time)"
)


def is_above(node: TreeNode) -> bool:
    """Whether there is a withWatermark below `node`."""
    return any(below.kind == WATERMARK for child in node.children for below in child.walk())


def is_streaming(node: TreeNode) -> bool:
    """Whether the rows of `node` come from a stream."""
    return any(leaf.kind == "LogicalRDD" and bool(leaf["isStreaming"]) for leaf in node.walk())


def is_join_of_streams(node: TreeNode) -> bool:
    """Whether it is a join whose sides both have a watermark. If one side has none, it is a join with a table, as in Spark with one that is
    not read as a stream: a streaming flow has one form of every table here, so the plan does not show it."""
    return node.kind == "Join" and all(
        any(below.kind == WATERMARK for below in child.walk()) for child in node.children
    )


def event_time_of(context: Lowering, columns: Iterable[int]) -> int | None:
    """The first of these expression ids that is event time."""
    return next((column for column in columns if column in context.event_times.delays_ms), None)


def refuse_above(node: TreeNode, what: str, remedy: str) -> None:
    """Refuses an operator for which Spark has no append mode."""
    if is_above(node):
        raise UnsupportedPlan(node.kind, f"{what} above a withWatermark is not supported, nor is it in Spark", remedy)


@dataclass(frozen=True)
class Closing:
    """How the groups of an Aggregate close: the node of the watermark, and which grouping expression is event time."""

    watermark: int
    key: int


def closing_of(context: Lowering, node: TreeNode) -> Closing | None:
    """Returns how the groups of an Aggregate above a withWatermark close; None if there is no withWatermark below. The rule of the Aggregate
    calls this before it lowers the child."""
    if not is_above(node):
        return None
    _refuse_in_subquery(context, node)
    session = node.get("sessionWindow")
    for place, key in enumerate(node["groupingExpressions"]):
        is_time = key.kind == "AttributeReference" and expression_id(key) in context.event_times.delays_ms
        if is_time and session in (None, expression_id(key)):
            return Closing(watermark_below(context, node), place)
    raise UnsupportedPlan(
        node.kind,
        "an aggregate above a withWatermark must group by its event time, so that groups can close; Spark refuses it too",
        "GROUP BY window(ts, '5 minutes') or another window of that column; or leave withWatermark out: the view then holds the answer over "
        "all rows, and takes rows back",
    )


def watermark_below(context: Lowering, node: TreeNode) -> int:
    """Returns the circuit node that gives the watermark for the operator `node`. Its rule calls this before it lowers its children, so that they
    use the same rows as the watermark."""
    _refuse_in_subquery(context, node)
    flow = _watermark_of_flow(context)
    lag = max((_lag_us(context, child) for child in node.children), default=0)
    if not lag:
        return flow
    behind = tuple(Expression(f"c{column} - {lag}", pa.int64()) for column in range(len(WATERMARK_TYPES)))
    return context.builder.add(Map((flow,), WATERMARK_TYPES, None, behind))


def _refuse_in_subquery(context: Lowering, node: TreeNode) -> None:
    of_flow = {id(known) for known in context.plan.walk()}
    if any(below.kind == WATERMARK and id(below) not in of_flow for below in node.walk()):
        raise UnsupportedPlan(
            WATERMARK,
            "a watermark in a subquery that stands for a value is not supported",
            "Make the subquery a streaming table of its own, and read that; or leave the watermark out",
        )


def lower(context: Lowering, node: TreeNode) -> Relation:
    """The rule of withWatermark: its rows. If no operator above asks for the watermark, it has no effect, as in Spark."""
    observed = context.observed.get(id(node))
    return context.lower(node.children[0]) if observed is None else observed


def _watermark_of_flow(context: Lowering) -> int:
    context.note(_NOTE)
    nodes = [node for node in context.plan.walk() if node.kind == WATERMARK]
    latest = tuple(_observe(context, node) for node in nodes)
    times = context.event_times
    if len(nodes) > 1 and not times.greatest:
        context.note(_NOTE_HELD_BACK)
    delays = tuple(times.delays_ms[expression_id(node["eventTime"])] for node in nodes)
    return context.builder.add(Watermark(latest, WATERMARK_TYPES, delays, times.greatest and len(nodes) > 1))


def _observe(context: Lowering, node: TreeNode) -> int:
    """The LatestTime node of a withWatermark."""
    if is_above(node):
        raise UnsupportedPlan(
            WATERMARK,
            "a withWatermark above another one is not supported, nor is it in Spark",
            "Leave one of them out, or put a streaming table between the two",
        )
    if id(node) not in context.observed:
        rows, (place,) = context.compute(context.lower_apart(node.children[0]), [node["eventTime"]])
        type_ = context.builder.types(rows.node)[place]
        if not pa.types.is_timestamp(type_):
            raise UnsupportedPlan(
                WATERMARK,
                "withWatermark over a window is not supported",
                "Take its time: withColumn('ts', window_time('window')).withWatermark('ts', ...)",
            )
        context.observed[id(node)] = rows
        context.latest[id(node)] = context.builder.add(LatestTime((rows.node,), (pa.int64(),), place))
    return context.latest[id(node)]


def _lag_us(context: Lowering, node: TreeNode) -> int:
    """By how much the watermark of the rows of `node` lies behind that of the flow."""
    below = max((_lag_us(context, child) for child in node.children), default=0)
    if is_join_of_streams(node):
        return below + watermark_lag_us(context, node)
    return below
