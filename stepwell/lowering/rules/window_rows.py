"""The rows that a Window reads: their partitions, the window's own order, and the order that comes to it from below (`order.py`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal_key
from stepwell.lowering.relation import PlanOutput, Relation, RowOrder, pass_on
from stepwell.lowering.rules.order import key_of, order_below, order_within, reader_above, reads_order, sort_orders
from stepwell.lowering.trees import canonical, conjuncts, expression_id


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders of the rows of a Window, as SortOrders over them. `given`: whether OVER has an ORDER BY. `own`: what sorts in it; of constants
    alone it is empty, and all rows of a partition tie. `inherited`: that of the rows below, which decides between rows that tie in the own one.
    `above`: what the window hands on, if a node above reads it. `hidden`: the ids of outputs that only orders read."""

    given: bool
    own: Sequence[TreeNode]
    inherited: Sequence[TreeNode]
    above: RowOrder | None
    hidden: frozenset[int]

    def result(self, rows: Relation) -> Relation:
        """The rows that the window hands on, with their order and without the outputs that only the window has read."""
        if self.above is not None:
            return rows.with_order(self.above)
        outputs = tuple(output for output in rows.outputs if output.id not in self.hidden)
        return replace(rows, outputs=outputs, order=None)

    @property
    def both(self) -> list[TreeNode]:
        return [*self.own, *self.inherited]


def rows_of(context: Lowering, node: TreeNode) -> tuple[Relation, Orders]:
    """(the materialised rows that a Window or WindowGroupLimit reads, with all columns of their orders among the outputs; these orders)."""
    child = context.lower(node.children[0])
    own, given, partition = order_of(node), bool(node["orderSpec"]), node["partitionSpec"]
    is_read = reader_above(context) is not None
    order = order_within(child, partition) if is_read else None
    if reads_order(node):
        order = order_below(context, node, child, partition, ties=bool(own))
    if own and order is not None and not order.sorts:
        order = None  # that of another window, which does not decide between ties: no ORDER BY says so
    rows = context.materialise_in_order(replace(child, order=order)).revealed
    inherited = [] if order is None else sort_orders(order)
    hidden = frozenset() if order is None else frozenset(output.id for output in order.hidden)
    if not is_read:
        return rows, Orders(given, own, inherited, None, hidden)
    if node.kind == "WindowGroupLimit":  # the Window above has the same order of its own
        return rows, Orders(given, own, inherited, order, hidden)
    extra: list[PlanOutput] = []
    known = {output.id for output in rows.outputs}

    def column(tree: TreeNode) -> int:
        if tree.kind == "AttributeReference" and expression_id(tree) in known:
            return expression_id(tree)
        extra.append(PlanOutput(context.fresh(), tree))
        return extra[-1].id

    keys = [key_of(column(item.children[0]), item) for item in own]
    within = tuple(column(tree) for tree in partition if tree.kind != "Literal")
    if extra:
        rows = context.materialise(context.project(rows, (*pass_on(rows.outputs), *extra)))
    if order is None:
        return rows, Orders(given, own, inherited, RowOrder(tuple(keys), tuple(extra), within, (), False), hidden)
    above = RowOrder((*keys, *order.keys), (*order.hidden, *extra), within, order.sorts, order.local)
    return rows, Orders(given, own, inherited, above, hidden)


def partition_of(context: Lowering, rows: Relation, node: TreeNode) -> list[TreeNode]:
    """The different keys of the partition, as they are compared. A constant distinguishes no rows."""
    keys = [normal_key(tree, context.type_of(tree, rows)) for tree in node["partitionSpec"] if tree.kind != "Literal"]
    return list({canonical(key): key for key in keys}.values())


def order_of(node: TreeNode) -> list[TreeNode]:
    """The SortOrders that have an effect. A constant sorts nothing, and neither does a value by which rows are sorted already."""
    first: dict[Hashable, TreeNode] = {}
    for item in node["orderSpec"]:
        if item.children[0].kind != "Literal":
            first.setdefault(canonical(item.children[0]), item)
    return list(first.values())


def most_that_pass(context: Lowering, number: int) -> int | None:
    """The greatest value of the integer column with this id with which a row can pass the Filter above the node whose rule is running; None if
    any can."""
    above = next(iter(context.above), None)
    if above is None or above.kind != "Filter":
        return None
    found = [bound for part in conjuncts(above["condition"]) if (bound := _bound(part, number)) is not None]
    return min(found, default=None)


def _bound(tree: TreeNode, number: int) -> int | None:
    """n if `tree` says that the column is at most n."""
    if tree.kind not in ("LessThan", "LessThanOrEqual", "EqualTo"):
        return None
    left, right = tree.children
    if left.kind != "AttributeReference" or expression_id(left) != number or right.kind != "Literal":
        return None
    return None if right["value"] is None else int(right["value"]) - (tree.kind == "LessThan")
