"""Access to the C extension `_native`, which consumes and produces whole batches without a Python object per message.

The extension is used if it was built and if confluent-kafka is a version whose objects begin as the extension expects. It calls the
librdkafka that confluent-kafka has loaded, at addresses that are looked up there. `STEPWELL_NATIVE=0` turns it off.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import cimpl

from io_kafka.binary_arrays import offsets_and_bytes
from io_kafka.native_switch import NOT_BUILT, why_off
from io_kafka.offsets import TopicPartition

try:
    from io_kafka.clients import _native
except ImportError:  # no C compiler where Stepwell was installed
    _native = None  # type: ignore[assignment]

VERSION = (2, 16)
"""The version of confluent-kafka whose `Handle` _native.c knows, and of librdkafka, whose structures it has copied from the public header."""

_HANDLE_BYTES_MIN = object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
"""The least size of an object that begins as _native.c expects: Python's head, and a pointer to the client."""

_FUNCTIONS = (
    "CallState_begin",
    "CallState_end",
    "rd_kafka_queue_get_consumer",
    "rd_kafka_queue_destroy",
    "rd_kafka_consume_batch_queue",
    "rd_kafka_message_destroy",
    "rd_kafka_topic_name",
    "rd_kafka_message_errstr",
    "rd_kafka_topic_new",
    "rd_kafka_topic_destroy",
    "rd_kafka_produceva",
    "rd_kafka_error_code",
    "rd_kafka_error_string",
    "rd_kafka_error_destroy",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_all",
)
"""The functions that the extension calls, in the order of the arguments of its `bind`."""


def serves(client: Any) -> bool:
    """Whether the extension can be used with this consumer or producer."""
    return isinstance(client, cimpl.Consumer | cimpl.Producer) and why_not() is None


@cache
def why_not() -> str | None:
    """Why the extension is not used, as a text for users. None if it is used."""
    if (off := why_off()) is not None:
        return off
    if _native is None:
        return NOT_BUILT
    if tuple(int(part) for part in confluent_kafka.__version__.split(".")[:2]) != VERSION:
        return f"it is for confluent-kafka {VERSION[0]}.{VERSION[1]}, and {confluent_kafka.__version__} is installed"
    library = ctypes.CDLL(cimpl.__file__)
    if (loaded := _librdkafka_version(library)) != VERSION:
        return f"it is for librdkafka {VERSION[0]}.{VERSION[1]}, and confluent-kafka has loaded {loaded[0]}.{loaded[1]}"
    if cimpl.Consumer.__basicsize__ < _HANDLE_BYTES_MIN or cimpl.Producer.__basicsize__ < _HANDLE_BYTES_MIN:
        return "the objects of this build of confluent-kafka are smaller than it expects"
    try:
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    except AttributeError as missing:
        return f"this build of confluent-kafka hides what it needs: {missing}"
    _native.bind(*(address or 0 for address in found))
    return None


def _librdkafka_version(library: ctypes.CDLL) -> tuple[int, int]:
    """Returns the version of the library that is loaded, which may be another one than confluent-kafka was built with. Its number is
    0xMMmmrrxx."""
    number = library.rd_kafka_version()
    return number >> 24 & 0xFF, number >> 16 & 0xFF


def open_queue(consumer: Any) -> int:
    """The address of the consumer's queue. The queue must be closed before the consumer."""
    return _native.open_queue(consumer)


def close_queue(queue: int) -> None:
    _native.close_queue(queue)


def consume(
    consumer: Any, queue: int, most: int, timeout_ms: int, extras: int
) -> tuple[
    list[tuple[int, str | None, int, int, int, int, str | None, int, int]],
    bytes,
    bytes,
    bytes,
    bytes,
    bytes,
    tuple[bytes, ...],
]:
    """Waits up to `timeout_ms` for `most` messages. Returns (stretches, offsets, key lengths, value lengths, keys, values, extras). A stretch is
    (error code or 0, topic, partition, offset, first, end, error text, timestamp of the first message, of the last). `extras` is the number of
    an Extras, and the bytes for `extras.of_buffers`."""
    return _native.consume(consumer, queue, most, timeout_ms, extras)


Column = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True)
class Columns:
    """Keys and values of messages in the form that _native.c takes. Each column is (ends as int64, one byte per value that is 0 for null,
    bytes)."""

    keys: Column
    values: Column

    @property
    def rows(self) -> int:
        return len(self.keys[1])

    @classmethod
    def of(cls, keys: pa.BinaryArray, values: pa.BinaryArray) -> Columns:
        return cls(_column(keys), _column(values))


def produce(
    producer: Any, where: TopicPartition, columns: Columns, first: int, header: tuple[str, bytes] | None
) -> tuple[int, int, str | None]:
    """Produces the messages from number `first` on, each with the header, until the client refuses one. Returns (number of the refused message,
    or of all messages; error code or 0; error text)."""
    name, value = header or (None, b"")
    return _native.produce(producer, where.topic, where.partition, first, *columns.keys, *columns.values, name, value)


def _column(array: pa.BinaryArray) -> Column:
    ends, octets = offsets_and_bytes(array)
    return ends, np.asarray(array.is_valid().to_numpy(zero_copy_only=False)), octets
