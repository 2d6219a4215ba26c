"""Table properties and sink options -> what a source reads and what an output writes.

Guarantees: every property is known and every combination makes sense; otherwise an error names the table, file and
line. A Kafka table with `subscribe` is a source and cannot have a flow. With `topic` it is an output. A view without a
topic is kept and can be queried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyspark.sql.types import (
    ArrayType,
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
    VariantType,
    YearMonthIntervalType,
)

from base.options import UNAVAILABLE_VALUE, Mode, OnError, Truncate
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.encodings import Encoding, KeyFormat
from io_kafka.formats.text_limits import TextLimit
from stepwell.catalyst.types import names_of_one
from stepwell.errors import Location, ProjectError, UnsupportedError, did_you_mean
from stepwell.project import debezium_properties, message_formats, stored
from stepwell.project.elements import KIND_NAMES, Definitions, OutputDefinition
from stepwell.project.format_properties import TableOfSource
from stepwell.project.nullability import nullable_within
from stepwell.project.output_formats import FormatOfOutput, output_format
from stepwell.project.refusals import COLLATE_TODAY
from stepwell.project.settings import Settings
from stepwell.project.table_properties import (
    ALL_PROPERTIES,
    KEPT_PROPERTIES,
    METADATA_PROPERTIES,
    ON_ERROR,
    OUTPUT_PROPERTIES,
    SOURCE_PROPERTIES,
    TableProperties,
    read_properties,
)
from stepwell.project.text_types import as_strings, has_limited_key, limits_of

_PAYLOAD_TYPES = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType, VariantType, YearMonthIntervalType,
)  # fmt: skip


@dataclass(frozen=True)
class SourceSpec:
    """What an input handle reads."""

    handle: str
    topics: tuple[str, ...]
    mode: Mode
    key: tuple[str, ...]
    """Empty for `append`, and for a changelog without a key."""
    schema: StructType
    """The columns with their nullability, because a message with a null in a NOT NULL column is malformed. What is below them is nullable."""
    starting_offsets: str
    """earliest, latest, or Spark's JSON {"topic": {"0": 12}}, in which -2 means earliest and -1 latest."""
    on_error: OnError
    dead_letter_topic: str | None
    """It is set if `on_error` is dead-letter."""
    location: Location
    format: Literal["json", "record", "table"] = "json"
    notes: tuple[str, ...] = ()
    """Notes for `dry-run`."""
    files: str = ""
    """A digest of the files of a batch table; see InputTopic."""
    partitions: tuple[tuple[str, int], ...] | None = None
    """The only partitions that a Kafka reader reads, as pairs of topic and number."""
    pattern: str | None = None
    """A pattern of names, which a Kafka reader has in place of topics."""
    limits: tuple[TextLimit, ...] = ()
    """The columns, and what is within them, that are declared as CHAR(n) or VARCHAR(n). `schema` has STRING in their place."""
    metadata: tuple[tuple[str, str], ...] = ()
    """The columns that the message's record has and its value has not: pairs of a column and what it is (io_kafka/formats/records.py)."""
    encoding: Encoding = None
    """How the bytes of values are read; None is JSON."""
    key_format: KeyFormat = "json"
    patterns: Patterns = NO_PATTERNS
    """The patterns of the texts of dates and timestamps in JSON and CSV."""
    truncate: Truncate = "fail"
    """What a truncation of the table in the database means."""
    unavailable: str = UNAVAILABLE_VALUE
    """What stands for a value that the database has not sent."""

    @property
    def is_keyed(self) -> bool:
        """Whether the last message of a key is its row: in mode upsert, and in a changelog with a key."""
        return bool(self.key)


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


def source_spec(
    output: OutputDefinition, definitions: Definitions, settings: Settings, root: Path | None = None
) -> SourceSpec:
    """The source that a table with `subscribe` describes. `root`: the project's folder. Raises ProjectError."""
    properties = read_properties(output, settings)
    _check_is_source(properties, output, definitions)
    schema = _columns_of_source(properties, output)
    mode, key = _mode_and_key(properties, schema)
    metadata = properties.metadata(schema, mode, key)
    of_record = {column for column, _ in metadata}
    payload = StructType([column for column in schema.fields if column.name not in of_record])
    chosen = message_formats.source_format(properties, TableOfSource(payload, schema, mode, key, root))
    of_debezium = debezium_properties.debezium_properties(properties, mode, key)
    topic = properties.topic("subscribe")
    on_error = properties.choice("on.error", ON_ERROR, settings.stepwell.on_error)
    return SourceSpec(
        handle=output.name,
        topics=(topic,),
        mode=mode,
        key=key,
        schema=schema,
        starting_offsets=properties.starting_offsets(topic),
        on_error=on_error,
        dead_letter_topic=properties.dead_letter_topic(topic, on_error),
        location=output.location,
        metadata=metadata,
        limits=limits_of(output.schema),
        encoding=chosen.encoding,
        key_format=chosen.key_format,
        patterns=chosen.patterns,
        truncate=of_debezium.truncate,
        unavailable=of_debezium.unavailable,
    )


def _check_is_source(properties: TableProperties, output: OutputDefinition, definitions: Definitions) -> None:
    """Raises ProjectError if the definition is of a source and of something else."""
    if "topic" in properties.values:
        raise properties.error(
            "a table has subscribe (it is a source) and topic (it is an output)",
            "Keep one. To copy one topic to another, define a source and a materialized view over it.",
        )
    flows = definitions.flows_of(output.name)
    if flows:
        raise properties.error(
            f"a source takes no flow: flow {flows[0].name} ({flows[0].location}) fills it",
            "Read this table in a view, or leave subscribe out.",
        )
    if (output.format or "").lower() != "kafka":
        raise properties.error("a table with subscribe needs USING kafka", 'In Python: format="kafka".')
    properties.check_known((*SOURCE_PROPERTIES, *METADATA_PROPERTIES), "a source")


def _columns_of_source(properties: TableProperties, output: OutputDefinition) -> StructType:
    """Raises ProjectError."""
    if output.schema is None or not output.schema.fields:
        raise properties.error(
            "a source needs its columns",
            "Write CREATE STREAMING TABLE name (column TYPE, ...), or schema=... in Python.",
        )
    schema = nullable_within(as_strings(output.schema))
    check_columns(schema, output.name, output.location)
    for column in output.schema.fields:
        if has_limited_key(column.dataType):
            raise properties.error(
                f"column {column.name} has the type {column.dataType.simpleString()}",
                "The keys of a map are of type STRING.",
            )
    return schema


def _mode_and_key(properties: TableProperties, schema: StructType) -> tuple[Mode, tuple[str, ...]]:
    """Raises ProjectError."""
    mode = properties.mode()
    key = properties.key(schema)
    if mode == "upsert" and not key:
        raise properties.error("mode upsert needs a key", "Add 'key' = 'column', or 'key' = 'a, b'.")
    if mode == "append" and key:
        raise properties.error(
            "mode append has no key: every message inserts a row",
            "Leave key out, or write 'mode' = 'upsert'.",
        )
    return mode, key


def output_spec(output: OutputDefinition, schema: StructType, settings: Settings) -> OutputSpec | None:
    """The output to which a view, table or sink with the columns `schema` is published; None if it is only kept.

    Raises ProjectError."""
    properties = read_properties(output, settings)
    if "subscribe" in properties.values:
        raise properties.error(f"a {KIND_NAMES[output.kind]} cannot subscribe", "Only a streaming table is a source.")
    properties.check_format()
    if "topic" not in properties.values:
        if output.kind == "sink":
            raise properties.error("a Kafka sink needs a topic", 'dp.create_sink(name, "kafka", {"topic": "..."})')
        if (output.format or "").lower() == "kafka":
            raise properties.error("a Kafka table needs subscribe (a source) or topic (an output)",
                               "TBLPROPERTIES ('topic' = '...')")  # fmt: skip
        properties.check_known(KEPT_PROPERTIES, "a view that is not published", also=OUTPUT_PROPERTIES)
        properties.key(schema)
        return None
    properties.check_known(OUTPUT_PROPERTIES, "an output")
    check_columns(schema, output.name, output.location)
    mode = properties.mode()
    key = properties.key(schema)
    if mode == "upsert" and not key:
        raise properties.error("mode upsert needs a key", "Add 'key' = 'column': what names one row of the view.")
    topic, partitions = properties.topic("topic"), properties.partitions()
    written = output_format(properties, schema, mode, key)
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
    return read_properties(output, settings).key(schema)


def output_notes(output: OutputDefinition) -> tuple[str, ...]:
    """What `dry-run` says of a definition: what in it has no effect."""
    notes = list(output.notes)
    if output.kind in ("materialized_view", "table"):
        if (output.format or "").lower() in stored.FILE_FORMATS:
            notes.append(stored.format_note(str(output.format)))
        if not output.is_source:
            notes += stored.properties_note(stored.meaningless(output.properties, ALL_PROPERTIES))
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
        unsupported = _first_unsupported(column.dataType)
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
    """Raises ProjectError for two columns, or two fields of a struct, with the same name, because they cannot be distinguished. Spark ignores
    case in names, and DuckDB does so too where Spark is told not to."""
    if twins := names_of_one(schema.names):
        raise ProjectError(f"two columns are called {twins[1]}", "Rename one with AS.", view=view, location=location)
    for column in schema.fields:
        if twins := _fields_of_one_name(column.dataType):
            raise UnsupportedError(
                f"column {column.name} has a struct with fields {twins[0]} and {twins[1]}",
                "Give them names that differ in more than case.",
                view=view,
                location=location,
            )


def _fields_of_one_name(data_type: DataType) -> tuple[str, str] | None:
    match data_type:
        case ArrayType():
            return _fields_of_one_name(data_type.elementType)
        case MapType():
            return _fields_of_one_name(data_type.keyType) or _fields_of_one_name(data_type.valueType)
        case StructType():
            inner = (_fields_of_one_name(field.dataType) for field in data_type.fields)
            return names_of_one(data_type.names) or next(filter(None, inner), None)
        case _:
            return None


def _first_unsupported(data_type: DataType) -> DataType | None:
    if isinstance(data_type, ArrayType):
        return _first_unsupported(data_type.elementType)
    if isinstance(data_type, MapType):
        return _first_unsupported(data_type.valueType) if data_type.keyType == StringType() else data_type
    if isinstance(data_type, StructType):
        return next(filter(None, (_first_unsupported(field.dataType) for field in data_type.fields)), None)
    if isinstance(data_type, StringType) and data_type != StringType():
        return data_type  # a collation, which has other rules for equality
    return None if isinstance(data_type, _PAYLOAD_TYPES) else data_type
