"""Columns without a type (void), which are NULL in every row.

No column of a circuit is without a type. So before a plan is lowered, such a column becomes one of booleans wherever a plan node makes it or
passes it on. An expression that reads it gets the NULL itself, for which each cast and each function has a rule. What is without a type within a
column, such as the elements of array(NULL), becomes integers when the expression is a column."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from base.arrays import leaf_types, with_leaves
from engine.model.node import Expression
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.catalyst.types import TYPE_OF_VOID_COLUMNS, VOID
from stepwell.lowering.trees import literal, rebuild, transform, with_typed_nulls

_AROUND_COLUMNS = frozenset({"Alias", "SortOrder"})
"""The expressions that name or order what they have below them, which may be a column of the plan node."""


def with_typed_columns(plan: TreeNode) -> TreeNode:
    """The plan without columns of the type void, also in its subqueries."""
    return _plan(plan) if any(node.get("dataType") == VOID for node in walk_all(plan)) else plan


def as_column(made: Expression) -> Expression:
    """The expression as a column. DuckDB's form of a NULL without a type is an INTEGER."""
    if not pa.types.is_nested(made.type) or not any(map(pa.types.is_null, leaf_types(made.type))):
        return made
    return replace(made, type=with_leaves(made.type, lambda leaf: pa.int32() if pa.types.is_null(leaf) else leaf))


def _plan(node: TreeNode) -> TreeNode:
    # What a generator makes has the type of what it takes.
    return rebuild(node, _plan, lambda name, tree: with_typed_nulls(tree) if name == "generator" else _column(tree))


def _column(tree: TreeNode) -> TreeNode:
    """What a plan node makes or passes on."""
    if tree.kind in ("AttributeReference", "Literal"):
        return (
            TreeNode(tree.kind, {**tree.fields, "dataType": TYPE_OF_VOID_COLUMNS}, ())
            if tree["dataType"] == VOID
            else tree
        )
    if tree.kind in _AROUND_COLUMNS:
        child = _column(tree.children[0])
        others = tuple(transform(other, _within) for other in tree.children[1:])
        return TreeNode(tree.kind, {**tree.fields, "child": child}, (child, *others))
    return transform(tree, _within)


def _within(tree: TreeNode) -> TreeNode | None:
    """What stands in an expression in place of `tree`; None if nothing has to."""
    if tree.kind == "AttributeReference":
        return literal(None, VOID) if tree["dataType"] == VOID else None
    plan = tree.get("plan")
    return (
        TreeNode(tree.kind, {**tree.fields, "plan": _plan(plan)}, tree.children) if isinstance(plan, TreeNode) else None
    )
