"""Columns without a type (void), which are NULL in every row.

No column of a circuit is without a type. So before a plan is lowered, such a column becomes one of booleans wherever a plan node makes it or
passes it on. An expression that reads it gets the NULL itself, for which each cast and each function has a rule. What is without a type within a
column, such as the elements of array(NULL), becomes integers when the expression is a column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from base.arrays import leaf_types
from engine.model.node import Expression
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.catalyst.types import TYPE_OF_VOID_COLUMNS, VOID
from stepwell.lowering.trees import literal, transform, with_typed_nulls

_AROUND_COLUMNS = frozenset({"Alias", "SortOrder"})
"""The expressions that name or order what they have below them, which may be a column of the plan node."""


def with_typed_columns(plan: TreeNode) -> TreeNode:
    """The plan without columns of the type void, also in its subqueries."""
    return _plan(plan) if any(node.get("dataType") == VOID for node in walk_all(plan)) else plan


def as_column(made: Expression) -> Expression:
    """The expression as a column. DuckDB's form of a NULL without a type is an INTEGER."""
    if not pa.types.is_nested(made.type) or not any(map(pa.types.is_null, leaf_types(made.type))):
        return made
    return replace(made, type=_with_types(made.type))


def _with_types(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_with_types(kind.key_type), _with_types(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _with_types(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _with_types(field.type)) for field in kind])
    return kind


def _plan(node: TreeNode) -> TreeNode:
    children = tuple(map(_plan, node.children))
    renewed = {id(old): new for old, new in zip(node.children, children, strict=True)}

    def field(name: str, value: Any) -> Any:
        if isinstance(value, TreeNode):
            if id(value) in renewed:
                return renewed[id(value)]
            # What a generator makes has the type of what it takes.
            return with_typed_nulls(value) if name == "generator" else _column(value)
        return [field(name, item) for item in value] if isinstance(value, list) else value

    return TreeNode(node.kind, {name: field(name, value) for name, value in node.fields.items()}, children)


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
