"""Whether a producer's open transaction keeps messages of an input from being read.

A run reads up to the last stable offset, before which every transaction is decided. So the lag does not count what lies behind it, and a
producer that never ends its transaction stops a partition without a sign.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault
from io_kafka.offsets import TopicPartition
from stepwell.doctor.check import Check

OPEN_SECONDS = 3.0
"""A transaction that is open for so long is said. That of a producer which commits once a second is not."""

WHAT_TO_DO = (
    "End the producer's transaction: `kafka-transactions.sh find-hanging` finds the producer. The broker aborts it after the "
    "producer's transaction.timeout.ms, and then the messages are read."
)


class _Stable(NamedTuple):
    """The last stable offset of a partition, and its high watermark, which is larger."""

    offset: int
    end: int


def open_transaction_checks(
    topics: Topics, names: Collection[str], wait: Callable[[float], None] = time.sleep
) -> list[Check]:
    """A check for each partition of these topics whose last stable offset stays behind its end. What cannot be asked is told by other checks."""
    before = _open_parts(topics, names)
    if not before:
        return []
    wait(OPEN_SECONDS)
    after = _open_parts(topics, {where.topic for where in before})
    return [
        Check(
            f"input {where.topic}",
            "WARN",
            f"partition {where.partition} is read up to offset {stable.offset} of {stable.end}: a transaction has been open there for "
            f"{OPEN_SECONDS:g} s or longer",
            WHAT_TO_DO,
        )
        for where, stable in sorted(after.items())
        if where in before and before[where].offset == stable.offset
    ]


def _open_parts(topics: Topics, names: Collection[str]) -> dict[TopicPartition, _Stable]:
    """The partitions of which a part is not decided. The stable offsets are asked first: what comes between the two questions is decided later,
    and does not count twice."""
    try:
        stable = topics.end_offsets(names)
        ends = topics.high_watermarks(names)
    except KafkaFault:
        return {}
    return {where: _Stable(offset, ends[where]) for where, offset in stable.items() if offset < ends.get(where, 0)}
