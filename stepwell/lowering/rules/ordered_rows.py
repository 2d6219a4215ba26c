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
from stepwell.lowering.relation import Output, Relation, passed_on
from stepwell.lowering.trees import attribute, expression_id, unalias

_KEEP_ORDER = frozenset({"Project", "Filter", "SubqueryAlias"})
_NEED_ORDER = frozenset({"First", "Last", "CollectList", "ListAgg"})


def in_order(context: Lowering, node: TreeNode) -> tuple[Relation, Sequence[TreeNode]]:
    """(the rows below the Aggregate `node`, their order as SortOrders over them). The order is empty if no call needs one."""
    between: list[TreeNode] = []
    below = node.children[0]
    while below.kind in _KEEP_ORDER:
        between.append(below)
        below = below.children[0]
    if below.kind != "Sort" or not needs_order(node):
        return context.lower(node.children[0]), ()
    relation = context.lower(below.children[0])
    keys = [Output(context.fresh(), item.children[0]) for item in below["order"]]
    relation = context.project(relation, (*passed_on(relation.outputs), *keys))
    for above in reversed(between):
        if above.kind == "Filter":
            relation = context.filter(relation, above["condition"])
        elif above.kind == "Project":
            outputs = [Output(expression_id(item), unalias(item)) for item in above["projectList"]]
            relation = context.project(relation, (*outputs, *passed_on(keys)))
    references = [attribute(key.id, "", None) for key in keys]
    order = [_over(item, reference) for item, reference in zip(below["order"], references, strict=True)]
    return relation, order


def needs_order(node: TreeNode) -> bool:
    """Whether an aggregate call of `node` depends on the order of rows."""
    return any(
        part.kind == "AggregateExpression" and part.children[0].kind in _NEED_ORDER
        for item in node["aggregateExpressions"]
        for part in item.walk()
    )


def _over(item: TreeNode, key: TreeNode) -> TreeNode:
    return TreeNode(item.kind, {**item.fields, "child": key, "sameOrderExpressions": []}, (key,))
