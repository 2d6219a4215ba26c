"""The Protobuf schemas of what an output writes, from its columns. They are what is registered, so equal columns give equal texts.

The number of a field is the place of its column, so a column that is added at the end changes no other field. Each field knows whether it is
there (`optional`), because NULL is not zero; a list and a map cannot, so one that is NULL is written as an empty one. The message of an output
is the first of its file, and all others are within it. Dates and decimals are the messages that Kafka Connect's converter for Protobuf has
for them. Names of types begin with a dot, so that no column's name can hide them.
"""

from __future__ import annotations

import re

import pyarrow as pa

from base.text.type_names import sql_type
from io_kafka.formats.avro.declare import record_name
from io_kafka.formats.protobuf.known import DATE, DECIMAL, FILES, TIMESTAMP
from io_kafka.formats.spec import FormatError, OutputFormat

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGES = ("google", "confluent")
"""The packages of the types that are imported. No message may have the name of a package."""

_ATOMIC = {
    pa.int8(): "int32",
    pa.int16(): "int32",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "bool",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): f".{DATE}",
    pa.timestamp("us", "UTC"): f".{TIMESTAMP}",
    pa.timestamp("us"): f".{TIMESTAMP}",
}


def value_schema(output: OutputFormat) -> str:
    """The text of the schema of values. A changelog has Debezium's envelope. Raises FormatError."""
    name = message_name(output.handle)
    row = list(output.schema)
    if output.mode != "changelog":
        return _file(_message(output, name, row, ""))
    fields = ["optional Value before = 1;", "optional Value after = 2;", "optional string op = 3;"]
    within = _message(output, "Value", row, "  ")
    return _file("\n".join([f"message {name} {{", *(f"  {field}" for field in fields), within, "}"]))


def key_schema(output: OutputFormat) -> str:
    """Returns the text of the schema of keys."""
    return _file(
        _message(output, f"{message_name(output.handle)}_key", [output.schema.field(n) for n in output.key], "")
    )


def message_name(handle: str) -> str:
    name = record_name(handle)
    return f"_{name}" if name in _PACKAGES else name


def _file(message: str) -> str:
    imports = [f'import "{path}";' for name, path in sorted(FILES.items()) if f".{name}" in message]
    return "\n".join(['syntax = "proto3";', *imports, message, ""])


def _message(output: OutputFormat, name: str, fields: list[pa.Field], indent: str) -> str:
    """The declaration of a message, with those of the messages within it."""
    _check_names(output, fields)
    taken = {field.name for field in fields}
    lines, within = [f"{indent}message {name} {{"], []
    for number, field in enumerate(fields, start=1):
        kind, label = field.type, "optional "
        if pa.types.is_map(kind):
            label, kind = "", kind.item_type
        elif pa.types.is_list(kind):
            label, kind = "repeated ", kind.value_type
        if pa.types.is_struct(kind):
            inner = f"{field.name}_row"
            while inner in taken:
                inner += "_"
            taken.add(inner)
            within.append(
                _message(output, inner, [kind.field(place) for place in range(kind.num_fields)], f"{indent}  ")
            )
        else:
            inner = _type(output, field.name, kind)
        lines.append(f"{indent}  {label}{inner if label else f'map<string, {inner}>'} {field.name} = {number};")
    return "\n".join([*lines, *within, f"{indent}}}"])


def _type(output: OutputFormat, column: str, kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f".{DECIMAL}"
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        raise FormatError(
            f"{output.handle}: column {column} has a list or a map directly within another one, which Protobuf does not have",
            "Put the inner one into a STRUCT.",
        )
    if kind not in _ATOMIC:
        raise FormatError(
            f"{output.handle}: column {column} has type {sql_type(kind)}, which Protobuf does not have",
            "Cast it in the view.",
        )
    return _ATOMIC[kind]


def _check_names(output: OutputFormat, fields: list[pa.Field]) -> None:
    known: dict[str, str] = {}
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise FormatError(
                f"{output.handle}: {field.name!r} is no name in Protobuf, which has letters, digits and _",
                "Rename the column with AS, or write the output as JSON.",
            )
        other = known.setdefault(_in_json(field.name), field.name)
        if other != field.name:
            raise FormatError(
                f"{output.handle}: the columns {other} and {field.name} are one name in Protobuf's JSON, so no message may have both",
                "Rename one with AS.",
            )


def _in_json(name: str) -> str:
    """Returns the name as Protobuf's compiler compares names in JSON: without _, and without regard to capitals."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name).lower()
