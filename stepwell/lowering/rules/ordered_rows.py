"""The order of the rows that an Aggregate reads, for first, last, collect_list and listagg.

A table has no order, and in Spark these functions take the rows as they come. A query with `first(x)` over a subquery with ORDER BY means the
order of that subquery, and Spark keeps the Sort for these functions alone. So its order decides here, and ties are broken by the values.

    Aggregate(first(x))                        Aggregate(min of (k, x))
      Project(x)                                 Project(x, k)
        Sort(k)                      ->            t
          t
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.rules.order import needs_order, order_below, sort_orders
from stepwell.lowering.trees import attribute


def keep_order(context: Lowering, node: TreeNode) -> tuple[Relation, Sequence[TreeNode]]:
    """(the rows below the Aggregate `node`, their order as SortOrders over them). The order is empty if no call needs one, or there is none."""
    child = context.lower(node.children[0])
    order = order_below(context, node, child, node["groupingExpressions"]) if needs_order(node) else None
    if order is None:
        return Relation(child.node, child.columns, child.outputs, child.predicates), ()
    keys = [PlanOutput(context.fresh(), attribute(key.id, "", None)) for key in order.keys]
    relation = context.project(child.revealed, (*pass_on(child.outputs), *keys))
    named = zip(keys, sort_orders(order), strict=True)
    return relation, [_over(item, attribute(key.id, "", None)) for key, item in named]


def _over(item: TreeNode, key: TreeNode) -> TreeNode:
    return TreeNode(item.kind, {**item.fields, "child": key}, (key,))
