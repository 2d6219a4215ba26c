"""The properties that each format of messages has in a table, for sources and for outputs: one entry for each format, by its name.

They are here and not with the formats, because they are checked against Spark's types, and name a table's place in errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol

import pyarrow as pa
from pyspark.sql.types import AtomicType, BinaryType, StringType, StructType

from base.options import Mode, OutputFormatName
from base.text.patterns import Kind
from io_kafka.formats.avro import schema as avro
from io_kafka.formats.avro.format import FRAMING
from io_kafka.formats.avro.format import SCHEMA as AVRO_SCHEMA
from io_kafka.formats.avro.read import plain_columns
from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.delimited import ESCAPE, QUOTE
from io_kafka.formats.delimited_format import NULL_VALUE, SEPARATOR, csv_identity
from io_kafka.formats.delimited_write import is_written_as_csv
from io_kafka.formats.descriptor import FromRegistry
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.protobuf.described import reader_of
from io_kafka.formats.protobuf.format import DEFAULTS, DESCRIPTOR, MESSAGE
from io_kafka.formats.spec import FormatError, OutputFormat
from io_kafka.formats.table import FORMATS
from io_kafka.registry.address import RegistryAddress
from stepwell.catalyst.types import UnsupportedType, arrow_schema
from stepwell.errors import ProjectError
from stepwell.project.settings import Settings
from stepwell.project.text_files import read_text

FORMAT, REGISTRY = "format", "schema.registry.url"
PATTERNS: dict[Kind, str] = {
    "date": "dateFormat",
    "timestamp": "timestampFormat",
    "timestamp_ntz": "timestampNTZFormat",
}
"""Spark's names, in its spelling."""


class Properties(Protocol):
    """The properties of one table, by lower-case name."""

    @property
    def values(self) -> Mapping[str, str]: ...

    @property
    def settings(self) -> Settings: ...

    def error(self, message: str, what_to_do: str = "") -> ProjectError: ...


@dataclass(frozen=True)
class TableOfSource:
    """The declared table of a source, as its format has to know it. `payload`: the columns of `schema` that values have. `root`: the project's
    folder, in which a property may name a file."""

    payload: StructType
    schema: StructType
    mode: Mode
    key: tuple[str, ...]
    root: Path | None


@dataclass(frozen=True)
class FormatProperties:
    """The properties that a format has in a project. `own`: the names of the properties that mean something for the format, as the documents
    spell them. `source`: the encoding that they say. `output`: checks the columns of an output, and gives the options of its format that differ
    from their defaults. Both raise ProjectError."""

    own: tuple[str, ...]
    source: Callable[[Properties, TableOfSource], Encoding]
    output: Callable[[Properties, StructType, Mode, tuple[str, ...]], Mapping[str, str]]


def registry_of(of: Properties) -> RegistryAddress:
    url = (of.values.get(REGISTRY) or of.settings.stepwell.registry_url or "").strip().rstrip("/")
    if not url:
        raise of.error(
            f"messages in {of.values[FORMAT]} need a schema registry",
            f"Add '{REGISTRY}' = 'http://...', or set stepwell.registry.url for all tables.",
        )
    if "@" in url:
        raise of.error(
            f"{REGISTRY} has a user in it", "User and password belong into the setting stepwell.registry.auth."
        )
    if not re.match(r"https?://[^/]", url):
        raise of.error(f"{REGISTRY} = {url} is not the URL of a registry", "Write http://HOST:PORT.")
    return RegistryAddress(url)


def _json(of: Properties, table: TableOfSource) -> JsonWithRegistry | None:
    """The registry of the table, or that of all tables: then messages with an id are read too."""
    if not (of.values.get(REGISTRY) or of.settings.stepwell.registry_url or "").strip():
        return None
    return JsonWithRegistry(registry_of(of))


def _check_json(of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]) -> Mapping[str, str]:
    """Checks nothing. The columns of JSON are refused by their types, whatever the format."""
    return {}


def _avro(of: Properties, table: TableOfSource) -> Avro | PlainAvro:
    framing = of.values.get(FRAMING, "registry").strip().lower()
    if framing not in ("registry", "none"):
        raise of.error(f"{FRAMING} = {framing} is not known", "It is registry or none.")
    if framing == "none" and (REGISTRY in of.values or AVRO_SCHEMA not in of.values):
        raise of.error(
            f"{FRAMING} = none needs {AVRO_SCHEMA} and no {REGISTRY}",
            "Then no message says its schema: name the one with which all were written.",
        )
    given = of.values.get(AVRO_SCHEMA)
    if given is None:
        return Avro(registry_of(of))

    def wrong(why: str) -> NoReturn:
        raise of.error(
            f"{AVRO_SCHEMA}: {why}",
            "Write the schema of a record in JSON, or the path of its file in the project's folder.",
        )

    text = given.strip()
    if not text.startswith("{"):
        if table.root is None or not (table.root / text).is_file():
            wrong(f"there is no file {text}")
        text = read_text(table.root / text, text)
    try:
        parsed = avro.parse_schema(text)
    except avro.BadSchema as fault:
        wrong(str(fault))
    if not isinstance(parsed, avro.Record):
        wrong(f"it is {avro.type_text(parsed)}, and no record")
    if framing == "none":
        try:
            _check_columns(table, lambda columns: plain_columns(PlainAvro(text), columns))
        except avro.BadSchema as fault:
            wrong(str(fault))
        return PlainAvro(text)
    strange = {field.name for field in parsed.fields} - set(table.schema.names)
    if strange:
        wrong(f"its field {min(strange)} is not a column of the table")
    return Avro(registry_of(of), text)


def _protobuf(of: Properties, table: TableOfSource) -> Protobuf | DescribedProtobuf:
    """The encoding of Protobuf: with a registry, or with a file that has the one type of all messages."""
    if DESCRIPTOR not in of.values and MESSAGE not in of.values:
        return Protobuf(registry_of(of), _defaults(of))
    if DESCRIPTOR not in of.values or MESSAGE not in of.values:
        raise of.error(
            f"{DESCRIPTOR} and {MESSAGE} belong together", "Name the file and the message in it, or leave both out."
        )
    if REGISTRY in of.values:
        raise of.error(
            f"{REGISTRY} and {DESCRIPTOR} exclude each other", "With a descriptor, messages have no schema's id."
        )
    path = of.values[DESCRIPTOR].strip()
    if table.root is None or not (table.root / path).is_file():
        raise of.error(
            f"{DESCRIPTOR}: there is no file {path}", "Write the path of a descriptor file in the project's folder."
        )
    encoding = DescribedProtobuf((table.root / path).read_bytes(), of.values[MESSAGE].strip(), _defaults(of))
    try:
        _check_columns(table, lambda columns: reader_of(encoding, columns))
    except BadSchema as fault:
        raise of.error(
            f"{DESCRIPTOR} = {path}: {fault}",
            "Make the file with `protoc --include_imports --descriptor_set_out=FILE`, and declare columns as its message has them.",
        ) from None
    return encoding


def _check_columns(table: TableOfSource, read: Callable[[pa.Schema], object]) -> None:
    """Compiles what reads the columns, as a worker will. Raises BadSchema."""
    try:
        columns = arrow_schema(table.payload)
    except UnsupportedType:
        return  # the column is refused by its type, whatever the format
    read(columns if table.mode != "changelog" else pa.schema([("after", pa.struct(list(columns)))]))


def _defaults(of: Properties) -> bool:
    given = of.values.get(DEFAULTS, "false").strip().lower()
    if given not in ("true", "false"):
        raise of.error(f"{DEFAULTS} = {given} is neither true nor false")
    return given == "true"


def csv_options(of: Properties) -> Csv:
    sep = of.values.get(SEPARATOR, ",")
    sep = "\t" if sep == "\\t" else sep
    if not sep or {QUOTE, ESCAPE, "\n", "\r"} & set(sep):
        raise of.error(
            f"{SEPARATOR} = {sep!r} separates no fields", "Write one or more other characters, such as ; or \\t."
        )
    return Csv(sep, of.values.get(NULL_VALUE.lower(), ""))


def _csv(of: Properties, table: TableOfSource) -> Csv:
    options = csv_options(of)
    for column in table.payload.fields:
        if not isinstance(column.dataType, AtomicType):
            raise of.error(
                f"column {column.name} has the type {column.dataType.simpleString()}, which CSV does not have",
                "Declare a STRING, and read it in a view (from_json).",
            )
    return options


def _text(of: Properties, table: TableOfSource) -> Text:
    advice = "Declare (value STRING), and take it apart in a view."
    _check_one_column(of, table.payload, table.key, "the key and of the record", advice)
    return Text()


def _check_text(of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]) -> Mapping[str, str]:
    advice = "Put the columns together in the view, for example with concat_ws or to_json(struct(...))."
    _check_one_column(of, schema, key, "the key", advice)
    return {}


def _check_one_column(of: Properties, schema: StructType, key: tuple[str, ...], beside: str, what_to_do: str) -> None:
    """Raises ProjectError unless one column, `beside` which others may be, can be a whole value."""
    columns = [column for column in schema.fields if column.name not in key]
    if len(columns) != 1 or not isinstance(columns[0].dataType, StringType | BinaryType):
        raise of.error(f"format text is for one STRING or BINARY column, beside those of {beside}", what_to_do)


def _check_schema(
    name: OutputFormatName, of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]
) -> Mapping[str, str]:
    encoding_from = FORMATS[name].writes.encoding_from
    assert isinstance(encoding_from, FromRegistry), f"{name} has no schemas"
    try:
        encoding_from.value(OutputFormat("this output", arrow_schema(schema), mode, key))
    except FormatError as fault:
        raise of.error(fault.message, fault.what_to_do) from None
    except UnsupportedType:
        pass  # the column is refused by its type, whatever the format
    return {}


def _check_csv(of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]) -> Mapping[str, str]:
    encoding = csv_options(of)
    null, sep = encoding.null_value, encoding.sep
    if null.startswith(QUOTE) or sep in null + sep[:-1]:  # it may also be the beginning of the separator behind it
        raise of.error(
            f"{NULL_VALUE} = {null!r} would not be read as one field, between fields that {sep!r} separates",
            "Write a text without the separator that does not begin with a quote.",
        )
    options = csv_identity(encoding)
    try:
        columns = arrow_schema(schema)
    except UnsupportedType:
        return options  # as above
    for column, declared in zip(columns, schema.fields, strict=True):
        if not is_written_as_csv(column.type):
            raise of.error(
                f"column {column.name} has the type {declared.dataType.simpleString()}, which CSV does not have",
                "Write it as text in the view, for example with to_json, base64 or CAST, or use another format.",
            )
    return options


_OF_TIMES = tuple(PATTERNS.values())

PROPERTIES: Mapping[OutputFormatName, FormatProperties] = {
    "protobuf": FormatProperties(
        own=(REGISTRY, DEFAULTS, DESCRIPTOR, MESSAGE), source=_protobuf, output=partial(_check_schema, "protobuf")
    ),
    "avro": FormatProperties(own=(REGISTRY, AVRO_SCHEMA, FRAMING), source=_avro, output=partial(_check_schema, "avro")),
    "csv": FormatProperties(own=(SEPARATOR, NULL_VALUE, *_OF_TIMES), source=_csv, output=_check_csv),
    "json": FormatProperties(own=_OF_TIMES, source=_json, output=_check_json),
    "text": FormatProperties(own=(), source=_text, output=_check_text),
}
"""The properties of each format. If a table has several properties of other formats, the first one in this order is reported."""
