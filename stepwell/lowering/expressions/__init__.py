"""Catalyst's expressions -> DuckDB SQL with Spark's semantics: ANSI mode, session time zone UTC.

Guarantees: an expression that `emit` accepts has Spark's value for every row, and raises where Spark raises. (tests/stepwell/expressions
compares the two on edge values.) `emit` refuses an expression that it does not know, and names it.

`TABLE` has one entry for each expression class. A rule gets the node and the fragments of its children, in Spark's order. `HIGHER_ORDER` has
the classes that take a function.
docs/extending.md says how to add a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pyarrow as pa

from engine.model.node import Column, Expression
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import FieldsOfOneName, UnsupportedType
from stepwell.lowering.expressions import (
    arithmetic,
    arrays,
    casts,
    comparison,
    conditional,
    dates,
    datetime_conversions,
    day_time_intervals,
    encodings,
    hashes,
    intervals,
    json_texts,
    lambdas,
    leaves,
    maps,
    mathematics,
    nested,
    strings,
    text_measures,
    try_functions,
    variants,
)  # fmt: skip
from stepwell.lowering.expressions.fragment import Fragment, Rule, UnsupportedExpression
from stepwell.lowering.expressions.lambdas import Bound, HigherOrderRule, Scope
from stepwell.lowering.expressions.try_functions import is_tried, lower_try

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
    **encodings.TABLE,
    **hashes.TABLE,
    **text_measures.TABLE,
    **dates.TABLE,
    **datetime_conversions.TABLE,
    **day_time_intervals.TABLE,
    **intervals.TABLE,
    **mathematics.TABLE,
    **nested.TABLE,
    **json_texts.TABLE,
    **arrays.TABLE,
    **maps.TABLE,
    **variants.TABLE,
    **try_functions.TABLE,
}

HIGHER_ORDER: dict[str, HigherOrderRule] = {**lambdas.HIGHER_ORDER, **maps.HIGHER_ORDER}


def emit(tree: TreeNode, resolve: Resolve) -> Expression:
    """The expression over the input's columns `c0`, `c1`, .... Raises `UnsupportedExpression` or `UnsupportedType`."""
    return fragment_of(tree, resolve).expression


def fragment_of(node: TreeNode, resolve: Resolve, bound: Bound = MappingProxyType({})) -> Fragment:
    """Returns what `emit` returns, with what a parent needs to know of the expression. `bound`: the variables of the lambdas around it."""
    if node.kind == "AttributeReference":
        column, type_ = resolve(node["exprId"]["id"])
        return Fragment(f"c{column}", type_, column=column)
    if node.kind == "NamedLambdaVariable":
        return bound[node["exprId"]["id"]]
    higher_order = HIGHER_ORDER.get(node.kind)
    rule = TABLE.get(node.kind)
    if rule is None and higher_order is None:
        raise UnsupportedExpression(node.kind, "", "write it with supported functions; docs/sql.md lists them")
    if node.get("evalMode") not in (None, "ANSI") and not is_tried(node):
        raise UnsupportedExpression(node.kind, f"{node['evalMode']} mode", "use CASE to guard")
    try:
        if higher_order is not None:
            return higher_order(node, Scope(lambda tree, inner: fragment_of(tree, resolve, inner), bound))
        assert rule is not None
        arguments = tuple(fragment_of(child, resolve, bound) for child in comparison.operands(node))
        return lower_try(rule, node, arguments) if is_tried(node) else rule(node, arguments)
    except UnsupportedType as error:
        raise UnsupportedExpression(node.kind, error.name, _remedy(error)) from error


_NO_CALENDAR = (
    "write INTERVAL ... DAY TO SECOND, or make_ym_interval for months. "
    "The gap of a session window is a constant, or a CASE of constants"
)


def _remedy(error: UnsupportedType) -> str:
    if isinstance(error, FieldsOfOneName):
        return error.remedy
    if error.name == "interval":
        return _NO_CALENDAR
    return "cast to a supported type"
