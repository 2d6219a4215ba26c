"""Rows as byte strings whose order is the order of an ORDER BY, so that one comparison of bytes compares all sort keys.

The bytes of a row are those of its sort keys, one after another. A key begins with a mark, which says whether it is null and puts nulls
first or last. The value follows as order_bytes.py writes it, and its bytes are inverted for a descending key. No value's bytes are the beginning
of those of another value of its type. So the bytes of two rows differ first within the first key in which the rows differ.

Spark orders values of these types in the same way: NaN is the greatest number, -0.0 equals 0.0, strings are compared by their UTF-8 bytes, and a
null inside a struct or an array is the least value, whatever the NULLS FIRST or LAST of the key is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Float64s, Int64s, UInt8s, UInt64s, fill
from base.slots import SLOT_BITS
from engine.accumulators import order, order_bytes
from engine.accumulators.canonical import canonical

_NULL_FIRST, _VALUE, _NULL_LAST = b"\x01", b"\x02", b"\x03"
_SIGN = np.uint64(1 << 63)
_CODE_BYTES, _WIDE_BYTES = 8, 16
_VALUE_BITS = 46
"""The bits of the value in a number of `spread_codes`, behind the two bits of the mark."""


class SortedBy(NamedTuple):
    """A sort key: the values, and how they are ordered."""

    values: pa.Array | pa.ChunkedArray
    ascending: bool
    nulls_first: bool


def has_order(type_: pa.DataType) -> bool:
    """Whether rows can be sorted by values of the type: all types but null, and nested types that contain null."""
    if pa.types.is_nested(type_):
        return all(has_order(type_.field(i).type) for i in range(type_.num_fields))
    return order.is_ordered(type_)


def sort_bytes(keys: Sequence[SortedBy], last: UInt64s) -> pa.Array:
    """The bytes of each row, as a binary array without nulls. `last`: one number for each row, by which rows with equal keys are ordered."""
    parts = [_key(canonical(key.values), key.ascending, key.nulls_first) for key in keys]
    return order_bytes.join_parts(*parts, order_bytes.words(last))


def spread_codes(sort: pa.Array, leading: pa.DataType | None) -> UInt64s:
    """A number below 2**48 for each of these byte strings, which grows with it or stays the same. `leading`: the type of the first sort
    key; None if there are no keys.

    The numbers are to be far apart where values are, so that ranges of numbers hold about as many rows each. Small integers differ only in
    the last of their 8 bytes. So a number is turned into a double, whose first 46 bits are its sign, its magnitude and its first 34 binary
    digits."""
    raw = _leading_bytes(sort, 1 + _WIDE_BYTES)
    if leading is None:
        return _numbers(raw, 0) >> np.uint64(SLOT_BITS)
    value = _numbers(raw, 1)
    if pa.types.is_decimal(leading) and not order.has_codes(leading):
        value = _ordered_bits(_as_double((value ^ _SIGN).view(np.int64), _numbers(raw, 1 + _CODE_BYTES)))
    elif order.has_codes(leading) and not pa.types.is_floating(leading):
        value = _ordered_bits((value ^ _SIGN).view(np.int64).astype(np.float64))
    mark = raw[:, 0].astype(np.uint64) << np.uint64(_VALUE_BITS)
    numbers: UInt64s = mark | (value >> np.uint64(64 - _VALUE_BITS))
    return numbers


def _leading_bytes(sort: pa.Array, count: int) -> UInt8s:
    """The first bytes of each string, one row for each, with zeros behind a string that is shorter."""
    _, offsets, data = sort.buffers()
    ends = np.frombuffer(offsets, np.int32)[sort.offset : sort.offset + len(sort) + 1].astype(np.int64)
    whole = np.zeros(1, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)
    places = ends[:-1, np.newaxis] + np.arange(count)
    found: UInt8s = np.where(places < ends[1:, np.newaxis], whole[np.minimum(places, len(whole) - 1)], 0).astype(
        np.uint8
    )
    return found


def _numbers(raw: UInt8s, first: int) -> UInt64s:
    """Eight of the bytes of each row as a number, the highest first."""
    eight = np.ascontiguousarray(raw[:, first : first + _CODE_BYTES])
    return eight.view(">u8")[:, 0].astype(np.uint64)


def _as_double(high: Int64s, low: UInt64s) -> Float64s:
    """high * 2**64 + low as a double that grows with it or stays the same, which a sum of two rounded numbers need not do."""
    small = np.where(high < 0, -(~low).astype(np.float64), low.astype(np.float64))
    double: Float64s = np.where((high == 0) | (high == -1), small, high.astype(np.float64) * 2.0**64)
    return double


def _ordered_bits(doubles: Float64s) -> UInt64s:
    """The bits of numbers (no NaN), in the order of the numbers."""
    bits = (doubles + 0.0).view(np.uint64)
    ordered: UInt64s = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    return ordered


def _key(values: pa.Array, ascending: bool, nulls_first: bool) -> pa.Array:
    """A mark for each value, and the value's bytes behind it; behind the mark of a null there is nothing. `values` are canonical."""
    present = values.drop_null() if values.null_count else values
    encoded = order_bytes.encode(present)
    if not ascending:
        encoded = order_bytes.invert(encoded)
    value = pa.scalar(_VALUE, pa.binary())
    if not values.null_count:
        return pc.binary_join_element_wise(value, encoded, b"")
    valid = values.is_valid()
    places = np.cumsum(valid.to_numpy(zero_copy_only=False)) - 1
    spread = fill(encoded.take(pa.array(places, mask=~valid.to_numpy(zero_copy_only=False))), b"")
    null = pa.scalar(_NULL_FIRST if nulls_first else _NULL_LAST, pa.binary())
    return pc.binary_join_element_wise(pc.if_else(valid, value, null), spread, b"")
