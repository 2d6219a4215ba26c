"""The one loop in which all requests of a question are made."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import BrokerUnreachable, NoLeader
from io_kafka.offsets import TopicPartition
from io_kafka.outside import REAL

TIMEOUT_S = 30.0
PLACE = TopicPartition("in", 0)
OPTIONS = (("bootstrap.servers", "kafka-1:9094"),)


class Elections:
    """A clock, and the clients of a broker whose partition has no leader until `silent_from`. From then on it does not answer at all."""

    def __init__(self, silent_from: float) -> None:
        self.now, self.silent_from = 0.0, silent_from
        outside = replace(REAL, admin=lambda config: self, monotonic=lambda: self.now, sleep=self.sleep)
        self.settings = KafkaSettings(OPTIONS, outside)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def poll(self, timeout: float) -> int:
        return 0

    def _answer(self, answer: object, seconds: float) -> Future[Any]:
        future = Future[Any]()
        if self.now >= self.silent_from:
            self.now += seconds
            answer = KafkaException(KafkaError(KafkaError._TIMED_OUT))
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        return future

    def list_offsets(
        self, asked: Mapping[ClientPartition, object], *, request_timeout: float, **_: object
    ) -> dict[ClientPartition, Future[Any]]:
        error = KafkaException(KafkaError(KafkaError._NOENT))
        return {partition: self._answer(error, request_timeout) for partition in asked}

    def describe_topics(self, topics: Any, *, request_timeout: float, **_: object) -> dict[str, Future[Any]]:
        found = SimpleNamespace(partitions=[SimpleNamespace(id=0)])
        return {name: self._answer(found, request_timeout) for name in topics.topic_names}


@pytest.mark.parametrize(("silent_from", "fault"), [(25.0, BrokerUnreachable), (1e9, NoLeader)])
def test_a_question_that_fails_in_two_ways_has_one_deadline(silent_from: float, fault: type[Exception]) -> None:
    """A partition without a leader is waited for, and so is a broker without an answer: not for the whole time each."""
    elections = Elections(silent_from)
    topics = Topics(elections.settings, timeout_s=TIMEOUT_S)
    for ask in (lambda: topics.end_offsets_of([PLACE]), lambda: topics.begin_offsets(["in"])):
        elections.now = 0.0
        with pytest.raises(fault):
            ask()
        assert TIMEOUT_S - 1 < elections.now <= TIMEOUT_S + 1
