"""Arrow types and schemas as plain data, which JSON can hold, and back.

`of_plain(to_plain(t)) == t` for every type that a circuit can have (stepwell/catalyst/types.py), and for `null`, which is a literal's. Arrow's
own text of a nested type cannot be read back, and its binary form differs between versions of Arrow.

Names of functions in the SQL of circuits have this form (engine/expressions/generic.py), so it may never change for a type that it has.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

Plain = str | dict[str, Any]

_ATOMS = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()),
    *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
)
_BY_NAME = {str(atom): atom for atom in _ATOMS}
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")


class UnknownType(ValueError):
    """No circuit has this type, or a newer version of Stepwell has written it."""


def to_plain(kind: pa.DataType) -> Plain:
    """Arrow's name of a type without parts, or an object with one member, which is named after the kind of type. Raises UnknownType."""
    if pa.types.is_map(kind):
        return {"map": [to_plain(kind.key_type), to_plain(kind.item_type)]}
    if pa.types.is_list(kind):
        return {"list": to_plain(kind.value_type)}
    if pa.types.is_struct(kind):
        return {"struct": [[field.name, to_plain(field.type)] for field in kind]}
    if str(kind) in _BY_NAME or pa.types.is_decimal128(kind):
        return str(kind)
    raise UnknownType(f"type {kind} has no plain form")


def of_plain(plain: Any) -> pa.DataType:
    """Raises UnknownType."""
    match plain:
        case str(name) if name in _BY_NAME:
            return _BY_NAME[name]
        case str(name) if decimal := _DECIMAL.fullmatch(name):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        case {"map": [key, item]}:
            return pa.map_(of_plain(key), of_plain(item))
        case {"list": element}:
            return pa.list_(pa.field("element", of_plain(element)))
        case {"struct": [*fields]}:
            return pa.struct([pa.field(name, of_plain(kind)) for name, kind in fields])
        case _:
            raise UnknownType(f"{plain!r} is not the plain form of a type")


def schema_to_plain(schema: pa.Schema) -> list[Any]:
    """Name, type, and whether it may be null, of each column. What is within a column may always be null."""
    return [[field.name, to_plain(field.type), field.nullable] for field in schema]


def schema_of_plain(plain: list[Any]) -> pa.Schema:
    """Raises UnknownType."""
    return pa.schema([pa.field(name, of_plain(kind), nullable=nullable) for name, kind, nullable in plain])
