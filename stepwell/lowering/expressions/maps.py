"""Maps: constructors, access, and functions that take a function.

A map keeps the order of its entries, as Spark's does. Keys are unique and not null, which DuckDB checks when it makes a map of entries.
"""

from __future__ import annotations

import pyarrow as pa

from base.text.type_names import sql_type
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    derive,
    failure,
    strict,
    text,
    unsupported_expression,
)
from stepwell.lowering.expressions.lambdas import HigherOrderRule, Scope

UNEQUAL = failure("INVALID_MAP_ARRAYS", "The arrays of keys and values have different lengths.")


def _entry(type_: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])


def _entries_type(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", _entry(type_)))


def _map_of_entries(node: TreeNode, key: pa.DataType, item: pa.DataType, entries: str, *operands: Fragment) -> Fragment:
    """The map of a list of entries. It raises for a key that is null or repeated."""
    if pa.types.is_floating(key) or pa.types.is_nested(key):
        raise unsupported_expression(
            node, f"a map with keys of type {sql_type(key)}", "use keys of another type, such as decimals or strings"
        )
    type_ = pa.map_(key, item)
    sql = f"map_from_entries({cast(entries, _entries_type(type_))})"
    return derive(cast(sql, type_), type_, *operands, raises=True)


def _create(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    if not arguments and node.get("dataType"):
        type_ = arrow_type(node["dataType"])
        return Fragment(cast("MAP {}", type_), type_)
    if not arguments:
        raise unsupported_expression(node, "an empty map", "cast a literal to the map's type")
    keys, values = arguments[::2], arguments[1::2]
    item = next((value.type for value in values if not pa.types.is_null(value.type)), pa.null())
    pairs = ", ".join(
        f"struct_pack(key := {k.sql}, value := {cast(v.sql, item)})" for k, v in zip(keys, values, strict=True)
    )
    return _map_of_entries(node, keys[0].type, item, f"[{pairs}]", *arguments)


def _keys(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.list_(pa.field("element", arguments[0].type.key_type))
    return derive(cast(f"map_keys({arguments[0].sql})", type_), type_, *arguments)


def _values(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.list_(pa.field("element", arguments[0].type.item_type))
    return derive(cast(f"map_values({arguments[0].sql})", type_), type_, *arguments)


def _entries(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = _entries_type(arguments[0].type)
    return derive(cast(f"map_entries({arguments[0].sql})", type_), type_, *arguments)


def value_at(map_: Fragment, key: Fragment) -> Fragment:
    """The value of a key; null if there is none."""
    type_ = map_.type.item_type
    sql = f"CASE WHEN {map_.sql} IS NULL OR {key.sql} IS NULL THEN NULL ELSE {map_.sql}[{key.sql}] END"
    return derive(cast(sql, type_), type_, map_, key)


def _value(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    return value_at(*arguments)


def _from_arrays(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    keys, values = arguments
    pairs = f"list_transform(list_zip({keys.sql}, {values.sql}), lambda x: struct_pack(key := x[1], value := x[2]))"
    absent, unequal = f"{keys.sql} IS NULL OR {values.sql} IS NULL", f"len({keys.sql}) <> len({values.sql})"
    sql = f"CASE WHEN {absent} THEN NULL WHEN {unequal} THEN {UNEQUAL} ELSE {pairs} END"
    return _map_of_entries(node, keys.type.value_type, values.type.value_type, sql, keys, values)


def _from_entries(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """Null if one of the entries is."""
    (entries,) = arguments
    struct = entries.type.value_type
    first, second = (f"struct_extract(x, {text(struct.field(i).name)})" for i in (0, 1))
    pairs = f"list_transform({entries.sql}, lambda x: struct_pack(key := {first}, value := {second}))"
    nulls = f"len(list_filter({entries.sql}, lambda x: x IS NULL)) > 0"
    return _map_of_entries(
        node, struct.field(0).type, struct.field(1).type, f"CASE WHEN {nulls} THEN NULL ELSE {pairs} END", entries
    )


def _concat(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = arguments[0].type
    absent = " ".join(f"WHEN ({a.sql} IS NULL) THEN NULL" for a in arguments)  # what follows a NULL cannot raise
    joined = f"list_concat({', '.join(f'map_entries({a.sql})' for a in arguments)})"
    return _map_of_entries(node, type_.key_type, type_.item_type, f"CASE {absent} ELSE {joined} END", *arguments)


def _over(scope: Scope, node: TreeNode) -> tuple[Fragment, str, Fragment]:
    """(map, the name of an entry, the body of the function of key and value)."""
    map_ = scope.value(node.children[0])
    entry, _ = scope.fresh(2)
    values = [Fragment(f"{entry}.key", map_.type.key_type), Fragment(f"{entry}.value", map_.type.item_type)]
    return map_, entry, scope.body(node.children[1], values)


def _filter(node: TreeNode, scope: Scope) -> Fragment:
    map_, entry, body = _over(scope, node)
    kept = f"list_filter(map_entries({map_.sql}), lambda {entry}: {body.sql})"
    made = _map_of_entries(node, map_.type.key_type, map_.type.item_type, kept, map_, body)
    return Fragment(made.sql, made.type, raises=map_.raises or body.raises)  # its keys are those of a map


def _transform_values(node: TreeNode, scope: Scope) -> Fragment:
    map_, entry, body = _over(scope, node)
    new = (
        f"list_transform(map_entries({map_.sql}), lambda {entry}: struct_pack(key := {entry}.key, value := {body.sql}))"
    )
    made = _map_of_entries(node, map_.type.key_type, body.type, new, map_, body)
    return Fragment(made.sql, made.type, raises=map_.raises or body.raises)


def _transform_keys(node: TreeNode, scope: Scope) -> Fragment:
    map_, entry, body = _over(scope, node)
    new = f"list_transform(map_entries({map_.sql}), lambda {entry}: struct_pack(key := {body.sql}, value := {entry}.value))"
    return _map_of_entries(node, body.type, map_.type.item_type, new, map_, body)


TABLE: dict[str, Rule] = {
    "CreateMap": _create,
    "MapKeys": _keys,
    "MapValues": _values,
    "MapEntries": _entries,
    "GetMapValue": strict(_value),
    "MapFromArrays": strict(_from_arrays),
    "MapFromEntries": _from_entries,
    "MapConcat": _concat,
}

HIGHER_ORDER: dict[str, HigherOrderRule] = {
    "MapFilter": _filter,
    "TransformValues": _transform_values,
    "TransformKeys": _transform_keys,
}
