"""What reads the bytes of a batch: the table of formats is asked once for all its messages.

Each format gives a `Parsed`: the rows of a schema, the positions of the messages that they are, and why the others are malformed.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.text.patterns import Patterns
from io_kafka.formats.connect.read import tombstones_as_null
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.encodings import KeyFormat, MessagePart
from io_kafka.formats.json_format import keys_beside
from io_kafka.formats.keys import Keys, in_either_form, keys_of, refuse_lone_surrogates
from io_kafka.formats.parse import Parsed
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.table import reading_of
from io_kafka.formats.without_faults import without_faults

_KEY_BYTES: dict[KeyFormat, int] = {"long": 8, "int": 4}


def parse_values(
    source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart = MessagePart.ROW
) -> Parsed:
    """`values`: binary. `schema`: the columns of the part. Raises RegistryUnreachable and RegistryRefused."""
    return reading_of(source.encoding).values(source.encoding, source, values, schema, part)


def values_are_text(source: SourceFormat) -> bool:
    """Whether people can read the bytes of values that are UTF-8."""
    return reading_of(source.encoding).values_are_text


def parse_keys(source: SourceFormat, keys: pa.Array) -> Keys:
    """The key columns of all messages."""
    schema = pa.schema([source.schema.field(name) for name in source.key])
    match source.key_format:
        case "json":
            return in_either_form(schema, source.patterns, partial(_json_keys, source, schema, keys))
        case "none":
            return Keys([pa.nulls(len(keys), kind) for kind in schema.types], np.zeros(len(keys), np.bool_), {})
        case "string":
            return keys_of(schema, keys, _texts)
        case "long" | "int":
            width = _KEY_BYTES[source.key_format]
            return keys_of(schema, keys, lambda given, required: _numbers(given, required, width))
        case _:
            way = reading_of(source.encoding)
            assert way.keys_as == source.key_format, "the project was checked"
            # Not `required`: a binary key says which of its columns are null.
            return keys_of(schema, keys, lambda given, _: way.keys(source.encoding, given, schema, source.patterns))


def _json_keys(source: SourceFormat, schema: pa.Schema, keys: pa.Array, patterns: Patterns) -> Keys:
    way = reading_of(source.encoding)
    read = way.keys if way.keys_as == "json" else keys_beside

    def parse_given(given: pa.Array, required: pa.Schema) -> Parsed:
        return refuse_lone_surrogates(read(source.encoding, given, required, patterns), given)

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
    numbers = cursor.read_fixed(rows, width).reshape(-1).view(f">i{width}").astype(np.int64)
    return without_faults([pa.array(numbers).cast(schema.types[0])], schema, faults)
