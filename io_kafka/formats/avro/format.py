"""Avro as a format of messages."""

from __future__ import annotations

import pyarrow as pa

from base.text.patterns import Patterns
from io_kafka.formats.avro import declare, write
from io_kafka.formats.avro.read import parse_avro, parse_plain_avro
from io_kafka.formats.descriptor import Format, FromRegistry, Reading, Writing
from io_kafka.formats.encodings import Avro, AvroIds, MessagePart, PlainAvro
from io_kafka.formats.identity import digest_of_schema
from io_kafka.formats.json_format import keys_beside
from io_kafka.formats.parse import Parsed
from io_kafka.formats.spec import OutputFormat, SourceFormat

SCHEMA, FRAMING = "avro.schema", "avro.framing"
"""The names of properties."""


def _values(encoding: Avro, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart) -> Parsed:
    return parse_avro(values, schema, encoding, part)


def _keys(encoding: Avro, keys: pa.Array, schema: pa.Schema, patterns: Patterns) -> Parsed:
    return parse_avro(keys, schema, encoding, MessagePart.KEY)


def _identity(encoding: Avro) -> dict[str, str]:
    return {} if encoding.reader is None else {SCHEMA: digest_of_schema(encoding.reader)}


def _plain_values(
    encoding: PlainAvro, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart
) -> Parsed:
    return parse_plain_avro(values, schema, encoding)


def _plain_identity(encoding: PlainAvro) -> dict[str, str]:
    return {FRAMING: "none", SCHEMA: digest_of_schema(encoding.writer)}


def _written_values(
    encoding: AvroIds, output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None
) -> pa.Array:
    return write.value_messages(columns, encoding)


def _written_keys(encoding: AvroIds, output: OutputFormat, key: list[pa.Array]) -> pa.Array:
    return write.key_messages(key, encoding)


AVRO = Format(
    name="avro",
    datetimes_are_texts=False,
    is_json=False,
    columns_by_name=True,
    reads=(
        Reading(
            encoding=Avro,
            values=_values,
            keys=_keys,
            keys_as="avro",
            identity=_identity,
            schemas="AVRO",
            values_are_text=False,
        ),
        Reading(
            encoding=PlainAvro,
            values=_plain_values,
            keys=keys_beside,
            keys_as="json",
            identity=_plain_identity,
            schemas=None,
            values_are_text=False,
        ),
    ),
    writes=Writing(
        encoding=AvroIds,
        encoding_from=FromRegistry(kind="AVRO", value=declare.value_schema, key=declare.key_schema, encoding=AvroIds),
        values=_written_values,
        changes=write.change_messages,
        keys=_written_keys,
        keys_as="avro",
        says_every_row=True,
        columns_known_by="name",
    ),
)
