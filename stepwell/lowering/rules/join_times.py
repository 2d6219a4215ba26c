"""When the rows of a join of two streams can be forgotten: what its condition says of event time.

Two cases, as in Spark (StreamingJoinHelper):

- The key has event time. A row is forgotten when the watermark reaches its key, because all rows with that key are late then.
- The condition bounds the distance: `right.ts < left.ts + c`. Every right row that is still to come is above the watermark W, so it only matches
  left rows above W - c. A left row is forgotten when W reaches its time plus c. With <= it is one millisecond later, as in Spark. Of several
  bounds the one that keeps rows longest counts, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.rules.join_condition import take_apart
from stepwell.lowering.trees import conjuncts, expression_id

_AT_OR_BELOW_US = 1000
_SMALLER_FIRST = {"LessThan": 0, "LessThanOrEqual": _AT_OR_BELOW_US}
_GREATER_FIRST = {"GreaterThan": 0, "GreaterThanOrEqual": _AT_OR_BELOW_US}


@dataclass(frozen=True)
class SideTime:
    """The event time of one side. `time`: the column that is event time, by which rows are late. `expires`: the column and the offset of its
    Expiry. None where there is none. Columns are expression ids; in the key, `expires` may name one that is not event time itself."""

    time: int | None
    expires: TreeNode | None
    offset_us: int


def times_of_sides(context: Lowering, node: TreeNode) -> tuple[SideTime, SideTime]:
    """Returns the event time of the left side and of the right side of a Join."""
    ids = [_columns_of(child) for child in node.children]
    times = [next((i for i in columns if i in context.event_times.delays_ms), None) for columns in ids]
    for equality in take_apart(node.get("condition"), frozenset(ids[0]), frozenset(ids[1])).equalities:
        keys = (equality.left, equality.right)
        if any(_is_event_time(context, key) for key in keys):
            left, right = (SideTime(time, key, 0) for time, key in zip(times, keys, strict=True))
            return left, right
    left, right = (_by_distance(node, times[side], times[1 - side]) for side in (0, 1))
    return left, right


def watermark_lag_us(context: Lowering, node: TreeNode) -> int:
    """By how much rows of the join may lie behind the watermark of its inputs."""
    return max(0, *(side.offset_us for side in times_of_sides(context, node) if side.expires is not None), 0)


def _is_event_time(context: Lowering, tree: TreeNode) -> bool:
    return tree.kind == "AttributeReference" and expression_id(tree) in context.event_times.delays_ms


def _columns_of(plan: TreeNode) -> list[int]:
    """The ids of the columns of a plan's rows, in order."""
    if plan.kind in _COLUMNS:
        return [expression_id(tree) for tree in plan[_COLUMNS[plan.kind]]]
    if plan.kind == "Generate":
        return [*_columns_of(plan.children[0]), *(expression_id(tree) for tree in plan["generatorOutput"])]
    children = plan.children[:1] if plan.kind == "Union" else plan.children
    return [column for child in children for column in _columns_of(child)]


_COLUMNS = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Expand": "output",
    "LogicalRDD": "output",
    "LocalRelation": "output",
}
"""The field that has a plan node's columns. All other nodes that may stand below a join of streams pass on those of their children."""


def _by_distance(node: TreeNode, mine: int | None, other: int | None) -> SideTime:
    """The side whose event time is `mine`, if that of the other side is `other`."""
    if mine is None or other is None:
        return SideTime(mine, None, 0)
    bounds = []
    for part in conjuncts(node.get("condition")):
        if part.kind in _SMALLER_FIRST:
            smaller, greater = part.children
        elif part.kind in _GREATER_FIRST:
            greater, smaller = part.children
        else:
            continue
        sums = _linear(smaller), _linear(greater)
        if sums[0] is None or sums[1] is None:
            continue
        difference = sums[1].minus(sums[0])  # other < mine + c
        if difference.times == {mine: 1, other: -1}:
            equal_us = _SMALLER_FIRST.get(part.kind, 0) + _GREATER_FIRST.get(part.kind, 0)
            bounds.append((difference.constant_us + equal_us, smaller, greater))
    if not bounds:
        return SideTime(mine, None, 0)
    offset, *sides = max(bounds, key=lambda bound: bound[0])
    column = next(
        tree
        for side in sides
        for tree in side.walk()
        if tree.kind == "AttributeReference" and expression_id(tree) == mine
    )
    return SideTime(mine, column, offset)


@dataclass(frozen=True)
class _Sum:
    """Columns, each with its factor, plus a constant."""

    times: dict[int, int]
    constant_us: int

    def minus(self, other: _Sum) -> _Sum:
        times = dict(self.times)
        for column, factor in other.times.items():
            times[column] = times.get(column, 0) - factor
        return _Sum({c: f for c, f in times.items() if f}, self.constant_us - other.constant_us)


def _linear(tree: TreeNode) -> _Sum | None:
    """`tree` as a sum of timestamps and constant intervals; None if it is something else."""
    if tree.kind == "AttributeReference":
        return _Sum({expression_id(tree): 1}, 0)
    if tree.kind == "Literal" and tree["value"] is not None:
        type_ = tree["dataType"]
        return (
            _Sum({}, int(tree["value"]))
            if isinstance(type_, str) and type_.startswith("interval") and _is_us(tree)
            else None
        )
    if tree.kind == "TimestampAddInterval" and len(tree.children) == 2:
        start, interval = (_linear(child) for child in tree.children)
        if start is None or interval is None:
            return None
        return start.minus(_Sum({}, -interval.constant_us)) if not interval.times else None
    if tree.kind == "UnaryMinus":
        inner = _linear(tree.children[0])
        return None if inner is None else _Sum({}, 0).minus(inner)
    return None


def _is_us(literal: TreeNode) -> bool:
    """Whether the interval is one of days and shorter units, which the trees have in microseconds."""
    kind = literal["dataType"]
    return "year" not in kind and "month" not in kind and str(literal["value"]).lstrip("-").isdigit()
