"""LogicalRDD, LocalRelation and the leaves of batch tables: a source, an upstream view, or rows written in the definition. The driver knows
which of them it is."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Relation
from stepwell.lowering.trees import expression_id


def lower(context: Lowering, node: TreeNode) -> Relation:
    identifiers = tuple(expression_id(item) for item in node["output"])
    index = context.leaf(node)
    missing = len(context.builder.types(index)) - len(identifiers)
    assert missing >= 0, f"{node.kind} reads {len(identifiers)} columns, there are {missing} less"
    relation = context.relation_over(index, (*identifiers, *(context.fresh() for _ in range(missing))))
    return Relation(relation.node, relation.columns, relation.outputs[: len(identifiers)])
