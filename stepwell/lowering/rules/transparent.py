"""Nodes that do not change the rows: order, partitioning, hints and names. A Z-set has none of these. What an ORDER BY is good for is said in
`rules/order.py`."""

from __future__ import annotations

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Relation
from stepwell.lowering.rules.order import LIMITS, UNUSED_NOTE, reader_above, sort_relation

OBSERVED_NOTE = (
    "observe() collects nothing, because no run of the query ends; publish a view with these aggregates instead"
)


def lower(context: Lowering, node: TreeNode) -> Relation:
    return context.lower(node.children[0])


def lower_observed(context: Lowering, node: TreeNode) -> Relation:
    """`observe` passes its rows on. Its metrics are of one run of a query, which a view does not have."""
    context.note(OBSERVED_NOTE)
    return context.lower(node.children[0])


def lower_sort(context: Lowering, node: TreeNode) -> Relation:
    """The rows below, with the order if a node above reads it. SORT BY orders the rows of each of Spark's partitions, which is none for a
    LIMIT."""
    child = context.lower(node.children[0])
    reader = reader_above(context)
    if reader is None:
        context.note(UNUSED_NOTE)
    elif node["global"] or reader.kind not in LIMITS:
        return sort_relation(context, child, node, reader)
    return Relation(child.node, child.columns, child.outputs, child.predicates)
