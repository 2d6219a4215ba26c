"""The inputs of a join in the circuit: materialised, with columns for its key, and the rest of its condition as an expression over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.model.node import Expression
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.keys import normal_key
from stepwell.lowering.relation import Relation
from stepwell.lowering.rules.join_condition import Equality
from stepwell.lowering.trees import conjunction, literal

_NO_KEY_NOTE = "a join without an equality between its sides: all its rows meet on one worker"


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Both inputs, materialised, and the positions of the key's columns in each of them."""

    left: Relation
    right: Relation
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None


def materialise_sides(
    context: Lowering, left: Relation, right: Relation, equalities: Sequence[Equality], residual: Sequence[TreeNode]
) -> Sides:
    if not equalities:
        context.note(_NO_KEY_NOTE)
        equalities = [Equality(literal("0", "byte"), literal("0", "byte"), False)]
    left, left_key = context.compute(left, [_key(context, left, equality.left) for equality in equalities])
    right, right_key = context.compute(right, [_key(context, right, equality.right) for equality in equalities])
    null_safe = tuple(equality.null_safe for equality in equalities)
    rest = conjunction(tuple(residual))
    expression = None if rest is None else context.emit_over((left, right), rest)
    return Sides(
        left=left, right=right, left_key=left_key, right_key=right_key, null_safe=null_safe, residual=expression
    )


def _key(context: Lowering, side: Relation, tree: TreeNode) -> TreeNode:
    return normal_key(tree, context.type_over_outputs(tree, side))
