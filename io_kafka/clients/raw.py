"""The messages of one range as Kafka holds them, in Arrow, before they are decoded.

Guarantees: a `RawBatch` holds every message of its range and nothing else, in the order of their offsets. Its checksum is
a function of the range and of the bytes in it. So two reads of one range gave the same messages if and only if their
checksums are equal, but for a collision of a 64-bit hash.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import xxhash

from io_kafka.clients.timestamps import Times
from io_kafka.extras import columns_of
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange

_NULL_LENGTH = -1
"""The length of a null in the checksum, so that a null and an empty string differ."""


@dataclass(frozen=True)
class RawBatch:
    """The messages of a range. Invariants: their arrays are equally long, and their offsets ascend within the range. `times`: their
    timestamps, as far as they are known; they are for users alone, and no part of what was read."""

    range: OffsetRange
    messages: Messages
    checksum: int
    times: Times | None = field(default=None, compare=False)

    def check(self) -> None:
        """Asserts the invariants."""
        span, messages = self.range, self.messages
        offsets = messages.offsets.to_numpy()
        assert len(messages.keys) == len(messages.values) == len(offsets), "columns of unequal length"
        assert bool(np.all(np.diff(offsets) > 0)), f"{span}: offsets do not ascend"
        assert len(offsets) == 0 or (span.start <= offsets[0] and offsets[-1] < span.end), f"{span}: offset outside"
        assert self.checksum == checksum_of(span, messages), f"{span}: checksum"


def raw_batch(span: OffsetRange, messages: Messages, times: Times | None = None) -> RawBatch:
    """The batch of a range, with its checksum."""
    return RawBatch(span, messages, checksum_of(span, messages), times)


def checksum_of(span: OffsetRange, messages: Messages) -> int:
    """The xxh3_64 of the range's start and end, the number of messages, the offsets, and then of keys and of values: all lengths, then all
    bytes. What was read besides follows: integers, and binary columns like keys."""
    digest = xxhash.xxh3_64()
    digest.update(np.array([span.start, span.end, messages.length], dtype="<i8").tobytes())
    digest.update(messages.offsets.to_numpy().astype("<i8", copy=False).tobytes())
    for column in (messages.keys, messages.values, *columns_of(messages.extras)):
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
