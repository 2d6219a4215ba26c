"""Expand: it emits every input row once for each list of projections. Spark uses it for ROLLUP, CUBE and several
count(DISTINCT)."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Output, Relation
from stepwell.lowering.rules.union import unite
from stepwell.lowering.trees import expression_id, literal


def lower(context: Lowering, node: TreeNode) -> Relation:
    child = context.lower(node.children[0])
    identifiers = [expression_id(item) for item in node["output"]]
    types = [item["dataType"] for item in node["output"]]
    copies = []
    for projections in node["projections"]:
        outputs = (
            Output(identifier, _typed(tree, type_))
            for identifier, tree, type_ in zip(identifiers, projections, types, strict=True)
        )
        copies.append(context.project(child, outputs))
    return unite(context, copies)


def _typed(tree: TreeNode, type_: object) -> TreeNode:
    """`tree`, in which a NULL gets the type of its column, so that all copies have equal types."""
    if tree.kind == "Literal" and tree["value"] is None:
        return literal(None, type_)
    return tree
