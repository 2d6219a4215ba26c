"""Comparison and three-valued logic.

DuckDB orders as Spark does: NaN equals itself and is greater than all, -0.0 equals 0.0, strings by their bytes. What differs is where nulls
within structs and arrays come (see `order_value`), and laziness: Spark's AND does not look at its right side once the left is false, DuckDB
evaluates both. So a right side that can raise is put under a CASE. `a AND CASE WHEN a IS NOT FALSE THEN b END` has the truth table of `a AND b`.
"""

from __future__ import annotations

import pyarrow as pa

from base.text.type_names import sql_type
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    derive,
    renamed_fields,
    strict,
    text,
    unsupported_expression,
)

BOOL = pa.bool_()


def _compare(operator: str) -> Rule:
    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        left, right = _of_one_type(node, operator, arguments)
        return derive(f"({left.sql} {operator} {right.sql})", BOOL, left, right)

    return rule


def _order(operator: str) -> Rule:
    """The rule of <, <=, > or >=."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        left, right = _of_one_type(node, operator, arguments)
        return derive(
            f"({order_value(left.sql, left.type)} {operator} {order_value(right.sql, right.type)})", BOOL, left, right
        )

    return rule


def operands(node: TreeNode) -> tuple[TreeNode, ...]:
    """The children of a node, as its rule gets them. Rows that are compared may have two fields of one name, as in (a.id, b.id) = (1, 2). No
    name counts there, so the fields are numbered."""
    if node.kind not in COMPARED_BY_PLACE:
        return node.children
    return tuple(map(_with_names_once, node.children))


def _with_names_once(tree: TreeNode) -> TreeNode:
    if tree.kind != "CreateNamedStruct" or any(name.kind != "Literal" for name in tree.children[::2]):
        return tree
    names = [str(name["value"]).lower() for name in tree.children[::2]]
    if len(set(names)) == len(names):
        return tree
    parts: list[TreeNode] = []
    for number, (name, value) in enumerate(zip(tree.children[::2], tree.children[1::2], strict=True), 1):
        parts += [TreeNode(name.kind, {**name.fields, "value": f"col{number}"}, ()), value]
    return TreeNode(tree.kind, tree.fields, tuple(parts))


def _of_one_type(node: TreeNode, operator: str, arguments: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    """The operands with the type of the first one. Names of fields do not count in a comparison."""
    first, *others = arguments
    made = [first]
    for other in others:
        same = renamed_fields(other, first.type)
        if same is None:
            raise unsupported_expression(
                node, f"{sql_type(first.type)} {operator} {sql_type(other.type)}", "cast both sides to one type"
            )
        made.append(same)
    return tuple(made)


def order_value(sql: str, type_: pa.DataType, depth: int = 0) -> str:
    """A value of any type, as one that DuckDB orders as Spark orders this one. Within structs and arrays a null comes first in Spark and last in
    DuckDB. So each of their values stands behind whether it is there, and two nulls are equal for both."""
    if pa.types.is_struct(type_):
        fields = (type_.field(at) for at in range(type_.num_fields))
        inner = [_with_presence(f"struct_extract({sql}, {text(f.name)})", f.type, depth) for f in fields]
        members = ", ".join(f"f{at} := {value}" for at, value in enumerate(inner))
        return f"CASE WHEN {sql} IS NOT NULL THEN struct_pack({members}) END" if inner else sql
    if pa.types.is_list(type_):
        name = f"z{depth}"  # lists within have another name
        return f"list_transform({sql}, lambda {name}: {_with_presence(name, type_.value_type, depth + 1)})"
    return sql


def _with_presence(sql: str, type_: pa.DataType, depth: int) -> str:
    return f"struct_pack(t := {sql} IS NOT NULL, v := {order_value(sql, type_, depth)})"


def _both(left: Fragment, right: Fragment) -> Fragment:
    guarded = f"CASE WHEN {left.sql} IS NOT FALSE THEN {right.sql} END" if right.raises else right.sql
    return derive(f"({left.sql} AND {guarded})", BOOL, left, right)


def disjoin(left: Fragment, right: Fragment) -> Fragment:
    guarded = f"CASE WHEN {left.sql} IS NOT TRUE THEN {right.sql} END" if right.raises else right.sql
    return derive(f"({left.sql} OR {guarded})", BOOL, left, right)


def _conjuncts(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return _both(*arguments)


def _disjuncts(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return disjoin(*arguments)


def _not(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"(NOT {arguments[0].sql})", BOOL, *arguments)


def _is_null(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"({arguments[0].sql} IS NULL)", BOOL, *arguments)


def _is_not_null(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return derive(f"({arguments[0].sql} IS NOT NULL)", BOOL, *arguments)


def _in(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    value, *candidates = _of_one_type(node, "IN", arguments)
    if any(candidate.raises for candidate in candidates):
        tests = [derive(f"({value.sql} = {c.sql})", BOOL, value, c) for c in candidates]
        result = tests[-1]
        for test in reversed(tests[:-1]):
            result = disjoin(test, result)
        # Spark looks at no candidate for a value that is null.
        return derive(f"(CASE WHEN {value.sql} IS NOT NULL THEN {result.sql} END)", BOOL, result)
    return derive(f"({value.sql} IN ({', '.join(c.sql for c in candidates)}))", BOOL, value, *candidates)


COMPARED_BY_PLACE = frozenset(
    {"EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In", "InSet"}
)
"""The kinds of nodes that compare the fields of rows by their places."""

TABLE: dict[str, Rule] = {
    "EqualTo": strict(_compare("=")),
    "EqualNullSafe": _compare("IS NOT DISTINCT FROM"),
    "LessThan": strict(_order("<")),
    "LessThanOrEqual": strict(_order("<=")),
    "GreaterThan": strict(_order(">")),
    "GreaterThanOrEqual": strict(_order(">=")),
    "And": _conjuncts,
    "Or": _disjuncts,
    "Not": _not,
    "IsNull": _is_null,
    "IsNotNull": _is_not_null,
    "In": _in,
    "InSet": _in,  # catalyst.read puts the set's values after the operand
}
