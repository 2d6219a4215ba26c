"""Protobuf as a format of messages."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from base.text.patterns import Patterns
from io_kafka.formats.descriptor import Format, FromRegistry, Reading, Writing
from io_kafka.formats.encodings import DescribedProtobuf, MessagePart, Protobuf, ProtobufIds
from io_kafka.formats.identity import digest_of
from io_kafka.formats.json_format import keys_beside
from io_kafka.formats.parse import Parsed
from io_kafka.formats.protobuf import declare, write
from io_kafka.formats.protobuf.described import parse_described
from io_kafka.formats.protobuf.read import parse_protobuf
from io_kafka.formats.spec import OutputFormat, SourceFormat

DEFAULTS, DESCRIPTOR, MESSAGE = "emit.default.values", "protobuf.descriptor", "protobuf.message"
"""The names of properties."""


def _values(encoding: Protobuf, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart) -> Parsed:
    return parse_protobuf(values, schema, encoding, part)


def _keys(encoding: Protobuf, keys: pa.Array, schema: pa.Schema, patterns: Patterns) -> Parsed:
    # A key of 0 is there, and no byte says so.
    return parse_protobuf(keys, schema, replace(encoding, defaults=True), MessagePart.KEY)


def _identity(encoding: Protobuf | DescribedProtobuf) -> dict[str, str]:
    return {DEFAULTS: "true"} if encoding.defaults else {}


def _described_values(
    encoding: DescribedProtobuf, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart
) -> Parsed:
    return parse_described(values, schema, encoding)


def _described_identity(encoding: DescribedProtobuf) -> dict[str, str]:
    found = {DESCRIPTOR: digest_of(encoding.descriptor), MESSAGE: encoding.message}
    return {**found, **_identity(encoding)}


def _written_values(
    encoding: ProtobufIds, output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None
) -> pa.Array:
    return write.value_messages(columns, output.schema.names, encoding)


def _written_keys(encoding: ProtobufIds, output: OutputFormat, key: list[pa.Array]) -> pa.Array:
    return write.key_messages(key, list(output.key), encoding)


PROTOBUF = Format(
    name="protobuf",
    datetimes_are_texts=False,
    is_json=False,
    columns_by_name=True,
    reads=(
        Reading(
            encoding=Protobuf,
            values=_values,
            keys=_keys,
            keys_as="protobuf",
            identity=_identity,
            schemas="PROTOBUF",
            values_are_text=False,
        ),
        Reading(
            encoding=DescribedProtobuf,
            values=_described_values,
            keys=keys_beside,
            keys_as="json",
            identity=_described_identity,
            schemas=None,
            values_are_text=False,
        ),
    ),
    writes=Writing(
        encoding=ProtobufIds,
        encoding_from=FromRegistry(
            kind="PROTOBUF", value=declare.value_schema, key=declare.key_schema, encoding=ProtobufIds
        ),
        values=_written_values,
        changes=write.change_messages,
        keys=_written_keys,
        keys_as="protobuf",
        says_every_row=False,
        columns_known_by="number",
    ),
)
