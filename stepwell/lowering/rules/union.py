"""Union: UNION ALL by position. Spark has already cast the columns to common types, so nothing is cast here."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.rows import Union
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
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
    for position, other in enumerate(materialised[1:], start=2):
        if context.builder.types(other.node) != types:
            if context.refusals:
                return first  # a stand-in, whose columns have no meaning
            theirs = ", ".join(map(str, context.builder.types(other.node)))
            raise UnsupportedPlan(
                "Union",
                f"input {position} of a UNION has types {theirs}, the first has {', '.join(map(str, types))}",
                "Cast the columns to the same types in every branch",
            )
    return context.add(Union(tuple(relation.node for relation in materialised), types), first.columns)
