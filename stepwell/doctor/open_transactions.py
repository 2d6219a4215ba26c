"""Whether a producer's open transaction keeps messages of an input from being read.

A run reads up to the last stable offset, before which every transaction is decided. So the lag does not count what lies behind it, and a
producer that never ends its transaction stops a partition without a sign.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from io_kafka.clients.blocked_partitions import blocked_partitions, undecided_parts
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault
from stepwell.doctor.check import Check

OPEN_SECONDS = 3.0
"""A transaction that is open for so long is said. That of a producer which commits once a second is not."""

WHAT_TO_DO = (
    "End the producer's transaction: `kafka-transactions.sh find-hanging` finds the producer. The broker aborts it after the "
    "producer's transaction.timeout.ms, and then the messages are read."
)


def open_transaction_checks(
    topics: Topics, names: Collection[str], wait: Callable[[float], None] = time.sleep
) -> list[Check]:
    """Returns a check for each partition of these topics whose last stable offset stays behind its end. Other checks report what cannot be
    asked."""
    try:
        before = undecided_parts(topics, names)
        if not before:
            return []
        wait(OPEN_SECONDS)
        after = undecided_parts(topics, {where.topic for where in before})
    except KafkaFault:
        return []
    return [
        Check(
            f"input {where.topic}",
            "WARN",
            f"partition {where.partition} is read up to offset {found.stable} of {found.end}: a transaction has been open there for "
            f"{OPEN_SECONDS:g} s or longer",
            WHAT_TO_DO,
        )
        for where, found in sorted(blocked_partitions(before, after).items())
    ]
