"""Arrow types and schemas as plain data, which JSON can hold, and back.

`of_plain(to_plain(t)) == t` for every type that a circuit can have (stepwell/catalyst/types.py), and for `null`, which is a literal's. Arrow's
own text of a type cannot be read back, and its binary form differs between versions of Arrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

Plain = str | dict[str, Any]

_ATOMS = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
    *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
)
_BY_NAME = {str(atom): atom for atom in _ATOMS}


class UnknownType(ValueError):
    """No circuit has this type, or a newer version of Stepwell has written it."""


def to_plain(kind: pa.DataType) -> Plain:
    """The name of an atom, or an object with one member that is named after the kind of type. Raises UnknownType."""
    if str(kind) in _BY_NAME:
        return str(kind)
    if pa.types.is_decimal128(kind):
        return {"decimal": [kind.precision, kind.scale]}
    if pa.types.is_map(kind):
        return {"map": [_of_field(kind.key_field), _of_field(kind.item_field)]}
    if pa.types.is_list(kind):
        return {"list": _of_field(kind.value_field)}
    if pa.types.is_struct(kind):
        return {"struct": [_of_field(field) for field in kind]}
    raise UnknownType(f"type {kind} has no plain form")


def of_plain(plain: Plain) -> pa.DataType:
    """Raises UnknownType."""
    match plain:
        case str(name) if name in _BY_NAME:
            return _BY_NAME[name]
        case {"decimal": [int(precision), int(scale)]}:
            return pa.decimal128(precision, scale)
        case {"map": [key, item]}:
            return pa.map_(_field(key), _field(item))
        case {"list": element}:
            return pa.list_(_field(element))
        case {"struct": [*fields]}:
            return pa.struct([_field(field) for field in fields])
        case _:
            raise UnknownType(f"{plain!r} is not the plain form of a type")


def schema_to_plain(schema: pa.Schema) -> list[Any]:
    return [_of_field(field) for field in schema]


def schema_of_plain(plain: list[Any]) -> pa.Schema:
    """Raises UnknownType."""
    return pa.schema([_field(field) for field in plain])


def _of_field(field: pa.Field) -> list[Any]:
    """Name, type, and whether it may be null."""
    return [field.name, to_plain(field.type), field.nullable]


def _field(plain: Any) -> pa.Field:
    match plain:
        case [str(name), kind, bool(nullable)]:
            return pa.field(name, of_plain(kind), nullable=nullable)
        case _:
            raise UnknownType(f"{plain!r} is not the plain form of a field")
