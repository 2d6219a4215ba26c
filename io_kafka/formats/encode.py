"""Rows of an output -> messages. The bytes are part of what a step's digest covers: the same rows always give the
same messages.

append: one message per row. upsert: the value is the row, or null if the key has no row any more. changelog:
`{"before":..,"after":..,"op":..}` with op c, u or d. The key is the JSON object of the key columns, or null if no key is
declared. A timestamp in it has microseconds if it needs them, because two rows of one key would be one row of a compacted topic.

This module has the shapes and JSON; avro/write.py has the same shapes in Avro.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from io_kafka.formats.avro.write import change_messages, key_messages, value_messages
from io_kafka.formats.render import fragment, record
from io_kafka.formats.spec import OutputFormat

# Part of every digest. Another id must be given whenever any byte of any message changes, in whichever format.
ENCODER_ID = "json-2"
ENCODED = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def encode(output: OutputFormat, rows: pa.Table) -> pa.Table:
    """Columns `key` and `value` (binary), one message per row, in the order of `rows`.

    `rows` has the columns in the schema's order; later columns are ignored. upsert: also `deleted` (bool), and a deleted row needs only its
    key columns. changelog: `before` and `after`, structs in the schema's order, null if there is none."""
    columns = [_one(column) for column in rows.columns]
    if output.mode == "changelog":
        return _changelog(output, _one(rows.column("before")), _one(rows.column("after")))
    columns_of_value = columns[: len(output.schema)]
    if output.avro is None:
        value = record(output.schema.names, columns_of_value)
    else:
        value = value_messages(columns_of_value, output.avro)
    if output.mode == "upsert":
        value = pc.if_else(_one(rows.column("deleted")), pa.scalar(None, value.type), value)
    return _messages(_key(output, columns), value)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _key(output: OutputFormat, columns: list[pa.Array]) -> pa.Array:
    if not output.key:
        return pa.nulls(len(columns[0]), pa.string())
    key = [columns[output.schema.get_field_index(name)] for name in output.key]
    if output.avro is not None:
        return key_messages(key, output.avro)
    return record(list(output.key), key, micros=True)


def _messages(key: pa.Array, value: pa.Array) -> pa.Table:
    return pa.Table.from_arrays([key.cast(pa.binary()), value.cast(pa.binary())], schema=ENCODED)


def _changelog(output: OutputFormat, before: pa.StructArray, after: pa.StructArray) -> pa.Table:
    names = output.schema.names
    images = [_named(image, names) for image in (before, after)]
    absent = [np.asarray(pc.is_null(image).to_numpy(zero_copy_only=False)) for image in images]
    assert not (absent[0] & absent[1]).any(), f"{output.handle}: a change with neither before nor after"
    if output.avro is None:
        op = pa.array(np.select(absent, ['"c"', '"d"'], '"u"'), pa.string())
        parts = ['{"before":', fragment(images[0]), ',"after":', fragment(images[1]), ',"op":', op, "}", ""]
        value = pc.binary_join_element_wise(*parts)
    else:
        value = change_messages(images[0], images[1], np.select(absent, ["c", "d"], "u").tolist(), output.avro)
    keys = [_key(output, image.flatten()) for image in images]
    return _messages(pc.if_else(pa.array(absent[1]), *keys), value)


def _named(image: pa.StructArray, names: list[str]) -> pa.StructArray:
    assert image.type.num_fields == len(names)
    return pa.StructArray.from_arrays(image.flatten(), names=names, mask=pc.is_null(image))
