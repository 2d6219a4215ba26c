"""Digests of output: one for each (step, handle, output partition), even if the partition has no messages.

Guarantees: two multisets of messages have equal digests exactly if they are equal and were written by the same encoder,
but for a collision of a 128-bit hash. All lengths are hashed too, so different lists of messages never give the same
bytes to hash.

A digest is per partition and not per worker, because a replay may run with another number of workers and must still be
compared. It covers the encoder's id, because another version of an encoder may write other bytes for equal rows.

Canonical order is (partition, key, value). Bytes are compared unsigned, and null comes first. With it equal rows give
equal bytes, in whatever order the tasks delivered them.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from io_kafka.binary_arrays import chunks_of, offsets_and_bytes

MESSAGES_SCHEMA = pa.schema(
    [pa.field("partition", pa.int32(), nullable=False), ("key", pa.binary()), ("value", pa.binary())]
)
"""The output that the writer gets, one row per message. A null value is a tombstone, and a null key is a message without a key."""

_ORDER = [(name, "ascending", "at_start") for name in ("partition", "key", "value")]
_NULL_LENGTH = -1


def canonical(messages: pa.Table | pa.RecordBatch) -> pa.Table:
    """Returns the same messages in canonical order. `messages` has MESSAGES_SCHEMA's columns."""
    table = pa.Table.from_batches([messages]) if isinstance(messages, pa.RecordBatch) else messages
    table = table.select(MESSAGES_SCHEMA.names)
    return table.take(pc.sort_indices(table, sort_keys=_ORDER))


def partition_bounds(messages: pa.Table, partitions: int) -> list[int]:
    """`bounds` such that partition p's messages are the rows `bounds[p]:bounds[p + 1]`; `messages` is ordered by
    partition."""
    numbers = messages.column("partition").to_numpy()
    ordered = bool(np.all(numbers[1:] >= numbers[:-1]))
    assert len(numbers) == 0 or (ordered and numbers[0] >= 0 and numbers[-1] < partitions), (
        f"messages are not in order of their partition, or name one outside 0..{partitions - 1}"
    )
    return [int(bound) for bound in np.searchsorted(numbers, np.arange(partitions + 1))]


def digests(messages: pa.Table, partitions: int, encoder: str) -> tuple[str, ...]:
    """The digest of every partition 0 .. partitions - 1 of one handle; `messages` is in canonical order."""
    bounds = partition_bounds(messages, partitions)
    return tuple(
        digest(part.column("key"), part.column("value"), encoder)
        for part in (messages.slice(low, high - low) for low, high in pairwise(bounds))
    )


def digest(keys: pa.Array | pa.ChunkedArray, values: pa.Array | pa.ChunkedArray, encoder: str) -> str:
    """xxh3_128, as 32 hex digits, of the messages of one partition in canonical order: the encoder's id, the count,
    then lengths (int64, little endian, -1 for null) and bytes of all keys, then of all values."""
    assert len(keys) == len(values)
    state = xxhash.xxh3_128()
    name = encoder.encode()
    state.update(struct.pack("<qq", len(name), len(keys)))
    state.update(name)
    for column in (keys, values):
        chunks = chunks_of(column)
        for chunk in chunks:
            state.update(_lengths(chunk))
        for chunk in chunks:
            state.update(_packed_bytes(chunk))
    return state.hexdigest()


def _lengths(chunk: pa.Array) -> memoryview:
    offsets, _ = offsets_and_bytes(chunk)
    lengths = np.diff(offsets).astype("<i8")
    if chunk.null_count:
        lengths[chunk.is_null().to_numpy(zero_copy_only=False)] = _NULL_LENGTH
    return lengths.data


def _packed_bytes(chunk: pa.Array) -> memoryview:
    """The bytes of all rows, end to end. Nulls are dropped first, because in Arrow a null row may span bytes."""
    dense = chunk.drop_null() if chunk.null_count else chunk
    offsets, data = offsets_and_bytes(dense)
    return data[offsets[0] : offsets[-1]].data
