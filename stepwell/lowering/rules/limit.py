"""GlobalLimit, LocalLimit and Offset: LIMIT and OFFSET, with the ORDER BY below them, become a TopK.

    GlobalLimit n                        GlobalLimit n               Offset m
      LocalLimit n                         Offset m                    Sort
        Project (may drop sort keys)         LocalLimit n + m            child
          Sort                                 Sort
            child                                child

The order comes from the Sort below, through whatever hands it on (`rules/order.py`). A LIMIT over another one has the order of that one.

A LocalLimit means: at least n rows of each partition, any. Only Spark makes one, from a GlobalLimit above it (LimitPushDown) or for a semi join
that asks whether there is a row. So it says nothing about the result and is left out.

Without an ORDER BY the rows are those that come first in canonical order. Spark's choice depends on its partitions.
"""

from __future__ import annotations

from dataclasses import replace

from base.text.type_names import sql_type
from engine.accumulators.sort_bytes import has_order
from engine.model.ordered import SortKey, TopK
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Relation
from stepwell.lowering.rules.event_time import refuse_above
from stepwell.lowering.rules.order import order_below, order_if_read
from stepwell.lowering.trees import literal

ARBITRARY_NOTE = (
    "LIMIT or OFFSET without ORDER BY: Spark may keep any rows; here they are the first ones in canonical order, which is by a hash of the "
    "whole row"
)
_ONE_WORKER_NOTE = "LIMIT and OFFSET: all rows meet on one worker"


def lower(context: Lowering, node: TreeNode) -> Relation:
    """The rule of GlobalLimit and Offset."""
    refuse_above(node, "LIMIT or OFFSET", "Take the first rows where you read the table; or leave withWatermark out")
    offset, count, below = _window(node)
    child = context.lower(below)
    order = order_below(context, node, child, ())
    relation = replace(child, order=order)
    if count == 0:
        return context.filter(replace(relation, order=None), literal("false", "boolean"))
    if offset == 0 and count is None:
        return replace(relation, order=order_if_read(context, relation))
    context.note(_ONE_WORKER_NOTE)
    if order is None or not order.keys:
        context.note(ARBITRARY_NOTE)
    materialised = context.materialise_in_order(relation)
    types = context.builder.types(materialised.node)
    keys = () if order is None else order.keys
    sorts = tuple(SortKey(materialised.position(key.id), key.ascending, key.nulls_first) for key in keys)
    _refuse_types_without_order(context, sorts, materialised)
    index = context.builder.add(
        TopK((materialised.node,), types, partition=(), order=sorts, offset=offset, count=count)
    )
    return Relation(index, materialised.columns, materialised.outputs, (), order_if_read(context, materialised))


def lower_local(context: Lowering, node: TreeNode) -> Relation:
    """Leaves a LocalLimit out."""
    return context.lower(node.children[0])


def _window(node: TreeNode) -> tuple[int, int | None, TreeNode]:
    """(the rows that are skipped, the rows that are kept, the node below)."""
    count, below = None, node
    if node.kind == "GlobalLimit":
        count, below = _number(node["limitExpr"]), _below(node)
    if below.kind == "Offset":
        return _number(below["offsetExpr"]), count, _below(below)
    return 0, count, below


def _below(node: TreeNode) -> TreeNode:
    child = node.children[0]
    return child.children[0] if child.kind == "LocalLimit" else child


def _number(tree: TreeNode) -> int:
    if tree.kind != "Literal":
        raise UnsupportedPlan("GlobalLimit", "the number of a LIMIT or OFFSET is not a constant", "Write the number")
    return int(tree["value"])


def _refuse_types_without_order(context: Lowering, order: tuple[SortKey, ...], materialised: Relation) -> None:
    types = context.builder.types(materialised.node)
    for key in order:
        if not has_order(types[key.column]) and not context.refusals:
            raise UnsupportedPlan(
                "Sort",
                f"ORDER BY a value of type {sql_type(types[key.column])} below a LIMIT is not supported",
                "Order by a column of another type",
            )
