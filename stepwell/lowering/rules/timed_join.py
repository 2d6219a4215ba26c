"""A join of two streams above a withWatermark: rows that are late are left out, and rows are forgotten when nothing can match them any more.

`join_times.py` says when. The rows of an outer side must be forgotten at some time, because a row without a match is in the output then.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.event_time import Expiry, TimedJoin
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Relation
from stepwell.lowering.rules import event_time
from stepwell.lowering.rules.join_condition import Equality, take_apart
from stepwell.lowering.rules.join_sides import materialise_sides
from stepwell.lowering.rules.join_times import SideTime, times_of_sides
from stepwell.lowering.trees import canonical, expression_id

_OUTER = {
    "Inner": (False, False),
    "Cross": (False, False),
    "LeftOuter": (True, False),
    "RightOuter": (False, True),
    "FullOuter": (True, True),
}
"""The join types that are supported: whether the left side is outer, and whether the right one is."""

_SEMI_REMEDY = "Write it as an INNER JOIN; or leave withWatermark out, and the view follows both inputs"
_OUTER_REMEDY = (
    "Give both inputs a withWatermark, and bound the distance of their event times in the condition on both sides "
    "(b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 1 HOUR), or put an event time into the equality"
)
_UNBOUNDED_NOTE = (
    "a join of two streams keeps all rows of a side whose event time the condition does not bound; bound it on both sides, "
    "and give both a withWatermark"
)


def join_of_streams(context: Lowering, node: TreeNode, kind: str) -> Relation:
    """Returns the join of two streams, of which at least one has a withWatermark. `kind`: Spark's name of the join type. Raises
    UnsupportedPlan."""
    if kind not in _OUTER:
        raise UnsupportedPlan(
            node.kind, f"a {kind} join of two streams above a withWatermark is not supported", _SEMI_REMEDY
        )
    watermark = event_time.watermark_below(context, node)
    left, right = (context.lower(child) for child in node.children)
    ids = [frozenset(output.id for output in relation.outputs) for relation in (left, right)]
    condition = take_apart(node.get("condition"), *ids)
    residual = (*condition.residual, *(equality.or_unknown() for equality in condition.not_in))
    sides = materialise_sides(context, left, right, condition.equalities, residual)
    times = times_of_sides(context, node)
    outer = _OUTER[kind]
    places = [
        _places(relation, time, condition.equalities, key, side)
        for side, (relation, time, key) in enumerate(
            zip((sides.left, sides.right), times, (sides.left_key, sides.right_key), strict=True)
        )
    ]
    (left_time, left_expiry), (right_time, right_expiry) = places
    _check_bounded(context, node, kind, (left_expiry, right_expiry))
    types = context.builder.types(sides.left.node) + context.builder.types(sides.right.node)
    made = TimedJoin(
        (sides.left.node, sides.right.node, watermark),
        types,
        left_key=sides.left_key,
        right_key=sides.right_key,
        null_safe=sides.null_safe,
        residual=sides.residual,
        left_outer=outer[0],
        right_outer=outer[1],
        left_time=left_time,
        right_time=right_time,
        left_expiry=left_expiry,
        right_expiry=right_expiry,
    )
    columns = sides.left.columns + sides.right.columns
    return Relation(context.builder.add(made), columns, sides.left.outputs + sides.right.outputs)


def _check_bounded(context: Lowering, node: TreeNode, kind: str, expiries: Sequence[Expiry | None]) -> None:
    """Raises UnsupportedPlan if rows of an outer side are never forgotten, and notes it if those of another side are not."""
    if any(is_outer and expiry is None for is_outer, expiry in zip(_OUTER[kind], expiries, strict=True)):
        raise UnsupportedPlan(
            node.kind,
            f"in this {kind} join of two streams no watermark says when a row can have no match any more",
            _OUTER_REMEDY,
        )
    if None in expiries:
        context.note(_UNBOUNDED_NOTE)


def _places(
    rows: Relation, time: SideTime, equalities: Sequence[Equality], key: Sequence[int], side: int
) -> tuple[int | None, Expiry | None]:
    """Returns the columns of the event time and of the expiry of one side."""
    by_id = {output.id: place for place, output in enumerate(rows.outputs)}
    late = None if time.time is None else by_id[time.time]
    if time.expires is None:
        return late, None
    for equality, place in zip(equalities, key, strict=False):
        if canonical((equality.left, equality.right)[side]) == canonical(time.expires):
            return late, Expiry(place, time.offset_us)
    return late, Expiry(by_id[expression_id(time.expires)], time.offset_us)
