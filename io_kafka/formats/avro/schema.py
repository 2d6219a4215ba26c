"""Avro's schemas as plain data. The source of the rules is the specification of Avro 1.12.

A named type that is used again is the same object, so a type may contain itself. Logical types that are unknown, or that their type cannot have,
are ignored, as the specification wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from io_kafka.formats.connect.types import scale_of
from io_kafka.formats.names import Ambiguous, fields_of

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_BASES = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "duration": ("fixed",),
    **dict.fromkeys(
        (
            "time-micros",
            *(f"{where}timestamp-{unit}" for where in ("", "local-") for unit in ("millis", "micros", "nanos")),
        ),
        ("long",),
    ),
}
"""The types that may have these logical types. What `uuid` stands on makes no difference, but for a fixed of 16 bytes (values.py)."""
DURATION_BYTES = 12


class BadSchema(Exception):
    """The text is no schema of Avro, or one that cannot be read into the declared columns. Its text says why."""


def schema_fields_of(columns: Iterable[str], fields: Iterable[str]) -> dict[str, str]:
    """Returns what `fields_of` (names.py) returns, for a schema of Avro or Protobuf. Raises BadSchema."""
    try:
        return fields_of(columns, fields)
    except Ambiguous as fault:
        raise BadSchema(str(fault)) from None


@dataclass(frozen=True)
class Primitive:
    """A primitive type of Avro. `logical`: the name of the logical type. `connect`: the one of Kafka Connect, which Debezium uses for its own
    types of time."""

    kind: str
    logical: str | None = None
    connect: str | None = None
    precision: int = 0
    scale: int = 0
    connect_scale: int | None = None
    """The scale of Connect's Decimal, which may be negative, as no scale of Avro is."""


@dataclass(frozen=True)
class Fixed:
    name: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True)
class Array:
    items: Type


@dataclass(frozen=True)
class Map:
    values: Type


@dataclass(frozen=True)
class Union:
    branches: tuple[Type, ...]


@dataclass(frozen=True)
class Field:
    """A field of a record. `default`: a tuple of one value of JSON, or empty if there is none."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: tuple[Any, ...] = ()


@dataclass(eq=False)
class Record:
    """A record type of Avro. `name`: with its namespace."""

    name: str
    fields: list[Field] = field(default_factory=list)


Type = Primitive | Fixed | Enum | Array | Map | Union | Record


def parse_schema(text: str, references: Iterable[tuple[str, str]] = ()) -> Type:
    """`references`: (name, text) of schemas that define types which this one names. Raises BadSchema."""
    names: dict[str, Type] = {}
    for _, other in references:
        _parse_text(other, names)
    return _parse_text(text, names)


def _parse_text(text: str, names: dict[str, Type]) -> Type:
    try:
        plain = json.loads(text)
    except ValueError as fault:
        plain = text if text in PRIMITIVES else None  # some registries give a primitive without its quotes
        if plain is None:
            raise BadSchema(f"it is not JSON: {fault}") from None
    try:
        return _type(plain, "", names)
    except (KeyError, TypeError, ValueError, RecursionError) as fault:
        raise BadSchema(f"it is no schema of Avro: {type(fault).__name__} {fault}") from None


def _type(plain: Any, namespace: str, names: dict[str, Type]) -> Type:
    if isinstance(plain, list):
        return Union(tuple(_type(branch, namespace, names) for branch in plain))
    if isinstance(plain, str):
        return _type_of_name(plain, namespace, names)
    kind = plain["type"]
    if isinstance(kind, dict | list):
        return _type(kind, namespace, names)
    match kind:
        case "array":
            return Array(_type(plain["items"], namespace, names))
        case "map":
            return Map(_type(plain["values"], namespace, names))
        case "record" | "error":
            return _record(plain, namespace, names)
        case "enum":
            name, _ = _full_name(plain, namespace)
            return _define(names, name, Enum(name, tuple(map(str, plain["symbols"])), plain.get("default")))
        case "fixed":
            name, _ = _full_name(plain, namespace)
            return _define(names, name, Fixed(name, int(plain["size"]), *_logical(plain)))
    if kind not in PRIMITIVES:
        return _type_of_name(kind, namespace, names)
    logical, precision, scale = _logical(plain)
    connect = plain.get("connect.name")
    parameters = plain.get("connect.parameters")
    return Primitive(
        kind,
        logical,
        connect=connect if isinstance(connect, str) else None,
        precision=precision,
        scale=scale,
        connect_scale=scale_of(parameters),
    )


def _type_of_name(name: str, namespace: str, names: dict[str, Type]) -> Type:
    if name in PRIMITIVES:
        return Primitive(name)
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    found = names.get(full) or names.get(name)
    if found is None:
        raise BadSchema(f"the type {full} is named and nowhere defined")
    return found


def _record(plain: dict[str, Any], namespace: str, names: dict[str, Type]) -> Type:
    name, inner = _full_name(plain, namespace)
    record = Record(name)
    _define(names, name, record)  # before its fields, which may name it
    for each in plain["fields"]:
        default = (each["default"],) if "default" in each else ()
        aliases = tuple(map(str, each.get("aliases", ())))
        record.fields.append(Field(str(each["name"]), _type(each["type"], inner, names), aliases, default))
    return record


def _full_name(plain: dict[str, Any], namespace: str) -> tuple[str, str]:
    """(full name, namespace of what is inside)."""
    name = str(plain["name"])
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = str(plain.get("namespace", namespace) or "")
    return (f"{inner}.{name}" if inner else name), inner


def _define(names: dict[str, Type], name: str, type_: Type) -> Type:
    names[name] = type_
    return type_


def _logical(plain: dict[str, Any]) -> tuple[str | None, int, int]:
    """(name, precision, scale). An invalid one is none."""
    name, none = plain.get("logicalType"), (None, 0, 0)
    if not isinstance(name, str) or plain["type"] not in _BASES.get(name, (plain["type"],)):
        return none
    if name == "duration" and plain["size"] != DURATION_BYTES:
        return none
    if name != "decimal":
        return name, 0, 0
    try:
        precision, scale = int(plain["precision"]), int(plain.get("scale", 0))
    except (KeyError, TypeError, ValueError):
        return none
    return (name, precision, scale) if 0 <= scale <= precision and precision >= 1 else none


def type_text(type_: Type) -> str:
    """A short name of a type, for errors."""
    match type_:
        case Primitive() | Fixed():
            kind = type_.kind if isinstance(type_, Primitive) else f"fixed({type_.size})"
            logical = type_.logical or (type_.connect if isinstance(type_, Primitive) else None)
            if logical == "decimal":
                return f"decimal({type_.precision},{type_.scale})"
            return f"{kind} ({logical})" if logical else kind
        case Enum():
            return f"enum {type_.name}"
        case Array():
            return f"array of {type_text(type_.items)}"
        case Map():
            return f"map of {type_text(type_.values)}"
        case Union():
            return f"union of {', '.join(map(type_text, type_.branches))}"
        case Record():
            return f"record {type_.name}"
