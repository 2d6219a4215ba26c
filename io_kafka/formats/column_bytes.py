"""The bytes that the values of whole columns have in messages, as far as Avro and Protobuf write them alike.

The same values give the same bytes: a number in groups of seven bits has no group that is not needed, and a decimal has as few bytes as its
number needs. What stands for a null has no meaning.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s, UInt8s, UInt64s, fill
from base.limits import DECIMAL_BYTES
from io_kafka.formats.cursor import VARINT_BYTES_MAX, from_pieces

EMPTY = pa.scalar(b"", pa.binary())


def varints(numbers: UInt64s) -> pa.Array:
    """Whole numbers in groups of seven bits, the lowest group first."""
    rest = numbers[:, None] >> (7 * np.arange(VARINT_BYTES_MAX, dtype=np.uint64))
    lengths = np.maximum(1, (rest > 0).sum(axis=1)).astype(np.int64)
    groups = (rest & np.uint64(0x7F)).astype(np.uint8)
    place = np.arange(VARINT_BYTES_MAX)
    groups[place < lengths[:, None] - 1] |= 0x80
    return shorten(groups, place < lengths[:, None], lengths)


def shorten(rows: UInt8s, kept: np.ndarray, lengths: Int64s) -> pa.Array:
    """The bytes of each row of a matrix that are `kept`, of which there are `lengths`."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return from_pieces(rows[kept], offsets)


def matrix(rows: UInt8s) -> pa.Array:
    """Each row of a matrix as its bytes."""
    return from_pieces(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])


def booleans(column: pa.Array) -> pa.Array:
    return matrix(fill(column, False).cast(pa.uint8()).to_numpy(zero_copy_only=False).reshape(-1, 1))


def floats(column: pa.Array) -> pa.Array:
    """IEEE numbers, the lowest byte first."""
    return _in_order(fill(column, 0.0), "<")


def big_endian(column: pa.Array) -> pa.Array:
    """Whole numbers in as many bytes as their type has, the highest first."""
    return _in_order(fill(column, 0), ">")


def _in_order(column: pa.Array, order: Literal["<", ">"]) -> pa.Array:
    numbers = column.to_numpy(zero_copy_only=False)
    return matrix(numbers.astype(numbers.dtype.newbyteorder(order)).view(np.uint8).reshape(-1, numbers.dtype.itemsize))


def decimals(column: pa.Array) -> pa.Array:
    """The unscaled numbers, with the highest byte first, and no byte that only repeats the sign."""
    raw = np.frombuffer(column.buffers()[1], np.uint8)[DECIMAL_BYTES * column.offset :][: DECIMAL_BYTES * len(column)]
    high_first = raw.reshape(-1, DECIMAL_BYTES)[:, ::-1]
    sign = np.where(high_first[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    spare = (high_first[:, :-1] == sign) & ((high_first[:, 1:] ^ sign) < 0x80)
    spared = np.logical_and.accumulate(spare, axis=1).sum(axis=1).astype(np.int64)
    return shorten(high_first, np.arange(DECIMAL_BYTES) >= spared[:, None], DECIMAL_BYTES - spared)


def lengths_of(values: pa.Array) -> Int64s:
    """The number of bytes of each value, none of which is null."""
    return pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def join_parts(parts: list[pa.Array], count: int) -> pa.Array:
    """The parts of each of `count` rows together."""
    return pc.binary_join_element_wise(*parts, EMPTY) if parts else pa.array([b""] * count, pa.binary())


def by_row(column: pa.Array, items: pa.Array) -> pa.Array:
    """The bytes of the items of each list of `column` together; none for a NULL."""
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(fill(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), b"")
