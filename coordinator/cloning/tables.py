"""The rows of batch tables of a copy, in topics of its own: the pipeline that is copied deletes its topics when it loads a table again.

Guarantees: a topic of the copy has the messages of the load that it is a copy of, in the same partitions and in their order. It counts as soon
as the record of the copy names it with its ends. One that a copy has left behind that was broken off is deleted and made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from coordinator.cloning.errors import CopyRefused
from coordinator.cloning.source import ANOTHER, CopySource
from coordinator.cloning.state import loads_of
from coordinator.starting.topics.batch_tables import TOPIC_CONFIG
from coordinator.topic_names import table_topic_of
from faults.points import reached
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.table_writer import TableWriter
from io_kafka.clients.topics import Topics
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.records import InputRange, TableRecord

MESSAGES_AT_ONCE = 64
"""Offsets of one read. A message has up to a thousand rows, in about 100 kB."""


@dataclass(frozen=True)
class TableCopies:
    """Makes the topics of the copy `pipeline`."""

    kafka: KafkaSettings
    topics: Topics
    pipeline: str
    replication: int

    def make(self, source: CopySource, epoch: int) -> Mapping[str, TableRecord]:
        """The loads of the copy, by the topics that the source has them in. Raises faults of Kafka."""
        found = loads_of(source)
        names = {topic: _name_in_copy(topic, source.pipeline, self.pipeline) for topic in found}
        self.topics.delete(sorted(self.topics.names() & {*names.values()}))
        made = {topic: self._copy(load, names[topic], epoch) for topic, load in sorted(found.items())}
        reached("clone.loaded")
        return made

    def _copy(self, load: TableRecord, name: str, epoch: int) -> TableRecord:
        facts = self.topics.ensure(name, load.topic.partitions, TOPIC_CONFIG, replication=self.replication)
        writer, reader = TableWriter(self.kafka, name), RangeReader(self.kafka)
        try:
            for span in load.ranges:
                for first in range(span.start, span.end, MESSAGES_AT_ONCE):
                    part = OffsetRange(*span.where, first, min(first + MESSAGES_AT_ONCE, span.end))
                    (batch,) = reader.read([part])
                    writer.write({span.partition: batch.messages.values.to_pylist()})
        finally:
            reader.close()
        ranges = tuple(
            InputRange(topic=name, partition=r.partition, start=0, end=writer.ends.get(r.partition, 0))
            for r in load.ranges
        )
        topic = facts.identity
        return load.model_copy(update={"epoch": epoch, "topic": topic, "ranges": ranges})


def why_not_loaded(source: CopySource) -> Iterator[str]:
    """Each batch table that the version does not have whole, or whose rows are gone."""
    for load in loads_of(source).values():
        read = all(source.positions.get(r.where, r.end) == r.end for r in load.ranges)
        if not load.is_whole or not read:
            yield f"the batch table {load.handle} was not read to its end"


def check_loads(source: CopySource, topics: Topics) -> None:
    """Raises CopyRefused if the rows of a batch table cannot be copied."""
    reasons = list(why_not_loaded(source))
    loads = loads_of(source)
    lost = lost_topics((load.topic for load in loads.values()), topics.describe(topics.existing(loads)))
    for topic, load in loads.items():
        if topic in lost.names:
            reasons.append(
                f"topic {topic}, which had the rows of {load.handle}, is deleted: the table was loaded again since"
            )
    if reasons:
        version = source.stored.manifest.version
        raise CopyRefused(
            f"version {version.version} of {source.pipeline}, before step {version.step}, cannot be copied: {'; '.join(reasons)}. "
            "Nothing was changed.",
            ANOTHER,
        )


def _name_in_copy(topic: str, source: str, copy: str) -> str:
    before = table_topic_of(source, "")
    assert topic.startswith(before), topic
    return table_topic_of(copy, topic.removeprefix(before))
