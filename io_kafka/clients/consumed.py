"""The result of one call to a consumer, as Arrow: stretches of consecutive messages of one partition, and events.

There are two sources with equal results. `PlainSource` goes through message objects. `NativeSource` uses the C extension, if it was built;
it needs a quarter of the CPU time, most of it without the interpreter's lock.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message

from io_kafka.binary_arrays import binary_of_lengths
from io_kafka.clients import native
from io_kafka.extras import Extras, of_buffers, of_messages
from io_kafka.messages import Messages
from io_kafka.offsets import TopicPartition


def of_client(messages: Sequence[Message], extras: Extras) -> Messages:
    """The client's message objects as arrays."""
    return Messages(
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
        pa.array(list(map(Message.offset, messages)), pa.int64()),
        of_messages(messages, extras),
    )


@dataclass(frozen=True)
class ConsumerEvent:
    """An error that the consumer delivered in place of a message. `where` is its partition, if it concerns one."""

    error: KafkaError
    where: TopicPartition | None
    offset: int


class Stretch(NamedTuple):
    """Consecutive messages of one partition, and the timestamps of the first and the last in milliseconds since 1970; -1 if it has none."""

    where: TopicPartition
    messages: Messages
    first_ms: int
    last_ms: int


@dataclass(frozen=True)
class Consumed:
    """The result of one call. `stretches` are in the order in which they arrived."""

    stretches: list[Stretch]
    events: list[ConsumerEvent]

    def __bool__(self) -> bool:
        return bool(self.stretches or self.events)


class MessageSource(Protocol):
    """Messages out of a consumer. Only one thread may use it at a time."""

    def take(self, most: int, wait_seconds_max: float) -> Consumed:
        """At most `most` messages and events. Waits up to `wait_seconds_max` until there are so many."""
        ...

    def close(self) -> None:
        """To be called before the consumer is closed."""
        ...


def source_of(consumer: Consumer, extras: Extras) -> MessageSource:
    return NativeSource(consumer, extras) if native.serves(consumer) else PlainSource(consumer, extras)


class NativeSource:
    def __init__(self, consumer: Consumer, extras: Extras = Extras.NONE) -> None:
        self._consumer, self._extras = consumer, extras
        self._queue = native.open_queue(consumer)

    def take(self, most: int, wait_seconds_max: float) -> Consumed:
        stretches, offsets, key_lengths, value_lengths, keys, values, extras = native.consume(
            self._consumer, self._queue, most, round(1e3 * wait_seconds_max), self._extras
        )
        all_of_them = Messages(
            binary_of_lengths(key_lengths, keys),
            binary_of_lengths(value_lengths, values),
            _int64(offsets),
            of_buffers(extras, len(offsets) // 8, self._extras),
        )
        result = Consumed([], [])
        for code, topic, partition, offset, first, end, text, first_ms, last_ms in stretches:
            where = None if topic is None else TopicPartition(topic, max(partition, 0))
            if code or where is None:
                result.events.append(ConsumerEvent(KafkaError(code, text), where, max(offset, 0)))
            else:
                stretch = all_of_them.part(first, end)
                result.stretches.append(
                    Stretch(where, stretch.alone() if len(stretches) > 1 else stretch, first_ms, last_ms)
                )
        return result

    def close(self) -> None:
        native.close_queue(self._queue)


class PlainSource:
    def __init__(self, consumer: Consumer, extras: Extras = Extras.NONE) -> None:
        self._consumer, self._extras = consumer, extras

    def take(self, most: int, wait_seconds_max: float) -> Consumed:
        messages = self._consumer.consume(most, wait_seconds_max)
        events = [_event(message) for message in messages if message.error() is not None]
        if events:
            messages = [message for message in messages if message.error() is None]
        stretches = [
            Stretch(
                where, of_client(stretch, self._extras), int(stretch[0].timestamp()[1]), int(stretch[-1].timestamp()[1])
            )
            for where, stretch in _stretches(messages)
        ]
        return Consumed(stretches, events)

    def close(self) -> None:
        """There is nothing to release."""


def _event(message: Message) -> ConsumerEvent:
    topic = message.topic()
    where = TopicPartition(str(topic), max(int(message.partition() or 0), 0)) if topic else None
    return ConsumerEvent(message.error(), where, max(int(message.offset() or 0), 0))


def _stretches(messages: Sequence[Message]) -> Iterator[tuple[TopicPartition, Sequence[Message]]]:
    """Groups consecutive messages of the same partition."""
    if not messages:
        return
    partitions = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
    topics = list(map(Message.topic, messages))
    changes = partitions[1:] != partitions[:-1]
    changes |= np.fromiter(map(operator.ne, topics[1:], topics), np.bool_, len(topics) - 1)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(messages)]
    for begin, end in pairwise(cuts):
        yield TopicPartition(str(topics[begin]), int(partitions[begin])), messages[begin:end]


def _int64(octets: bytes) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), len(octets) // 8, [None, pa.py_buffer(octets)])
