"""The input topics, which are made once per run of the benchmark and shared by all engines, and what can be read from topics afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench import generate, measure
from bench.generate import PARTITIONS, Shape
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics

SEND_MESSAGES_MAX = 100_000
"""Messages in the producer's queue: enough to fill its batches, and 30 MB at most."""

READ_SECONDS_MAX = 30.0
"""How long a reader may wait without a message before the end is reached. After that the broker counts as gone."""

CONSUME_MESSAGES, CONSUME_SECONDS = 20_000, 0.05
"""Messages per call. A call waits its whole time if there are fewer messages."""

BROKER_ID = "1"
"""Of the one broker of the benchmark."""

COMPACTION_LAG_SETTING = "log.cleaner.min.compaction.lag.ms"
COMPACTION_LAG_MS = 86_400_000
"""A day, which is longer than any benchmark."""


@dataclass(frozen=True)
class Messages:
    """The messages of a topic, in order of partition and offset. `at_ms`: their timestamps."""

    partition: pa.Array
    key: pa.Array
    value: pa.Array
    at_ms: pa.Array


class Bench:
    """The topics of one broker."""

    def __init__(self, servers: str, shape: Shape, data: Path) -> None:
        """`data`: the broker's log folder."""
        self.servers = servers
        self.shape = shape
        self._data = data
        self.topics = Topics(KafkaSettings.parse({"bootstrap.servers": servers}))
        self._postpone_compaction()

    def _postpone_compaction(self) -> None:
        """Keeps the broker from compacting topics while it is measured. An upsert output of some GB is compacted at a moment that no engine
        chooses, and the broker then needs 0.6 cores for half a minute. Steps took 1.3 times as long meanwhile."""
        client = AdminClient({"bootstrap.servers": self.servers})
        lag = ConfigEntry(COMPACTION_LAG_SETTING, str(COMPACTION_LAG_MS), incremental_operation=AlterConfigOpType.SET)
        the_broker = ConfigResource(ConfigResource.Type.BROKER, BROKER_ID, incremental_configs=[lag])
        for done in client.incremental_alter_configs([the_broker]).values():
            done.result(READ_SECONDS_MAX)

    def make(self, topic: str, values: Iterable[pa.Array]) -> None:
        """Makes a topic of bids, unless it exists."""
        if topic not in self.topics.names():
            self._make(topic, PARTITIONS, ((None, v) for v in values), lambda n: None)

    def make_inputs(self, topics: Collection[str], rows: int, sent: Callable[[int], None]) -> None:
        """The auctions, and of the topics "bids" and "changes" those that are asked for, of `rows` rows each."""
        self.make_auctions()
        if "bids" in topics:
            self.make_bids(rows, sent)
        if "changes" in topics:
            self.make_changes(rows, sent)

    def make_bids(self, rows: int, sent: Callable[[int], None]) -> None:
        values = (generate.as_json(table) for table in generate.bids(self.shape, 0, rows))
        self._make("bids", PARTITIONS, ((None, v) for v in values), sent)

    def make_changes(self, rows: int, sent: Callable[[int], None]) -> None:
        values = (generate.as_changelog(table, w) for table, w in generate.changes(self.shape, 0, rows))
        self._make("changes", PARTITIONS, ((None, v) for v in values), sent)

    def make_auctions(self) -> None:
        self._make("auctions", 1, [generate.auctions_as_json(generate.auctions(self.shape))], lambda n: None)

    def _make(
        self,
        topic: str,
        partitions: int,
        chunks: Iterable[tuple[pa.Array | None, pa.Array]],
        sent: Callable[[int], None],
    ) -> None:
        self.topics.ensure(topic, partitions, {"retention.ms": "-1"})
        producer = Producer(producer_config(self.servers))
        for keys, values in chunks:
            send(producer, topic, partitions, keys, values)
            sent(len(values))
        left = producer.flush(READ_SECONDS_MAX)
        assert left == 0, f"{left} messages of {topic} were not taken by the broker"

    def forget(self, topic: str) -> None:
        """Deletes an output that nobody will read again. All outputs of a round take some gigabytes."""
        # It is kept until the answer arrives: a client that is dropped earlier drops its request.
        client = AdminClient({"bootstrap.servers": self.servers})
        for done in client.delete_topics([topic]).values():
            done.result(READ_SECONDS_MAX)

    def topic_mb(self, topic: str) -> float:
        """The size of the topic's partitions on the broker's disk."""
        folders = [f for f in self._data.iterdir() if f.name.rpartition("-")[0] == topic]
        return round(sum(measure.folder_bytes(f) for f in folders) / (1 << 20), 1)

    def start_offsets(self, topic: str, rows: int) -> dict[int, int]:
        """The offsets at which the last `rows` messages of a topic begin, by partition."""
        ends = self.topics.end_offsets([topic])
        return {where.partition: max(0, end - rows // len(ends)) for where, end in ends.items()}


def producer_config(servers: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "linger.ms": 20,
        "queue.buffering.max.messages": SEND_MESSAGES_MAX,
        "batch.size": 1 << 20,
        "delivery.report.only.error": True,
    }


def send(producer: Producer, topic: str, partitions: int, keys: pa.Array | None, values: pa.Array) -> None:
    """Sends message i to partition i % partitions."""
    names: Iterable[bytes | None] = [None] * len(values) if keys is None else keys.cast(pa.binary()).to_pylist()
    for i, (key, value) in enumerate(zip(names, values.cast(pa.binary()).to_pylist(), strict=True)):
        while True:
            try:
                producer.produce(topic, value, key, partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.02)


def read_all(servers: str, topic: str) -> Messages:
    """Every committed message of a topic."""
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": servers}))
    begin, end = topics.begin_offsets([topic]), topics.end_offsets([topic])
    consumer = Consumer(consumer_config(servers))
    try:
        parts = [_read_partition(consumer, topic, w.partition, begin[w], end[w]) for w in sorted(end)]
    finally:
        consumer.close()
    return Messages(
        *(pa.concat_arrays([getattr(p, name) for p in parts]) for name in ("partition", "key", "value", "at_ms"))
    )


def consumer_config(servers: str) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": 2,
        "fetch.wait.max.ms": 5,
    }


def _read_partition(consumer: Consumer, topic: str, partition: int, begin: int, end: int) -> Messages:
    """Reads until the position passes the end, because markers and aborted messages occupy offsets too."""
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    times: list[pa.Array] = []
    here = ClientPartition(topic, partition, begin)
    consumer.assign([here])
    at, moved_at = begin, time.monotonic()
    while at < end:
        batch = consumer.consume(CONSUME_MESSAGES, CONSUME_SECONDS)
        position = consumer.position([ClientPartition(topic, partition)])[0].offset
        if batch or position > at:
            moved_at = time.monotonic()
        assert time.monotonic() - moved_at < READ_SECONDS_MAX, f"{topic}/{partition} stays at {at} of {end}"
        at = max(at, position)
        batch = [m for m in batch if m.error() is None and m.offset() < end]
        keys.append(pa.array([m.key() for m in batch], pa.binary()))
        values.append(pa.array([m.value() for m in batch], pa.binary()))
        times.append(pa.array([m.timestamp()[1] for m in batch], pa.int64()))
    if not values:
        keys, values, times = [pa.array([], pa.binary())], [pa.array([], pa.binary())], [pa.array([], pa.int64())]
    value = pa.concat_arrays(values)
    where = pa.array(np.full(len(value), partition, np.int32))
    return Messages(where, pa.concat_arrays(keys), value, pa.concat_arrays(times))
