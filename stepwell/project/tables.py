"""Table properties and sink options -> what a source reads and what an output writes.

Guarantees: every property is known and every combination makes sense; otherwise an error names the table, file and
line. A Kafka table with `subscribe` is a source and cannot have a flow. With `topic` it is an output. A view without a
topic is kept and can be queried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from base.options import UNAVAILABLE_VALUE, Mode, OnError, Truncate
from base.secrets import remember_all, shown
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.encodings import Encoding, KeyFormat
from io_kafka.formats.text_limits import TextLimit
from stepwell.errors import Location, ProjectError, UnsupportedError, did_you_mean
from stepwell.project import debezium_properties, message_formats, stored
from stepwell.project.elements import KIND_NAMES, Definitions, OutputDefinition
from stepwell.project.format_properties import TableOfSource
from stepwell.project.output_formats import OF_OUTPUTS, FormatOfOutput, output_format
from stepwell.project.record_columns import record_schema
from stepwell.project.refusals import COLLATE_TODAY
from stepwell.project.settings import Settings
from stepwell.project.text_types import as_strings, has_limited_key, limits_of

MODES: tuple[Mode, ...] = ("append", "upsert", "changelog")
ON_ERROR: tuple[OnError, ...] = ("fail", "skip", "dead-letter")

_SOURCE_PROPERTIES = (
    "subscribe", "mode", "key", "startingOffsets", "on.error", "dead.letter.topic", *message_formats.OF_SOURCES,
    *debezium_properties.OF_SOURCES,
)  # fmt: skip
_OF_RECORDS: dict[str, DataType] = {
    field.name: field.dataType for field in record_schema(True).fields if field.name != "value"
}
_METADATA_PREFIX = "metadata."
_METADATA_PROPERTIES = tuple(_METADATA_PREFIX + name for name in _OF_RECORDS)
_OUTPUT_PROPERTIES = ("topic", "mode", "key", "partitions", *OF_OUTPUTS)
_KEPT_PROPERTIES = ("key",)
_KAFKA_ONLY = ("subscribePattern", "assign")
_ALL_PROPERTIES = (*_SOURCE_PROPERTIES, *_OUTPUT_PROPERTIES, *_KAFKA_ONLY)

_PAYLOAD_TYPES = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType, YearMonthIntervalType,
)  # fmt: skip


@dataclass(frozen=True)
class SourceSpec:
    """What an input handle reads. `schema` has the table's columns with their nullability, because a message with a null
    in a NOT NULL column is malformed. `key` is empty for `append`, and for a changelog without a key."""

    handle: str
    topics: tuple[str, ...]
    mode: Mode
    key: tuple[str, ...]
    schema: StructType
    # earliest, latest, or Spark's JSON {"topic": {"0": 12}}, in which -2 means earliest and -1 latest.
    starting_offsets: str
    on_error: OnError
    dead_letter_topic: str | None  # it is set if on_error is dead-letter
    location: Location
    format: Literal["json", "record", "table"] = "json"
    notes: tuple[str, ...] = ()  # for `dry-run`
    files: str = ""  # of a batch table: see InputTopic
    # Of a reader: the only partitions that it reads, as pairs of topic and number; and a pattern of names in place of topics.
    partitions: tuple[tuple[str, int], ...] | None = None
    pattern: str | None = None
    # The columns, and what is within them, that are declared as CHAR(n) or VARCHAR(n). `schema` has STRING in their place.
    limits: tuple[TextLimit, ...] = ()
    # Columns that the message's record has and its value has not: pairs of a column and what it is (io_kafka/formats/records.py).
    metadata: tuple[tuple[str, str], ...] = ()
    # How the bytes of values and keys are read; None is JSON.
    encoding: Encoding = None
    key_format: KeyFormat = "json"
    # Of the texts of dates and timestamps in JSON and CSV.
    patterns: Patterns = NO_PATTERNS
    # What a truncation of the table in the database means, and what stands for a value that the database has not sent.
    truncate: Truncate = "fail"
    unavailable: str = UNAVAILABLE_VALUE


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """What an output handle writes. `partitions` is used if the topic is missing and is created; None means the value of
    the setting. The columns in `key` exist in the view. The mode upsert has at least one."""

    handle: str
    topic: str
    mode: Mode
    key: tuple[str, ...]
    partitions: int | None
    location: Location
    written: FormatOfOutput = field(default_factory=FormatOfOutput)


def is_source(output: OutputDefinition) -> bool:
    return output.kind == "table" and "subscribe" in _lower(output.properties)


def source_spec(
    output: OutputDefinition, definitions: Definitions, settings: Settings, root: Path | None = None
) -> SourceSpec:
    """The source that a table with `subscribe` describes. `root`: the project's folder. Raises ProjectError."""
    reader = _Properties(output, settings)
    _check_is_source(reader, output, definitions)
    schema = _columns_of_source(reader, output)
    mode, key = _mode_and_key(reader, schema)
    metadata = reader.metadata(schema, mode, key)
    of_record = {column for column, _ in metadata}
    payload = StructType([column for column in schema.fields if column.name not in of_record])
    chosen = message_formats.source_format(reader, TableOfSource(payload, schema, mode, key, root))
    of_debezium = debezium_properties.debezium_properties(reader, mode, key)
    topic = reader.topic("subscribe")
    on_error = reader.choice("on.error", ON_ERROR, settings.stepwell.on_error)
    return SourceSpec(
        handle=output.name,
        topics=(topic,),
        mode=mode,
        key=key,
        schema=schema,
        starting_offsets=reader.starting_offsets(topic),
        on_error=on_error,
        dead_letter_topic=reader.dead_letter_topic(topic, on_error),
        location=output.location,
        metadata=metadata,
        limits=limits_of(output.schema),
        encoding=chosen.encoding,
        key_format=chosen.key_format,
        patterns=chosen.patterns,
        truncate=of_debezium.truncate,
        unavailable=of_debezium.unavailable,
    )


def _check_is_source(reader: _Properties, output: OutputDefinition, definitions: Definitions) -> None:
    """Raises ProjectError if the definition is of a source and of something else."""
    if "topic" in reader.values:
        raise reader.error(
            "a table has subscribe (it is a source) and topic (it is an output)",
            "Keep one. To copy one topic to another, define a source and a materialized view over it.",
        )
    flows = definitions.flows_of(output.name)
    if flows:
        raise reader.error(
            f"a source takes no flow: flow {flows[0].name} ({flows[0].location}) fills it",
            "Read this table in a view, or leave subscribe out.",
        )
    if (output.format or "").lower() != "kafka":
        raise reader.error("a table with subscribe needs USING kafka", 'In Python: format="kafka".')
    reader.check_known((*_SOURCE_PROPERTIES, *_METADATA_PROPERTIES), "a source")


def _columns_of_source(reader: _Properties, output: OutputDefinition) -> StructType:
    """Raises ProjectError."""
    if output.schema is None or not output.schema.fields:
        raise reader.error(
            "a source needs its columns",
            "Write CREATE STREAMING TABLE name (column TYPE, ...), or schema=... in Python.",
        )
    schema = as_strings(output.schema)
    check_columns(schema, output.name, output.location)
    for column in output.schema.fields:
        if has_limited_key(column.dataType):
            raise reader.error(
                f"column {column.name} has the type {column.dataType.simpleString()}",
                "The keys of a map are of type STRING.",
            )
    return schema


def _mode_and_key(reader: _Properties, schema: StructType) -> tuple[Mode, tuple[str, ...]]:
    """Raises ProjectError."""
    mode = reader.mode()
    key = reader.key(schema)
    if mode == "upsert" and not key:
        raise reader.error("mode upsert needs a key", "Add 'key' = 'column', or 'key' = 'a, b'.")
    if mode == "append" and key:
        raise reader.error(
            "mode append has no key: every message inserts a row",
            "Leave key out, or write 'mode' = 'upsert'.",
        )
    return mode, key


def output_spec(output: OutputDefinition, schema: StructType, settings: Settings) -> OutputSpec | None:
    """The output to which a view, table or sink with the columns `schema` is published; None if it is only kept.

    Raises ProjectError."""
    reader = _Properties(output, settings)
    if "subscribe" in reader.values:
        raise reader.error(f"a {KIND_NAMES[output.kind]} cannot subscribe", "Only a streaming table is a source.")
    reader.check_format(output)
    if "topic" not in reader.values:
        if output.kind == "sink":
            raise reader.error("a Kafka sink needs a topic", 'dp.create_sink(name, "kafka", {"topic": "..."})')
        if (output.format or "").lower() == "kafka":
            raise reader.error("a Kafka table needs subscribe (a source) or topic (an output)",
                               "TBLPROPERTIES ('topic' = '...')")  # fmt: skip
        reader.check_known(_KEPT_PROPERTIES, "a view that is not published", also=_OUTPUT_PROPERTIES)
        reader.key(schema)
        return None
    reader.check_known(_OUTPUT_PROPERTIES, "an output")
    check_columns(schema, output.name, output.location)
    mode = reader.mode()
    key = reader.key(schema)
    if mode == "upsert" and not key:
        raise reader.error("mode upsert needs a key", "Add 'key' = 'column': what names one row of the view.")
    topic, partitions = reader.topic("topic"), reader.partitions()
    written = output_format(reader, schema, mode, key)
    return OutputSpec(
        handle=output.name,
        topic=topic,
        mode=mode,
        key=key,
        partitions=partitions,
        location=output.location,
        written=written,
    )


def kept_key(output: OutputDefinition, schema: StructType, settings: Settings) -> tuple[str, ...]:
    """The declared key of a view, whether it is published or not. Empty if there is none."""
    return _Properties(output, settings).key(schema)


def output_notes(output: OutputDefinition) -> tuple[str, ...]:
    """What `dry-run` says of a definition: what in it has no effect."""
    notes = list(output.notes)
    if output.kind in ("materialized_view", "table"):
        if (output.format or "").lower() in stored.FILE_FORMATS:
            notes.append(stored.format_note(str(output.format)))
        if not is_source(output):
            notes += stored.properties_note(stored.meaningless(output.properties, _ALL_PROPERTIES))
    return tuple(notes)


def check_stored_by(output: OutputDefinition, schema: StructType) -> None:
    """Raises ProjectError if files were to be arranged by a column that is not there, as Spark does."""
    names = {column.name.lower() for column in schema.fields}
    for name in output.stored_by:
        if name.lower() not in names:
            raise ProjectError(
                f"the rows are to be stored by {name}, which is not a column",
                did_you_mean(name, schema.names, "columns"),
                view=output.name,
                location=output.location,
            )


def check_columns(schema: StructType, name: str, location: Location) -> None:
    """Raises UnsupportedError for a type that no message can carry, and ProjectError for two columns with the same name."""
    check_names(schema, name, location)
    for column in schema.fields:
        unsupported = _unsupported(column.dataType)
        if unsupported is not None:
            is_collated = isinstance(unsupported, StringType)
            raise UnsupportedError(
                f"column {column.name} has the type {unsupported.simpleString()}",
                COLLATE_TODAY
                if is_collated
                else "Use an atomic type, a struct, an array, or a map with keys of STRING; a STRING for text of any kind.",
                view=name,
                location=location,
            )


def check_names(schema: StructType, view: str, location: Location) -> None:
    """Raises ProjectError for two columns with the same name, because they cannot be distinguished. Spark ignores case in names."""
    seen: set[str] = set()
    for column in schema.fields:
        if column.name.lower() in seen:
            raise ProjectError(
                f"two columns are called {column.name}", "Rename one with AS.", view=view, location=location
            )
        seen.add(column.name.lower())


def _unsupported(data_type: DataType) -> DataType | None:
    if isinstance(data_type, ArrayType):
        return _unsupported(data_type.elementType)
    if isinstance(data_type, MapType):
        return _unsupported(data_type.valueType) if data_type.keyType == StringType() else data_type
    if isinstance(data_type, StructType):
        return next(filter(None, (_unsupported(field.dataType) for field in data_type.fields)), None)
    if isinstance(data_type, StringType) and data_type != StringType():
        return data_type  # a collation, which has other rules for equality
    return None if isinstance(data_type, _PAYLOAD_TYPES) else data_type


def _lower(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in properties.items()}


class _Properties:
    """The properties of one table, by lower-case name (Spark's options ignore case), and errors that name the table."""

    def __init__(self, output: OutputDefinition, settings: Settings) -> None:
        self.output = output
        self.settings = settings
        self.values = _lower(output.properties)
        remember_all(output.properties)

    def error(self, message: str, what_to_do: str = "") -> ProjectError:
        return ProjectError(message, what_to_do, view=self.output.name, location=self.output.location)

    def check_known(self, known: tuple[str, ...], what: str, also: tuple[str, ...] = ()) -> None:
        lower = {name.lower() for name in known}
        for name, value in self.output.properties.items():
            if name in self._meaningless():
                continue
            if name.lower().startswith("kafka."):
                self._check_client(name, value)
            elif name.lower() in [other.lower() for other in _KAFKA_ONLY]:
                raise self.error(f"{name} is not supported", "Name one topic: 'subscribe' = 'topic'.")
            elif name.lower() not in lower:
                if name.lower() in {other.lower() for other in also}:
                    raise self.error(f"{name} means nothing for {what}", "Add 'topic' = '...' to publish it.")
                hint = did_you_mean(name, {*known, *also}, "properties")
                raise self.error(f"{name} is not a property of {what}", hint)

    def _meaningless(self) -> frozenset[str]:
        """The properties that mean nothing. A source and a sink have none of these: theirs are options of a reader or writer."""
        if is_source(self.output) or self.output.kind == "sink":
            return frozenset()
        return stored.meaningless(self.output.properties, _ALL_PROPERTIES)

    def _check_client(self, name: str, value: str) -> None:
        """Refuses a client setting that differs from the pipeline's. All output of a step is one transaction, so there is only one broker."""
        key = name[len("kafka.") :]
        if self.settings.kafka.get(key.lower()) != value:
            raise self.error(
                f"{name} = {shown(name, value)} differs from the pipeline's own",
                f"Put {name} under configuration: in spark-pipeline.yml; a pipeline has one broker.",
            )

    def check_format(self, output: OutputDefinition) -> None:
        provider = (output.format or "").lower()
        if output.kind == "sink" and provider != "kafka":
            raise UnsupportedError(
                f"a sink of format {output.format} is not supported",
                'Write to a topic: dp.create_sink(name, "kafka", {"topic": "..."}).',
                view=output.name,
                location=output.location,
            )
        if provider not in ("", "kafka") and provider not in stored.FILE_FORMATS:
            raise UnsupportedError(
                f"USING {output.format} is not supported",
                "Leave it out (the view is kept and can be queried), or write USING kafka and a topic.",
                view=output.name,
                location=output.location,
            )

    def choice(self, name: str, choices: tuple[Any, ...], default: Any) -> Any:
        value = self.values.get(name.lower())
        if value is None:
            return default
        if value.lower() not in choices:
            raise self.error(f"{name} = {value} is not known", f"It is one of {', '.join(choices)}.")
        return value.lower()

    def mode(self, default: Mode = "append") -> Mode:
        chosen: Mode = self.choice("mode", MODES, default)
        return chosen

    def topic(self, name: str) -> str:
        topic = self.values[name].strip()
        if not topic or "," in topic:
            raise self.error(f"{name} = {self.values[name]!r} is not one topic",
                             "One table is one topic; a view can UNION ALL several tables.")  # fmt: skip
        return topic

    def key(self, schema: StructType) -> tuple[str, ...]:
        names = [name.strip().strip("`") for name in self.values.get("key", "").split(",") if name.strip()]
        by_lower = {column.name.lower(): column for column in schema.fields}
        for name in names:
            if name.lower() not in by_lower:
                raise self.error(f"key {name} is not a column", did_you_mean(name, schema.names, "columns"))
            data_type = by_lower[name.lower()].dataType
            if not isinstance(data_type, AtomicType) or isinstance(data_type, FloatType | DoubleType):
                raise self.error(
                    f"key {name} has the type {data_type.simpleString()}",
                    "A key is of atomic types, without FLOAT and DOUBLE (one number has several spellings).",
                )
        key = tuple(by_lower[name.lower()].name for name in names)
        if len(set(key)) != len(key):
            raise self.error(f"key {self.values['key']} names a column twice")
        return key

    def metadata(self, schema: StructType, mode: Mode, key: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """The columns that are taken from the message's record: 'metadata.timestamp' = 'column'."""
        by_lower = {column.name.lower(): column for column in schema.fields}
        found: dict[str, str] = {}
        for name, of_record in _OF_RECORDS.items():
            given = self.values.get((_METADATA_PREFIX + name).lower())
            if given is None:
                continue
            column = by_lower.get(given.strip().strip("`").lower())
            if column is None:
                raise self.error(
                    f"{_METADATA_PREFIX}{name} = {given} is not a column", did_you_mean(given, schema.names, "columns")
                )
            if column.dataType != of_record:
                raise self.error(
                    f"{_METADATA_PREFIX}{name} = {given}: the column has the type {column.dataType.simpleString()}",
                    f"Declare it as {column.name} {of_record.simpleString().upper()}.",
                )
            if not column.nullable and name in ("key", "headers"):
                raise self.error(
                    f"{_METADATA_PREFIX}{name} = {given}: the column is NOT NULL, and a message may have none",
                    "Leave NOT NULL out.",
                )
            if column.name in key or column.name in found:
                what = "is in the key" if column.name in key else f"is {found[column.name]} already"
                raise self.error(f"{_METADATA_PREFIX}{name} = {given}: the column {what}", "Declare another column.")
            found[column.name] = name
        if found and mode == "changelog" and not key:
            raise self.error(
                f"{_METADATA_PREFIX}{next(iter(found.values()))} is for tables in which a message is a row, and a changelog "
                "without a key takes rows back",
                "Add 'key' = '...', or leave it out.",
            )
        if len(found) == len(schema.fields):
            raise self.error(
                "no column is taken from the message's value",
                'Declare one; or read the topic with spark.readStream.format("kafka"), which needs no JSON.',
            )
        return tuple(sorted(found.items()))

    def partitions(self) -> int | None:
        value = self.values.get("partitions")
        if value is None:
            return None
        if not value.isdecimal() or not 1 <= int(value) <= 10_000:
            raise self.error(f"partitions = {value} is not a number from 1 to 10000")
        return int(value)

    def starting_offsets(self, topic: str) -> str:
        value = self.values.get("startingoffsets", "earliest").strip()
        if value.lower() in ("earliest", "latest"):
            return value.lower()
        try:
            offsets = json.loads(value)[topic]
            if all(partition.isdecimal() and int(offset) >= -2 for partition, offset in offsets.items()):
                return value
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise self.error(
            f"startingOffsets = {value} is not known",
            f'It is earliest, latest, or {{"{topic}": {{"0": 23, "1": -2}}}}: by partition, -2 earliest, -1 latest.',
        )

    def dead_letter_topic(self, topic: str, on_error: OnError) -> str | None:
        named = self.values.get("dead.letter.topic")
        if on_error != "dead-letter":
            if named is not None:
                raise self.error("dead.letter.topic is set, and on.error is not dead-letter",
                                 "Add 'on.error' = 'dead-letter'.")  # fmt: skip
            return None
        return (named or "").strip() or f"{topic}.dead-letter"
