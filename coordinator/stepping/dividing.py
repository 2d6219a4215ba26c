"""How far a step reads each partition.

- Batch tables come first, and nothing is read beside them: what is computed of a topic then has its dimensions from the first message on.
- Otherwise every partition has a fair share of the rows of a step (io_kafka/step_log/division.py).
- If more waits than a step may read, the topics that a query with event time reads share what they have by the time of their messages
  (io_kafka/clients/time_bound.py): all their partitions are read up to one time. By fair shares a partition with few messages would be days
  ahead of one with many, and the watermark would make the rows of the latter late. Topics that no query reads together do not wait for each
  other.
- If their timestamps turn out not to follow event time (time_relation.py), they are read evenly until the backlog is over.

A division is recorded before its messages are read, so a replay does not depend on what this module knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from base.logger import Logger
from coordinator.specification import InputTopic
from coordinator.stepping.time_relation import TimeRelation
from engine.analysis.event_time_sources import sources_by_watermark
from engine.model.circuit import Circuit
from io_kafka.clients.time_bound import OffsetsSince, TimeBound, count, evenly
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, StepLimits, divide

_log = Logger("coordinator.stepping.dividing")

TRIAL_PART = 8
"""As long as nobody knows whether timestamps follow event time, a step has one of so many parts of the rows that it may have."""

TRIAL_ROWS_MIN = 1000
"""A step that may have fewer is small anyway, and a part of it would show little."""


class Dividing:
    """The division of the steps of one program in one run. `table_ends`: where the loads of batch tables end, and `table_limits` the bounds of a
    step that reads them."""

    def __init__(
        self,
        circuit: Circuit,
        inputs: Sequence[InputTopic],
        table_ends: Mapping[TopicPartition, int],
        table_limits: StepLimits,
        offsets_since: OffsetsSince,
    ) -> None:
        self._table_ends, self._table_limits = table_ends, table_limits
        self._groups = [_Group(group, offsets_since) for group in groups_of_topics(circuit, inputs)]
        self._last_cut = -1  # the last step that was cut by time

    def divide(
        self, step: int, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limits: StepLimits
    ) -> Division | None:
        """The division of `step`, which reads from `offsets` on and at most up to `ends`. None if there is nothing to read."""
        if any(offsets[partition] < end for partition, end in self._table_ends.items()):
            of_tables = {partition: self._table_ends.get(partition, at) for partition, at in offsets.items()}
            return divide(step, offsets, of_tables, self._table_limits)
        fair = divide(step, offsets, ends, limits)
        if fair is None or not self._groups:
            return fair
        if fair.rows == count(offsets, ends):
            for group in self._groups:
                group.end_backlog()
            return fair
        return self._by_time(fair, ends)

    def is_full(self, division: Division, limits: StepLimits) -> bool:
        """Whether more waited when the last division was chosen than it has: it has as many rows as a step may have, or was cut by time. But no
        step is chosen ahead before it is known whether timestamps follow event time."""
        if division.step != self._last_cut:
            return division.rows >= limits.rows
        return all(group.is_known for group in self._groups)

    def note_watermarks(self, step: int, watermarks_us: Mapping[int, int], *, jumped: bool = False) -> None:
        """`watermarks_us`: after the step, by node of the circuit. `jumped`: an input was left out of them that the step before did not leave
        out."""
        for group in self._groups:
            group.note_watermarks(step, watermarks_us, jumped=jumped)

    def _by_time(self, fair: Division, ends: Mapping[TopicPartition, int]) -> Division:
        """A group has as many rows as its partitions have by fair shares."""
        chosen = fair.ends
        for group in self._groups:
            starts = {r.where: r.start for r in fair.ranges if r.topic in group.of.topics}
            rows = sum(chosen[where] - start for where, start in starts.items())
            if rows:
                chosen.update(group.cut(fair.step, starts, {where: ends[where] for where in starts}, rows))
        self._last_cut = fair.step
        division = Division(
            fair.step, tuple(OffsetRange(r.topic, r.partition, r.start, chosen[r.where]) for r in fair.ranges)
        )
        division.check()
        return division


class _Group:
    """How far one group is. `of`: its topics."""

    def __init__(self, of: TopicGroup, offsets_since: OffsetsSince) -> None:
        self.of, self._cut = of, TimeBound(offsets_since, of.delay_ms)
        self.end_backlog()

    def end_backlog(self) -> None:
        """All that waits is read, or nothing was read yet. The next backlog has begun nowhere, and nothing is known of its timestamps."""
        self._relations = {node: TimeRelation(self.of.delay_ms) for node in self.of.watermarks}
        self._cut_ms: dict[int, int] = {}  # by step
        self._has_backlog = False
        self._begins: dict[TopicPartition, int] = {}  # of the backlog

    @property
    def is_known(self) -> bool:
        """Whether it is known how timestamps and event time go together, or there is no backlog of this group."""
        return not self._has_backlog or any(each.is_known for each in self._relations.values())

    @property
    def _differs(self) -> bool:
        return any(each.differs for each in self._relations.values())

    def cut(
        self, step: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], rows: int
    ) -> dict[TopicPartition, int]:
        if count(starts, ends) <= rows:
            self.end_backlog()
            return dict(ends)
        self._has_backlog = True
        self._begins = {**starts, **self._begins}
        if self._differs:
            return evenly(self._begins, starts, ends, rows)
        chosen = self._cut.find_ends(
            starts, ends, rows if self.is_known else max(rows // TRIAL_PART, min(rows, TRIAL_ROWS_MIN))
        )
        self._cut_ms[step] = self._cut.time_ms
        for each in self._relations.values():
            each.note_cut()
        return chosen

    def note_watermarks(self, step: int, watermarks_us: Mapping[int, int], *, jumped: bool) -> None:
        for relation in self._relations.values() if jumped else ():
            relation.begin_again()
        cut_ms = self._cut_ms.pop(step, None)
        if cut_ms is None or self._differs:
            return
        for node, relation in self._relations.items():
            if node in watermarks_us:
                relation.note(cut_ms, watermarks_us[node] // 1000)
        if self._differs:
            _log.info(
                "event time runs away from the timestamps of the messages, so the backlog is read evenly",
                topics=sorted(self.of.topics),
            )


@dataclass(frozen=True)
class TopicGroup:
    """Topics that are read by the time of their messages. `watermarks`: the nodes of those that follow from them, and `delay_ms` their least
    delay."""

    topics: frozenset[str]
    watermarks: frozenset[int]
    delay_ms: int

    def join(self, other: TopicGroup) -> TopicGroup:
        watermarks = self.watermarks | other.watermarks
        return TopicGroup(self.topics | other.topics, watermarks, min(self.delay_ms, other.delay_ms))


def groups_of_topics(circuit: Circuit, inputs: Sequence[InputTopic]) -> list[TopicGroup]:
    """Two topics of a group have a query with event time in common, if only by way of a third one. No topic is in two groups."""
    topics_of = {source.table.handle: frozenset(source.table.topics) for source in inputs if not source.is_table}
    none = frozenset[str]()
    groups: list[TopicGroup] = []
    for read in sources_by_watermark(circuit):
        topics = none.union(*(topics_of.get(handle, none) for handle in read.handles))
        made = TopicGroup(topics, frozenset({read.watermark}), read.delay_ms)
        for other in [group for group in groups if group.topics & made.topics]:
            groups.remove(other)
            made = made.join(other)
        if made.topics:
            groups.append(made)
    return groups
