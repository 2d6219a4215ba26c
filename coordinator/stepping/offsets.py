"""Offsets and partitions of the input topics: where a division starts, which partitions it has, and where a run ends. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.specification import InputTopic
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division
from io_kafka.step_log.records import TopicIdentity


def offsets_after(
    starts: Mapping[TopicPartition, int], divided: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where the next division starts in each partition of `starts`: the end of the last division, or else the partition's start."""
    return {partition: divided.get(partition, start) for partition, start in starts.items()}


def of_announced_partitions(
    found: Mapping[TopicPartition, int], identities: Iterable[TopicIdentity]
) -> dict[TopicPartition, int]:
    """The entries of `found` for partitions that the identities count. A partition that was added later is not read before a division
    announces it."""
    counts = partition_counts(identities)
    return {partition: at for partition, at in found.items() if partition.partition < counts[partition.topic]}


def offsets_if_known(
    known: Mapping[TopicPartition, int], inputs: Iterable[InputTopic], identities: Iterable[TopicIdentity]
) -> dict[TopicPartition, int] | None:
    """The next offset of every partition that the inputs read and the identities count; None if one of them has none yet."""
    counts = partition_counts(identities)
    tables = [source.table for source in inputs]
    if any(topic not in counts for table in tables for topic in table.topics):
        return None
    read = {
        partition
        for table in tables
        for topic in table.topics
        for partition in (TopicPartition(topic, number) for number in range(counts[topic]))
        if table.reads(partition)
    }
    return {partition: known[partition] for partition in read} if read <= known.keys() else None


def partition_counts(identities: Iterable[TopicIdentity]) -> dict[str, int]:
    """The number of partitions of each topic."""
    return {identity.topic: identity.partitions for identity in identities}


def with_partitions(
    identities: tuple[TopicIdentity, ...], counts: Mapping[str, int], inputs: Collection[str]
) -> tuple[TopicIdentity, ...]:
    """The identities, with the numbers of partitions in `counts` for the input topics. Output topics keep theirs, because `check_topics`
    raises an error if one of them has grown."""
    return tuple(
        TopicIdentity(topic=i.topic, id=i.id, partitions=counts[i.topic]) if i.topic in inputs else i
        for i in identities
    )


def as_large_as_known(
    identities: tuple[TopicIdentity, ...], known: Mapping[str, TopicIdentity], inputs: Collection[str]
) -> tuple[TopicIdentity, ...]:
    """The identities, with as many partitions of the input topics as a division has named. Such a topic may have grown since they were found."""
    counts = {i.topic: max(i.partitions, known.get(i.topic, i).partitions) for i in identities}
    return with_partitions(identities, counts, inputs)


def ends_of_run(
    ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int], former: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a run ends that reads only what was there at its start: at the ends in `former`, which the same run has found before, or else at
    `ends`, which the broker has said now. `starts`: where the next division starts.

    The run may have read a partition beyond the end in `former`: then it ends where it is. A partition that is shorter than its start keeps
    its end, because a start beyond the end means lost messages, and `divide` refuses it."""
    return {
        where: end if end < starts[where] else max(former.get(where, end), starts[where]) for where, end in ends.items()
    }


def empty_division(step: int, offsets: Mapping[TopicPartition, int]) -> Division:
    """A division with an empty range for each partition."""
    return Division(step, tuple(OffsetRange(p.topic, p.partition, at, at) for p, at in sorted(offsets.items())))
