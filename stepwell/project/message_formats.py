"""The format of a source's messages: which properties each format has, and what they say together.

Guarantees: a property of another format than the table's is refused, and so is a schema or a registry that is missing. What is chosen holds no
password; that is added when a run starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, get_args

from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StringType, StructType

from base.options import Mode, OutputFormatName
from base.text.patterns import NO_PATTERNS, BadPattern, Kind, Patterns, reader
from io_kafka.formats.encodings import Encoding, KeyFormat
from io_kafka.formats.table import FORMATS, reading_of
from stepwell.project.format_properties import FORMAT, PATTERNS, PROPERTIES, REGISTRY, Properties, TableOfSource

KEY_FORMAT = "key.format"
KEY_FORMATS: tuple[KeyFormat, ...] = get_args(KeyFormat)

OF_SOURCES = (FORMAT, KEY_FORMAT, *dict.fromkeys(name for each in PROPERTIES.values() for name in each.own))
"""The properties of sources that have to do with formats."""

_OF_FORMATS = {each.writes.keys_as for each in FORMATS.values()} - {"json"}
"""The formats of keys that need their own format of values, because the two have one registry."""

_KEY_TYPES = {"string": StringType, "long": LongType, "int": IntegerType}


Name = TypeVar("Name", bound=str)
"""The name of a format, from those that are possible."""


@dataclass(frozen=True)
class FormatOfSource:
    """The format of a source. `name`: for users."""

    name: OutputFormatName = "json"
    encoding: Encoding = None
    key_format: KeyFormat = "json"
    patterns: Patterns = NO_PATTERNS


def source_format(of: Properties, table: TableOfSource) -> FormatOfSource:
    """Raises ProjectError."""
    name = choose_format(of, table.mode, may_have_ids=of.values.get(FORMAT, "").strip().lower() == "json")
    refuse_variants(of, name, table.schema)
    encoding = PROPERTIES[name].source(of, table)
    usual = reading_of(encoding).keys_as
    key_format = choose_key_format(of, KEY_FORMATS, usual, name, schema=table.schema, key=table.key)
    if key_format in _OF_FORMATS and key_format != usual:
        raise of.error(f"{KEY_FORMAT} = {key_format} needs a schema registry", "Choose another format for the keys.")
    return FormatOfSource(name, encoding, key_format, patterns_of(of, reader))


def refuse_variants(of: Properties, name: str, schema: StructType) -> None:
    """Raises ProjectError for a column with a VARIANT in a format other than JSON."""
    for column in schema.fields:
        if name != "json" and "variant" in _types_within(column.dataType):
            raise of.error(
                f"column {column.name} has the type {column.dataType.simpleString()}, and format {name} has no VARIANT",
                "Use format json, or a STRING: parse_json(x) makes a VARIANT of it in a view, and to_json(v) writes one.",
            )


def _types_within(data_type: DataType) -> set[str]:
    """The names of the types within a type, and its own."""
    match data_type:
        case ArrayType():
            return _types_within(data_type.elementType)
        case MapType():
            return _types_within(data_type.valueType)
        case StructType():
            return {name for field in data_type.fields for name in _types_within(field.dataType)}
        case _:
            return {data_type.typeName()}


def choose_format(of: Properties, mode: Mode, may_have_ids: bool) -> OutputFormatName:
    """The table's format. `may_have_ids`: whether it says that its messages are JSON, so that a registry means that they
    have ids of schemas. A registry beside no format is rather a format that was forgotten. Raises ProjectError, also for a property of another
    format, and for a mode that it lacks."""
    given = of.values.get(FORMAT, "json").strip().lower()
    name = next((each for each in FORMATS if each == given), None)
    if name is None:
        raise of.error(f"format = {of.values[FORMAT]} is not known", f"It is one of {', '.join(FORMATS)}.")
    for other in (own for each in PROPERTIES.values() for own in each.own):
        means = [each for each in FORMATS if other in PROPERTIES[each].own]
        if other.lower() in of.values and name not in means and not (other == REGISTRY and may_have_ids):
            raise of.error(f"{other} means nothing for format {name}", f"It belongs to format {' and '.join(means)}.")
    if mode == "changelog" and not FORMATS[name].has_changelog:
        raise of.error(f"format {name} has no changelog", "Write 'mode' = 'append' or 'upsert', or use another format.")
    return name


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


def choose_key_format(
    of: Properties, formats: tuple[Name, ...], usual: Name, name: str, *, schema: StructType, key: tuple[str, ...]
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
    if chosen in _OF_FORMATS and name != chosen:
        raise of.error(f"{KEY_FORMAT} = {chosen} needs {FORMAT} = {chosen}", "Key and value have one registry.")
    wanted = _KEY_TYPES.get(chosen)
    if wanted is not None and (len(key) != 1 or not isinstance(schema[key[0]].dataType, wanted)):
        raise of.error(
            f"{KEY_FORMAT} = {chosen} is one column of type {wanted().simpleString().upper()}, and the key is "
            + ", ".join(f"{column} {schema[column].dataType.simpleString().upper()}" for column in key),
            "Declare the key's column so, or choose another format.",
        )
    return chosen
