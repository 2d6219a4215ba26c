"""The default of a field, which a schema has as JSON -> the datum in Avro's binary form.

So a default goes the way of a value that was sent, and has the same meaning by construction.
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
    except (AttributeError, KeyError, TypeError, ValueError, UnicodeError, struct.error) as fault:
        raise BadSchema(f"{value!r} is no default of the type {type_text(type_)}: {fault}") from None


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
            return _blocks([_datum(type_.items, each) for each in value])
        case avro.Map():
            return _blocks([_primitive("string", key) + _datum(type_.values, each) for key, each in value.items()])
        case avro.Union():
            return long_bytes(0) + _datum(type_.branches[0], value)
        case avro.Record():
            return b"".join(_datum(each.type, _member(each, value)) for each in type_.fields)
        case _:
            assert_never(type_)


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
            return bytes([{False: 0, True: 1}[value]])
        case "int" | "long":
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError("it is no whole number")
            return long_bytes(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            raw: bytes = value.encode("latin-1")
            return long_bytes(len(raw)) + raw
        case "string":
            text: bytes = value.encode()
            return long_bytes(len(text)) + text
    raise AssertionError(f"no primitive type is called {kind}")
