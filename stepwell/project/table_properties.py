"""The properties of one table, view or sink, which are TBLPROPERTIES or options: each is read and checked by a method of its own.

Guarantees: an error names the table, file and line, and what is possible instead. What several of them mean together is in
tables.py, and what those of a format mean is in message_formats.py and output_formats.py.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import AtomicType, DataType, DoubleType, FloatType, StructType, VariantType

from base.options import Mode, OnError
from base.secrets import mask_value, remember_all
from coordinator.starting.topics.positions import offsets_given
from stepwell.errors import ProjectError, UnsupportedError, did_you_mean
from stepwell.project import debezium_properties, message_formats, stored
from stepwell.project.elements import OutputDefinition
from stepwell.project.output_formats import OF_OUTPUTS
from stepwell.project.record_columns import record_schema
from stepwell.project.settings import Settings

MODES: tuple[Mode, ...] = ("append", "upsert", "changelog")
ON_ERROR: tuple[OnError, ...] = ("fail", "skip", "dead-letter")

SOURCE_PROPERTIES = (
    "subscribe", "mode", "key", "startingOffsets", "on.error", "dead.letter.topic", *message_formats.OF_SOURCES,
    *debezium_properties.OF_SOURCES,
)  # fmt: skip
_OF_RECORDS: dict[str, DataType] = {
    field.name: field.dataType for field in record_schema(True).fields if field.name != "value"
}
_METADATA_PREFIX = "metadata."
METADATA_PROPERTIES = tuple(_METADATA_PREFIX + name for name in _OF_RECORDS)
OUTPUT_PROPERTIES = ("topic", "mode", "key", "partitions", *OF_OUTPUTS)
KEPT_PROPERTIES = ("key",)
_KAFKA_ONLY = ("subscribePattern", "assign")
ALL_PROPERTIES = (*SOURCE_PROPERTIES, *OUTPUT_PROPERTIES, *_KAFKA_ONLY)


def read_properties(output: OutputDefinition, settings: Settings) -> TableProperties:
    """The properties of a definition. Nothing that this process says later shows the secrets among them."""
    remember_all(output.properties)
    return TableProperties(output, settings)


class TableProperties:
    """The properties of one table, by lower-case name (Spark's options ignore case), and errors that name the table."""

    def __init__(self, output: OutputDefinition, settings: Settings) -> None:
        self.output = output
        self.settings = settings
        self.values = {name.lower(): value for name, value in output.properties.items()}

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
        if self.output.is_source or self.output.kind == "sink":
            return frozenset()
        return stored.meaningless(self.output.properties, ALL_PROPERTIES)

    def _check_client(self, name: str, value: str) -> None:
        """Refuses a client setting that differs from the pipeline's. All output of a step is one transaction, so there is only one broker."""
        key = name[len("kafka.") :]
        if self.settings.kafka.get(key.lower()) != value:
            raise self.error(
                f"{name} = {mask_value(name, value)} differs from the pipeline's own",
                f"Put {name} under configuration: in spark-pipeline.yml; a pipeline has one broker.",
            )

    def check_format(self) -> None:
        provider = (self.output.format or "").lower()
        if self.output.kind == "sink" and provider != "kafka":
            raise UnsupportedError(
                f"a sink of format {self.output.format} is not supported",
                'Write to a topic: dp.create_sink(name, "kafka", {"topic": "..."}).',
                view=self.output.name,
                location=self.output.location,
            )
        if provider not in ("", "kafka") and provider not in stored.FILE_FORMATS:
            raise UnsupportedError(
                f"USING {self.output.format} is not supported",
                "Leave it out (the view is kept and can be queried), or write USING kafka and a topic.",
                view=self.output.name,
                location=self.output.location,
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
            if not isinstance(data_type, AtomicType) or isinstance(data_type, FloatType | DoubleType | VariantType):
                raise self.error(
                    f"key {name} has the type {data_type.simpleString()}",
                    "A key is of atomic types, without FLOAT and DOUBLE (one number has several spellings) and VARIANT.",
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
        offsets = offsets_given(value)
        if offsets is None or topic not in offsets:
            raise self.error(
                f"startingOffsets = {value} is not known",
                f'It is earliest, latest, or {{"{topic}": {{"0": 23, "1": -2}}}}: by partition, -2 earliest, -1 latest.',
            )
        if others := sorted(offsets.keys() - {topic}):
            raise self.error(
                f"startingOffsets names {', '.join(others)}, and the table reads {topic}",
                "Name the topic that is read, and no other.",
            )
        return value

    def dead_letter_topic(self, topic: str, on_error: OnError) -> str | None:
        named = self.values.get("dead.letter.topic")
        if on_error != "dead-letter":
            if named is not None:
                raise self.error("dead.letter.topic is set, and on.error is not dead-letter",
                                 "Add 'on.error' = 'dead-letter'.")  # fmt: skip
            return None
        return (named or "").strip() or f"{topic}.dead-letter"
