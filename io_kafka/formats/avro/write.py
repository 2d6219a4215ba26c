"""Rows of an output -> messages in Confluent's wire format, whole columns at a time, as the schemas of `declare.py` have them.

The same rows and ids give the same bytes: an array or a map is one block without its size, and a decimal has as few bytes as its number needs.
The modes are those of encode.py, and so is the shape of each message.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s, as_lists, fill
from base.text.columns import nulls_of
from io_kafka.formats.column_bytes import EMPTY, booleans, by_row, decimals, floats, join_parts, lengths_of, varints
from io_kafka.formats.encodings import AvroIds
from io_kafka.formats.spec import OutputFormat

_NULL, _VALUE = b"\x00", b"\x02"  # the branches of ["null", type]
_OPS = {"c": b"\x02c", "u": b"\x02u", "d": b"\x02d"}


def value_messages(columns: list[pa.Array], ids: AvroIds) -> pa.Array:
    """One message for each row. `columns`: those of the output's schema."""
    return _whole(ids.value, [_optional(column) for column in columns])


def key_messages(columns: list[pa.Array], ids: AvroIds) -> pa.Array:
    """`columns`: those of the key."""
    assert ids.key is not None
    return _whole(ids.key, [_optional(column) for column in columns])


def change_messages(
    ids: AvroIds, output: OutputFormat, before: pa.StructArray, after: pa.StructArray, ops: list[str]
) -> pa.Array:
    """Envelopes. `before`, `after`: structs of the output's columns; `ops`: c, u or d for each row."""
    return _whole(ids.value, [_optional(before), _optional(after), pa.array([_OPS[op] for op in ops], pa.binary())])


def _whole(number: int, parts: list[pa.Array]) -> pa.Array:
    head = pa.scalar(b"\x00" + number.to_bytes(4, "big"), pa.binary())
    return pc.binary_join_element_wise(head, *parts, EMPTY)


def _optional(column: pa.Array) -> pa.Array:
    """The datum of ["null", type] in each row."""
    if not column.null_count:
        return pc.binary_join_element_wise(pa.scalar(_VALUE, pa.binary()), _data(column), EMPTY)
    values = pc.binary_join_element_wise(pa.scalar(_VALUE, pa.binary()), fill(_data(column), b""), EMPTY)
    return pc.if_else(pa.array(nulls_of(column)), pa.scalar(_NULL, pa.binary()), values)


def _data(column: pa.Array) -> pa.Array:
    """The datum of each value. What stands for a null has no meaning."""
    kind = column.type
    if pa.types.is_struct(kind):
        return join_parts([_optional(child) for child in column.flatten()], len(column))
    if pa.types.is_map(kind):
        return _blocks(as_lists(column), _entries)
    if pa.types.is_list(kind):
        return _blocks(column, _optional)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _with_lengths(column.cast(pa.binary()))
    if pa.types.is_boolean(kind):
        return booleans(column)
    if pa.types.is_floating(kind):
        return floats(column)
    if pa.types.is_decimal(kind):
        return _with_lengths(decimals(column))
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return longs(fill(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def longs(numbers: Int64s) -> pa.Array:
    """Whole numbers in zigzag order and groups of seven bits."""
    return varints(((numbers << 1) ^ (numbers >> 63)).view(np.uint64))


def _with_lengths(values: pa.Array) -> pa.Array:
    values = fill(values, b"")
    return pc.binary_join_element_wise(longs(lengths_of(values)), values, EMPTY)


def _entries(entries: pa.Array) -> pa.Array:
    keys, values = entries.flatten()
    return pc.binary_join_element_wise(_with_lengths(keys.cast(pa.binary())), _optional(values), EMPTY)


def _blocks(column: pa.ListArray, of_items: Callable[[pa.Array], pa.Array]) -> pa.Array:
    lengths = fill(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = by_row(column, of_items(column.flatten()))
    end = pa.scalar(b"\x00", pa.binary())
    full = pc.binary_join_element_wise(longs(lengths), items, end, EMPTY)
    return pc.if_else(pa.array(lengths == 0), end, full)
