"""from_json, to_json and get_json_object. `JsonTuple` is a generator, and its rule is in rules/generate.py."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from base.arrays import leaf_types
from base.text import patterns
from base.text.pattern_columns import kind_of
from base.text.type_names import sql_type
from engine.expressions.functions.json_texts import path_steps
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type, narrow_interval
from stepwell.lowering.expressions.day_time_intervals import narrow_interval_within
from stepwell.lowering.expressions.fragment import Fragment, Rule, call, generic, literal_value, unsupported_expression

CORRUPT_RECORD = "_corrupt_record"
_PATTERNS: dict[str, patterns.Kind] = {
    "dateformat": "date",
    "timestampformat": "timestamp",
    "timestampntzformat": "timestamp_ntz",
}
_READ_OPTIONS = frozenset({"mode", "columnnameofcorruptrecord", *_PATTERNS})
_WRITE_OPTIONS = frozenset({"ignorenullfields", *_PATTERNS})
_OPTION = "leave the option out, and convert the value in the view"


def _options(node: TreeNode, known: frozenset[str]) -> dict[str, str]:
    """The options by their names in small letters, as Spark looks them up."""
    options = {name.lower(): value for name, value in node["options"].items()}
    for name in node["options"]:
        if name.lower() not in known:
            raise unsupported_expression(node, f"the option {name}", _OPTION)
    return options


def _patterns(
    node: TreeNode, options: dict[str, str], type_: pa.DataType, made: Callable[[str, patterns.Kind], object]
) -> list[str | None]:
    """The patterns of dates and timestamps, in the order of `Patterns`. One that nothing in the type has is left out, so it may be any."""
    found: list[str | None] = []
    for name, kind in _PATTERNS.items():
        pattern = options.get(name)
        if pattern is not None and all(kind_of(leaf) != kind for leaf in leaf_types(type_)):
            pattern = None
        if pattern is not None:
            try:
                made(pattern, kind)
            except patterns.BadPattern as bad:
                raise unsupported_expression(node, f"{name} = {pattern}: {bad}", _OPTION) from None
        found.append(pattern)
    return found


def _from_json(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    options = _options(node, _READ_OPTIONS)
    mode = options.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise unsupported_expression(node, f"mode {mode}", "use PERMISSIVE or FAILFAST")
    if node.get("variantAllowDuplicateKeys"):
        raise unsupported_expression(node, "spark.sql.variant.allowDuplicateKeys", "leave it out of the configuration")
    type_ = arrow_type(node["schema"])
    _refuse_keys(node, type_)
    if (narrow := narrow_interval(node["schema"])) is not None:
        raise unsupported_expression(node, f"the type {narrow.upper()}", "declare it as INTERVAL DAY TO SECOND")
    corrupt = options.get("columnnameofcorruptrecord", node.get("corrupt") or CORRUPT_RECORD)
    kept = pa.types.is_struct(type_) and type_.get_field_index(corrupt) >= 0
    if kept and type_.field(corrupt).type != pa.string():
        raise unsupported_expression(
            node, f"{corrupt} of type {sql_type(type_.field(corrupt).type)}", "declare it as STRING"
        )
    raises = mode == "FAILFAST" or bool(_map_keys(type_))
    constants = {"fail": mode == "FAILFAST", "corrupt": corrupt if kept else None}
    chosen = _patterns(node, options, type_, patterns.reader)
    if any(chosen):
        constants["patterns"] = chosen
    return generic("from_json", type_, *arguments, constants=constants, raises=raises)


def _refuse_keys(node: TreeNode, type_: pa.DataType) -> None:
    """Refuses maps with other keys than texts, wherever they are in the type."""
    if pa.types.is_struct(type_):
        for field in type_:
            _refuse_keys(node, field.type)
    elif pa.types.is_map(type_):
        if type_.key_type != pa.string():
            raise unsupported_expression(
                node, f"a map with keys of type {sql_type(type_.key_type)}", "declare the keys as STRING"
            )
        _refuse_keys(node, type_.item_type)
    elif pa.types.is_list(type_):
        _refuse_keys(node, type_.value_type)


def _to_json(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    options = _options(node, _WRITE_OPTIONS)
    if narrow := narrow_interval_within(node.children[0]):
        raise unsupported_expression(node, f"the type {narrow.upper()}", "cast the value AS INTERVAL DAY TO SECOND")
    if any(key != pa.string() for key in _map_keys(arguments[0].type)):
        raise unsupported_expression(node, "a map whose keys are not strings", "cast the keys with transform_keys")
    nulls = options.get("ignorenullfields", str(node.get("ignore_nulls", True))).lower() == "false"
    chosen = _patterns(node, options, arguments[0].type, patterns.writer)
    constants = {"nulls": nulls, "patterns": chosen} if any(chosen) else {"nulls": nulls}
    return generic("to_json", pa.string(), *arguments, constants=constants)


def _map_keys(type_: pa.DataType) -> list[pa.DataType]:
    """The types of the keys of all maps in a type."""
    own = [type_.key_type] if pa.types.is_map(type_) else []
    inner = [type_.field(i).type for i in range(type_.num_fields)] if pa.types.is_nested(type_) else []
    return [*own, *(key for part in inner for key in _map_keys(part))]


def _get_json_object(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    path = arguments[1]
    if path.literal and path.value is not None:
        try:
            path_steps(path.value)
        except ValueError as error:
            raise unsupported_expression(
                node,
                f"{error} in the path {path.value}",
                "read it with from_json into an array of structs x, and take x.name",
            ) from error
    return call("spark_get_json_object", pa.string(), *arguments, raises=not path.literal)


def _json_tuple(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """The members as a list, which rules/generate.py takes apart."""
    text, *names = arguments
    constants = [literal_value(node, name, "a member's name") for name in names]
    return generic("json_tuple", pa.list_(pa.field("element", pa.string())), text, constants=constants)


TABLE: dict[str, Rule] = {
    "JsonToStructs": _from_json,
    "StructsToJson": _to_json,
    "JsonTuple": _json_tuple,
    "GetJsonObject": _get_json_object,
}
