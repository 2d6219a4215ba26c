"""Protobuf's numbers, booleans and enums -> the table's types: which may be read as which, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor

from base.arrays import Bools, Int64s
from base.text.columns import nulls_of
from io_kafka.formats.avro.values import is_flag
from io_kafka.formats.cursor import Cursor

_VARINT, _FIXED64, _FIXED32 = 0, 1, 5

Convert = Callable[[Cursor, Int64s], tuple[pa.Array, Bools]]
"""(the values at the positions of these rows, which of them no value of the column's type is)."""


@dataclass(frozen=True)
class NumberType:
    """A type of numbers of Protobuf, as it is on the wire. `wire`: the wire type. `bits` and `signed` are those of the type; `zigzag`: 0, -1, 1,
    -2 are written as 0, 1, 2, 3."""

    wire: int
    bits: int
    signed: bool = True
    zigzag: bool = False
    is_float: bool = False


NUMBERS: dict[int, NumberType] = {
    FieldDescriptor.TYPE_INT32: NumberType(_VARINT, 32),
    FieldDescriptor.TYPE_INT64: NumberType(_VARINT, 64),
    FieldDescriptor.TYPE_UINT32: NumberType(_VARINT, 32, signed=False),
    FieldDescriptor.TYPE_UINT64: NumberType(_VARINT, 64, signed=False),
    FieldDescriptor.TYPE_SINT32: NumberType(_VARINT, 32, zigzag=True),
    FieldDescriptor.TYPE_SINT64: NumberType(_VARINT, 64, zigzag=True),
    FieldDescriptor.TYPE_FIXED32: NumberType(_FIXED32, 32, signed=False),
    FieldDescriptor.TYPE_FIXED64: NumberType(_FIXED64, 64, signed=False),
    FieldDescriptor.TYPE_SFIXED32: NumberType(_FIXED32, 32),
    FieldDescriptor.TYPE_SFIXED64: NumberType(_FIXED64, 64),
    FieldDescriptor.TYPE_FLOAT: NumberType(_FIXED32, 32, is_float=True),
    FieldDescriptor.TYPE_DOUBLE: NumberType(_FIXED64, 64, is_float=True),
    FieldDescriptor.TYPE_BOOL: NumberType(_VARINT, 64, signed=False),
    FieldDescriptor.TYPE_ENUM: NumberType(_VARINT, 32),
}


def read_number(field: FieldDescriptor, number: NumberType, kind: pa.DataType) -> Convert | None:
    """None if the field's type is not read as the column's."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        is_read = kind == pa.bool_() or is_flag(field.name, kind)
        return partial(_booleans, kind=kind) if is_read else None
    if field.type == FieldDescriptor.TYPE_ENUM and kind == pa.string():
        return _symbols(field)
    if number.is_float:
        own = np.float32 if number.bits == 32 else np.float64
        wide_enough = pa.types.is_floating(kind) and kind.bit_width >= number.bits
        return _floats(own, kind) if wide_enough else None
    needed = number.bits if number.signed or number.bits == 64 else 64
    small = number.bits == 32 and number.signed and pa.types.is_signed_integer(kind)  # a value may fit
    if not pa.types.is_signed_integer(kind) or (kind.bit_width < needed and not small):
        return None
    return _integers(number, kind)


def _raw(number: NumberType, cursor: Cursor, rows: Int64s) -> Int64s:
    """Returns the numbers as 64 bits with a sign. Of a number of 32 bits, the lowest 32 bits count, as in Protobuf."""
    if number.wire == _VARINT:
        wide = cursor.varints(rows)
        if number.zigzag:
            if number.bits == 32:
                wide = wide & np.uint64(0xFFFF_FFFF)
            return (wide >> np.uint64(1)).view(np.int64) ^ -(wide & np.uint64(1)).view(np.int64)
        found = wide.view(np.int64)
    else:
        width = number.bits // 8
        found = cursor.read_fixed(rows, width).reshape(-1).view(f"<u{width}").astype(np.uint64).view(np.int64)
    if number.bits == 64:
        return found
    low = found & 0xFFFF_FFFF
    return np.where(low >= 1 << 31, low - (1 << 32), low) if number.signed else low


def _integers(number: NumberType, kind: pa.DataType) -> Convert:
    def read(cursor: Cursor, rows: Int64s) -> tuple[pa.Array, Bools]:
        found = _raw(number, cursor, rows)
        wrong = (found < 0) & (not number.signed)
        if kind.bit_width < number.bits:
            bound = 1 << (kind.bit_width - 1)
            wrong |= (found < -bound) | (found >= bound)
        return pa.array(found.astype(kind.to_pandas_dtype()), kind), wrong

    return read


def _booleans(cursor: Cursor, rows: Int64s, kind: pa.DataType) -> tuple[pa.Array, Bools]:
    return pa.array(cursor.varints(rows) != 0).cast(kind), np.zeros(len(rows), np.bool_)


def _floats(own: type[np.float32] | type[np.float64], kind: pa.DataType) -> Convert:
    target = np.float32 if kind == pa.float32() else np.float64

    def read(cursor: Cursor, rows: Int64s) -> tuple[pa.Array, Bools]:
        return pa.array(cursor.floats(rows, own).astype(target), kind), np.zeros(len(rows), np.bool_)

    return read


def _symbols(field: FieldDescriptor) -> Convert:
    """Names of an enum's values. Of several names of one number the first counts. A number without a name is none."""
    names: dict[int, str] = {}
    for value in field.enum_type.values:
        names.setdefault(value.number, value.name)
    numbers, symbols = pa.array(list(names), pa.int64()), pa.array(list(names.values()), pa.string())
    number = NUMBERS[field.type]

    def read(cursor: Cursor, rows: Int64s) -> tuple[pa.Array, Bools]:
        found = symbols.take(pc.index_in(pa.array(_raw(number, cursor, rows)), numbers))
        return found, nulls_of(found)

    return read
