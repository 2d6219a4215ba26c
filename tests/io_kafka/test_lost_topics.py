"""Recorded topics, compared with those that there are."""

from __future__ import annotations

from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import TopicFacts
from io_kafka.step_log.records import TopicIdentity


def test_a_topic_is_known_by_its_id() -> None:
    recorded = [TopicIdentity(topic=name, id="1", partitions=2) for name in ("gone", "same", "again")]
    there = {name: TopicFacts(name, number, 3, {}) for name, number in (("same", "1"), ("again", "2"), ("other", "9"))}
    lost = lost_topics(recorded, there)
    assert lost.deleted == ("gone",) and lost.names == {"gone", "again"}
    assert [str(each) for each in lost.recreated.values()] == [
        "topic again was deleted and created again (id 1 before, 2 now)"
    ]
    assert there["same"].identity == TopicIdentity(topic="same", id="1", partitions=3)
