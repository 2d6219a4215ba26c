"""What a step reads again for the new nodes of a transition.

Guarantees: each partition is read without gap from where the transition says, and never beyond what the revision in force has read. So when both
have read the same, new nodes have what a fresh run would have given them.

Batch tables come first, because what is read beside them is often looked up there. Messages are read by their timestamps, all partitions
together (coordinator/stepping/reread_order.py). A watermark then leaves out as few rows as if the partitions had been read when the messages
came. Where many messages have one timestamp or none, their partitions are read in proportion to what they have left
(io_kafka/clients/time_bound.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from coordinator.revisions.rereadable import topics_of
from coordinator.specification import InputTopic
from coordinator.starting.topics.batch_tables import ends_of_loads
from io_kafka.clients.time_bound import Offsets, proportional
from io_kafka.clients.topics import Topics
from io_kafka.formats.batches import MESSAGE_ROWS_MAX
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division
from io_kafka.step_log.records import DivisionRecord, InputRange
from io_kafka.step_log.state import StepLogState


def source_read_again(source: InputTopic, handle: str, topics: Collection[str]) -> InputTopic:
    """The source with the handle that it has where it is read again. `topics`: all that are read, among which are those of a pattern."""
    table = replace(source.table, handle=handle)
    if table.pattern is not None:
        table = replace(table, topics=topics_of(source, sorted(topics)))
    return replace(source, table=table)


class OrderOfMessages(Protocol):
    """In which order messages are read again (coordinator/stepping/reread_order.py)."""

    def find_ends(self, step: int, starts: Offsets, ends: Offsets, rows: int) -> Offsets:
        """The ends of at most `rows` messages from `starts` on, and at most up to `ends`."""

    def note_watermarks(self, step: int, watermarks_us: Mapping[int, int]) -> None:
        """`watermarks_us`: after the step, by node of the circuit that fills."""


@dataclass
class RereadPortions:
    """The portions of messages that one transition reads again. `sources`: those that are read again, with the handles that they have there.
    `order`: in which it reads them. `ends`: where the partitions ended that only new nodes read, when each
    was looked at first, for a run that reads what was there at its start; None for another one."""

    topics: Topics
    sources: Sequence[InputTopic]
    order: OrderOfMessages
    ends: Offsets | None = None
    _table_topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        tables = (source for source in self.sources if source.is_table)
        self._table_topics = frozenset(topic for source in tables for topic in source.table.topics)

    def offsets_left(self, log: StepLogState) -> int:
        """How many offsets wait to be read again, of those that may be read now."""
        starts, only_new = log.reads_again, log.only_read_again
        ends = self._ends(starts, {where: at for where, at in log.next_offsets.items() if where not in only_new}, log)
        return sum(ends[where] - start for where, start in starts.items())

    def choose(
        self, log: StepLogState, division: Division, rows: int, after: DivisionRecord | None
    ) -> tuple[tuple[InputRange, ...], bool]:
        """(what is read again in the step of `division`, whether nothing is left then). `rows`: at most so many. `after`: the division before
        it, if the log does not have it yet."""
        known = log.reads_again
        if after is not None:
            known.update({r.where: r.end for r in after.again})
        starts = {**self._starts_added(log, division, known), **known}
        ends = self._ends(starts, division.ends, log)
        chosen = self._portion(division.step, starts, ends, rows) if rows else dict(starts)
        ranges = tuple(
            InputRange(topic=where.topic, partition=where.partition, start=starts[where], end=chosen[where])
            for where in sorted(starts)
            if chosen[where] > starts[where] or where not in known
        )
        return ranges, chosen == ends

    def _starts_added(self, log: StepLogState, division: Division, known: Mapping[TopicPartition, int]) -> Offsets:
        """Where the partitions began that a topic got since the transition was planned."""
        return {
            r.where: log.firsts.get(r.where, r.start)
            for r in division.ranges
            if r.where not in known and any(source.table.reads(r.where) for source in self.sources)
        }

    def _ends(
        self, starts: Mapping[TopicPartition, int], live: Mapping[TopicPartition, int], log: StepLogState
    ) -> Offsets:
        """Up to where each partition may be read: as far as the revision in force has read it, or to its end if that does not read it. `live`:
        where the revision in force is. A batch table ends with its load."""
        known = {**ends_of_loads(log, self._table_topics & log.tables.keys()), **live}
        others = [where for where in starts if where not in known]
        ends = {**{where: known[where] for where in starts if where in known}, **self._ends_of(others)}
        return {where: max(start, ends[where]) for where, start in starts.items()}

    def _ends_of(self, others: Sequence[TopicPartition]) -> Offsets:
        if self.ends is None:
            return self.topics.end_offsets_of(others)
        unknown = [where for where in others if where not in self.ends]
        if unknown:
            self.ends.update(self.topics.end_offsets_of(unknown))
        return {where: self.ends[where] for where in others}

    def weight(self, ranges: Iterable[OffsetRange]) -> int:
        """How many rows these ranges stand for, at most."""
        return sum(r.length * (MESSAGE_ROWS_MAX if r.topic in self._table_topics else 1) for r in ranges)

    def _portion(self, step: int, starts: Offsets, ends: Offsets, rows: int) -> Offsets:
        tables = {where for where in starts if where.topic in self._table_topics and starts[where] < ends[where]}
        if tables:
            mine = {where: starts[where] for where in tables}
            return {**starts, **proportional(mine, ends, max(1, rows // MESSAGE_ROWS_MAX))}
        return self.order.find_ends(step, starts, ends, rows)
