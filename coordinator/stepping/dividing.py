"""How far a step reads each partition.

- Batch tables come first, and nothing is read beside them: what is computed of a topic then has its dimensions from the first message on.
- Otherwise every partition has a fair share of the rows of a step (io_kafka/step_log/division.py).
- If more waits than a step may read, the topics that a query with event time reads share what they have by the time of their messages
  (io_kafka/clients/time_cut.py): all their partitions are read up to one time. By fair shares a partition with few messages would be days ahead
  of one with many, and the watermark would make the rows of the latter late. Topics that no query reads together do not wait for each other.

A division is recorded before its messages are read, so a replay does not depend on what this module knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.specification import InputTopic
from engine.analysis.event_time_sources import sources_by_watermark
from engine.model.circuit import Circuit
from io_kafka.clients.time_cut import OffsetsSince, TimeCut, count
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, Limits, divide


class Dividing:
    """Of one run. `table_ends`: where the loads of batch tables end, and `table_limits` the bounds of a step that reads them."""

    def __init__(
        self,
        circuit: Circuit,
        inputs: Sequence[InputTopic],
        table_ends: Mapping[TopicPartition, int],
        table_limits: Limits,
        offsets_since: OffsetsSince,
    ) -> None:
        self._table_ends, self._table_limits = table_ends, table_limits
        self._cuts = [
            (group.topics, TimeCut(offsets_since, group.delay_ms)) for group in groups_of_topics(circuit, inputs)
        ]
        self._last_cut = -1  # the last step that was cut by time

    def divide(
        self, step: int, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limits: Limits
    ) -> Division | None:
        """The division of `step`, which reads from `positions` on and at most up to `ends`. None if there is nothing to read."""
        if any(positions[partition] < end for partition, end in self._table_ends.items()):
            of_tables = {partition: self._table_ends.get(partition, at) for partition, at in positions.items()}
            return divide(step, positions, of_tables, self._table_limits)
        fair = divide(step, positions, ends, limits)
        if fair is None or not self._cuts or fair.rows == count(positions, ends):
            return fair
        return self._by_time(fair, ends)

    def is_full(self, division: Division, limits: Limits) -> bool:
        """Whether more waited when the last division was chosen than it has: it has as many rows as a step may have, or was cut by time."""
        return division.rows >= limits.rows or division.step == self._last_cut

    def _by_time(self, fair: Division, ends: Mapping[TopicPartition, int]) -> Division:
        """A group has as many rows as its partitions have by fair shares."""
        chosen = fair.ends
        for topics, cut in self._cuts:
            starts = {r.where: r.start for r in fair.ranges if r.topic in topics}
            rows = sum(chosen[where] - start for where, start in starts.items())
            if rows:
                chosen.update(cut.cut(starts, {where: ends[where] for where in starts}, rows))
        self._last_cut = fair.step
        division = Division(
            fair.step, tuple(OffsetRange(r.topic, r.partition, r.start, chosen[r.where]) for r in fair.ranges)
        )
        division.check()
        return division


@dataclass(frozen=True)
class TopicGroup:
    """Topics that are read by the time of their messages. `delay_ms`: the least delay of the watermarks that follow from them."""

    topics: frozenset[str]
    delay_ms: int

    def joined(self, other: TopicGroup) -> TopicGroup:
        return TopicGroup(self.topics | other.topics, min(self.delay_ms, other.delay_ms))


def groups_of_topics(circuit: Circuit, inputs: Sequence[InputTopic]) -> list[TopicGroup]:
    """Two topics of a group have a query with event time in common, if only by way of a third one. No topic is in two groups."""
    topics_of = {source.table.handle: frozenset(source.table.topics) for source in inputs if not source.is_table}
    none = frozenset[str]()
    groups: list[TopicGroup] = []
    for read in sources_by_watermark(circuit):
        made = TopicGroup(none.union(*(topics_of.get(handle, none) for handle in read.handles)), read.delay_ms)
        for other in [group for group in groups if group.topics & made.topics]:
            groups.remove(other)
            made = made.joined(other)
        if made.topics:
            groups.append(made)
    return groups
