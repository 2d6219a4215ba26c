"""Nodes that leave the rows as they are: order, partitioning, hints, names. A table of rows with weights has none of
these. A WindowGroupLimit is a hint too: the Filter above its Window removes the same rows."""

from __future__ import annotations

from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import Relation
from stepwell.planning.catalyst.tree import TreeNode


def lower(context: Lowering, node: TreeNode) -> Relation:
    return context.lower(node.children[0])


def lower_sort(context: Lowering, node: TreeNode) -> Relation:
    context.note("ORDER BY without LIMIT has no meaning for a table and is left out; order rows where you read them")
    return context.lower(node.children[0])


def lower_watermark(context: Lowering, node: TreeNode) -> Relation:
    context.note("withWatermark drops neither late rows nor state: the view holds the answer over all rows")
    return context.lower(node.children[0])
