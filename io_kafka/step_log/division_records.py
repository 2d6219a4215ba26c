"""The record of a division, and in which ways a run may record a division again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from base.options import OnError, Truncate
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.division import Division
from io_kafka.step_log.form import Natural, PartWithLater, RecordBase, TopicIdentity
from io_kafka.step_log.input_policy import InputPolicy
from io_kafka.step_log.table_records import InputRange


def ranges_of(division: Division) -> tuple[InputRange, ...]:
    """What the division reads, as its record has it."""
    return tuple(InputRange(topic=r.topic, partition=r.partition, start=r.start, end=r.end) for r in division.ranges)


class DivisionRecord(RecordBase, PartWithLater):
    """The input of a step, and all else that decides what its output is."""

    LATER: ClassVar[frozenset[str]] = frozenset({"clock_us", "idle"})
    kind: Literal["division"] = "division"
    step: Natural
    ranges: tuple[InputRange, ...]
    """What the step reads, in order of (topic, partition)."""
    topics: tuple[TopicIdentity, ...] = ()
    """The topics that this record announces."""
    on_error: dict[str, OnError] = Field(default_factory=dict)
    """What is done with malformed messages, by source."""
    dead_letters: dict[str, str] = Field(default_factory=dict)
    """The topic for malformed messages, of the sources that have one."""
    truncate: dict[str, Truncate] = Field(default_factory=dict)
    """What is done with truncations of tables, of the sources for which that is not `fail`."""
    grown: tuple[str, ...] = ()
    """The topics that have more partitions than when the state began, in order."""
    counted: tuple[Natural, ...] = ()
    """The nodes of the circuit whose error rows the step leaves out and counts, in order. The outputs behind them are withheld."""
    released: tuple[str, ...] = ()
    """The outputs that were withheld until the step before."""
    filled: Natural | None = None
    """The position up to which the new nodes of the next revision are filled after the step, while a transition fills them; up to which
    differences have left, during a drain. None otherwise."""
    again: tuple[InputRange, ...] = ()
    """The input that is read in this step for the new nodes of a transition, in order. It reaches no other node. Of a partition that is in
    `ranges` too it ends there at the latest."""
    clock_us: Natural | None = None
    """The time of the step in microseconds since 1970-01-01 UTC, if a view reads the clock. It is never before that of a former division."""
    idle: tuple[str, ...] = ()
    """The sources that the watermarks of the step leave out because they have been silent, in order."""

    @property
    def division(self) -> Division:
        return Division(self.step, tuple(r.span for r in self.ranges))

    @property
    def policy(self) -> InputPolicy:
        return InputPolicy(self.on_error, self.dead_letters, self.truncate)

    def with_policy(self, epoch: int, policy: InputPolicy) -> DivisionRecord:
        """Returns the same step over the same input, recorded again by a later run with another policy."""
        return self.model_copy(update={"epoch": epoch, "topics": (), **policy._asdict()})

    def with_epoch(self, epoch: int) -> DivisionRecord:
        """Returns the same step over the same input with the same policy."""
        return self.with_policy(epoch, self.policy)

    def with_counted(self, epoch: int, counted: tuple[int, ...], withheld: frozenset[str]) -> DivisionRecord:
        """Returns the same step over the same input, which counts the error rows of these nodes. `withheld`: the outputs behind them."""
        released = tuple(handle for handle in self.released if handle not in withheld)
        again = self.with_epoch(epoch)
        return again.model_copy(update={"counted": counted, "released": released})

    def with_ends(self, epoch: int, ends: Mapping[TopicPartition, int]) -> DivisionRecord:
        """Returns the same step over other input: each range ends at `ends`. Less input is recorded if the messages have more bytes than a step
        may have, and more input if a view has an error over the rows up to here, which more rows may end."""
        ranges = tuple(r.with_end(ends.get(r.where, r.end)) for r in self.ranges)
        return self.with_reread_ends(epoch, {r.where: r.end for r in ranges}).model_copy(update={"ranges": ranges})

    def with_reread_ends(self, epoch: int, ends: Mapping[TopicPartition, int]) -> DivisionRecord:
        """Returns the same step, which reads again up to `ends` at most."""
        again = tuple(r.with_end(min(r.end, ends.get(r.where, r.end))) for r in self.again)
        return self.with_epoch(epoch).model_copy(update={"again": again})

    def is_shortening_of(self, before: DivisionRecord) -> bool:
        """Whether this record is equal to `before`, but for less input, of which there is still some."""
        return (
            self._differs_in_ends(before)
            and _is_shorter(self.ranges, before.ranges)
            and any(r.start < r.end for r in self.ranges)
        )

    def rereads_less_than(self, before: DivisionRecord) -> bool:
        """Whether this record is equal to `before`, but reads less again."""
        ends = {r.where: r.end for r in self.again}
        return self == before.with_reread_ends(self.epoch, ends) and _is_shorter(self.again, before.again)

    def is_widening_of(self, before: DivisionRecord) -> bool:
        """Whether this record is equal to `before`, but for more input."""
        pairs = list(zip(self.ranges, before.ranges, strict=False))
        return (
            self._differs_in_ends(before)
            and all(r.end >= former.end for r, former in pairs)
            and any(r.end > former.end for r, former in pairs)
        )

    def counts_more_than(self, before: DivisionRecord) -> bool:
        """Whether this record is equal to `before`, but counts the error rows of more nodes."""
        counting = {"counted": self.counted, "released": self.released}
        return (
            self == before.with_epoch(self.epoch).model_copy(update=counting)
            and set(self.counted) > set(before.counted)
            and set(self.released) <= set(before.released)
        )

    def _differs_in_ends(self, before: DivisionRecord) -> bool:
        """Whether this record is equal to `before`, but for the epoch and the ends of its ranges."""
        return self == before.with_ends(self.epoch, {r.where: r.end for r in self.ranges})


def _is_shorter(ranges: Sequence[InputRange], former: Sequence[InputRange]) -> bool:
    """Whether none of the ranges ends after the previous one at its place, and at least one ends before it. No range ends before its start."""
    pairs = list(zip(ranges, former, strict=False))
    return all(now.start <= now.end <= old.end for now, old in pairs) and any(now.end < old.end for now, old in pairs)
