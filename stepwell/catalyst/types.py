"""Spark's data types as Arrow types.

Guarantees: every type that a circuit supports has exactly one Arrow form. Day-time intervals are durations in microseconds, and a year-month
interval is a number of months in a duration of another unit (base/text/months.py). Structs keep Spark's names.
Every other type raises `UnsupportedType` with its name. Nested fields are always nullable in the Arrow form, because
Spark's optimiser changes nullability. A type that changed with it would change the circuit's fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH
from base.text.type_names import sql_type
from base.text.variants import FIELD, VARIANT

if TYPE_CHECKING:
    from pyspark.sql.types import StructType  # takes a fifth of a second, and queries without Spark need it not


class UnsupportedType(ValueError):
    """A Spark type has no form inside a circuit. `remedy`: what to write instead."""

    remedy = "cast the column to a supported type in the view that reads it"

    def __init__(self, name: str) -> None:
        super().__init__(f"type {name} is not supported: {self.remedy}")
        self.name = name


class FieldsOfOneName(UnsupportedType):
    """A struct has two fields that case alone distinguishes. DuckDB takes them for one, whatever spark.sql.caseSensitive says."""

    remedy = "give the fields names that differ in more than case"

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"STRUCT with two fields of one name ({first}, {second})")


TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
DURATION = pa.duration("us")

EMPTY_STRUCT = "struct<>"
"""DuckDB has no type without fields, so it is refused wherever it comes from."""

_ATOMIC: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "interval year to month": YEAR_TO_MONTH,
    "interval year": YEAR,
    "interval month": MONTH,
    "variant": VARIANT,
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
WHOLE_INTERVAL = "interval day to second"
"""The day-time interval whose text Stepwell reads and writes. The other nine have the same values, but other texts."""


def arrow_type(spark: str | dict[str, Any]) -> pa.DataType:
    """The Arrow form of a type in the notation of Spark's `DataType.json`: a name, or an object for a nested type. Raises UnsupportedType."""
    if isinstance(spark, dict):
        return _nested_type(spark)
    if not isinstance(spark, str):
        raise UnsupportedType(EMPTY_STRUCT)  # trees have an empty list in place of its fields
    if (atomic := _ATOMIC.get(spark)) is not None:
        return atomic
    if decimal := _DECIMAL.fullmatch(spark):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if _DAY_TIME.fullmatch(spark):
        return DURATION
    raise UnsupportedType(spark)


def expression_type(spark: str | dict[str, Any]) -> pa.DataType:
    """Returns what `arrow_type` returns, but also accepts the type that exists only inside expressions: void."""
    return pa.null() if spark == VOID else arrow_type(spark)


VOID, TYPE_OF_VOID_COLUMNS = "void", "boolean"
"""A column of the type void is NULL in every row, and has the other type in a circuit (stepwell/lowering/void_columns.py)."""


def column_type(spark: str | dict[str, Any]) -> pa.DataType:
    """Returns what `arrow_type` returns, and for void what such a column has in a circuit."""
    return arrow_type(TYPE_OF_VOID_COLUMNS if spark == VOID else spark)


def _nested_type(spark: dict[str, Any]) -> pa.DataType:
    match spark["type"]:
        case "array":
            return pa.list_(pa.field("element", arrow_type(spark["elementType"])))
        case "struct" if not spark["fields"]:
            raise UnsupportedType(EMPTY_STRUCT)
        case "struct" if found := names_of_one([field["name"] for field in spark["fields"]]):
            raise FieldsOfOneName(*found)
        case "struct":
            return struct_type([(field["name"], arrow_type(field["type"])) for field in spark["fields"]])
        case "map":
            return pa.map_(arrow_type(spark["keyType"]), arrow_type(spark["valueType"]))
        case other:
            raise UnsupportedType(str(other))


def struct_type(fields: Iterable[tuple[str, pa.DataType]]) -> pa.StructType:
    """The struct with these fields. Raises UnsupportedType if it has the form of a VARIANT."""
    made = pa.struct([pa.field(name, type_) for name, type_ in fields])
    if made == VARIANT:
        raise UnsupportedType(f"STRUCT<`{FIELD}`: STRING>")
    return made


def last_unit(spark: str | dict[str, Any]) -> str | None:
    """The last unit of a type of day-time intervals, such as `hour` of INTERVAL DAY TO HOUR; None for any other type."""
    found = _DAY_TIME.fullmatch(spark) if isinstance(spark, str) else None
    return None if found is None else found[3] or found[1]


def narrow_interval(spark: str | dict[str, Any]) -> str | None:
    """The first day-time interval in a type, at any depth, that is not DAY TO SECOND; None if there is none."""
    if isinstance(spark, dict):
        parts = [spark.get(name) for name in ("elementType", "keyType", "valueType")]
        parts += [field["type"] for field in spark.get("fields", ())]
        return next(filter(None, (narrow_interval(part) for part in parts if part is not None)), None)
    return spark if last_unit(spark) is not None and spark != WHOLE_INTERVAL else None


def names_of_one(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two of the names that are equal but for case; None if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return seen[name.lower()], name
        seen[name.lower()] = name
    return None


def catalyst_type(type_: pa.DataType) -> Any:
    """The type in the form of Catalyst's trees: the inverse of `arrow_type`. Raises UnsupportedType for a type that no column can have."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        kinds = {"keyType": catalyst_type(type_.key_type), "valueType": catalyst_type(type_.item_type)}
        return {"type": "map", **kinds, "valueContainsNull": True}
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": catalyst_type(type_.value_type), "containsNull": True}
    if pa.types.is_struct(type_) and type_ != VARIANT:
        fields = [
            {"name": field.name, "type": catalyst_type(field.type), "nullable": True, "metadata": {}} for field in type_
        ]
        return {"type": "struct", "fields": fields}
    if type_ not in _CATALYST_NAMES:
        raise UnsupportedType(sql_type(type_))
    return _CATALYST_NAMES[type_]


_CATALYST_NAMES: dict[pa.DataType, str] = {
    arrow_type(name): name
    for name in (
        "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp",
        "timestamp_ntz", WHOLE_INTERVAL, "interval year to month", "interval year", "interval month", "variant",
    )
} | {pa.null(): VOID}  # fmt: skip


def arrow_schema(schema: str | StructType | dict[str, Any]) -> pa.Schema:
    """The columns of a table. A string is DDL ("a INT, b STRING NOT NULL"), which Spark parses; this needs an active session. A
    dict is the content of `StructType.json`. NOT NULL of a column is kept, because messages are checked against it."""
    if isinstance(schema, str):
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(schema)
    plain = schema if isinstance(schema, dict) else schema.jsonValue()
    return pa.schema(
        [pa.field(field["name"], arrow_type(field["type"]), nullable=field["nullable"]) for field in plain["fields"]]
    )
