"""Expand: it emits every input row once for each list of projections. Spark uses it for ROLLUP, CUBE and several
count(DISTINCT). Every copy of a row has the row's place in the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import PlanOutput, Relation, RowOrder
from stepwell.lowering.rules.order import hand_on
from stepwell.lowering.rules.union import unite
from stepwell.lowering.trees import attribute, expression_id, literal


def lower(context: Lowering, node: TreeNode) -> Relation:
    child, order = hand_on(context, context.lower(node.children[0]))
    read = {} if order is None else {id_: context.fresh() for id_ in (*(key.id for key in order.keys), *order.within)}
    identifiers = [expression_id(item) for item in node["output"]]
    types = [item["dataType"] for item in node["output"]]
    copies = []
    for projections in node["projections"]:
        outputs = [
            PlanOutput(identifier, _give_type(tree, type_))
            for identifier, tree, type_ in zip(identifiers, projections, types, strict=True)
        ]
        hidden = [PlanOutput(made, attribute(id_, "", None)) for id_, made in read.items()]
        copies.append(context.project(child, (*outputs, *hidden)))
    united = unite(context, copies)
    return united.with_order(None if order is None else _rename(order, read))


def _rename(order: RowOrder, read: Mapping[int, int]) -> RowOrder:
    """The order whose columns are all hidden and have new ids."""
    hidden = tuple(PlanOutput(made, attribute(made, "", None)) for made in read.values())
    keys = tuple(replace(key, id=read[key.id]) for key in order.keys)
    return replace(order, keys=keys, hidden=hidden, within=tuple(read[id_] for id_ in order.within))


def _give_type(tree: TreeNode, type_: object) -> TreeNode:
    """`tree`, in which a NULL gets the type of its column, so that all copies have equal types."""
    if tree.kind == "Literal" and tree["value"] is None:
        return literal(None, type_)
    return tree
