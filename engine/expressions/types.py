"""The form in which DuckDB sees Arrow's types, and the way there and back.

Guarantees: what enters DuckDB and comes back unchanged is unchanged, whatever the type and however deeply nested; what an
expression yields has exactly the Arrow type the circuit declares.

Two types differ inside. A timestamp with a zone is a naive one in UTC: DuckDB's own type brings its session's zone into casts
and arithmetic. A day-time interval is a BIGINT of microseconds: DuckDB's INTERVAL keeps months and days apart, Spark's does not.
"""

from __future__ import annotations

import pyarrow as pa

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
    pa.month_day_nano_interval(): "INTEGER",  # of months; only inside an expression
    pa.null(): "INTEGER",  # any type will do for a null that is never anything else
}


def duck_type(type_: pa.DataType) -> str:
    """The DuckDB type in which a value of this Arrow type is computed."""
    if (name := _NAMES.get(type_)) is not None:
        return name
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return f"{duck_type(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return "STRUCT(" + ", ".join(f"{quote_name(f.name)} {duck_type(f.type)}" for f in type_) + ")"
    raise AssertionError(f"no DuckDB form of {type_}: stepwell.catalyst.types lets it pass")


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def inside(type_: pa.DataType) -> pa.DataType:
    """The Arrow type whose buffers are the same and which DuckDB reads as `duck_type(type_)`."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_duration(type_):
        return pa.int64()
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", inside(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, inside(field.type)) for field in type_])
    return type_


def relabel(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The same values under a type of the same layout (`inside(type_)` or back), without copying."""
    if column.type == type_:
        return column
    if pa.types.is_struct(type_) and type_.num_fields == 0:
        return column
    return pa.chunked_array([_relabel(chunk, type_) for chunk in column.chunks], type=type_)


def _relabel(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_list(type_) or pa.types.is_struct(type_):
        return array.cast(type_) if array.type != type_ else array
    return array.view(type_)
