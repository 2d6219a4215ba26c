"""Project: the outputs stay pending in the relation, so that a chain of filters and projections becomes one Map."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.trees import expression_id, unalias


def lower(context: Lowering, node: TreeNode) -> Relation:
    child = context.lower(node.children[0])
    return context.project(child, (PlanOutput(expression_id(item), unalias(item)) for item in node["projectList"]))
