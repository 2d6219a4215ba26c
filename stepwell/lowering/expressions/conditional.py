"""Choices between expressions. With its optimiser off (see engine/expressions/evaluate.py), DuckDB evaluates a branch of CASE and COALESCE
only for the rows that take it, as Spark does. So a branch that raises for other rows does no harm."""

from __future__ import annotations

import pyarrow as pa

from base.text.type_names import sql_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import expression_type
from stepwell.lowering.expressions.comparison import order_value
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    convert_parts,
    derive,
    renamed_fields,
    unsupported_expression,
)
from stepwell.lowering.keys import holds_floating


def _of_one_type(branches: tuple[Fragment, ...]) -> tuple[pa.DataType, tuple[Fragment, ...]]:
    """(the type of all branches, the branches with it). Spark has cast them to one type, but some may be void, and names of fields may differ in
    case."""
    type_ = next((branch.type for branch in branches if not pa.types.is_null(branch.type)), pa.null())
    return type_, tuple(renamed_fields(branch, type_) or branch for branch in branches)


def _if(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    condition = arguments[0]
    type_, (then, otherwise) = _of_one_type(arguments[1:])
    sql = f"CASE WHEN {condition.sql} THEN {then.sql} ELSE {otherwise.sql} END"
    return derive(cast(sql, type_), type_, condition, then, otherwise)


def _case_when(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    pairs = len(arguments) // 2
    conditions = arguments[: 2 * pairs : 2]
    type_, values = _of_one_type((*arguments[1 : 2 * pairs : 2], *arguments[2 * pairs :]))
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in zip(conditions, values, strict=False))
    rest = f" ELSE {values[-1].sql}" if len(values) > pairs else ""
    return derive(cast(f"CASE {whens}{rest} END", type_), type_, *conditions, *values)


def _coalesce(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_, values = _of_one_type(arguments)
    return derive(cast(f"COALESCE({', '.join(value.sql for value in values)})", type_), type_, *values)


def _pass(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """A node that informs Spark's code generator or optimiser, and changes no value."""
    return arguments[0]


def _raise_error(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """raise_error: an error class, and a map of its parameters of which a user writes the message alone. Every row that reaches it raises."""
    error_class, parameters = (argument.sql for argument in arguments)
    message = f"COALESCE({parameters}['errorMessage'], 'null')"
    type_ = expression_type(node["dataType"])
    return derive(cast(f"error('[' || {error_class} || '] ' || {message})", type_), type_, *arguments, raises=True)


def _is_nan(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """isnan: false for null."""
    return derive(f"COALESCE(isnan({arguments[0].sql}), FALSE)", pa.bool_(), *arguments)


def _at_least(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The condition of dropna: whether at least `n` arguments are neither null nor NaN."""
    there = [
        f"{each.sql} IS NOT NULL AND NOT isnan({each.sql})"
        if pa.types.is_floating(each.type)
        else f"{each.sql} IS NOT NULL"
        for each in arguments
    ]
    if node["n"] == 1:
        sql = " OR ".join(f"({each})" for each in there)  # what follows is not evaluated, as in Spark
    else:
        sql = f"{' + '.join(f'CAST(({each}) AS INTEGER)' for each in there)} >= {node['n']}"
    return derive(f"({sql})", pa.bool_(), *arguments)


def _nanvl(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    left, right = arguments
    return derive(
        cast(f"CASE WHEN isnan({left.sql}) THEN {right.sql} ELSE {left.sql} END", left.type), left.type, left, right
    )


def _normalize(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The value with one form of zero and one form of NaN, also within structs and arrays, as grouping and joining need it."""
    found = _normal_parts(arguments[0], arguments[0].type)
    if found is None:
        raise unsupported_expression(
            node, f"a key of type {sql_type(arguments[0].type)}", "use its parts as keys of their own"
        )
    return found


def _normal_parts(operand: Fragment, type_: pa.DataType) -> Fragment | None:
    """The operand, which has this type, with normalised parts; None if they cannot be reached."""
    if not holds_floating(type_):
        return operand
    if pa.types.is_nested(type_):
        return convert_parts(operand, type_, _normal_parts)
    zero, nan = cast("0", type_), cast("'nan'", type_)
    sql = f"CASE WHEN {operand.sql} = 0 THEN {zero} WHEN isnan({operand.sql}) THEN {nan} ELSE {operand.sql} END"
    return derive(cast(sql, type_), type_, operand)


def _extreme(function: str) -> Rule:
    """The rule of greatest or least. Nulls are skipped. -0.0 and 0.0 are equal, and the first of them is the result, as in Spark."""
    better = ">" if function == "greatest" else "<"

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        type_, arguments = _of_one_type(arguments)
        if not (pa.types.is_floating(type_) or pa.types.is_nested(type_)):
            return derive(cast(f"{function}({', '.join(a.sql for a in arguments)})", type_), type_, *arguments)
        # Each argument is written once: a chain of CASEs would write the first one 3^n times.
        is_better = f"{order_value('y', type_)} {better} {order_value('x', type_)}"
        choice = f"lambda x, y: CASE WHEN x IS NULL OR {is_better} THEN y ELSE x END"
        best = f"list_reduce([{', '.join(a.sql for a in arguments)}], {choice})"
        return derive(cast(best, type_), type_, *arguments)

    return rule


TABLE: dict[str, Rule] = {
    "If": _if,
    "CaseWhen": _case_when,
    "Coalesce": _coalesce,
    "RaiseError": _raise_error,
    "Alias": _pass,
    "KnownNotNull": _pass,
    "KnownNullable": _pass,
    "KnownNotContainsNull": _pass,
    "KnownFloatingPointNormalized": _pass,
    "IsNaN": _is_nan,
    "AtLeastNNonNulls": _at_least,
    "NaNvl": _nanvl,
    "NormalizeNaNAndZero": _normalize,
    "Greatest": _extreme("greatest"),
    "Least": _extreme("least"),
}
