"""Whether the inputs hold what the next start reads: it goes on where the step log says, and replays the steps since the last checkpoint."""

from __future__ import annotations

from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.value import LogValue
from stepwell.doctor.check import Check

LOST = (
    "Those messages cannot be read any more. To rebuild from what is there, run `stepwell run --full-refresh`; and make the topic's retention "
    "longer than the longest time for which nothing runs."
)
TO_REPLAY = (
    "Take a checkpoint if a service runs (`stepwell checkpoint`): without one it could not go on after a crash. If none runs, rebuild with "
    "`stepwell run --full-refresh`."
)
SHORTER = (
    "The topic was created again, or has lost data. To rebuild from what is there, run `stepwell run --full-refresh`."
)


def position_checks(topics: Topics, log: LogValue) -> list[Check]:
    """Returns a failed check for each partition that lacks something. Other checks report what cannot be asked."""
    try:
        there = topics.names()
        facts = topics.describe(sorted({where.topic for where in log.next_offsets} & there))
        begins, ends = topics.begin_offsets(sorted(facts)), topics.high_watermarks(sorted(facts))
    except KafkaFault:
        return []
    anew = lost_topics((log.topics[name] for name in facts if name in log.topics), facts).recreated
    replayed = _replayed_from(log)
    checks = [
        Check(f"input {name}", "FAIL", "it was deleted and created again since it was read", SHORTER)
        for name in sorted(anew)
    ]
    for where, at in sorted(log.next_offsets.items()):
        if where in begins and where.topic not in anew:
            held = begins[where], ends.get(where, begins[where])
            checks += _of_partition(where, at, replayed.get(where, at), held)
    return checks


def _of_partition(where: TopicPartition, at: int, replayed_from: int, held: tuple[int, int]) -> list[Check]:
    """`at`: where the next step begins. `replayed_from`: where a replay does. `held`: the first offset and the end of the partition."""
    begin, end = held
    name, start = f"input {where.topic}", f"partition {where.partition} begins at offset {begin}"
    if begin > at:
        return [Check(name, "FAIL", f"{start}, and the pipeline goes on at offset {at}", LOST)]
    if begin > replayed_from:
        found = f"{start}, and the steps since the last checkpoint have read from offset {replayed_from}"
        return [Check(name, "FAIL", found, TO_REPLAY)]
    if end < at:
        found = f"partition {where.partition} ends at offset {end}, and the pipeline goes on at offset {at}"
        return [Check(name, "FAIL", found, SHORTER)]
    return []


def _replayed_from(log: LogValue) -> dict[TopicPartition, int]:
    """Where the steps begin that are not in the last checkpoint, of the partitions that they read."""
    step = max((version.step for version in log.checkpoints), default=0)
    found: dict[TopicPartition, int] = {}
    for division in log.divisions.values():
        if division.step >= step:
            for read in division.ranges:
                found.setdefault(read.where, read.start)
    return found
