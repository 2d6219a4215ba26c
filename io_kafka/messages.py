"""Messages of Kafka as Arrow arrays, before anything of them is decoded.

There is one form of them from the client to the formats: `Messages`. Messages are converted to Arrow as soon as they arrive, because a million
live message objects cost more in garbage collection than in reading. Slices share the buffers of what they were cut from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from io_kafka.extras import header_sizes


class Messages(NamedTuple):
    """Four arrays of one length, with one entry for each message. `keys`, `values`: binary, null where the message has none (a null value is a
    tombstone). `offsets`: int64. `extras`: see extras.py. As a tuple it has its columns, so `length` is the number of messages."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    offsets: pa.Int64Array
    extras: pa.Array

    @classmethod
    def plain(cls, keys: pa.BinaryArray, values: pa.BinaryArray, offsets: pa.Int64Array) -> Messages:
        """Returns messages without extras, because nothing else was read of them."""
        return cls(keys, values, offsets, pa.nulls(len(offsets)))

    @property
    def length(self) -> int:
        return len(self.offsets)

    @property
    def content_bytes(self) -> int:
        """Bytes of keys, values and headers. It takes constant time if there are no headers, and does not depend on how messages are split."""
        headers = header_sizes(self.extras)
        return _bytes_in(self.keys) + _bytes_in(self.values) + (0 if headers is None else int(headers.sum()))

    @property
    def content_sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of key, value and headers together, for each message."""
        headers = header_sizes(self.extras)
        return _sizes(self.keys) + _sizes(self.values) + (0 if headers is None else headers)

    @property
    def memory_bytes(self) -> int:
        """The bytes of all four arrays, with Arrow's offsets and null masks."""
        return int(sum(column.nbytes for column in self))

    def part(self, first: int, end: int) -> Messages:
        return Messages(*(column.slice(first, end - first) for column in self))

    def alone(self) -> Messages:
        """A copy with buffers of its own, so that messages that wait for long keep no other partition's in memory."""
        return Messages(*(pa.concat_arrays([column]) for column in self))

    def split(self, offset: int) -> tuple[Messages, Messages]:
        """Divides the messages of one partition: those below `offset`, and the others."""
        cut = int(np.searchsorted(self.offsets.to_numpy(), offset))
        return self.part(0, cut), self.part(cut, self.length)


def join_messages(parts: Sequence[Messages]) -> Messages:
    """All messages, part after part. A single part is not copied. Raises ArrowInvalid if keys or values have more than 2 GiB, because Arrow's
    binary type counts bytes in 32 bits."""
    if len(parts) == 1:
        return parts[0]
    return Messages(*(pa.concat_arrays(columns) for columns in zip(*parts, strict=True)))


class TopicMessages(NamedTuple):
    """Messages of several partitions of one topic, each partition's in its order. `partitions`: int32, that of each message."""

    topic: str
    partitions: pa.Int32Array
    messages: Messages

    def place_of(self, at: int) -> str:
        """For users: where the message number `at` lies."""
        return f"topic {self.topic}, partition {self.partitions[at]}, offset {self.messages.offsets[at]}"


def _ends(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """The offsets of the column's values in its buffer of bytes, one more than values. A null has no bytes."""
    ends = column.buffers()[1]
    if ends is None or len(column) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]


def _bytes_in(column: pa.BinaryArray) -> int:
    ends = _ends(column)
    return int(ends[-1]) - int(ends[0])


def _sizes(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    return np.diff(_ends(column)).astype(np.int64)
