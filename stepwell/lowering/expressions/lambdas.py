"""Functions that take a function: transform, filter, exists, forall, aggregate, zip_with, and array_sort without a comparator of the user's.

DuckDB's lambdas compute them for whole columns, and see the columns around them. Their parameters are named `x0`, `x1`, ... by depth, because
Catalyst's ids of lambda variables differ between sessions, and an expression's SQL is a part of the circuit.

Where Spark stops at the first element that decides (exists, forall), a function that can fail must not be called for the later ones. Then the
elements are reduced one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.comparison import order_value
from stepwell.lowering.expressions.fragment import Fragment, cast, derive, renamed_fields, unsupported_expression

BOOL = pa.bool_()
Bound = Mapping[int, Fragment]
"""The values of lambda variables, by their expression ids."""


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: `emit` gives the fragment of a tree in which the variables of `bound` may occur."""

    emit: Callable[[TreeNode, Bound], Fragment]
    bound: Bound

    def value(self, tree: TreeNode) -> Fragment:
        return self.emit(tree, self.bound)

    def fresh(self, count: int) -> list[str]:
        """Names of parameters that no lambda around uses."""
        return [f"x{len(self.bound) + i}" for i in range(count)]

    def body(self, function: TreeNode, values: Sequence[Fragment]) -> Fragment:
        """The body of a LambdaFunction, whose variables have these values."""
        body, *variables = function.children
        bound = {variable["exprId"]["id"]: value for variable, value in zip(variables, values, strict=False)}
        # The number of variables names the parameters of the lambdas within, and no lambda has more than two names of its own.
        spare = {-len(self.bound) - i: _SPARE for i in range(1, PARAMETERS_MAX + 1 - len(bound))}
        return self.emit(body, {**self.bound, **bound, **spare})


PARAMETERS_MAX = 2  # of one lambda
_SPARE = Fragment("NULL", pa.null())

HigherOrderRule = Callable[[TreeNode, Scope], Fragment]


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _over(scope: Scope, function: TreeNode, element: pa.DataType) -> tuple[str, Fragment]:
    """(parameters, body) of a function of an element and, if it takes two, the position from 0."""
    item, place = scope.fresh(2)
    indexed = len(function.children) > 2
    values = [Fragment(item, element), Fragment(f"CAST({place} - 1 AS INTEGER)", pa.int32())]
    body = scope.body(function, values if indexed else values[:1])
    return f"{item}, {place}" if indexed else item, body


def _transform(node: TreeNode, scope: Scope) -> Fragment:
    array = scope.value(node.children[0])
    parameters, body = _over(scope, node.children[1], array.type.value_type)
    type_ = _list(body.type)
    return derive(cast(f"list_transform({array.sql}, lambda {parameters}: {body.sql})", type_), type_, array, body)


def _filter(node: TreeNode, scope: Scope) -> Fragment:
    array = scope.value(node.children[0])
    parameters, body = _over(scope, node.children[1], array.type.value_type)
    sql = f"list_filter({array.sql}, lambda {parameters}: {body.sql})"
    return derive(cast(sql, array.type), array.type, array, body)


def _decision_rule(stops_at: str, otherwise: str) -> HigherOrderRule:
    """exists stops at true, forall at false. If nothing stops them, a null among the answers makes the result null."""

    def rule(node: TreeNode, scope: Scope) -> Fragment:
        array = scope.value(node.children[0])
        item, _ = scope.fresh(2)
        if not scope.body(node.children[1], [Fragment(item, array.type.value_type)]).raises:
            body = scope.body(node.children[1], [Fragment(item, array.type.value_type)])
            answers = f"list_transform({array.sql}, lambda {item}: {body.sql})"
            nulls = f"len(list_filter({answers}, lambda {item}: {item} IS NULL)) > 0"
            found = f"list_contains({answers}, {stops_at})"
            sql = f"CASE WHEN {array.sql} IS NULL THEN NULL WHEN {found} THEN {stops_at} WHEN {nulls} THEN NULL ELSE {otherwise} END"
            return derive(cast(sql, BOOL), BOOL, array, body)

        def step(state: str, element: Fragment) -> Fragment:
            body = scope.body(node.children[1], [element])
            joined = f"{state} OR {body.sql}" if stops_at == "TRUE" else f"{state} AND {body.sql}"
            return derive(f"(CASE WHEN {state} IS {stops_at} THEN {stops_at} ELSE {joined} END)", BOOL, body)

        return _reduction(scope, array, Fragment(otherwise, BOOL), step)

    return rule


def _reduction(scope: Scope, array: Fragment, zero: Fragment, step: Callable[[str, Fragment], Fragment]) -> Fragment:
    """The elements of `array` merged into `zero` one after the other. DuckDB reduces only to the type of the elements, so an element is
    wrapped in a struct beside a state, and the state too."""
    state, element = scope.fresh(2)
    type_ = pa.struct([pa.field("a", zero.type), pa.field("e", array.type.value_type)])
    result = step(f"{state}.a", Fragment(f"{element}.e", array.type.value_type))
    merged = renamed_fields(result, zero.type)  # they may have other names of fields
    if merged is None:
        raise AssertionError(f"Spark casts the start and the merge to one type, not {zero.type} and {result.type}")

    def pack(a: str, e: str) -> str:
        return cast(f"struct_pack(a := {a}, e := {e})", type_)

    wrapped = f"list_transform({array.sql}, lambda {element}: {pack('NULL', element)})"
    reduced = f"list_reduce({wrapped}, lambda {state}, {element}: {pack(merged.sql, 'NULL')}, {pack(zero.sql, 'NULL')})"
    sql = f"CASE WHEN {array.sql} IS NOT NULL THEN struct_extract({reduced}, 'a') END"
    return derive(cast(sql, zero.type), zero.type, array, zero, merged)


def _aggregate(node: TreeNode, scope: Scope) -> Fragment:
    argument, start, merge, finish = node.children
    array, zero = scope.value(argument), scope.value(start)

    def step(state: str, element: Fragment) -> Fragment:
        return scope.body(merge, [Fragment(state, zero.type), element])

    total = _reduction(scope, array, zero, step)
    result, state, *_ = finish.children
    if result.kind == "NamedLambdaVariable" and result["exprId"] == state["exprId"]:
        return total
    (name,) = scope.fresh(1)
    body = scope.body(finish, [Fragment(name, zero.type)])
    sql = f"CASE WHEN {array.sql} IS NOT NULL THEN list_extract(list_transform([{total.sql}], lambda {name}: {body.sql}), 1) END"
    return derive(cast(sql, body.type), body.type, total, body)


def _zip_with(node: TreeNode, scope: Scope) -> Fragment:
    left, right = (scope.value(child) for child in node.children[:2])
    (pair,) = scope.fresh(1)
    values = [
        Fragment(cast(f"struct_extract({pair}, {place})", side.type.value_type), side.type.value_type)
        for place, side in ((1, left), (2, right))
    ]
    body = scope.body(node.children[2], values)
    type_ = _list(body.type)
    mapped = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {pair}: {body.sql})"
    sql = f"CASE WHEN {left.sql} IS NOT NULL AND {right.sql} IS NOT NULL THEN {mapped} END"
    return derive(cast(sql, type_), type_, left, right, body)


def _array_sort(node: TreeNode, scope: Scope) -> Fragment:
    """Without a comparator Spark makes one: ascending, nulls last."""
    array = scope.value(node.children[0])
    if not _ascends(node.children[1]):
        raise unsupported_expression(
            node, "a comparator", "sort by a value: put it first in a struct, and use array_sort"
        )
    return sorted_list(node, array, ascending=True, nulls_last=True)


_VALUES_ASCEND = "If(LessThan(left, right), -1, If(GreaterThan(left, right), 1, 0))"
_ASCENDING = f"If(And(IsNull(left), IsNull(right)), 0, If(IsNull(left), 1, If(IsNull(right), -1, {_VALUES_ASCEND})))"
"""The body of Spark's own comparator (ArraySort.comparator). Of elements that are never null, the optimiser leaves the last part."""


def _ascends(function: TreeNode) -> bool:
    """Whether this is Spark's own comparator. The names of the variables do not show it, because a user's can be the same."""
    body, left, right = function.children
    names = {left["exprId"]["id"]: "left", right["exprId"]["id"]: "right"}
    written = _text_of(body, names)
    return written == _ASCENDING or (written == _VALUES_ASCEND and not left["nullable"] and not right["nullable"])


def _text_of(tree: TreeNode, names: Mapping[int, str]) -> str:
    """The expression as a text. `names`: of the lambda's own variables, by their ids."""
    if tree.kind == "NamedLambdaVariable":
        return names.get(tree["exprId"]["id"], "outer")
    if tree.kind == "Literal":
        return str(tree["value"])
    return f"{tree.kind}({', '.join(_text_of(child, names) for child in tree.children)})"


def sorted_list(node: TreeNode, array: Fragment, *, ascending: bool, nulls_last: bool) -> Fragment:
    """The array in the order of its elements. Elements that are equal stay in their order, as in Spark: structs with -0.0 and 0.0 are."""
    element = array.type.value_type
    order = f"'{'ASC' if ascending else 'DESC'}', 'NULLS {'LAST' if nulls_last else 'FIRST'}'"
    if not pa.types.is_nested(element):
        return derive(cast(f"list_sort({array.sql}, {order})", array.type), array.type, array)
    place = "n" if ascending else "-n"
    keyed = f"CASE WHEN e IS NOT NULL THEN struct_pack(k := {order_value('e', element)}, n := {place}, v := e) END"
    pairs = f"list_sort(list_transform({array.sql}, lambda e, n: {keyed}), {order})"
    return derive(cast(f"list_transform({pairs}, lambda p: p.v)", array.type), array.type, array)


HIGHER_ORDER: dict[str, HigherOrderRule] = {
    "ArrayTransform": _transform,
    "ArrayFilter": _filter,
    "ArrayExists": _decision_rule("TRUE", "FALSE"),
    "ArrayForAll": _decision_rule("FALSE", "TRUE"),
    "ArrayAggregate": _aggregate,
    "ZipWith": _zip_with,
    "ArraySort": _array_sort,
}
