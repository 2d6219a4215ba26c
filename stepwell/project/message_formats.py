"""The format of a source's messages: which properties each format has, and what they say together.

Guarantees: a property of another format than the table's is refused, and so is a schema or a registry that is missing. What is chosen holds no
password; that is added when a run starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar, get_args

import pyarrow as pa
from pyspark.sql.types import AtomicType, BinaryType, IntegerType, LongType, StringType, StructType

from base.options import Mode
from base.text.patterns import NO_PATTERNS, BadPattern, Kind, Patterns, reader
from io_kafka.formats.avro import schema as avro
from io_kafka.formats.avro.read import plain_columns
from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.delimited import ESCAPE, QUOTE
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    KeyFormat,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.protobuf.described import reader_of
from io_kafka.registry.address import RegistryAddress
from stepwell.catalyst.types import UnsupportedType, arrow_schema
from stepwell.errors import ProjectError
from stepwell.project.settings import Settings
from stepwell.project.text_files import read_text

FORMAT, KEY_FORMAT, REGISTRY, AVRO_SCHEMA = "format", "key.format", "schema.registry.url", "avro.schema"
FRAMING = "avro.framing"
DEFAULTS, DESCRIPTOR, MESSAGE = "emit.default.values", "protobuf.descriptor", "protobuf.message"
SEPARATOR, NULL_VALUE = "csv.sep", "csv.nullvalue"
PATTERNS: dict[Kind, str] = {
    "date": "dateFormat",
    "timestamp": "timestampFormat",
    "timestamp_ntz": "timestampNTZFormat",
}
"""Spark's names, in its spelling."""
SOURCE_FORMATS = ("json", "avro", "protobuf", "csv", "text")
KEY_FORMATS: tuple[KeyFormat, ...] = get_args(KeyFormat)

OF_SOURCES = (
    FORMAT,
    KEY_FORMAT,
    REGISTRY,
    AVRO_SCHEMA,
    FRAMING,
    DEFAULTS,
    DESCRIPTOR,
    MESSAGE,
    SEPARATOR,
    "csv.nullValue",
    *PATTERNS.values(),
)

_MEANS_SOMETHING_FOR: dict[str, tuple[str, ...]] = {
    REGISTRY: ("avro", "protobuf"),
    DEFAULTS: ("protobuf",),
    DESCRIPTOR: ("protobuf",),
    MESSAGE: ("protobuf",),
    AVRO_SCHEMA: ("avro",),
    FRAMING: ("avro",),
    SEPARATOR: ("csv",),
    NULL_VALUE: ("csv",),
    **{name.lower(): ("json", "csv") for name in PATTERNS.values()},
}
_KEY_TYPES = {"string": StringType, "long": LongType, "int": IntegerType}


Name = TypeVar("Name", bound=str)
"""The name of a format, from those that are possible."""


class Properties(Protocol):
    """The properties of one table, by lower-case name."""

    @property
    def values(self) -> Mapping[str, str]: ...

    @property
    def settings(self) -> Settings: ...

    def error(self, message: str, what_to_do: str = "") -> ProjectError: ...


@dataclass(frozen=True)
class FormatOfSource:
    """`name`: for users."""

    name: str = "json"
    encoding: Encoding = None
    key_format: KeyFormat = "json"
    patterns: Patterns = NO_PATTERNS


def source_format(
    of: Properties, payload: StructType, schema: StructType, mode: Mode, key: tuple[str, ...], root: Path | None
) -> FormatOfSource:
    """`payload`: the columns of `schema` that values have. `root`: the project's folder, in which a property may name a file. Raises
    ProjectError."""
    name = chosen_format(of, SOURCE_FORMATS, mode, may_have_ids=of.values.get(FORMAT, "").strip().lower() == "json")
    encoding: Encoding = None
    match name:
        case "json":
            encoding = _json(of)
        case "avro":
            encoding = _avro(of, schema, payload, mode, root)
        case "protobuf":
            encoding = _protobuf(of, payload, mode, root)
        case "csv":
            encoding = _csv(of, payload)
        case "text":
            encoding = _text(of, payload, key)
    usual: KeyFormat = (
        "avro" if isinstance(encoding, Avro) else "protobuf" if isinstance(encoding, Protobuf) else "json"
    )
    key_format = chosen_key_format(of, KEY_FORMATS, usual, name, schema, key)
    if key_format in ("avro", "protobuf") and not isinstance(encoding, Avro | Protobuf):
        raise of.error(f"{KEY_FORMAT} = {key_format} needs a schema registry", "Choose another format for the keys.")
    return FormatOfSource(name, encoding, key_format, patterns_of(of, reader))


def chosen_format(of: Properties, formats: tuple[Name, ...], mode: Mode, may_have_ids: bool) -> Name:
    """The table's format, which is one of these. `may_have_ids`: whether it says that its messages are JSON, so that a registry means that they
    have ids of schemas. A registry beside no format is rather a format that was forgotten. Raises ProjectError, also for a property of another
    format, and for a mode that it lacks."""
    given = of.values.get(FORMAT, "json").strip().lower()
    name = next((each for each in formats if each == given), None)
    if name is None:
        raise of.error(f"format = {of.values[FORMAT]} is not known", f"It is one of {', '.join(formats)}.")
    for other, means in _MEANS_SOMETHING_FOR.items():
        if other in of.values and name not in means and not (other == REGISTRY and may_have_ids):
            raise of.error(f"{other} means nothing for format {name}", f"It belongs to format {' and '.join(means)}.")
    if mode == "changelog" and name in ("csv", "text"):
        raise of.error(f"format {name} has no changelog", "Write 'mode' = 'append' or 'upsert', or use another format.")
    return name


def _json(of: Properties) -> JsonWithRegistry | None:
    """The registry of the table, or that of all tables: then messages with an id are read too."""
    if not (of.values.get(REGISTRY) or of.settings.stepwell.registry_url or "").strip():
        return None
    return JsonWithRegistry(registry_of(of))


def patterns_of(of: Properties, made: Callable[[str, Kind], object]) -> Patterns:
    """The patterns of dates and timestamps. `made` compiles one, for reading or for writing. Raises ProjectError."""
    return Patterns(*(_pattern(of, name, kind, made) for kind, name in PATTERNS.items()))


def _pattern(of: Properties, name: str, kind: Kind, made: Callable[[str, Kind], object]) -> str | None:
    pattern = of.values.get(name.lower())
    if pattern is None:
        return None
    try:
        if not pattern:
            raise BadPattern("the pattern is empty")
        made(pattern, kind)
    except BadPattern as bad:
        raise of.error(
            f"{name} = {pattern}: {bad}",
            "Write a pattern of Spark such as yyyy-MM-dd'T'HH:mm:ss.SSSSSS; docs/formats.md lists what is supported.",
        ) from None
    return pattern


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


def _avro(of: Properties, schema: StructType, payload: StructType, mode: Mode, root: Path | None) -> Avro | PlainAvro:
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
        if root is None or not (root / text).is_file():
            wrong(f"there is no file {text}")
        text = read_text(root / text, text)
    try:
        parsed = avro.parse_schema(text)
    except avro.BadSchema as fault:
        wrong(str(fault))
    if not isinstance(parsed, avro.Record):
        wrong(f"it is {avro.shown(parsed)}, and no record")
    if framing == "none":
        try:
            _check_columns(payload, mode, lambda columns: plain_columns(PlainAvro(text), columns))
        except avro.BadSchema as fault:
            wrong(str(fault))
        return PlainAvro(text)
    strange = {field.name for field in parsed.fields} - set(schema.names)
    if strange:
        wrong(f"its field {min(strange)} is not a column of the table")
    return Avro(registry_of(of), text)


def _protobuf(of: Properties, payload: StructType, mode: Mode, root: Path | None) -> Protobuf | DescribedProtobuf:
    """With a registry, or with a file that has the one type of all messages."""
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
    if root is None or not (root / path).is_file():
        raise of.error(
            f"{DESCRIPTOR}: there is no file {path}", "Write the path of a descriptor file in the project's folder."
        )
    encoding = DescribedProtobuf((root / path).read_bytes(), of.values[MESSAGE].strip(), _defaults(of))
    try:
        _check_columns(payload, mode, lambda columns: reader_of(encoding, columns))
    except BadSchema as fault:
        raise of.error(
            f"{DESCRIPTOR} = {path}: {fault}",
            "Make the file with `protoc --include_imports --descriptor_set_out=FILE`, and declare columns as its message has them.",
        ) from None
    return encoding


def _check_columns(payload: StructType, mode: Mode, read: Callable[[pa.Schema], object]) -> None:
    """Compiles what reads the columns, as a worker will. Raises BadSchema."""
    try:
        columns = arrow_schema(payload)
    except UnsupportedType:
        return  # the column is refused by its type, whatever the format
    read(columns if mode != "changelog" else pa.schema([("after", pa.struct(list(columns)))]))


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
    return Csv(sep, of.values.get(NULL_VALUE, ""))


def _csv(of: Properties, payload: StructType) -> Csv:
    options = csv_options(of)
    for column in payload.fields:
        if not isinstance(column.dataType, AtomicType):
            raise of.error(
                f"column {column.name} has the type {column.dataType.simpleString()}, which CSV does not have",
                "Declare a STRING, and read it in a view (from_json).",
            )
    return options


def _text(of: Properties, payload: StructType, key: tuple[str, ...]) -> Text:
    check_text(of, payload, key, "the key and of the record", "Declare (value STRING), and take it apart in a view.")
    return Text()


def check_text(of: Properties, schema: StructType, key: tuple[str, ...], beside: str, what_to_do: str) -> None:
    """Raises ProjectError unless one column, `beside` which others may be, can be a whole value."""
    columns = [column for column in schema.fields if column.name not in key]
    if len(columns) != 1 or not isinstance(columns[0].dataType, StringType | BinaryType):
        raise of.error(f"format text is for one STRING or BINARY column, beside those of {beside}", what_to_do)


def chosen_key_format(
    of: Properties, formats: tuple[Name, ...], usual: Name, name: str, schema: StructType, key: tuple[str, ...]
) -> Name:
    """The format of keys, which is one of `formats`, and `usual` if nothing is said. `name`: the format of values. Raises ProjectError."""
    given = of.values.get(KEY_FORMAT)
    if given is None:
        return usual
    chosen = next((each for each in formats if each == given.strip().lower()), None)
    if chosen is None:
        raise of.error(f"{KEY_FORMAT} = {given} is not known", f"It is one of {', '.join(formats)}.")
    if not key:
        raise of.error(f"{KEY_FORMAT} means nothing for a table without a key", "Add 'key' = '...', or leave it out.")
    if chosen in ("avro", "protobuf") and name != chosen:
        raise of.error(f"{KEY_FORMAT} = {chosen} needs {FORMAT} = {chosen}", "Key and value have one registry.")
    wanted = _KEY_TYPES.get(chosen)
    if wanted is not None and (len(key) != 1 or not isinstance(schema[key[0]].dataType, wanted)):
        raise of.error(
            f"{KEY_FORMAT} = {chosen} is one column of type {wanted().simpleString().upper()}, and the key is "
            + ", ".join(f"{column} {schema[column].dataType.simpleString().upper()}" for column in key),
            "Declare the key's column so, or choose another format.",
        )
    return chosen
