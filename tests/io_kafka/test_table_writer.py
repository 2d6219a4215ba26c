"""The rows of a batch table that is loaded beside the steps: all of them, once and in order, in a topic that nobody else writes."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from io_kafka.clients import table_writer
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.table_writer import NotAlone, TableWriter
from io_kafka.clients.topics import Topics
from io_kafka.errors import BrokerUnreachable, KafkaFault, UnknownTopic
from io_kafka.offsets import OffsetRange


@pytest.fixture
def topics(settings: KafkaSettings) -> Topics:
    return Topics(settings)


def values(settings: KafkaSettings, topic: str, partition: int, end: int) -> list[bytes]:
    (found,) = RangeReader(settings).read([OffsetRange(topic, partition, 0, end)])
    return list(found.messages.values.to_pylist())


def test_all_messages_are_there_once_and_in_order(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    topic = f"{topic_prefix}rows"
    topics.ensure(topic, 3)
    writer = TableWriter(settings, topic)
    for first in range(0, 3000, 1000):
        numbers = range(first, first + 1000)
        writer.write({part: [b"%d" % n for n in numbers if n % 2 == part] for part in (0, 1)})
    writer.write({})
    assert writer.ends == {0: 1500, 1: 1500}
    found = topics.end_offsets([topic])
    assert [end for _, end in sorted(found.items())] == [1500, 1500, 0], "no offset is a marker's"
    for part in (0, 1):
        assert values(settings, topic, part, 1500) == [b"%d" % n for n in range(3000) if n % 2 == part]


def test_a_full_queue_is_waited_for(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    topic = f"{topic_prefix}rows"
    topics.ensure(topic, 1)
    few = KafkaSettings.parse({**dict(settings.options), "queue.buffering.max.messages": "3"})
    writer = TableWriter(few, topic)
    writer.write({0: [b"%d" % n for n in range(50)]})
    assert writer.ends == {0: 50} and values(settings, topic, 0, 50) == [b"%d" % n for n in range(50)]


@pytest.mark.parametrize("is_before", [True, False])
def test_what_somebody_else_has_written_is_noticed(
    settings: KafkaSettings, topics: Topics, topic_prefix: str, is_before: bool
) -> None:
    topic = f"{topic_prefix}rows"
    topics.ensure(topic, 1)
    writer = TableWriter(settings, topic)
    if not is_before:
        writer.write({0: [b"a"]})
    stranger = Producer({"bootstrap.servers": settings.bootstrap_servers})
    stranger.produce(topic, b"x", partition=0)
    stranger.flush(30)
    with pytest.raises(NotAlone, match=rf"partition 0 offset {int(not is_before)}: somebody else has written"):
        writer.write({0: [b"b", b"c"]})


def test_a_message_that_is_refused_names_the_topic(settings: KafkaSettings, topics: Topics, topic_prefix: str) -> None:
    topic = f"{topic_prefix}rows"
    topics.ensure(topic, 1, {"max.message.bytes": "1000"})
    with pytest.raises(KafkaFault, match=f"rows of a batch table to the topic {topic}"):
        TableWriter(settings, topic).write({0: [b"a", b"b" * 5000]})
    with pytest.raises(UnknownTopic, match=topic):
        TableWriter(settings, topic).write({7: [b"no such partition"]})


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "FLUSH_SECONDS_MAX", 1.0)
    writer = TableWriter(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"}), "rows")
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1"):
        writer.write({0: [b"a"]})
