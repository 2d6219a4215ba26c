"""Generate: several rows made of one, by explode, posexplode, inline, stack, variant_explode and json_tuple, in SELECT and as LATERAL.

A Map below computes the list, and the operator makes a row of each element. `stack` is a list of structs. `json_tuple` gives one row for each
row, so it needs no operator: its values are elements of one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.model.rows import Generate
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.rules import replicate
from stepwell.lowering.rules.order import hand_on
from stepwell.lowering.trees import attribute, expression_id, literal

_LIST: Mapping[str, tuple[bool, bool]] = {
    "Explode": (False, False),
    "PosExplode": (True, False),
    "Inline": (False, True),
    "Stack": (False, True),
    "VariantExplode": (False, True),
}
"""Generators that become a list: whether the position is a column, and whether the fields of an element are."""


def lower(context: Lowering, node: TreeNode) -> Relation:
    generator = node["generator"]
    made = [(expression_id(column), column["dataType"]) for column in node["generatorOutput"]]
    if generator.kind == replicate.REPLICATE_ROWS:
        return replicate.build_replicas(context, node)
    child = context.lower(node.children[0])
    left_out = set(node["unrequiredChildIndex"])
    kept = [output for place, output in enumerate(child.outputs) if place not in left_out]
    if generator.kind == "JsonTuple":
        child, order = hand_on(context, child)
        order = None if order is None else order.project(pass_on(kept))
        hidden = () if order is None else order.hidden
        return _members(context, child, [*kept, *hidden], generator, made).with_order(order)
    if generator.kind not in _LIST:
        raise UnsupportedPlan(
            node.kind,
            f"the function {generator.kind}, which makes several rows of one, is not supported",
            "Use explode, posexplode, inline or stack",
        )
    position, fields = _LIST[generator.kind]
    tree = _collection(generator, made)
    below, (collection,) = context.compute(child, [tree])
    list_ = context.builder.types(below.node)[collection]
    if context.refusals and not (pa.types.is_list(list_) or pa.types.is_map(list_)):
        raise UnsupportedPlan(node.kind, context.refusals[-1].text, context.refusals[-1].remedy)
    kept_columns = tuple(place for place in range(len(child.outputs)) if place not in left_out)
    fields = fields or pa.types.is_map(list_)
    kept_types = (context.builder.types(below.node)[place] for place in kept_columns)
    types = (*kept_types, *Generate.made_types(list_, position=position, fields=fields))
    generate = Generate(
        (below.node,),
        types,
        kept=kept_columns,
        collection=collection,
        position=position,
        fields=fields,
        outer=bool(node["outer"]),
    )
    return context.add(generate, [*(output.id for output in kept), *(identifier for identifier, _ in made)])


def _collection(generator: TreeNode, made: list[tuple[int, Any]]) -> TreeNode:
    """The expression for the list or the map whose elements become rows."""
    if generator.kind == "Stack":
        return _stack(generator, made)
    return generator if generator.kind == "VariantExplode" else generator.children[0]


def _stack(generator: TreeNode, made: list[tuple[int, Any]]) -> TreeNode:
    """`stack(n, a, b, ...)` as an array of n structs; missing cells of the last one are null."""
    count, *cells = generator.children
    rows = []
    for row in range(int(count["value"])):
        members: list[TreeNode] = []
        for place, (_, type_) in enumerate(made):
            at = row * len(made) + place
            cell = cells[at] if at < len(cells) else literal(None, type_)
            if cell.kind == "Literal" and cell["value"] is None:
                cell = literal(None, type_)  # a NULL of no type
            members += [literal(f"col{place}", "string"), cell]
        rows.append(TreeNode("CreateNamedStruct", {}, tuple(members)))
    return TreeNode("CreateArray", {}, tuple(rows))


def _members(
    context: Lowering, child: Relation, kept: list[PlanOutput], generator: TreeNode, made: list[tuple[int, Any]]
) -> Relation:
    """`json_tuple`: its values are the elements of a list, which is computed once."""
    below, (place,) = context.compute(child, [generator])
    list_ = attribute(below.columns[place], "", {"type": "array", "elementType": "string", "containsNull": True})
    whole = Relation(below.node, below.columns, (*below.outputs, PlanOutput(below.columns[place], list_)))
    outputs = pass_on(kept)
    for at, (identifier, _) in enumerate(made):
        item = TreeNode("GetArrayItem", {"failOnError": False}, (list_, literal(str(at), "integer")))
        outputs.append(PlanOutput(identifier, item))
    return context.materialise(context.project(whole, outputs))
