"""From where each partition is read again for a transition, as its intent records it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.revisions.comparison import Comparison
from coordinator.revisions.rereadable import reads
from coordinator.specification import InputTopic
from coordinator.starting.topics.positions import starting_positions
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import TopicIdentity
from io_kafka.step_log.revision_records import ReadAgain
from io_kafka.step_log.value import LogValue


@dataclass(frozen=True)
class Rereads:
    """`sources`: those that are read again, and `live` those of the revision in force. `starts`: where each partition begins that was there when
    the transition was planned. `from_now`: the partitions of which earlier messages do not count, because the user has chosen that. `topics`:
    those that the revision in force does not read, as they were then."""

    sources: Sequence[InputTopic]
    live: Sequence[InputTopic]
    starts: Mapping[TopicPartition, int]
    from_now: frozenset[TopicPartition]
    topics: tuple[TopicIdentity, ...]

    def at(self, log: LogValue) -> tuple[ReadAgain, ...]:
        """What the intent records at this moment. A partition that the revision in force reads and has not begun is left out: the first division
        that has it says where both begin. One that it has begun since the plan was made is among them."""
        since = {where: at for where, at in log.firsts.items() if where in log.next_offsets and self._is_read(where)}
        made = []
        for where, start in sorted({**since, **self.starts}.items()):
            is_live = any(reads(source, where) for source in self.live)
            if not is_live or where in log.next_offsets:
                is_from_now = where in self.from_now
                first = log.firsts.get(where, start) if is_live and not is_from_now else start
                made.append(
                    ReadAgain(
                        topic=where.topic,
                        partition=where.partition,
                        start=first,
                        is_live=is_live,
                        is_from_now=is_from_now,
                    )
                )
        return tuple(made)

    def _is_read(self, where: TopicPartition) -> bool:
        return any(reads(source, where) for source in self.sources) and any(reads(each, where) for each in self.live)


def rereads_of(comparison: Comparison, handles: Iterable[str], topics: Topics) -> Rereads:
    """`handles`: of the sources, as the transition calls them. What a source has not read yet is read from its startingOffsets."""
    starts: dict[TopicPartition, int] = {}
    from_now, whole = set[TopicPartition](), set[TopicPartition]()
    sources = []
    for handle in handles:
        source, reading = comparison.source_read_again(handle)
        sources.append(source)
        found = reading.starts
        if reading.is_new and not found:
            found = starting_positions(topics, [source], {})
        for where, start in found.items():
            # Sources that read one topic share what is read of it.
            starts[where] = min(start, starts.get(where, start))
            (from_now if reading.is_marked else whole).add(where)
    live = comparison.before.inputs
    new = {where.topic for where in starts if not any(reads(source, where) for source in live)}
    # A load may have no topic yet, and its record says which one it is.
    new -= {topic for source in sources if source.is_table for topic in source.table.topics}
    return Rereads(tuple(sources), live, starts, frozenset(from_now - whole), _identities(topics, new))


def _identities(topics: Topics, names: Iterable[str]) -> tuple[TopicIdentity, ...]:
    facts = topics.describe(names)
    return tuple(facts[name].identity for name in sorted(facts))
