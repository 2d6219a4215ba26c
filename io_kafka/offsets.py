"""Partitions and ranges of offsets, as all of Stepwell names messages of Kafka.

A range is half open: it holds the offsets `start <= offset < end`. Transaction markers, aborted and compacted records
occupy offsets too, so the length of a range is only an upper bound of the number of its messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic. Partitions are ordered by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, order=True)
class OffsetRange:
    """The offsets `start <= offset < end` of one partition. Invariant: 0 <= start <= end."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def length(self) -> int:
        """The number of offsets in the range, which is an upper bound of the number of its messages."""
        return self.end - self.start

    def check(self) -> None:
        """Asserts the invariant; a failure is a bug in Stepwell."""
        assert self.topic, "a range without a topic"
        assert self.partition >= 0, f"{self}: negative partition"
        assert 0 <= self.start <= self.end, f"{self}: not 0 <= start <= end"

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} [{self.start}, {self.end})"
