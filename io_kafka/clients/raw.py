"""The messages of one range as Kafka holds them, in Arrow, before they are decoded.

Guarantees: a `RawBatch` holds every message of its range and nothing else, in the order of their offsets. Its checksum is
a function of the range and of the bytes in it. So two reads of one range gave the same messages if and only if their
checksums are equal, but for a collision of a 64-bit hash.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash

from io_kafka.extras import columns_of
from io_kafka.offsets import OffsetRange

# The length of a null in the checksum, so that a null and an empty string differ.
_NULL_LENGTH = -1


@dataclass(frozen=True)
class RawBatch:
    """Invariants: the four arrays are equally long; `offsets` (int64) ascend within [start, end); `keys` and `values`
    are binary, null where the message has none (a null value is a tombstone); `extras` is as extras.py says."""

    topic: str
    partition: int
    start: int
    end: int
    keys: pa.BinaryArray
    values: pa.BinaryArray
    offsets: pa.Int64Array
    extras: pa.Array
    checksum: int

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(self.topic, self.partition, self.start, self.end)

    @property
    def num_rows(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """The bytes of all four arrays, with Arrow's offsets and null masks."""
        return int(self.keys.nbytes + self.values.nbytes + self.offsets.nbytes + self.extras.nbytes)

    def check(self) -> None:
        """Asserts the invariants."""
        offsets = self.offsets.to_numpy()
        assert len(self.keys) == len(self.values) == len(offsets), "columns of unequal length"
        assert bool(np.all(np.diff(offsets) > 0)), f"{self.range}: offsets do not ascend"
        assert len(offsets) == 0 or (self.start <= offsets[0] and offsets[-1] < self.end), (
            f"{self.range}: offset outside"
        )
        assert self.checksum == checksum_of(self.range, self.keys, self.values, self.offsets, self.extras), (
            f"{self.range}: checksum"
        )


def raw_batch(
    span: OffsetRange,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    offsets: pa.Int64Array,
    extras: pa.Array | None = None,
) -> RawBatch:
    """The batch of a range, with its checksum."""
    extras = pa.nulls(len(offsets)) if extras is None else extras
    checksum = checksum_of(span, keys, values, offsets, extras)
    return RawBatch(span.topic, span.partition, span.start, span.end, keys, values, offsets, extras, checksum)


def checksum_of(
    span: OffsetRange, keys: pa.BinaryArray, values: pa.BinaryArray, offsets: pa.Int64Array, extras: pa.Array
) -> int:
    """The xxh3_64 of the range's start and end, the number of messages, the offsets, and then of keys and of values: all lengths, then all
    bytes. What was read besides follows: integers, and binary columns like keys."""
    digest = xxhash.xxh3_64()
    digest.update(np.array([span.start, span.end, len(offsets)], dtype="<i8").tobytes())
    digest.update(offsets.to_numpy().astype("<i8", copy=False).tobytes())
    for column in (keys, values, *columns_of(extras)):
        if pa.types.is_integer(column.type):
            digest.update(column.to_numpy().astype("<i8", copy=False).tobytes())
            continue
        lengths, data = _lengths_and_bytes(column)
        digest.update(lengths.tobytes())
        digest.update(data)
    return digest.intdigest()


def _lengths_and_bytes(column: pa.BinaryArray) -> tuple[np.ndarray, memoryview]:
    """The lengths and the bytes of a binary array, which may be a slice. A null has no bytes and the length _NULL_LENGTH."""
    _, ends_buffer, data_buffer = column.buffers()
    if len(column) == 0 or ends_buffer is None:
        return np.empty(0, dtype="<i8"), memoryview(b"")
    ends = np.frombuffer(ends_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(ends).astype("<i8")
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        assert not lengths[nulls].any(), "a null with bytes would enter the checksum"
        lengths[nulls] = _NULL_LENGTH
    data = memoryview(data_buffer)[int(ends[0]) : int(ends[-1])] if data_buffer is not None else memoryview(b"")
    return lengths, data
