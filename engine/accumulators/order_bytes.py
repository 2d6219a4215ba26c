"""Values of any type, structs, arrays and maps among them, as bytes whose order is that of the values, and back.

So a minimum of structs is a minimum of binary values, a trace of binary values in order holds them, and nothing compares rows one by one. The
form is that of ordered key-value stores (FoundationDB's tuple layer is one): each field says where it ends, so fields follow each other.

    null                1                                      a null is below all values, as in Spark's ascending order
    value               2, then its body:
      up to 64 bits     8 bytes, big-endian, of the code in `order.codes_of`, with the sign flipped
      wide decimal      16 bytes, likewise
      string, binary    its bytes, with 0 written as 0 255; then 0 1
      struct            its fields
      array             its elements, then 0
      map               the array of its entries, which are structs; Spark has no order of maps, so any will do that is the same everywhere

A field of a struct whose name begins with `DESCENDING` is written with all its bits flipped, so that its order is reversed and its nulls are
last. Only lowering makes such structs, for ORDER BY ... DESC.

The mapping is one to one, but for NaN, of which there is one. So -0.0 is just below 0.0: a caller that takes the two for equal makes them so
before.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, UInt8s, UInt64s, as_lists
from engine.accumulators import order

DESCENDING = "\x01desc"

_NULL, _VALUE = 1, 2
_FLIP_SIGN = np.uint64(1 << 63)


def encode(values: pa.Array) -> pa.Array:
    """The values, which have no nulls but nested ones, as binary."""
    return _body(values)


def decode(encoded: pa.Array, type_: pa.DataType) -> pa.Array:
    """The reverse of `encode`. A value is null where its binary is null."""
    present = encoded.drop_null() if encoded.null_count else encoded
    reader = _ByteReader(_bytes_of(present))
    values, _ = reader.body(_offsets_of(present)[:-1], type_)
    return _scatter(values, encoded.is_valid().to_numpy(zero_copy_only=False))


def _field(values: pa.Array) -> pa.Array:
    """The values, nulls among them, each with its mark."""
    if not values.null_count:
        return join_parts(bytes([_VALUE]), _body(values))
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    marked = join_parts(bytes([_VALUE]), _body(values.drop_null()))
    with_null = pa.concat_arrays([marked, pa.array([bytes([_NULL])], pa.binary())])
    return with_null.take(pa.array(np.where(valid, np.cumsum(valid) - 1, len(marked))))


def _body(values: pa.Array) -> pa.Array:
    type_ = values.type
    if pa.types.is_struct(type_):
        return _struct(values)
    if pa.types.is_map(type_):
        return _body(as_lists(values))
    if pa.types.is_list(type_):
        elements = _field(values.flatten())
        lengths = values.value_lengths().to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        return join_parts(pc.binary_join(pa.ListArray.from_arrays(offsets, elements), b""), b"\x00")
    if pa.types.is_null(type_):
        return pa.array([b""] * len(values), pa.binary())
    if order.has_codes(type_):
        if pa.types.is_floating(type_):
            numbers = values.to_numpy(zero_copy_only=False)
            values = pa.array(np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers), from_pandas=False)
        return words(order.codes_of(values).view(np.uint64) ^ _FLIP_SIGN)
    if pa.types.is_decimal(type_):
        return order.encode(values)
    raw = values.cast(pa.binary())
    escaped = pc.replace_substring(raw, b"\x00", b"\x00\xff")
    return join_parts(escaped, b"\x00\x01")


def _struct(values: pa.Array) -> pa.Array:
    fields = []
    for field, column in zip(values.type, values.flatten(), strict=True):
        written = _field(column)
        fields.append(invert(written) if field.name.startswith(DESCENDING) else written)
    if not fields:
        return pa.array([b""] * len(values), pa.binary())
    return fields[0] if len(fields) == 1 else join_parts(*fields)


def join_parts(*parts: pa.Array | bytes) -> pa.Array:
    """The parts of each value, one behind the other. A part that is bytes is the same for all."""
    whole = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*whole, pa.scalar(b"", pa.binary()))


def words(numbers: UInt64s) -> pa.Array:
    """Each number as 8 bytes, the highest first."""
    return _fixed_width(numbers.astype(">u8").tobytes(), len(numbers), 8)


def _fixed_width(raw: bytes, count: int, width: int) -> pa.Array:
    offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])


def invert(written: pa.Array) -> pa.Array:
    """Returns byte strings of the same lengths, with every bit inverted."""
    offsets = _offsets_of(written).astype(np.int32)
    flipped = ~_bytes_of(written)
    return pa.Array.from_buffers(pa.binary(), len(written), [None, pa.py_buffer(offsets), pa.py_buffer(flipped)])


def _offsets_of(column: pa.Array) -> Int64s:
    """Where each value begins in `_bytes_of`, and where the last one ends."""
    offsets = (
        np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, offset=4 * column.offset)
        if len(column)
        else np.zeros(1, np.int32)
    )
    return offsets.astype(np.int64) - int(offsets[0])


def _bytes_of(column: pa.Array) -> UInt8s:
    if not len(column) or column.buffers()[2] is None:
        return np.zeros(0, np.uint8)
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, offset=4 * column.offset)
    return np.frombuffer(column.buffers()[2], np.uint8)[int(offsets[0]) : int(offsets[-1])]


class _ByteReader:
    """Reads values at many places of the same bytes at once. Each method returns the values at `places` and the places behind them."""

    def __init__(self, data: UInt8s, other: _ByteReader | None = None) -> None:
        self._data = data
        self._other = other

    @cached_property
    def _reverse(self) -> _ByteReader:
        """The reader of the same bytes with all bits flipped."""
        return self._other or _ByteReader(~self._data, self)

    @cached_property
    def _ends(self) -> Int64s:
        """The places of all 0 1. The first of them from the start of a string on is the string's end."""
        return np.flatnonzero((self._data[:-1] == 0) & (self._data[1:] == 1))

    def field(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        valid = self._data[places] == _VALUE
        behind = places + 1
        values, behind[valid] = self.body(behind[valid], type_)
        return _scatter(values, valid), behind

    def body(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        if pa.types.is_struct(type_):
            return self._struct(places, type_)
        if pa.types.is_map(type_):
            return self._map(places, type_)
        if pa.types.is_list(type_):
            return self._list(places, type_)
        if pa.types.is_null(type_):
            return pa.nulls(len(places)), places
        everything = np.ones(len(places), np.bool_)
        if order.has_codes(type_):
            words = self._data[places[:, None] + np.arange(8)].reshape(-1).view(">u8").astype(np.uint64)
            return order.values_of((words ^ _FLIP_SIGN).view(np.int64), type_, everything), places + 8
        if pa.types.is_decimal(type_):
            raw = self._data[places[:, None] + np.arange(16)].tobytes()
            return order.decode(_fixed_width(raw, len(places), 16), type_), places + 16
        return self._text(places, type_)

    def _text(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        if not len(places):
            return pa.array([], type_), places
        ends = self._ends[np.searchsorted(self._ends, places)]
        lengths = ends - places
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        chosen = np.repeat(places - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self._data[chosen])]
        raw = pa.Array.from_buffers(pa.binary(), len(places), buffers)
        return pc.replace_substring(raw, b"\x00\xff", b"\x00").cast(type_), ends + 2

    def _struct(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        columns = []
        for field in type_:
            reader = self._reverse if field.name.startswith(DESCENDING) else self
            column, places = reader.field(places, field.type)
            columns.append(column)
        if not columns:
            return pa.array([{}] * len(places), type_), places
        return pa.StructArray.from_arrays(columns, fields=list(type_)), places

    def _map(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        entry = pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
        lists, behind = self._list(places, pa.list_(entry))
        return pa.MapArray.from_arrays(lists.offsets, *lists.values.flatten()).cast(type_), behind

    def _list(self, places: Int64s, type_: pa.DataType) -> tuple[pa.Array, Int64s]:
        """Element after element, of all lists at once."""
        behind = places.copy()
        open_ = np.flatnonzero(self._data[behind] != 0)
        parts, owners = [pa.array([], type_.value_type)], [np.zeros(0, np.int64)]
        while len(open_):
            elements, behind[open_] = self.field(behind[open_], type_.value_type)
            parts.append(elements)
            owners.append(open_)
            open_ = open_[self._data[behind[open_]] != 0]
        owner = np.concatenate(owners)
        elements = pa.concat_arrays(parts).take(pa.array(np.argsort(owner, kind="stable")))
        lengths = np.bincount(owner, minlength=len(places))
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, elements, type=type_), behind + 1


def _scatter(values: pa.Array, valid: Bools) -> pa.Array:
    """The values at the places that are valid, and null at the others."""
    if valid.all():
        return values
    return (
        values.take(pa.array(np.maximum(np.cumsum(valid) - 1, 0), mask=~valid))
        if len(values)
        else pa.nulls(len(valid), values.type)
    )
