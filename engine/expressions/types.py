"""The types in which DuckDB sees Arrow's types, and the conversion in both directions.

Guarantees: a value that only passes through DuckDB does not change, whatever its type and however deeply it is nested. The result of an
expression has exactly the Arrow type that the circuit declares.

Some types are different in DuckDB. A timestamp with a zone is a TIMESTAMP without a zone, in UTC, because DuckDB's type with a zone uses the
session's zone in casts and arithmetic. An interval is a BIGINT of microseconds or of months, because DuckDB's INTERVAL has months, days and
microseconds, and each of Spark's has only one of them.
"""

from __future__ import annotations

import pyarrow as pa

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.duration("us"): "BIGINT",
    YEAR_TO_MONTH: "BIGINT",
    MONTH: "BIGINT",
    YEAR: "BIGINT",
    pa.null(): "INTEGER",  # any type will do, because all values are null
}


def duck_type(type_: pa.DataType) -> str:
    """The DuckDB type in which a value of this Arrow type is computed."""
    if (name := _NAMES.get(type_)) is not None:
        return name
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"{duck_type(type_.value_type)}[]"
    if pa.types.is_map(type_):
        return f"MAP({duck_type(type_.key_type)}, {duck_type(type_.item_type)})"
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f"{quote_name(f.name)} {duck_type(f.type)}" for f in type_) + ")"
    raise AssertionError(f"{type_} has no DuckDB type, but stepwell.catalyst.types accepts it")


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def buffer_type(type_: pa.DataType) -> pa.DataType:
    """The Arrow type whose buffers are the same and which DuckDB reads as `duck_type(type_)`."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_duration(type_):
        return pa.int64()
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", buffer_type(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(buffer_type(type_.key_type), buffer_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, buffer_type(field.type)) for field in type_])
    return type_


def relabel(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Returns the same values as a type of the same memory layout (from a type to `buffer_type` of it, or back), without copying."""
    if column.type == type_:
        return column
    if pa.types.is_struct(type_) and type_.num_fields == 0:
        return column
    return pa.chunked_array([_relabel(chunk, type_) for chunk in column.chunks], type=type_)


def _relabel(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_nested(type_):
        return array.cast(type_) if array.type != type_ else array
    return array.view(type_)
