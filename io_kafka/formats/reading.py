"""Which format reads the bytes of a batch: chosen once for all its messages.

Each format gives a `Parsed`: the rows of a schema, the positions of the messages that they are, and why the others are malformed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.text.patterns import Patterns
from io_kafka.formats.avro.read import parse_avro, parse_plain_avro
from io_kafka.formats.connect.read import parse_wrapped, tombstones_as_null
from io_kafka.formats.connect.registered import explained, parse_registered
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.debezium import EnvelopeReader
from io_kafka.formats.delimited import parse_csv, parse_text
from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    JsonWithRegistry,
    KeyFormat,
    Part,
    PlainAvro,
    Protobuf,
    Text,
)
from io_kafka.formats.keys import Keys, in_either_form, json_keys, keys_of
from io_kafka.formats.parse import Parsed, parse
from io_kafka.formats.protobuf.described import parse_described
from io_kafka.formats.protobuf.read import parse_protobuf
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.whole import without_faults

NO_REGISTRY = "set 'format' = 'json' and 'schema.registry.url' if JSON follows, else 'format' = 'avro' or 'protobuf' with that registry"
NO_REGISTRY_OF_KEYS = "set 'key.format' as the producer writes its keys"

_KEY_BYTES: dict[KeyFormat, int] = {"long": 8, "int": 4}


def parse_values(source: SourceFormat, values: pa.Array, schema: pa.Schema, part: Part = Part.ROW) -> Parsed:
    """`values`: binary. `schema`: the columns of the part. Raises RegistryUnreachable and RegistryRefused."""
    match source.encoding:
        case None:
            return explained(_json_values(values, source, schema, part), values, NO_REGISTRY)
        case JsonWithRegistry():
            others = partial(_json_values, source=source, schema=schema, part=part)
            return parse_registered(values, schema, source.encoding, part, others)
        case Avro():
            return parse_avro(values, schema, source.encoding, part)
        case PlainAvro():
            return parse_plain_avro(values, schema, source.encoding)
        case Protobuf():
            return parse_protobuf(values, schema, source.encoding)
        case DescribedProtobuf():
            return parse_described(values, schema, source.encoding)
        case Csv():
            return parse_csv(values, schema, source.encoding, source.patterns)
        case Text():
            return parse_text(values, schema, source.key)
        case _:
            assert_never(source.encoding)


def _json_values(values: pa.Array, source: SourceFormat, schema: pa.Schema, part: Part) -> Parsed:
    return parse_wrapped(values, schema, part, partial(_plain_values, source=source, schema=schema, part=part))


def _plain_values(values: pa.Array, source: SourceFormat, schema: pa.Schema, part: Part) -> Parsed:
    reader = EnvelopeReader(schema, source.patterns) if part is Part.ENVELOPE else None
    return parse(values, schema, reader, source.patterns)


def parse_keys(source: SourceFormat, keys: pa.Array) -> Keys:
    """The key columns of all messages."""
    schema = pa.schema([source.schema.field(name) for name in source.key])
    match source.key_format:
        case "json":
            return in_either_form(schema, source.patterns, partial(_json_keys, source, schema, keys))
        case "none":
            return Keys([pa.nulls(len(keys), kind) for kind in schema.types], np.zeros(len(keys), np.bool_), {})
        case "avro":
            assert isinstance(source.encoding, Avro), "the project was checked"
            of_avro = source.encoding
            return keys_of(schema, keys, lambda given, _: parse_avro(given, schema, of_avro, Part.KEY))
        case "protobuf":
            assert isinstance(source.encoding, Protobuf), "the project was checked"
            of_protobuf = replace(source.encoding, defaults=True)  # a key of 0 is there, and no byte says so
            return keys_of(schema, keys, lambda given, _: parse_protobuf(given, schema, of_protobuf, Part.KEY))
        case "string":
            return keys_of(schema, keys, _texts)
        case "long" | "int":
            width = _KEY_BYTES[source.key_format]
            return keys_of(schema, keys, lambda given, required: _numbers(given, required, width))
        case _:
            assert_never(source.key_format)


def _json_keys(source: SourceFormat, schema: pa.Schema, keys: pa.Array, patterns: Patterns) -> Keys:
    def parse_given(given: pa.Array, required: pa.Schema) -> Parsed:
        others = partial(json_keys, schema=required, patterns=patterns)
        if isinstance(source.encoding, JsonWithRegistry):
            return parse_registered(given, required, source.encoding, Part.KEY, others)
        return explained(others(given), given, NO_REGISTRY if source.encoding is None else NO_REGISTRY_OF_KEYS)

    return keys_of(schema, tombstones_as_null(keys, schema), parse_given)


def _texts(keys: pa.Array, schema: pa.Schema) -> Parsed:
    cursor, rows = Cursor(keys), np.arange(len(keys))
    lengths = cursor.end - cursor.at
    texts = cursor.texts(rows, cursor.slices(rows, lengths))
    return without_faults([texts], schema, cursor.faults)


def _numbers(keys: pa.Array, schema: pa.Schema, width: int) -> Parsed:
    lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False)
    faults = {
        int(row): f"it has {lengths[row]} bytes, and a number {width}" for row in np.flatnonzero(lengths != width)
    }
    cursor, rows = Cursor(keys), np.arange(len(keys))
    numbers = cursor.fixed(rows, width).reshape(-1).view(f">i{width}").astype(np.int64)
    return without_faults([pa.array(numbers).cast(schema.types[0])], schema, faults)
