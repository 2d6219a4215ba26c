"""session_window: Spark replaces it by a struct of each row's own range, and merges the ranges only in its physical plan. Here a Sessions node
below the Aggregate merges them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.event_time import ClosingSessions
from engine.model.ordered import Sessions
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal_key
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.rules.event_time import Closing
from stepwell.lowering.trees import expression_id


def build_sessions(
    context: Lowering, child: Relation, grouping: Sequence[TreeNode], window: int, closing: Closing | None
) -> tuple[Relation, list[TreeNode]]:
    """The child of an Aggregate with sessions in its column `window`, and the grouping expressions over it. The other grouping expressions are
    the key of the sessions. `closing`: how they close, above a withWatermark."""
    keys = []
    for tree in grouping:
        if tree.kind != "AttributeReference" or expression_id(tree) != window:
            keys.append(normal_key(tree, context.type_over_outputs(tree, child)))
    below, columns = context.compute(child, keys)
    place = next(place for place, output in enumerate(below.outputs) if output.id == window)
    types = context.builder.types(below.node)
    node: Sessions | ClosingSessions = Sessions((below.node,), types, columns, place)
    if closing is not None:
        node = ClosingSessions((below.node, closing.watermark), types, columns, place)
    relation = context.add(node, below.columns)
    outputs = tuple(PlanOutput(output.id, relation.outputs[at].tree) for at, output in enumerate(below.outputs))
    return Relation(relation.node, relation.columns, outputs), list(grouping)
