"""Kafka Connect's schemas as plain data.

JsonConverter writes a schema as {"type": "struct", "fields": [{"field": "id", "type": "int64", ...}, ...], "optional": ..., "name": ...}. A name
is that of a logical type. A part that is no schema is `Unknown`, and its values are read as they are without a schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from io_kafka.formats.jackson import Malformed

DEPTH_MAX = 200
"""How many types may be within each other. Columns end far sooner, and Python's stack holds several times as many."""

VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
DECIMAL = "org.apache.kafka.connect.data.Decimal"

_NAMES = ("boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "bytes")
# JsonConverter writes float and double for what Connect's own list calls float32 and float64.
KINDS = {name: name for name in _NAMES} | {"float32": "float", "float64": "double"}
_KINDS = (*KINDS, "struct", "array", "map")
_SCALE = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True)
class Unknown:
    """Nothing is known of the values."""


@dataclass(frozen=True)
class Plain:
    """An atomic type of a schema. `kind`: boolean, int8 to int64, float, double, string or bytes. `logical`: the name of the logical type.
    `scale`: of a decimal, None if the schema says none."""

    kind: str
    logical: str | None = None
    scale: int | None = None


@dataclass(frozen=True)
class Array:
    items: Type


@dataclass(frozen=True)
class Map:
    keys: Type
    values: Type


@dataclass(frozen=True)
class Struct:
    """A struct of a schema. `fields`: pairs of a name and a type."""

    name: str | None
    fields: tuple[tuple[str, Type], ...]

    def member(self, name: str) -> Type:
        """The type of a field; of fields that are named alike, that of the last one."""
        return next((type_ for field, type_ in reversed(self.fields) if field == name), UNKNOWN)


Type = Unknown | Plain | Array | Map | Struct

UNKNOWN = Unknown()


def is_schema(plain: Any) -> bool:
    """Whether a value of JSON has the form of one of Connect's schemas."""
    return isinstance(plain, dict) and (plain.get("type") in _KINDS or "fields" in plain)


def type_of(plain: Any) -> Type:
    """Raises Malformed if the whole is no schema at all."""
    if not is_schema(plain):
        raise Malformed("the wrapper's schema is none of Kafka Connect's")
    if plain.get("type", "struct") == "struct" and not isinstance(plain.get("fields"), list):
        raise Malformed("the wrapper's schema has no list of fields")
    return _type(plain, DEPTH_MAX)


def _type(plain: Any, depth_left: int) -> Type:
    if not isinstance(plain, dict):
        return UNKNOWN
    if depth_left == 0:
        raise Malformed(f"the wrapper's schema has types within each other, more than {DEPTH_MAX} deep")
    kind, name = plain.get("type"), plain.get("name")
    logical = name if isinstance(name, str) else None
    fields = plain.get("fields")
    if kind == "array":
        return Array(_type(plain.get("items"), depth_left - 1))
    if kind == "map":
        return Map(_type(plain.get("keys"), depth_left - 1), _type(plain.get("values"), depth_left - 1))
    if isinstance(fields, list):
        members = [each for each in fields if isinstance(each, dict) and isinstance(each.get("field"), str)]
        return Struct(logical, tuple((each["field"], _type(each, depth_left - 1)) for each in members))
    if isinstance(kind, str) and kind in KINDS:
        return Plain(KINDS[kind], logical, scale_of(plain.get("parameters")))
    if logical == VARIABLE_DECIMAL:
        return variable_decimal()
    return UNKNOWN


def scale_of(parameters: Any) -> int | None:
    text = str(parameters.get("scale", "")) if isinstance(parameters, dict) else ""
    return int(text) if _SCALE.fullmatch(text) else None


def variable_decimal() -> Struct:
    return Struct(VARIABLE_DECIMAL, (("scale", Plain("int32")), ("value", Plain("bytes"))))


def type_text(type_: Type) -> str:
    """A type for errors."""
    match type_:
        case Unknown():
            return "unknown"
        case Plain(kind, None):
            return kind
        case Plain(kind, logical, scale):
            return f"{kind} {logical}" + (f" of scale {scale}" if logical == DECIMAL else "")
        case Array(items):
            return f"array of {type_text(items)}"
        case Map(_, values):
            return f"map of {type_text(values)}"
        case Struct(name):
            return f"struct {name}" if name else "struct"
