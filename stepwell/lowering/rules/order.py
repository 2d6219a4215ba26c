"""The order of rows: which plan nodes read that of an ORDER BY below them, and how it comes to them.

A table has no order, and neither has a Z-set. But the answer of some plan nodes depends on the order in which they read their rows: LIMIT and
OFFSET, first and lists, window functions of rows that tie, dropDuplicates. In Spark they take the rows as they come. So a query that has an
ORDER BY below such a node means that order, and it may stand some nodes below. Spark itself writes such plans: a LIMIT in a subquery that
refers to the query around it becomes a row_number() without an order of its own.

    LATERAL (SELECT p FROM q                Filter (rn <= 1)
             WHERE q.k = t.k                  Window row_number() PARTITION BY k
             ORDER BY ts DESC                   Project p, k
             LIMIT 1)                             Sort ts DESC
                                                    q

The rule of a Sort gives its relation the order if a node above reads it (`reader_above`); otherwise the order means nothing, and `dry-run`
says so. A relation carries its order through projections and filters. A rule that makes a node hands it on by `hand_on` and `with_order`; if it
does not, the order is lost there. A rule that reads it calls `order_below`, which refuses a query whose order is lost on the way. A Sort whose
order no rule has read although it should is a bug, and `Lowering.lower_whole` raises AssertionError.

A window gives its own order to what is above it, as in Spark, among the rows of a partition: a list over the first rows of each group is in
their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Key, PlanOutput, Relation, RowOrder, pass_on
from stepwell.lowering.trees import attribute, canonical, expression_id, references, substitute

LIMITS = frozenset({"GlobalLimit", "Offset", "Tail"})
"""`rules/limit.py` says why a LocalLimit is none of them."""
DROPPING = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})
_FORGET = frozenset({"Sort", "Aggregate", "Join", "Distinct", "UnionLoop", "UnionLoopRef"})
"""The nodes that do not read the order of their rows, and whose own rows have another one or none. (An Aggregate may read it.)"""
_PASS = frozenset(
    {
        "Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "EventTimeWatermark", "LocalLimit", "Repartition",
        "RepartitionByExpression", "RebalancePartitions", "CollectMetrics",
    }
)  # fmt: skip
"""The nodes that hand on every row with its order, and do not read it."""

_OF_ROWS = frozenset({"First", "Last", "CollectList", "ListAgg", "PythonUDAF"})
"""The aggregate functions whose value depends on the order of rows."""
_OF_PLACES = frozenset({"RowNumber", "NTile", "Lag", "Lead", "First", "Last", "NthValue", "CollectList", "ListAgg"})
_OF_RANKS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist"})

UNUSED_NOTE = "ORDER BY without LIMIT has no meaning for a table and is left out; order rows where you read them"
_LOST_TIES_NOTE = (
    "an ORDER BY below a {between} does not decide between rows that tie in the ORDER BY of OVER (...), and is left out"
)


def needs_order(node: TreeNode) -> bool:
    """Whether a call of the Aggregate `node` depends on the order of rows."""
    return any(
        part.kind == "AggregateExpression" and part.children[0].kind in _OF_ROWS
        for item in node["aggregateExpressions"]
        for part in item.walk()
    )


def window_expression(item: TreeNode) -> TreeNode:
    """What an item of a Window names: a WindowExpression, or a column. Spark passes columns on so in subqueries that refer to the query around
    them."""
    while item.kind == "Alias":
        item = item.children[0]
    return item


def reads_ties(item: TreeNode) -> bool:
    """Whether the window function in this item of a Window depends on the order of rows that tie in the window's own order."""
    tree = window_expression(item)
    if tree.kind != "WindowExpression":
        return False
    function, spec = tree.children
    inner = function.children[0] if function.kind == "AggregateExpression" else function
    if inner.kind in _OF_PLACES | _OF_RANKS:
        return inner.kind in _OF_PLACES
    frame = spec["frameSpecification"]
    ends = frame["lower"].kind, frame["upper"].kind
    is_whole = ends == ("UnboundedPreceding$", "UnboundedFollowing$")
    return str(frame["frameType"]["object"]).endswith("RowFrame$") and not is_whole


def reads_order(node: TreeNode) -> bool:
    """Whether the answer of `node` depends on the order of the rows below it."""
    if node.kind == "Aggregate":
        return needs_order(node)
    if node.kind == "Window":
        return any(reads_ties(item) for item in node["windowExpressions"])
    if node.kind == "WindowGroupLimit":
        return bool(node["rankLikeFunction"].kind == "RowNumber")
    return node.kind in LIMITS | DROPPING


def reader_above(context: Lowering) -> TreeNode | None:
    """The node above the one whose rule is running that reads the order of its rows."""
    for above in context.above:
        if reads_order(above):
            return above
        if above.kind in _FORGET:
            return None
    return None


def sort_relation(context: Lowering, child: Relation, sort: TreeNode, reader: TreeNode) -> Relation:
    """The rows of the Sort's child with its order, which `reader` has to read."""
    known = {output.id for output in child.outputs}
    hidden: list[PlanOutput] = []
    keys: list[Key] = []
    for item in sort["order"]:
        tree = item.children[0]
        if not references(tree):
            continue  # a constant sorts nothing
        if tree.kind == "AttributeReference" and expression_id(tree) in known:
            identifier = expression_id(tree)
        else:
            identifier = context.fresh()
            hidden.append(PlanOutput(identifier, tree))
        keys.append(key_of(identifier, item))
    plain = Relation(child.node, child.columns, child.outputs, child.predicates)
    order = RowOrder(tuple(keys), tuple(hidden), (), (sort,), not sort["global"])
    if sort["global"]:
        context.unread_orders[id(sort)] = reader.kind
    return context.project(plain, (*pass_on(child.outputs), *hidden)).with_order(order)


def key_of(identifier: int, item: TreeNode) -> Key:
    """The sort key of a SortOrder whose value is in the output with this id."""
    return Key(identifier, _is(item["direction"], "Ascending"), _is(item["nullOrdering"], "NullsFirst"))


def order_below(
    context: Lowering, node: TreeNode, child: Relation, partition: Sequence[TreeNode], *, ties: bool = False
) -> RowOrder | None:
    """The order in which `node` reads the rows of its child, among those that agree in `partition`; None if they have none. Refuses the query if
    there is an ORDER BY that cannot come to the node. `ties`: the node has an order of its own, in which the other one would only decide between
    rows that tie; then it is not refused but noted."""
    order = child.order
    if order is None:
        if not context.refusals and _is_lost(node.children[0]):
            _refuse(context, node, ties=ties)
        return None
    for sort in order.sorts:
        context.unread_orders.pop(id(sort), None)
    if order.local and node.kind in LIMITS:
        return None
    found = order_within(child, partition)
    if found is None and order.sorts and not order.local:
        _refuse(context, node, ties=ties)
    return found


def order_within(child: Relation, partition: Sequence[TreeNode]) -> RowOrder | None:
    """The order of the rows of `child` that agree in `partition`; None if they have none."""
    order = child.order
    if order is None:
        return None
    values = {output.id: output.tree for output in child.revealed.outputs}
    agreed = {canonical(substitute(tree, values)) for tree in partition}
    return order if all(canonical(values[identifier]) in agreed for identifier in order.within) else None


def order_if_read(context: Lowering, child: Relation) -> RowOrder | None:
    """The order of `child` if a node above the one whose rule is running reads it."""
    return None if reader_above(context) is None else child.order


def hand_on(context: Lowering, child: Relation) -> tuple[Relation, RowOrder | None]:
    """For a rule that hands the order of its child on: (the child, whose hidden outputs are outputs if a node above reads the order; the
    order, with which the rule's result is `with_order`)."""
    order = order_if_read(context, child)
    return replace(child, order=order).revealed, order


def sort_orders(order: RowOrder) -> list[TreeNode]:
    """The order as SortOrders, over the revealed outputs."""
    return [_sort_order(key) for key in order.keys]


def _sort_order(key: Key) -> TreeNode:
    child = attribute(key.id, "", None)
    direction = "Ascending" if key.ascending else "Descending"
    nulls = "NullsFirst" if key.nulls_first else "NullsLast"
    fields = {"child": child, "direction": {"object": f"{direction}$"}, "nullOrdering": {"object": f"{nulls}$"}}
    return TreeNode("SortOrder", fields, (child,))


def _is(value: object, name: str) -> bool:
    """Whether an object of Catalyst, such as a direction, is the one of this name."""
    assert isinstance(value, dict)
    found: str = value["object"]
    return found.rsplit(".", 1)[-1].rstrip("$") == name


def _is_lost(node: TreeNode, *, aside: bool = False) -> bool:
    """Whether the rows of `node`, which have no order any more, might have that of a Sort below. `aside`: below a UNION. There a LIMIT has used
    the order already."""
    if node.kind == "Sort":
        return bool(node["global"])
    if node.kind in _FORGET | DROPPING or (aside and node.kind in LIMITS):
        return False
    return any(_is_lost(child, aside=aside or node.kind == "Union") for child in node.children)


def _refuse(context: Lowering, node: TreeNode, *, ties: bool) -> None:
    between = node.children[0]
    while between.kind in _PASS:
        between = between.children[0]
    if ties:
        release(context, node)
        context.note(_LOST_TIES_NOTE.format(between=between.kind))
        return
    reader, remedy = _reader(context, node)
    raise UnsupportedPlan(
        "Sort", f"a {between.kind} stands between an ORDER BY and {reader}, which is not supported", remedy
    )


def release(context: Lowering, node: TreeNode) -> None:
    """Says that `node` need not read the order of any Sort below it."""
    for below in node.walk():
        context.unread_orders.pop(id(below), None)


def _reader(context: Lowering, node: TreeNode) -> tuple[str, str]:
    if node.kind in LIMITS or is_limit(context, node):
        return "the LIMIT that takes the first rows", "Write the ORDER BY beside the LIMIT"
    if node.kind in ("Window", "WindowGroupLimit"):
        return "the function OVER (...) that reads rows in its order", "Write the ORDER BY within OVER (...)"
    if node.kind in DROPPING:
        remedy = "Write row_number() OVER (PARTITION BY the keys ORDER BY ...) and keep the rows in which it is 1"
        return "the dropDuplicates that keeps the first rows", remedy
    remedy = "Write the ORDER BY in the subquery from which the aggregate reads, or use min_by and max_by"
    return "the aggregate function that reads rows in its order", remedy


def is_limit(context: Lowering, node: TreeNode) -> bool:
    """Whether Spark has made this Window of a LIMIT or OFFSET in a subquery that refers to the query around it."""
    if node.kind != "Window" or node["orderSpec"]:
        return False
    return all(context.analysed.made_by_spark(expression_id(item)) for item in node["windowExpressions"])
