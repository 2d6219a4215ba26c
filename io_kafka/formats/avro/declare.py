"""The Avro schemas of what an output writes, from its columns. They are what is registered, so equal columns give equal texts.

Every column and element may be null, because a view promises nothing else. A timestamp has microseconds, so no two keys fall together. A decimal
is `bytes`, as Kafka Connect has it. Spark's own names of types are in docs/formats.md.

A record has the names of the columns in which it is. Two may then have one name, such as those of `x ARRAY<STRUCT<...>>` and
`x_item STRUCT<...>`; the second one has a `_` at its end.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from base.text.type_names import sql_type
from io_kafka.formats.spec import FormatError, OutputFormat

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ATOMIC: dict[pa.DataType, Any] = {
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


def value_schema(output: OutputFormat) -> str:
    """The text of the schema of values. A changelog has Debezium's envelope. Raises FormatError."""
    name = record_name(output.handle)
    if output.mode != "changelog":
        return _text(_record(output, name, list(output.schema), set()))
    row = _record(output, "Value", list(output.schema), set())
    envelope = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ]
    return _text({"type": "record", "name": "Envelope", "namespace": name, "fields": envelope})


def key_schema(output: OutputFormat) -> str:
    """Returns the text of the schema of keys."""
    fields = [output.schema.field(name) for name in output.key]
    return _text(_record(output, f"{record_name(output.handle)}_key", fields, set()))


def record_name(handle: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", handle)
    return name if _NAME.fullmatch(name) else f"_{name}"


def _text(plain: dict[str, Any]) -> str:
    return json.dumps(plain, separators=(",", ":"))


def _record(output: OutputFormat, name: str, fields: list[pa.Field], taken: set[str]) -> dict[str, Any]:
    """`taken`: the names of the records before it, to which its own are added."""
    while name in taken:
        name += "_"
    taken.add(name)
    members = []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise FormatError(
                f"{output.handle}: {field.name!r} is no name in Avro, which has letters, digits and _",
                "Rename the column with AS, or write the output as JSON.",
            )
        inner = _type(output, f"{name}_{field.name}", field.type, taken)
        members.append({"name": field.name, "type": ["null", inner], "default": None})
    return {"type": "record", "name": name, "fields": members}


def _type(output: OutputFormat, name: str, kind: pa.DataType, taken: set[str]) -> Any:
    if pa.types.is_struct(kind):
        return _record(output, name, [kind.field(number) for number in range(kind.num_fields)], taken)
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _type(output, f"{name}_value", kind.item_type, taken)]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(output, f"{name}_item", kind.value_type, taken)]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind not in _ATOMIC:
        raise FormatError(
            f"{output.handle}: a column has type {sql_type(kind)}, which Avro does not have", "Cast it in the view."
        )
    return _ATOMIC[kind]
