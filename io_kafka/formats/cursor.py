"""Binary messages that are read side by side: one position in each, and a read moves many of them at once.

A read names rows, which are numbers of messages, and gives one value for each. What lies beyond the end of a message, or cannot be, is a
fault of that message. A message with a fault is at its end; reads of it give values without a meaning, and none of them leaves the buffer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from base.arrays import Bools, Int64s, UInt8s, UInt64s
from base.text.columns import bytes_of

VARINT_BYTES_MAX = 10  # of a number of 64 bits, with seven of them in each byte


class Cursor:
    """A position in each of many messages, which move side by side. `at`, `end`: of each message, in `data`. `faults`: why a message is
    malformed, by row."""

    def __init__(self, values: pa.Array, skip: int = 0) -> None:
        """`values`: binary without nulls, each of at least `skip` bytes, which are left out."""
        data, ends = bytes_of(values)
        self.data: UInt8s = data if len(data) else np.zeros(1, np.uint8)
        self.at: Int64s = ends[:-1].astype(np.int64) + skip
        self.end: Int64s = ends[1:].astype(np.int64)
        self.faults: dict[int, str] = {}

    def narrow(self, begins: Int64s, ends: Int64s) -> Cursor:
        """A cursor over other parts of the same bytes, whose faults are its own."""
        inner = Cursor.__new__(Cursor)
        inner.data, inner.at, inner.end, inner.faults = self.data, begins.copy(), ends.copy(), {}
        return inner

    def fault(self, rows: Int64s, reason: str | Callable[[int], str]) -> None:
        """Marks rows as malformed. The first reason of a row counts. `reason` may be a function of the position within `rows`."""
        for position, row in enumerate(rows.tolist()):
            if row not in self.faults:
                self.faults[row] = reason if isinstance(reason, str) else reason(position)
        self.at[rows] = self.end[rows]

    def advance(self, rows: Int64s, lengths: Int64s) -> Bools:
        """Moves on by these numbers of bytes, and says where there were so many. Elsewhere there is a fault."""
        at = self.at[rows]
        good = (lengths >= 0) & (lengths <= self.end[rows] - at)
        if good.all():
            self.at[rows] = at + lengths
            return good
        self.at[rows[good]] = (at + lengths)[good]
        self.fault(rows[~good], "it ends within a value")
        return good

    def varints(self, rows: Int64s) -> UInt64s:
        """Numbers in groups of seven bits, the lowest group first."""
        at = self.at[rows]
        byte = self.data.take(at, mode="clip")
        value = (byte & 0x7F).astype(np.uint64)
        length = np.ones(len(rows), np.int64)
        more = np.flatnonzero(byte & 0x80)
        for group in range(1, VARINT_BYTES_MAX):
            if not len(more):
                break
            byte = self.data.take(at[more] + group, mode="clip")
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * group)
            length[more] += 1
            more = more[byte >= 0x80]
        if len(more):
            self.fault(rows[more], "a number of more than ten bytes")
        self.advance(rows, length)
        return value

    def longs(self, rows: Int64s) -> Int64s:
        """Numbers in zigzag order: 0, -1, 1, -2, ..."""
        value = self.varints(rows)
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def read_fixed(self, rows: Int64s, size: int) -> UInt8s:
        """Values of `size` bytes each, as a matrix."""
        at = self.at[rows]
        self.advance(rows, np.full(len(rows), size, np.int64))
        return self.data.take(at[:, None] + np.arange(size), mode="clip")

    def floats(self, rows: Int64s, kind: type[np.float32] | type[np.float64]) -> npt.NDArray[np.floating]:
        """IEEE numbers, the lowest byte first."""
        width = np.dtype(kind).itemsize
        return self.read_fixed(rows, width).reshape(-1).view(np.dtype(kind).newbyteorder("<"))

    def slices(self, rows: Int64s, lengths: Int64s) -> pa.Array:
        """The next bytes of each row, as a binary array."""
        starts = self.at[rows]
        good = self.advance(rows, lengths)
        return cut_out(self.data, starts, lengths if good.all() else np.where(good, lengths, 0))

    def texts(self, rows: Int64s, binary: pa.Array) -> pa.Array:
        """Bytes of these rows as strings. Bytes that are not UTF-8 are a fault."""
        try:
            return binary.cast(pa.string())
        except pa.ArrowInvalid:
            values = binary.to_pylist()
        for position, value in enumerate(values):
            try:
                values[position] = value.decode()
            except UnicodeDecodeError:
                values[position] = ""
                self.fault(rows[position : position + 1], "a text that is not UTF-8")
        return pa.array(values, pa.string())


def cut_out(data: UInt8s, starts: Int64s, lengths: Int64s) -> pa.Array:
    """Pieces of a buffer as a binary array. All pieces together are shorter than 2 GB, because they are parts of an array's messages."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    where = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return from_pieces(data.take(where, mode="clip"), offsets)


def from_pieces(data: UInt8s, offsets: Int64s) -> pa.Array:
    """A binary array of consecutive pieces of `data`."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
