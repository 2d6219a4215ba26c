"""Rows of an output -> messages. The bytes are part of what a step's digest covers: the same rows always give the
same messages.

append: one message per row. upsert: the value is the row, or null if the key has no row any more. changelog:
`{"before":..,"after":..,"op":..}` with op c, u or d. The key has the key columns, in JSON or another `key.format`, or is null if no key is
declared. A timestamp in it has microseconds if it needs them, because two rows of one key would be one row of a compacted topic. For the same
reason it is in the output's pattern only if different values have different texts in that.

This module has the shapes, and the table of formats what writes a value. The key has a format of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.options import OutputKeyFormat
from base.text.columns import nulls_of
from io_kafka.formats.column_bytes import big_endian
from io_kafka.formats.json_format import written_keys
from io_kafka.formats.spec import OutputFormat, Unwritable
from io_kafka.formats.table import writing_of

# Part of every digest. Another id must be given whenever any byte of any message changes, in whichever format.
ENCODER_ID = "json-2"
ENCODED = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def encode(output: OutputFormat, rows: pa.Table) -> pa.Table:
    """Columns `key` and `value` (binary), one message per row, in the order of `rows`.

    `rows` has the columns in the schema's order; later columns are ignored. upsert: also `deleted` (bool), and a deleted row needs only its
    key columns. changelog: `before` and `after`, structs in the schema's order, null if there is none. Raises Unwritable."""
    columns = [_one(column) for column in rows.columns]
    if output.mode == "changelog":
        return _changelog(output, _one(rows.column("before")), _one(rows.column("after")))
    columns_of_value = columns[: len(output.schema)]
    if output.mode == "append":
        return _messages(output, _key(output, columns), _values(output, columns_of_value))
    deleted = _one(rows.column("deleted"))
    value = _values(output, columns_of_value, deleted)
    return _messages(output, _key(output, columns), pc.if_else(deleted, pa.scalar(None, value.type), value))


def _values(output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None = None) -> pa.Array:
    """Returns one value per row. `deleted`: the rows of which the value is not written; None in mode append."""
    return writing_of(output.encoding).values(output.encoding, output, columns, deleted)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _key(output: OutputFormat, columns: list[pa.Array]) -> pa.Array:
    if not output.key:
        return pa.nulls(len(columns[0]), pa.string())
    key = [columns[output.schema.get_field_index(name)] for name in output.key]
    way, written = writing_of(output.encoding), _keys_as(output)
    match written:
        case "json":
            return written_keys(output.encoding, output, key)
        case "string":
            return key[0]
        case "long" | "int":
            return _as_serialised(key[0])
        case _:
            assert way.keys_as == written, "the project was checked"
            return way.keys(output.encoding, output, key)


def _keys_as(output: OutputFormat) -> OutputKeyFormat:
    return output.key_format or writing_of(output.encoding).keys_as


def _as_serialised(numbers: pa.Array) -> pa.Array:
    """Returns the bytes that Kafka's LongSerializer and IntegerSerializer write for these numbers."""
    written = big_endian(numbers)
    return pc.if_else(pc.is_null(numbers), pa.scalar(None, pa.binary()), written) if numbers.null_count else written


def _messages(output: OutputFormat, key: pa.Array, value: pa.Array) -> pa.Table:
    """A message without a key belongs to no row of a table with one, and a compacted topic does not take it."""
    if output.key and key.null_count:
        raise Unwritable(
            f"column {output.key[0]} is NULL in a row, and a key in the format {_keys_as(output)} cannot say so",
            "Leave such rows out of the view, or leave key.format out: then the key is an object that has the NULL.",
        )
    return pa.Table.from_arrays([key.cast(pa.binary()), value.cast(pa.binary())], schema=ENCODED)


def _changelog(output: OutputFormat, before: pa.StructArray, after: pa.StructArray) -> pa.Table:
    before, after = (_with_names(image, output.schema.names) for image in (before, after))
    created, deleted = (nulls_of(image) for image in (before, after))
    assert not (created & deleted).any(), f"{output.handle}: a change with neither before nor after"
    changes = writing_of(output.encoding).changes
    assert changes is not None, f"{output.handle}: the project was checked"
    ops = np.select([created, deleted], ["c", "d"], "u").tolist()
    value = changes(output.encoding, output, before, after, ops)
    old_key, new_key = (_key(output, image.flatten()) for image in (before, after))
    return _messages(output, pc.if_else(pa.array(deleted), old_key, new_key), value)


def _with_names(image: pa.StructArray, names: list[str]) -> pa.StructArray:
    assert image.type.num_fields == len(names)
    return pa.StructArray.from_arrays(image.flatten(), names=names, mask=pc.is_null(image))
