"""Filter: the condition stays pending in the relation, so that it and the projections around it become one Map."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Relation


def lower(context: Lowering, node: TreeNode) -> Relation:
    return context.filter(context.lower(node.children[0]), node["condition"])
