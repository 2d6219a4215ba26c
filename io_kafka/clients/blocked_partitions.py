"""Finds the partitions in which messages wait behind a producer's open transaction. Nobody reads them until the transaction is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition


class Undecided(NamedTuple):
    """The last stable offset of a partition, before which every transaction is decided, and its high watermark, which is larger."""

    stable: int
    end: int


def undecided_parts(topics: Topics, names: Iterable[str]) -> dict[TopicPartition, Undecided]:
    """Returns the partitions of which a part is not decided. The stable offsets are asked first: what comes between the two questions is decided
    later, and does not count twice."""
    asked = sorted(names)
    stable = topics.end_offsets(asked)
    ends = topics.high_watermarks(asked)
    return {where: Undecided(offset, ends[where]) for where, offset in stable.items() if offset < ends.get(where, 0)}


def blocked_partitions(
    before: Mapping[TopicPartition, Undecided], now: Mapping[TopicPartition, Undecided]
) -> dict[TopicPartition, Undecided]:
    """Returns the partitions of `now` in which nothing was decided since `before`. One whose producer commits again and again is not among
    them."""
    return {where: found for where, found in now.items() if where in before and before[where].stable == found.stable}
