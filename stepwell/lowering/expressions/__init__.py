"""Catalyst's expressions -> DuckDB SQL with Spark's semantics: ANSI mode, session time zone UTC.

Guarantees: an expression that `emit` accepts has Spark's value for every row, and raises where Spark raises. (tests/stepwell/expressions
compares the two on edge values.) `emit` refuses an expression that it does not know, and names it.

`TABLE` has one entry for each expression class. A rule gets the node and the fragments of its children, in Spark's order.
docs/contributing.md says how to add a rule.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from engine.model.circuit import Column, Expression
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import UnsupportedType
from stepwell.lowering.expressions import (
    arithmetic,
    casts,
    comparison,
    conditional,
    dates,
    leaves,
    mathematics,
    nested,
    strings,
)  # fmt: skip
from stepwell.lowering.expressions.fragment import Fragment, Rule, UnsupportedExpression

__all__ = ["TABLE", "Resolve", "UnsupportedExpression", "emit"]

# Catalyst's expression id -> the column of the node's input, and its type.
Resolve = Callable[[int], tuple[Column, pa.DataType]]

TABLE: dict[str, Rule] = {
    **leaves.TABLE,
    **comparison.TABLE,
    **conditional.TABLE,
    **arithmetic.TABLE,
    **casts.TABLE,
    **strings.TABLE,
    **dates.TABLE,
    **mathematics.TABLE,
    **nested.TABLE,
}


def emit(tree: TreeNode, resolve: Resolve) -> Expression:
    """The expression over the input's columns `c0`, `c1`, .... Raises `UnsupportedExpression` or `UnsupportedType`."""
    return fragment_of(tree, resolve).expression


def fragment_of(node: TreeNode, resolve: Resolve) -> Fragment:
    """As `emit`, with what a parent needs to know of the expression."""
    if node.kind == "AttributeReference":
        column, type_ = resolve(node["exprId"]["id"])
        return Fragment(f"c{column}", type_, column=column)
    rule = TABLE.get(node.kind)
    if rule is None:
        raise UnsupportedExpression(node.kind, "", "write it with supported functions; docs/sql.md lists them")
    if node.get("evalMode") not in (None, "ANSI"):
        raise UnsupportedExpression(
            node.kind, f"{node['evalMode']} mode", "use CASE to guard instead of try_ functions"
        )
    arguments = tuple(fragment_of(child, resolve) for child in node.children)
    try:
        return rule(node, arguments)
    except UnsupportedType as error:
        raise UnsupportedExpression(node.kind, error.name, "cast to a supported type") from error
