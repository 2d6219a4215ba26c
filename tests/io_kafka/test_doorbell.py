"""A doorbell over a real broker: one ring for what was committed, none for what was not."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients.doorbell import Doorbell
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from tests.io_kafka.test_topics import producer

SECONDS_MAX = 60.0


class Rings:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, SECONDS_MAX), f"{self.count} rings and no more"


@pytest.fixture
def topic(settings: KafkaSettings, topic_prefix: str) -> str:
    Topics(settings).ensure(topic_prefix + "in", 2)
    return topic_prefix + "in"


def send(by: Producer, topic: str, partition: int) -> None:
    by.produce(topic, b"x" * 3000, partition=partition)
    assert by.flush(SECONDS_MAX) == 0


def test_it_rings_once_for_what_is_committed(settings: KafkaSettings, topic: str) -> None:
    first, second, rings = TopicPartition(topic, 0), TopicPartition(topic, 1), Rings()
    other, by = producer(settings), producer(settings)
    with Doorbell(settings, rings) as bell:
        bell.listen({first: 0, second: 0})
        assert bell.listens_at({first: 0, second: 0}) and not bell.listens_at({first: 0})
        # What waits for its commit is not to be read yet. If that rang, the ring below would be the second one.
        other.begin_transaction()
        send(other, topic, 0)
        by.begin_transaction()
        send(by, topic, 1)
        send(by, topic, 1)
        assert rings.count == 0
        by.commit_transaction()
        rings.wait_for(1)
        assert not bell.listens_at({first: 0, second: 0}), "it listens until it rings"
        other.commit_transaction()
        bell.listen({first: 0, second: 3})
        rings.wait_for(2)
        assert rings.count == 2


def test_it_listens_elsewhere_as_soon_as_it_is_told(settings: KafkaSettings, topic: str) -> None:
    first, second, rings, by = TopicPartition(topic, 0), TopicPartition(topic, 1), Rings(), producer(settings)
    listens = threading.Event()

    class Watched(Consumer):
        def assign(self, partitions: list[ClientPartition]) -> None:
            super().assign(partitions)
            listens.set()

    outside = replace(settings.outside, consumer=lambda config: Watched(dict(config)))
    with Doorbell(replace(settings, outside=outside), rings) as bell:
        bell.listen({first: 0})
        assert listens.wait(SECONDS_MAX)
        bell.listen({second: 0})
        assert bell.listens_at({second: 0}) and not bell.listens_at({first: 0})
        by.begin_transaction()
        send(by, topic, 1)
        by.commit_transaction()
        rings.wait_for(1)


def test_a_place_that_is_not_there_is_a_ring_and_no_end(settings: KafkaSettings, topic: str) -> None:
    rings, by = Rings(), producer(settings)
    with Doorbell(settings, rings) as bell:
        bell.listen({TopicPartition(topic, 0): 99})  # beyond the end, as after a topic was created again
        rings.wait_for(1)
        by.begin_transaction()
        send(by, topic, 0)
        by.commit_transaction()
        bell.listen({TopicPartition(topic, 0): 0})
        rings.wait_for(2)


def test_its_thread_ends_with_it(settings: KafkaSettings, topic: str) -> None:
    with Doorbell(settings, Rings()) as bell:
        bell.listen({TopicPartition(topic, 0): 0})
        (thread,) = [each for each in threading.enumerate() if each.name == "doorbell"]
    thread.join(SECONDS_MAX)
    assert not thread.is_alive()
