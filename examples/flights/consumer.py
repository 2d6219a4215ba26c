"""An independent consumer of output topics. It uses confluent_kafka and no code of Stepwell.

This is how a consumer reads what Stepwell writes:

- Read with `isolation.level=read_committed`. The default of Java's client is read_uncommitted. It would also deliver the output of steps that
  were aborted and are written again.
- Every message names its step in the header `stepwell.step`. Within a partition the steps only increase. So a partition is complete up to
  step s as soon as a message of a later step arrives in it.
- To read all topics as of one step s, read the step log's record of s, and then every partition up to the end recorded there (`end`).
  Commit markers reach partitions one by one, so one topic can be ahead of another for some milliseconds.
- A consumer that stores (partition, offset) together with its own results sees every message once, as with any Kafka topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

READ_SECONDS_MAX = 120.0
"""How long reading one topic of this demo may take, on a busy machine."""

BATCH_MESSAGES = 10_000


class Received(NamedTuple):
    """A message. `step` is None if it has no step header, as an input message."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    step: int | None


def read_topic(servers: str, topic: str) -> list[Received]:
    """All committed messages that the topic holds now."""
    config = {
        "bootstrap.servers": servers,
        "group.id": "flights-demo",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        # Reports the end of a partition even if the last record is a transaction marker, which is never delivered.
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": 2,
    }
    with closing(Consumer(config)) as consumer:
        found = consumer.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        consumer.assign([TopicPartition(topic, number, 0) for number in found.partitions])
        return list(_until_all_ended(consumer, set(found.partitions), topic))


def _until_all_ended(consumer: Consumer, open_partitions: set[int], topic: str) -> Iterator[Received]:
    deadline = time.monotonic() + READ_SECONDS_MAX
    while open_partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: partitions {sorted(open_partitions)} were not read to their end")
        # A short timeout, because the call would wait for a full batch.
        for message in consumer.consume(BATCH_MESSAGES, timeout=0.05):
            error = message.error()
            if error is None:
                yield Received(message.partition(), message.offset(), message.key(), message.value(), _step(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif not error.retriable():
                raise KafkaException(error)


def _step(message: Message) -> int | None:
    for name, value in message.headers() or ():
        if name == "stepwell.step":
            return int(value)
    return None
