"""Rows of an output -> messages in Confluent's wire format, whole columns at a time, as the schemas of `declare.py` have them.

The same rows and ids give the same bytes: fields are in the order of their numbers, numbers of a list are packed, and a number without presence
is left out if it is zero. A NULL is a field that is not there. Protobuf has no NULL within a list or a map, so a row with one raises Unwritable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s, as_lists, fill
from base.text.columns import nulls_of
from io_kafka.formats.column_bytes import EMPTY, booleans, by_row, decimals, floats, join_parts, lengths_of, varints
from io_kafka.formats.encodings import ProtobufIds
from io_kafka.formats.spec import OutputFormat, Unwritable

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_FIRST_MESSAGE = b"\x00"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first and the last second of the years 1 to 9999, which are the years of google.protobuf.Timestamp and google.type.Date."""

SECONDS_PER_DAY, US_PER_SECOND, NANOS_PER_US = 86_400, 1_000_000, 1_000


def value_messages(columns: list[pa.Array], names: list[str], ids: ProtobufIds) -> pa.Array:
    """One message for each row. `columns`: those of the output's schema. Raises Unwritable."""
    return _whole(ids.value, _fields(columns, names, ""))


def key_messages(columns: list[pa.Array], names: list[str], ids: ProtobufIds) -> pa.Array:
    """`columns`: those of the key."""
    assert ids.key is not None
    return _whole(ids.key, _fields(columns, names, ""))


def change_messages(
    ids: ProtobufIds, output: OutputFormat, before: pa.StructArray, after: pa.StructArray, ops: list[str]
) -> pa.Array:
    """Envelopes. `before`, `after`: structs of the output's columns; `ops`: c, u or d for each row."""
    parts = [_field(1, before, ""), _field(2, after, ""), _field(3, pa.array(ops, pa.string()), "")]
    return _whole(ids.value, parts)


def _whole(number: int, parts: list[pa.Array]) -> pa.Array:
    head = pa.scalar(b"\x00" + number.to_bytes(4, "big") + _FIRST_MESSAGE, pa.binary())
    return pc.binary_join_element_wise(head, *parts, EMPTY)


def _fields(columns: list[pa.Array], names: list[str], place: str) -> list[pa.Array]:
    return [
        _field(number, column, f"{place}{name}")
        for number, (column, name) in enumerate(zip(columns, names, strict=True), start=1)
    ]


def _field(number: int, column: pa.Array, place: str) -> pa.Array:
    """The bytes of a field in each message, none for a NULL."""
    kind = column.type
    if pa.types.is_map(kind):
        return _repeated_fields(number, as_lists(column), lambda entries: _entries(entries, place))
    if pa.types.is_list(kind):
        return _list(number, column, place)
    whole = pc.binary_join_element_wise(_tag(number, _wire(kind)), fill(_data(column, place), b""), EMPTY)
    return pc.if_else(pa.array(nulls_of(column)), EMPTY, whole) if column.null_count else whole


def _tag(number: int, wire: int) -> pa.Scalar:
    return pa.scalar(varints(np.array([number << 3 | wire], np.uint64))[0].as_py(), pa.binary())


def _wire(kind: pa.DataType) -> int:
    """The wire type of the values of a column."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return VARINT
    if pa.types.is_floating(kind):
        return FIXED32 if kind.bit_width == 32 else FIXED64
    return DELIMITED


def _data(column: pa.Array, place: str) -> pa.Array:
    """The bytes of each value. What stands for a null has no meaning."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [kind.field(child).name for child in range(kind.num_fields)]
        return _with_lengths(join_parts(_fields(column.flatten(), names, f"{place}." if place else ""), len(column)))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _with_lengths(column.cast(pa.binary()))
    if pa.types.is_boolean(kind):
        return booleans(column)
    if pa.types.is_floating(kind):
        return floats(column)
    if pa.types.is_decimal(kind):
        return _with_lengths(_decimals(column))
    if pa.types.is_date(kind):
        return _with_lengths(_dates(column, place))
    if pa.types.is_timestamp(kind):
        return _with_lengths(_timestamps(column, place))
    return varints(_numbers(column).view(np.uint64))


def _numbers(column: pa.Array) -> Int64s:
    return fill(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _with_lengths(values: pa.Array) -> pa.Array:
    values = fill(values, b"")
    return pc.binary_join_element_wise(varints(lengths_of(values).view(np.uint64)), values, EMPTY)


def _plain(number: int, values: Int64s) -> pa.Array:
    """A field without presence, which is left out if it is zero."""
    whole = pc.binary_join_element_wise(_tag(number, VARINT), varints(values.view(np.uint64)), EMPTY)
    return pc.if_else(pa.array(values == 0), EMPTY, whole)


def _decimals(column: pa.Array) -> pa.Array:
    """confluent.type.Decimal: the unscaled number, the precision and the scale."""
    every = np.ones(len(column), np.int64)
    number = pc.binary_join_element_wise(_tag(1, DELIMITED), _with_lengths(decimals(column)), EMPTY)
    return join_parts(
        [number, _plain(2, every * column.type.precision), _plain(3, every * column.type.scale)], len(column)
    )


def _dates(column: pa.Array, place: str) -> pa.Array:
    """google.type.Date: year, month and day."""
    days = _numbers(column.cast(pa.int32()))
    _check_years(days * SECONDS_PER_DAY, column, place)
    inside = pa.array(days, pa.int32()).cast(pa.date32())
    parts = [getattr(pc, name)(inside).to_numpy(zero_copy_only=False) for name in ("year", "month", "day")]
    return join_parts(
        [_plain(number, part.astype(np.int64)) for number, part in enumerate(parts, start=1)], len(column)
    )


def _timestamps(column: pa.Array, place: str) -> pa.Array:
    """google.protobuf.Timestamp: seconds, and nanoseconds that count forward."""
    seconds, rest = np.divmod(_numbers(column.cast(pa.timestamp("us"))), US_PER_SECOND)
    _check_years(seconds, column, place)
    return join_parts([_plain(1, seconds), _plain(2, rest * NANOS_PER_US)], len(column))


def _check_years(seconds: Int64s, column: pa.Array, place: str) -> None:
    beyond = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND)
    if (beyond & ~nulls_of(column)).any():
        raise Unwritable(
            f"column {place} has a {'DATE' if pa.types.is_date(column.type) else 'TIMESTAMP'} that is not in the years 1 to 9999, which are "
            "those of Protobuf",
            "Leave such rows out of the view, or write the column as STRING.",
        )


def _list(number: int, column: pa.Array, place: str) -> pa.Array:
    items = column.flatten()
    _check_no_null(items, f"column {place} has an array with a NULL in it", "filter or array_compact")
    if _wire(column.type.value_type) == DELIMITED:
        return _repeated_fields(number, column, lambda items: _data(items, f"{place}[]"))
    packed = by_row(column, _data(items, f"{place}[]"))
    whole = pc.binary_join_element_wise(_tag(number, DELIMITED), _with_lengths(packed), EMPTY)
    return pc.if_else(pa.array(lengths_of(packed) == 0), EMPTY, whole)


def _repeated_fields(number: int, column: pa.Array, of_items: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A field for each item. `of_items` gives the items' bytes behind their lengths."""
    items = of_items(column.flatten())
    return by_row(column, pc.binary_join_element_wise(_tag(number, DELIMITED), items, EMPTY))


def _entries(entries: pa.Array, place: str) -> pa.Array:
    keys, values = entries.flatten()
    _check_no_null(values, f"column {place} has a map with a NULL in it", "map_filter")
    return _with_lengths(join_parts([_field(1, keys, place), _field(2, values, place)], len(entries)))


def _check_no_null(items: pa.Array, what: str, remedy: str) -> None:
    if items.null_count:
        raise Unwritable(
            f"{what}, which Protobuf does not have", f"Leave it out in the view, for example with {remedy}."
        )
