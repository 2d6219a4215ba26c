"""Tells when silent partitions get a committed message, so that nobody has to ask the broker again and again.

    listen(offsets) -> a fetch that the broker holds until there is something -> ring, once

A look at the ends of all partitions costs a millisecond of processor time, and ten in a second cost more than all else that an idle pipeline
does. A fetch that waits at the broker costs nothing, and is answered as soon as a transaction commits. What it brings is thrown away: it is a
hint to look, and the look decides what a step reads.

Guarantee: whoever misses a ring, or gets one for nothing, loses time and nothing else. So every fault of the client just ends the listening.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from base.logger import Logger
from base.short_text import short_text
from io_kafka.clients.settings import KafkaSettings
from io_kafka.offsets import TopicPartition

_log = Logger("io_kafka.clients.doorbell")

POLL_SECONDS = 1.0
"""How long the thread waits for a message before it looks whether it is to listen elsewhere, or to end."""

_OWN = {
    # An answer holds one batch of each partition at most, because it is thrown away.
    "fetch.message.max.bytes": 1,
    "queued.min.messages": 1,
    # The longest time that the broker holds a fetch. Nothing is lost between two of them.
    "fetch.wait.max.ms": 1000,
    # At the end of a partition is where it listens.
    "enable.partition.eof": False,
}


class Doorbell:
    """Calls `ring` from a thread of its own, once for each `listen` at most. A context, which ends the thread. Thread-safe."""

    def __init__(self, kafka: KafkaSettings, ring: Callable[[], None]) -> None:
        self._kafka, self._ring = kafka, ring
        self._changed = threading.Condition()
        self._wanted: dict[TopicPartition, int] = {}
        self._has_ended = False
        self._has_thread = False

    def __enter__(self) -> Doorbell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify()

    def listen(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Rings as soon as a committed message is at one of these offsets or after it. Replaces what was listened to before."""
        with self._changed:
            self._wanted = dict(offsets)
            self._changed.notify()
            if not self._has_thread:
                self._has_thread = True
                self._kafka.outside.start_thread("doorbell", self._work)

    def listens_at(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether it listens there, and has not rung."""
        with self._changed:
            return bool(self._wanted) and self._wanted == offsets

    def _work(self) -> None:
        consumer = self._kafka.outside.consumer({**self._kafka.consumer_config(), **_OWN})
        try:
            while (wanted := self._wait()) is not None:
                if self._hears(consumer, wanted) and self._is_answered(wanted):
                    self._ring()
        finally:
            consumer.close()

    def _wait(self) -> dict[TopicPartition, int] | None:
        """Where to listen, as soon as there is something; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or self._wanted)
            return None if self._has_ended else self._wanted

    def _hears(self, consumer: Consumer, wanted: dict[TopicPartition, int]) -> bool:
        """Whether a message or a fault has come; False if it is to listen elsewhere."""
        try:
            consumer.assign([ClientPartition(p.topic, p.partition, at) for p, at in sorted(wanted.items())])
            while self._is_wanted(wanted):
                if consumer.poll(POLL_SECONDS) is not None:
                    return True
        except KafkaException as fault:
            _log.info("listening for new messages has failed", fault=short_text(fault))
            return True
        finally:
            consumer.unassign()
        return False

    def _is_wanted(self, wanted: dict[TopicPartition, int]) -> bool:
        with self._changed:
            return not self._has_ended and self._wanted is wanted

    def _is_answered(self, wanted: dict[TopicPartition, int]) -> bool:
        """Ends the listening, if it is still this one."""
        with self._changed:
            is_current = self._wanted is wanted
            if is_current:
                self._wanted = {}
            return is_current
