"""GlobalLimit, LocalLimit and Offset: LIMIT and OFFSET, with the ORDER BY below them, become a TopK.

    GlobalLimit n                        GlobalLimit n               Offset m
      LocalLimit n                         Offset m                    Sort
        Project (may drop sort keys)         LocalLimit n + m            child
          Sort                                 Sort
            child                                child

The rule walks from the limit down to the Sort, through nodes that keep the order. It then lowers the Sort's child and applies the nodes between
them again, with the sort keys as hidden outputs. A LIMIT over another one has the order of that one.

A LocalLimit means: at least n rows of each partition, any. Only Spark makes one, from a GlobalLimit above it (LimitPushDown) or for a semi join
that asks whether there is a row. So it says nothing about the result and is left out.

Without an ORDER BY the rows are those that come first in canonical order. Spark's choice depends on its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.accumulators.sort_bytes import has_order
from engine.model.ordered import SortKey, TopK
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import Output, Relation, passed_on
from stepwell.lowering.rules.event_time import refuse_above
from stepwell.lowering.rules.transparent import FORGET_ORDER
from stepwell.lowering.trees import attribute, expression_id, literal, references, unalias

_KEEP_ORDER = frozenset(
    {
        "SubqueryAlias", "View", "ResolvedHint", "EventTimeWatermark", "LocalLimit", "Repartition", "RepartitionByExpression",
        "RebalancePartitions",
    }
)  # fmt: skip
"""Nodes that change neither rows nor columns."""

_ARBITRARY_NOTE = (
    "LIMIT or OFFSET without ORDER BY: Spark may keep any rows; here they are the first ones in canonical order, which is by a hash of the "
    "whole row"
)
_ONE_WORKER_NOTE = "LIMIT and OFFSET: all rows meet on one worker"


@dataclass(frozen=True)
class Key:
    """A sort key: the id of the relation's output with the value."""

    id: int
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ordered:
    """Rows with an order. The last `hidden` outputs of the relation are sort keys that the plan node does not have."""

    relation: Relation
    keys: tuple[Key, ...] = ()
    hidden: int = 0


def lower(context: Lowering, node: TreeNode) -> Relation:
    """The rule of GlobalLimit and Offset."""
    refuse_above(node, "LIMIT or OFFSET", "Take the first rows where you read the table; or leave withWatermark out")
    ordered = _limited(context, node)
    relation = ordered.relation
    visible = len(relation.outputs) - ordered.hidden
    return Relation(relation.node, relation.columns, relation.outputs[:visible], relation.predicates)


def lower_local(context: Lowering, node: TreeNode) -> Relation:
    """Leaves a LocalLimit out."""
    return context.lower(node.children[0])


def _limited(context: Lowering, node: TreeNode) -> Ordered:
    offset, count, below = _window(node)
    with context.within(node):
        ordered = _ordered(context, below)
    if count == 0:
        return replace(ordered, relation=context.filter(ordered.relation, literal("false", "boolean")))
    if offset == 0 and count is None:
        return ordered
    context.note(_ONE_WORKER_NOTE)
    if not ordered.keys:
        context.note(_ARBITRARY_NOTE)
    settled, places = context.compute(ordered.relation, [attribute(key.id, "", None) for key in ordered.keys])
    types = context.builder.types(settled.node)
    order = tuple(
        SortKey(place, key.ascending, key.nulls_first) for place, key in zip(places, ordered.keys, strict=True)
    )
    _refuse_types_without_order(context, order, settled)
    index = context.builder.add(TopK((settled.node,), types, (), order, offset, count))
    return replace(ordered, relation=Relation(index, settled.columns, settled.outputs))


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


def _ordered(context: Lowering, node: TreeNode) -> Ordered:
    """The rows of `node`, with the order that reaches it from a Sort below."""
    if node.kind in ("GlobalLimit", "Offset"):
        return _limited(context, node)
    with context.within(node):
        if node.kind == "Sort":
            return _sorted(context, node)
        if node.kind == "Project":
            return _projected(context, _ordered(context, node.children[0]), node)
        if node.kind == "Filter":
            below = _ordered(context, node.children[0])
            return replace(below, relation=context.filter(below.relation, node["condition"]))
        if node.kind in _KEEP_ORDER:
            return _ordered(context, node.children[0])
    _refuse_lost_order(node)
    return Ordered(context.lower(node))


def _sorted(context: Lowering, sort: TreeNode) -> Ordered:
    child = context.lower(sort.children[0])
    if not sort["global"]:  # sortWithinPartitions: an order of the rows of each partition, of which a Z-set has none
        return Ordered(child)
    known = {output.id for output in child.outputs}
    hidden: list[Output] = []
    keys: list[Key] = []
    for item in sort["order"]:
        tree = item.children[0]
        if not references(tree):
            continue  # a constant sorts nothing
        if tree.kind == "AttributeReference" and expression_id(tree) in known:
            identifier = expression_id(tree)
        else:
            identifier = context.fresh()
            hidden.append(Output(identifier, tree))
        keys.append(Key(identifier, _is(item["direction"], "Ascending"), _is(item["nullOrdering"], "NullsFirst")))
    outputs = (*passed_on(child.outputs), *hidden)
    return Ordered(context.project(child, outputs), tuple(keys), len(hidden))


def _projected(context: Lowering, below: Ordered, project: TreeNode) -> Ordered:
    """A projection of ordered rows. The sort keys that it drops become hidden outputs."""
    outputs = [Output(expression_id(item), unalias(item)) for item in project["projectList"]]
    kept = {expression_id(output.tree): output.id for output in outputs if output.tree.kind == "AttributeReference"}
    dropped = dict.fromkeys(key.id for key in below.keys if key.id not in kept)
    hidden = [Output(identifier, attribute(identifier, "", None)) for identifier in dropped]
    keys = tuple(replace(key, id=kept.get(key.id, key.id)) for key in below.keys)
    return Ordered(context.project(below.relation, (*outputs, *hidden)), keys, len(hidden))


def _is(value: object, name: str) -> bool:
    """Whether an object of Catalyst, such as a direction, is the one of this name."""
    assert isinstance(value, dict)
    found: str = value["object"]
    return found.rsplit(".", 1)[-1].rstrip("$") == name


def _refuse_types_without_order(context: Lowering, order: tuple[SortKey, ...], settled: Relation) -> None:
    types = context.builder.types(settled.node)
    for key in order:
        if not has_order(types[key.column]) and not context.refusals:
            raise UnsupportedPlan(
                "Sort",
                f"ORDER BY a value of type {types[key.column]} below a LIMIT is not supported",
                "Order by a column of another type",
            )


def _refuse_lost_order(node: TreeNode) -> None:
    """Raises UnsupportedPlan if Spark may carry an order through `node` to the LIMIT above it."""
    waiting = [node]
    while waiting:
        below = waiting.pop()
        if below.kind == "Sort":
            raise UnsupportedPlan(
                "Sort",
                f"a {node.kind} stands between an ORDER BY and the LIMIT that takes the first rows, which is not supported",
                "Write the ORDER BY beside the LIMIT",
            )
        if below.kind not in FORGET_ORDER:
            waiting += below.children
