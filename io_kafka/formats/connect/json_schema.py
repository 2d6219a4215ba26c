"""JSON Schema, as a registry has it -> the type that Connect gave it.

Connect's converter for JSON Schema writes what JSON cannot say beside it: `connect.type` (int8, bytes, map, ...), the logical type's name as
`title`, and `connect.parameters`. A schema of another producer has none of them, but for titles that are no names of types. Then nothing is
known that JSON does not say itself, and values are read as in messages without a schema.
"""

from __future__ import annotations

import json
from typing import Any

from io_kafka.formats.connect.types import DEPTH_MAX, KINDS, UNKNOWN, Array, Map, Plain, Struct, Type, scale_of
from io_kafka.formats.jackson import Malformed

NAMESPACES = ("org.apache.kafka.connect.", "io.debezium.")
"""With one of them begins the name of every logical type that means something here. Other producers give every property a title for people."""

_KINDS_OF_JSON = {"integer": "int64", "number": "double", "string": "string", "boolean": "boolean"}


def type_of_text(text: str) -> Type:
    """Raises Malformed."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON") from None
    return _type(root, root, DEPTH_MAX)


def _type(node: Any, root: Any, depth_left: int) -> Type:
    if depth_left == 0 or not isinstance(node, dict):
        return UNKNOWN  # a type that contains itself is known so far, which no column is deep enough to notice
    node = _not_null(node)
    if isinstance(reference := node.get("$ref"), str):
        return _type(_follow(reference, root), root, depth_left - 1)
    kind, connect, title = node.get("type"), node.get("connect.type"), node.get("title")
    properties = node.get("properties")
    if connect == "map" and kind != "array":  # a list of keys and values, unless the keys are strings
        values = node.get("additionalProperties")
        return Map(Plain("string"), _type(values, root, depth_left - 1)) if kind == "object" else UNKNOWN
    if isinstance(properties, dict):
        fields = tuple((name, _type(each, root, depth_left - 1)) for name, each in properties.items())
        return Struct(title if isinstance(title, str) else None, fields)
    if kind == "array":
        return Array(_type(node.get("items"), root, depth_left - 1))
    name = connect if connect is not None else _KINDS_OF_JSON.get(kind) if isinstance(kind, str) else None
    logical = title if isinstance(title, str) and title.startswith(NAMESPACES) else None
    if not isinstance(name, str) or name not in KINDS or (connect is None and logical is None):
        return UNKNOWN
    return Plain(KINDS[name], logical, scale_of(node.get("connect.parameters")))


def _not_null(node: dict[str, Any]) -> dict[str, Any]:
    """The schema of what is not null. What stands beside `oneOf` belongs to it."""
    for word in ("oneOf", "anyOf"):
        branches = node.get(word)
        if isinstance(branches, list):
            others = [each for each in branches if isinstance(each, dict) and each.get("type") != "null"]
            return node | others[0] if len(others) == 1 else {}
    kinds = node.get("type")
    if isinstance(kinds, list):
        others = [each for each in kinds if each != "null"]
        return node | {"type": others[0]} if len(others) == 1 else {}
    return node


def _follow(reference: str, root: Any) -> Any:
    """What a pointer within the same document names; None if it is none, or names another document."""
    head, *steps = reference.split("/")
    if head != "#":
        return None
    for step in steps:
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root
