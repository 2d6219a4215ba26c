"""What is read of each message besides key, value and offset: the timestamp, and the headers. Few sources want them, and they cost time.

They are one Arrow array. Its type follows from the Extras alone: null, or a struct of `timestamp` (milliseconds since 1970, -1 if there is
none), `timestamp_type` (as Kafka numbers it: -1 none, 0 set by the producer, 1 by the broker) and `headers` (null if a message has none).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from io_kafka.binary_arrays import binary_of_lengths, offsets_and_bytes

if TYPE_CHECKING:
    from confluent_kafka import Message  # the formats use this module, and they load no client


class Extras(IntEnum):
    """The numbers are those that _native.c knows. HEADERS includes the timestamps."""

    NONE = 0
    TIMESTAMPS = 1
    HEADERS = 2


_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIMES = [("timestamp", pa.int64()), ("timestamp_type", pa.int32())]
TYPES: dict[Extras, pa.DataType] = {
    Extras.NONE: pa.null(),
    Extras.TIMESTAMPS: pa.struct(_TIMES),
    Extras.HEADERS: pa.struct([*_TIMES, ("headers", pa.list_(_HEADER))]),
}

_CLIENT_TYPES_FIRST = 1
"""The client numbers the types of timestamps from 0, and Kafka's protocol from -1."""


def of_messages(messages: Sequence[Message], extras: Extras) -> pa.Array:
    """The extras of the client's message objects."""
    if extras is Extras.NONE:
        return pa.nulls(len(messages))
    stamps = [message.timestamp() for message in messages]
    columns = [
        pa.array([milliseconds for _, milliseconds in stamps], pa.int64()),
        pa.array([kind - _CLIENT_TYPES_FIRST for kind, _ in stamps], pa.int32()),
    ]
    if extras is Extras.HEADERS:
        headers = [message.headers() for message in messages]
        pairs = [None if not each else [{"key": k, "value": v} for k, v in each] for each in headers]
        columns.append(pa.array(pairs, pa.list_(_HEADER)))
    return pa.StructArray.from_arrays(columns, fields=list(TYPES[extras]))


def of_buffers(buffers: tuple[bytes, ...], count: int, extras: Extras) -> pa.Array:
    """The extras of `count` messages from what _native.c has copied."""
    if extras is Extras.NONE:
        return pa.nulls(count)
    kinds = np.frombuffer(buffers[1], np.int32) - np.int32(_CLIENT_TYPES_FIRST)
    columns: list[pa.Array] = [pa.array(np.frombuffer(buffers[0], np.int64)), pa.array(kinds)]
    if extras is Extras.HEADERS:
        columns.append(_headers(*buffers[2:]))
    return pa.StructArray.from_arrays(columns, fields=list(TYPES[extras]))


def _headers(counts: bytes, name_lengths: bytes, value_lengths: bytes, names: bytes, values: bytes) -> pa.Array:
    each = np.frombuffer(counts, np.int64)
    ends = np.zeros(len(each) + 1, np.int32)
    np.cumsum(each, out=ends[1:])
    pairs = [_text(binary_of_lengths(name_lengths, names)), binary_of_lengths(value_lengths, values)]
    entries = pa.StructArray.from_arrays(pairs, fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(ends), entries, type=pa.list_(_HEADER), mask=pa.array(each == 0))


def _text(names: pa.BinaryArray) -> pa.StringArray:
    """Names as text. Kafka has them in UTF-8; Java's client replaces what is not."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def header_sizes(extras: pa.Array) -> npt.NDArray[np.int64] | None:
    """The bytes of the names and values of all headers, for each message. None if no headers were read."""
    if extras.type != TYPES[Extras.HEADERS]:
        return None
    lists = extras.field("headers")
    names, values = (offsets_and_bytes(lists.values.field(part))[0] for part in ("key", "value"))
    return np.asarray(np.diff((names + values)[lists.offsets.to_numpy()]))


def columns_of(extras: pa.Array) -> list[pa.Array]:
    """The flat arrays that have all of the content, for a checksum: integers, and binary arrays."""
    if pa.types.is_null(extras.type):
        return []
    columns = [extras.field("timestamp"), extras.field("timestamp_type")]
    if extras.type == TYPES[Extras.HEADERS]:
        lists = extras.field("headers")
        entries = lists.flatten()
        columns += [lists.value_lengths().fill_null(-1), entries.field("key").cast(pa.binary()), entries.field("value")]
    return columns
