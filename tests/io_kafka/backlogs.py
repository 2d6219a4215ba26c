"""Topics whose messages have times, for tests of what is read by them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from io_kafka.clients.time_bound import OffsetsSince
from io_kafka.offsets import TopicPartition

MINUTE_MS = 60_000

Times = Mapping[TopicPartition, list[int]]
"""The timestamps of the messages of each partition, in milliseconds."""


def offsets_since(times: Times) -> OffsetsSince:
    """As the broker answers: by going through all messages."""

    def answer(partitions: Iterable[TopicPartition], milliseconds: int) -> dict[TopicPartition, int | None]:
        return {p: next((n for n, at in enumerate(times[p]) if at >= milliseconds), None) for p in partitions}

    return answer


def uneven(chance: random.Random) -> dict[TopicPartition, list[int]]:
    """Ten days in four partitions of the topic "in", of which one has most of the messages and one has a pause."""
    days = 10 * 24 * 60 * MINUTE_MS
    counts = (4000, 400, 40, 400)
    times = {TopicPartition("in", n): sorted(chance.randrange(days) for _ in range(c)) for n, c in enumerate(counts)}
    times[TopicPartition("in", 3)] = [at for at in times[TopicPartition("in", 3)] if not days // 3 < at < days // 2]
    return times
