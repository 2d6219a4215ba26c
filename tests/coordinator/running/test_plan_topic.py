"""A run keeps the topic of plan documents, from which every start reads."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.running.plan_topic import PlanTopic
from io_kafka.clients.topics import TopicFacts
from io_kafka.errors import BrokerUnreachable, UnknownTopic
from io_kafka.step_log.plans import PlanMissing

TOPIC = "stepwell.p.plans"
IN_FORCE, REPLAYED = "a" * 64, "b" * 64


class Broker:
    """Has the topic under `id`, which is None if it is missing. `written`: what was written to it."""

    def __init__(self) -> None:
        self.id: str | None = "first"
        self.is_away = False
        self.written: list[list[str]] = []

    def describe(self, names: list[str]) -> dict[str, TopicFacts]:
        if self.is_away:
            raise BrokerUnreachable("localhost:9092", "describing topics", "no answer")
        if self.id is None:
            raise UnknownTopic(TOPIC)
        return {TOPIC: TopicFacts(TOPIC, self.id, 1, {})}

    def ensure(self, name: str, partitions: int, config: Any, *, replication: int) -> TopicFacts:
        self.id = self.id or "second"
        return self.describe([name])[name]

    def append_plans(self, topic: str, texts: list[str]) -> None:
        assert topic == TOPIC
        self.written.append(texts)


class Run:
    """A run that looks each 10 s. `known`: the texts of the documents that it knows."""

    def __init__(self, broker: Broker, known: dict[str, str]) -> None:
        self.now = 0.0
        outside = SimpleNamespace(monotonic=lambda: self.now, start_thread=self._run_at_once)
        files = SimpleNamespace(
            plan_topic=TOPIC,
            replication=1,
            kafka=SimpleNamespace(outside=outside),
            pace=SimpleNamespace(growth_seconds=10.0),
        )
        revisions = SimpleNamespace(documents=frozenset({IN_FORCE}), replayed_documents=frozenset({REPLAYED}))
        writer = SimpleNamespace(state=SimpleNamespace(revisions=revisions), append_plans=broker.append_plans)
        documents = SimpleNamespace(text=known.get)
        self.plans = PlanTopic(files, writer, broker, documents, lambda: None)  # type: ignore[arg-type]

    def _run_at_once(self, name: str, work: Callable[[], None]) -> None:
        work()

    def look(self) -> None:
        """What happens in the next ten seconds and a little."""
        self.plans.look(None, None)  # type: ignore[arg-type]
        self.now += 10.5
        self.plans.look(None, None)  # type: ignore[arg-type]
        self.plans.look(None, None)  # type: ignore[arg-type]


ALL = {IN_FORCE: "the document in force", REPLAYED: "one that a replay may need"}


@pytest.mark.parametrize("new_id", [None, "another"])
def test_documents_are_written_again_to_a_topic_that_has_lost_them(new_id: str | None) -> None:
    broker = Broker()
    run = Run(broker, ALL)
    run.look()
    broker.id = new_id
    run.look()
    assert broker.written == [list(ALL.values())]
    run.look()
    assert broker.written == [list(ALL.values())], "once"


def test_a_document_that_nobody_knows_ends_the_run() -> None:
    broker = Broker()
    run = Run(broker, {REPLAYED: "another one"})
    run.look()
    broker.id = None
    with pytest.raises(PlanMissing, match=IN_FORCE):
        run.look()
    assert broker.written == []


def test_a_document_that_only_a_replay_needs_may_be_lost() -> None:
    broker = Broker()
    run = Run(broker, {IN_FORCE: "the document in force"})
    run.look()
    broker.id = None
    run.look()
    assert broker.written == [["the document in force"]]


def test_a_broker_that_is_away_says_nothing_of_the_topic() -> None:
    broker = Broker()
    run = Run(broker, ALL)
    run.look()
    broker.is_away = True
    run.look()
    broker.is_away = False
    run.look()
    assert broker.written == []
