"""Structs and arrays: constructors and access to their parts."""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.types import quote_name
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import FieldsOfOneName, arrow_type, names_of_one, struct_type
from stepwell.lowering.expressions.comparison import order_value
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    derive,
    failure,
    literal_value,
    strict,
    text,
    unsupported_expression,
)  # fmt: skip
from stepwell.lowering.expressions.maps import value_at

INT, BOOL = pa.int32(), pa.bool_()
INDEX = failure("INVALID_ARRAY_INDEX", "The index is out of bounds of the array.")
ELEMENT = failure("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "The index is out of bounds of the array.")
ZERO = failure("INVALID_INDEX_OF_ZERO", "The index 0 is invalid: the first element has index 1.")


def _struct(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    names = [literal_value(node, name, "a field's name") for name in arguments[::2]]
    values = arguments[1::2]
    if not names:
        raise unsupported_expression(node, "a struct without fields", "leave it out, or give it a field")
    if found := names_of_one(names):
        raise FieldsOfOneName(*found)
    type_ = struct_type(zip(names, (value.type for value in values), strict=True))
    members = ", ".join(f"{quote_name(name)} := {value.sql}" for name, value in zip(names, values, strict=True))
    return derive(cast(f"struct_pack({members})", type_), type_, *values)


def _field(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    field = operand.type.field(node["ordinal"])
    return derive(f"struct_extract({operand.sql}, {text(field.name)})", field.type, operand)


def _field_of_each(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """arr.name: the field of each struct in an array."""
    array = arguments[0]
    field = array.type.value_type.field(node["ordinal"])
    type_ = pa.list_(pa.field("element", field.type))
    sql = f"list_transform({array.sql}, lambda x: struct_extract(x, {text(field.name)}))"
    return derive(cast(sql, type_), type_, array)


def _array(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    if arguments:
        element = next((a.type for a in arguments if not pa.types.is_null(a.type)), pa.null())
    elif node.get("elementType"):
        element = arrow_type(node["elementType"])
    else:
        raise unsupported_expression(node, "an empty array", "cast a literal to the array's type")
    type_ = pa.list_(pa.field("element", element))
    return derive(cast(f"[{', '.join(a.sql for a in arguments)}]", type_), type_, *arguments)


def _item(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """arr[i], which counts from 0."""
    array, index = arguments
    value = f"{array.sql}[{cast(index.sql, pa.int64())} + 1]"
    if node["failOnError"]:
        outside = f"{index.sql} < 0 OR {index.sql} >= len({array.sql})"
        sql = f"CASE WHEN {array.sql} IS NULL THEN NULL WHEN {outside} THEN {INDEX} ELSE {value} END"
    else:
        sql = f"CASE WHEN {index.sql} >= 0 THEN {value} END"
    type_ = array.type.value_type
    return derive(cast(sql, type_), type_, array, index, raises=bool(node["failOnError"]))


def _element_at(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """element_at(arr, i), which counts from 1, or from the end if i is negative. `split_part` returns an empty string beyond the ends."""
    array, index = arguments[:2]
    if pa.types.is_map(array.type):
        return value_at(array, index)
    type_ = array.type.value_type
    default = node.get("defaultValueOutOfBound")
    beyond = ELEMENT if node["failOnError"] else "NULL"
    if isinstance(default, TreeNode):
        beyond = text(default["value"])
    outside = f"abs({cast(index.sql, pa.int64())}) > len({array.sql})"
    bad = f"WHEN {array.sql} IS NULL THEN NULL WHEN {index.sql} = 0 THEN {ZERO} WHEN {outside} THEN {beyond}"
    sql = f"CASE {bad} ELSE {array.sql}[{index.sql}] END"
    return derive(cast(sql, type_), type_, array, index, raises=True)


def _size(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    operand = arguments[0]
    function = "cardinality" if pa.types.is_map(operand.type) else "len"
    size = f"CAST({function}({operand.sql}) AS INTEGER)"
    return derive(f"COALESCE({size}, -1)" if node.get("legacySizeOfNull") else size, INT, operand)


def _contains(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """array_contains: null if the value is not found and some elements are null."""
    array, value = arguments
    nulls = f"len(list_filter({array.sql}, lambda x: x IS NULL)) > 0"
    found = f"list_contains({array.sql}, {value.sql})"
    sql = f"CASE WHEN {value.sql} IS NULL THEN NULL WHEN {found} THEN TRUE WHEN {nulls} THEN NULL ELSE {found} END"
    return derive(cast(sql, BOOL), BOOL, array, value)


def joined_texts(list_: str, separator: Fragment) -> str:
    """The elements of a list of texts without nulls as one text. DuckDB's function takes a constant separator alone."""
    function = "array_to_string" if separator.literal else "spark_join"
    return f"COALESCE({function}({list_}, {separator.sql}), '')"


def _join(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    array, separator = arguments[:2]
    kept = f"list_filter({array.sql}, lambda x: x IS NOT NULL)"
    if len(arguments) > 2:
        kept = f"list_transform({array.sql}, lambda x: COALESCE(x, {arguments[2].sql}))"
    joined = joined_texts(kept, separator)
    both = " AND ".join(f"{argument.sql} IS NOT NULL" for argument in arguments)
    return derive(f"(CASE WHEN {both} THEN {joined} END)", pa.string(), *arguments)


def _extreme(function: str, better: str) -> Rule:
    """The rule of array_max or array_min. Nulls are skipped. -0.0 and 0.0 are equal, and the first of them is the result, as in Spark."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        array = arguments[0]
        type_ = array.type.value_type
        if not (pa.types.is_floating(type_) or pa.types.is_nested(type_)):
            return derive(cast(f"{function}({array.sql})", type_), type_, array)
        is_better = f"{order_value('y', type_)} {better} {order_value('x', type_)}"
        # Two nulls at the front: DuckDB reduces no empty list, and each null gives way to what comes.
        some = f"list_concat([{cast('NULL', type_)}, {cast('NULL', type_)}], {array.sql})"
        choice = f"lambda x, y: CASE WHEN x IS NULL OR {is_better} THEN y ELSE x END"
        best = f"CASE WHEN {array.sql} IS NOT NULL THEN list_reduce({some}, {choice}) END"
        return derive(cast(best, type_), type_, array)

    return rule


TABLE: dict[str, Rule] = {
    "CreateNamedStruct": _struct,
    "GetStructField": _field,
    "CreateArray": _array,
    "GetArrayStructFields": _field_of_each,
    "GetArrayItem": strict(_item),
    "ElementAt": strict(_element_at),
    "Size": _size,
    "ArrayContains": strict(_contains),
    "ArrayJoin": strict(_join),
    "ArrayMax": _extreme("list_max", ">"),
    "ArrayMin": _extreme("list_min", "<"),
}
