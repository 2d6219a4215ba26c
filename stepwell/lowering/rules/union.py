"""Union: UNION ALL by position. Spark has already cast the columns to common types, which may differ in the names of fields of structs."""

from __future__ import annotations

from collections.abc import Sequence

from base.text.type_names import sql_type
from engine.model.node import Types
from engine.model.rows import Map, Union
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.expressions.fragment import Fragment, renamed_fields
from stepwell.lowering.relation import Relation


def lower(context: Lowering, node: TreeNode) -> Relation:
    return unite(context, [context.lower(child) for child in node.children])


def unite(context: Lowering, relations: Sequence[Relation]) -> Relation:
    """The rows of all `relations`. The nodes above refer to the columns by the ids of the first relation."""
    materialised = [context.materialise(relation) for relation in relations]
    first = materialised[0]
    if len(materialised) == 1:
        return first
    types = context.builder.types(first.node)
    nodes = [first.node]
    for position, other in enumerate(materialised[1:], start=2):
        node = _with_types(context, other.node, types)
        if node is None:
            if context.refusals:
                return first  # a stand-in, whose columns have no meaning
            theirs = ", ".join(map(sql_type, context.builder.types(other.node)))
            raise UnsupportedPlan(
                "Union",
                f"input {position} of a UNION has types {theirs}, the first has {', '.join(map(sql_type, types))}",
                "Cast the columns to the same types in every branch",
            )
        nodes.append(node)
    return context.add(Union(tuple(nodes), types), first.columns)


def _with_types(context: Lowering, node: int, types: Types) -> int | None:
    """The node, or a map over it that gives fields of structs other names; None if the types differ in something else."""
    theirs = context.builder.types(node)
    if theirs == types:
        return node
    columns = [Fragment(f"c{column}", type_, column=column) for column, type_ in enumerate(theirs)]
    renamed = [renamed_fields(column, type_) for column, type_ in zip(columns, types, strict=False)]
    if len(theirs) != len(types) or None in renamed:
        return None
    return context.builder.add(Map((node,), types, None, tuple(column.expression for column in renamed if column)))
