"""What a plan learns of topics from the broker and from the step log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coordinator.revisions.topic_facts import facts_of_topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import TopicIdentity


def test_a_topic_of_the_log_that_is_not_as_it_was_made_is_used() -> None:
    """An output could be written there only if nobody had: its topic is there, the same one, and empty."""
    ends = {"empty": 0, "full": 7, "expired": 7, "anew": 0, "other": 3}
    begins = {**dict.fromkeys(ends, 0), "expired": 7}
    ids = {name: f"id of {name}" for name in ends} | {"anew": "another id"}

    def offsets(of: dict[str, int]) -> Any:
        return lambda names: {TopicPartition(name, 0): of[name] for name in names}

    topics: Any = SimpleNamespace(
        begin_offsets=offsets(begins),
        end_offsets=offsets(ends),
        describe=lambda names: {name: SimpleNamespace(topic_id=ids[name], compacted=name == "full") for name in names},
    )
    known = {
        name: TopicIdentity(topic=name, id=f"id of {name}", partitions=1)
        for name in ("empty", "full", "expired", "anew", "gone")
    }
    log: Any = SimpleNamespace(topics=known, firsts={}, next_offsets={}, grown=frozenset(), tables={})
    facts = facts_of_topics(log, topics, list(ends), own=frozenset())
    assert facts.used == {"full", "anew", "gone"} and facts.compacted == {"full"}
    assert facts.remade == {"anew"}
