"""The record of the step log that says what a batch table's load has written, and the ranges that it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.common_rules import is_ascending
from io_kafka.step_log.form import Natural, Part, RecordBase, TopicIdentity


class InputRange(Part):
    """The offsets start <= o < end of one input partition."""

    topic: str
    partition: Natural
    start: Natural
    end: Natural

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def span(self) -> OffsetRange:
        return OffsetRange(self.topic, self.partition, self.start, self.end)

    def with_end(self, end: int) -> InputRange:
        return InputRange(topic=self.topic, partition=self.partition, start=self.start, end=end)


class TableRecord(RecordBase):
    """Rows of a batch table were written to a topic of Stepwell's own. `ranges` has what this load has written so far, by partition, and
    `rows` counts it. With `is_whole` that is the table.

    Before the first step each record is in the transaction of the rows. A load that was interrupted before does not count: the next one begins
    behind what it wrote. A load for a transition is a part of the transition's intent, and has a topic of its own."""

    kind: Literal["table"] = "table"
    handle: str
    topic: TopicIdentity
    ranges: tuple[InputRange, ...]
    rows: Natural
    is_whole: bool


def why_not_ranges(record: TableRecord) -> str | None:
    """Why these ranges cannot be those of a load; None if they can."""
    partitions = [r.where for r in record.ranges]
    if not is_ascending(partitions) or any(r.end < r.start for r in record.ranges):
        return f"the ranges of the table {record.handle} are out of order, or there twice"
    if any(where.topic != record.topic.topic for where in partitions):
        return f"the table {record.handle} is said to be in several topics"
    return None


def why_not_loads(loads: Iterable[TableRecord], known: Iterable[str]) -> str | None:
    """Why a transition cannot have these loads; None if it can. `known`: the topics of all other loads."""
    topics = set(known)
    for load in loads:
        if load.topic.topic in topics:
            return f"the table {load.handle} is said to be loaded into the topic of another load, {load.topic.topic}"
        if not load.is_whole:
            return f"the table {load.handle} is not loaded as a whole"
        if (reason := why_not_ranges(load)) is not None:
            return reason
        topics.add(load.topic.topic)
    return None
