"""The default of a field, which a schema has as JSON -> the datum in Avro's binary form.

So a default goes the way of a value that was sent, and has the same meaning by construction. The default of a union is one of its first branch
that has such a value, as Avro has it since 1.12.
"""

from __future__ import annotations

import struct
from typing import Any, assert_never

from io_kafka.formats.avro import schema as avro
from io_kafka.formats.avro.schema import BadSchema, Type, type_text


def long_bytes(number: int) -> bytes:
    """A whole number in zigzag order and groups of seven bits."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def as_datum(type_: Type, value: Any) -> bytes:
    """Raises BadSchema if the value is none of the type."""
    try:
        return _datum(type_, value)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error) as fault:
        raise BadSchema(f"{value!r} is no default of the type {type_text(type_)}: {fault}") from None


def branch_of(type_: Type, value: Any) -> Type:
    """The type itself, or the branch of a union whose value this is. Raises BadSchema."""
    if not isinstance(type_, avro.Union):
        return type_
    return type_.branches[_branch(type_, value)[0]]


def _branch(union: avro.Union, value: Any) -> tuple[int, bytes]:
    """(the number of the first branch that has such a value, its datum there)."""
    for number, branch in enumerate(union.branches):
        try:
            return number, as_datum(branch, value)
        except BadSchema:
            continue
    raise BadSchema(f"{value!r} is no default of the type {type_text(union)}: no branch has such a value")


def _datum(type_: Type, value: Any) -> bytes:
    match type_:
        case avro.Primitive():
            return _primitive(type_.kind, value)
        case avro.Fixed():
            found: bytes = value.encode("latin-1")
            if len(found) != type_.size:
                raise ValueError(f"it has {len(found)} bytes")
            return found
        case avro.Enum():
            return long_bytes(type_.symbols.index(value))
        case avro.Array():
            _check(value, list)
            return _blocks([_datum(type_.items, each) for each in value])
        case avro.Map():
            return _blocks([_primitive("string", key) + _datum(type_.values, each) for key, each in value.items()])
        case avro.Union():
            number, datum = _branch(type_, value)
            return long_bytes(number) + datum
        case avro.Record():
            _check(value, dict)
            return b"".join(_datum(each.type, _member(each, value)) for each in type_.fields)
        case _:
            assert_never(type_)


def _check(value: Any, *kinds: type) -> None:
    if type(value) not in kinds:
        raise TypeError(f"it is no {kinds[0].__name__}")


def _member(field: avro.Field, value: dict[str, Any]) -> Any:
    return value[field.name] if field.name in value or not field.default else field.default[0]


def _blocks(items: list[bytes]) -> bytes:
    return (long_bytes(len(items)) + b"".join(items) if items else b"") + long_bytes(0)


def _primitive(kind: str, value: Any) -> bytes:
    match kind:
        case "null":
            if value is not None:
                raise ValueError("it is not null")
            return b""
        case "boolean":
            _check(value, bool)
            return bytes([value])
        case "int" | "long":
            if type(value) is not int:
                raise ValueError("it is no whole number")
            bits = 32 if kind == "int" else 64
            if not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise ValueError(f"it does not fit {bits} bits")
            return long_bytes(value)
        case "float" | "double":
            _check(value, float, int)
            return struct.pack("<f" if kind == "float" else "<d", value)
        case "bytes":
            raw: bytes = value.encode("latin-1")
            return long_bytes(len(raw)) + raw
        case "string":
            text: bytes = value.encode()
            return long_bytes(len(text)) + text
    raise AssertionError(f"no primitive type is called {kind}")
