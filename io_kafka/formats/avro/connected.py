"""Values in Avro to which Kafka Connect gave a type (`connect.name`): they become columns as the same values in JSON do.

A plain type of Avro keeps Avro's own promotions (values.py). Where Connect's name says what a value is, it is converted to the column's type as
CAST does.
"""

from __future__ import annotations

import pyarrow as pa

from base.arrays import Int64s
from base.text.patterns import NO_PATTERNS
from io_kafka.formats.avro.schema import Primitive
from io_kafka.formats.avro.values import Read, read_primitive
from io_kafka.formats.connect.conversion import Convert, Faults, leaf_convert, variable_convert
from io_kafka.formats.connect.leaves import leaf_of
from io_kafka.formats.connect.types import DECIMAL, Plain, variable_decimal
from io_kafka.formats.cursor import Cursor

VARIABLE_PARTS = pa.struct([pa.field("scale", pa.int32()), pa.field("value", pa.binary())])

_KINDS = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}


def means_more(writer: Primitive, kind: pa.DataType) -> bool:
    """Whether Connect's name alone says what the value is, where Avro's type would be read as something else."""
    return writer.connect == DECIMAL and not (writer.logical == "decimal" and pa.types.is_decimal(kind))


def read_connect(writer: Primitive, kind: pa.DataType, column: str) -> Read | None:
    """None if the writer's type has no values, or if nothing is known that Avro's type does not say."""
    if writer.kind not in _KINDS:
        return None
    scale = writer.scale if writer.logical == "decimal" else writer.connect_scale
    type_ = Plain(_KINDS[writer.kind], writer.connect, scale)
    leaf = leaf_of(type_)
    if leaf is not None and leaf == leaf_of(Plain(type_.kind)):
        return None  # a name that is not known says nothing
    raw = pa.binary() if leaf is None else leaf.raw
    read_raw = read_primitive(Primitive(writer.kind), raw, column)
    assert read_raw is not None, "it is the type's own form"
    convert = leaf_convert(type_, leaf, kind, column, NO_PATTERNS)
    return read_raw if convert is None else _with_conversion(read_raw, convert)


def read_variable_decimal(read_parts: Read, kind: pa.DataType, column: str) -> Read:
    """`read_parts`: reads scale and value."""
    return _with_conversion(read_parts, variable_convert(variable_decimal(), kind, column, lambda value: value))


def _with_conversion(read_raw: Read, convert: Convert) -> Read:
    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        faults: Faults = {}
        column = convert(read_raw(cursor, rows), rows, faults)
        for row, reason in faults.items():
            cursor.faults.setdefault(row, reason)
            cursor.at[row] = cursor.end[row]
        return column

    return read
