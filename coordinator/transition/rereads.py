"""From where each partition is read again for a transition, as its intent records it."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.rereading import reads
from coordinator.starting.positions import starting_positions
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.revision_records import ReadAgain
from io_kafka.step_log.state import StepLogState


def partitions_again(
    comparison: Comparison, handles: Iterable[str], log: StepLogState, topics: Topics
) -> tuple[ReadAgain, ...]:
    """`handles`: of the sources, as the transition calls them. What a source has not read yet is read from its startingOffsets. A partition that
    the revision in force reads and has not begun is left out: the first division that has it says where both begin."""
    starts: dict[TopicPartition, int] = {}
    for handle in handles:
        source, reading = comparison.source_read_again(handle)
        found = reading.starts
        if reading.is_new and not found:
            found = starting_positions(topics, [source], {})
        for where, start in found.items():
            # Sources that read one topic share what is read of it.
            starts[where] = min(start, starts.get(where, start))
    made = []
    for where, start in sorted(starts.items()):
        is_live = any(reads(source, where) for source in comparison.before.inputs)
        if not is_live or where in log.positions:
            first = log.firsts.get(where, start) if is_live else start
            made.append(ReadAgain(topic=where.topic, partition=where.partition, start=first, is_live=is_live))
    return tuple(made)
