"""One open transaction of a producer: the messages that are produced in it, and their delivery reports.

Guarantee: after `flush` has returned, the broker has every message that was produced, and `ends` has the end of every partition that got
one. Only the last message of a partition reports its delivery. That is enough, because it has the highest offset, and because a message
that fails makes the whole transaction fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from io_kafka.clients import native
from io_kafka.offsets import TopicPartition

ASK_SECONDS = 1.0
"""How often a flush that takes longer looks whether the transaction has failed. The largest steps flush for some seconds."""

_OF_THE_QUEUE = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""What the messages report that were dropped because the transaction has failed. The reason is the transaction's."""

_PLACE = re.compile(r"ProduceRequest for (?P<topic>\S+) \[(?P<partition>\d+)\]")
"""Where librdkafka says which partition refused a message. If it says so otherwise one day, the error's own text still has the place."""


class OpenTransaction:
    """What was produced in the transaction that is open. `ends` has the offset after the last message, by partition. `topics`: those that
    messages were produced for. `error` is the first error that a delivery or a call reported, and `where` its partition."""

    def __init__(self, producer: Producer, flush_seconds_max: float) -> None:
        self.producer = producer
        self.ends: dict[TopicPartition, int] = {}
        self.topics: set[str] = set()
        self.error: KafkaError | None = None
        self.where: TopicPartition | None = None
        self._flush_seconds_max = flush_seconds_max

    def produce(
        self,
        where: TopicPartition,
        rows: Iterator[tuple[bytes | None, bytes | None]],
        count: int,
        extra: Mapping[str, Any],
    ) -> None:
        """Produces `count` messages, each (key, value). `extra` are more arguments of confluent-kafka's `produce`. Raises KafkaException."""
        topic, number = where
        self.topics.add(topic)
        produce, last = self.producer.produce, count - 1
        for index, (key, value) in enumerate(rows):
            options = {**extra, "on_delivery": self._note} if index == last else extra
            try:
                produce(topic, value, key, number, **options)
            except BufferError:  # the client's queue is full: wait for all of it, then go on
                self.flush()
                produce(topic, value, key, number, **options)
            except KafkaException as error:
                self.error, self.where = error.args[0], where
                raise

    def produce_natively(
        self, where: TopicPartition, messages: native.Columns, header: tuple[str, bytes] | None
    ) -> None:
        """Produces messages as `produce` does, but no message reports its delivery, so `produce` must be called for the partition afterwards."""
        given, is_flushed = 0, False
        while given < messages.rows:
            reached, code, text = native.produce(self.producer, where, messages, given, header)
            if code == KafkaError._QUEUE_FULL and (reached > given or not is_flushed):
                self.flush()
                is_flushed = True
            elif code:
                self.error, self.where = KafkaError(code, text), where
                raise KafkaException(self.error)
            given = reached

    def flush(self) -> None:
        """Waits until the broker has acknowledged all messages. Raises KafkaException if it refused one, or if it takes too long."""
        waited_s, left = 0.0, 1
        while left and self.error is None and waited_s < self._flush_seconds_max:
            seconds = min(ASK_SECONDS, self._flush_seconds_max - waited_s)
            with errors_of_the_client():
                left = self.producer.flush(seconds)
            waited_s += seconds
            if left and self.error is None:
                self._ask_for_a_refusal()
        if self.error is not None:
            if self.error.code() in _OF_THE_QUEUE:
                self._ask_for_a_refusal()
            raise KafkaException(self.error)
        if left:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left} messages not acknowledged"))

    def _ask_for_a_refusal(self) -> None:
        """Notes the error that has already made the transaction fail, if there is one. Such a client never sends the messages that are left,
        and its `flush` does not say so. Its answer to a second `begin_transaction` does: while all is well, that is only a wrong state."""
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            if error.args[0].txn_requires_abort() or error.args[0].fatal():
                self.error = error.args[0]
                if (place := _PLACE.search(self.error.str())) is not None:
                    self.where = TopicPartition(place["topic"], int(place["partition"]))

    def _note(self, error: KafkaError | None, message: Message) -> None:
        place = TopicPartition(str(message.topic()), int(message.partition() or 0))
        if error is None:
            offset = message.offset()
            assert offset is not None
            self.ends[place] = offset + 1
        elif self.error is None:
            self.error, self.where = error, place


@contextmanager
def errors_of_the_client() -> Iterator[None]:
    """Raises the client's fatal errors as KafkaException. confluent-kafka's `flush` and `poll` wrap them in a SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise
