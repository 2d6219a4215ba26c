"""The state machine of the step log, a topic with one partition that holds all claims, divisions, steps and checkpoints in order.

Guarantee: `StepLogState` is a function of the records that were folded into it, and it refuses a record that cannot follow
them. So a log that was read to its end without an error is one that correct runs can have written.

    claim(e) ----> division(s) ----> step(s) ----> division(s+1) ----> ...
       ^              |  at most PENDING_STEPS_MAX ahead     checkpoint_intent -> checkpoint_complete, at any time
       |              v
       +---- claim(e' > e), at any time; a division whose step is not written stays; the new run may record it again, with
             the project's present policy for malformed messages

    division(s) ----> division(s) over less input: its messages had more bytes than a step may have. Nothing of s was written,
    and no state has seen it. A division after it is void, because it began where this one ended. Other input than a part of
    the same is refused.

    division(s) ----> division(s) that counts the error rows of more nodes: rows of s gave an error. Of a node that has no error rows after the
    last step, the next division counts none.

    revision(n): before division(0); or at a drained boundary whose checkpoint is complete, if the state can be continued as it is; in a log of
    format 2, which has `circuit` and perhaps `leaves` in its place, also once at any time. The last one is in force
    table(t): any number, the last of them whole, before division(0)

    layout(0) ----> layout_intent(1) ----> [layout_turn(1)] ----> checkpoint with the target's owners ----> layout(1) ----> ...
                    ^ before division(0) or at any time           ^ checkpoints before it have the owners of that moment

    refresh(g) ----> taken_back(g), any number ----> reset(g) ----> as in a new log: revision, layout, division(0), ...

Between refresh and reset only taken_back and a claim can follow, because the next run finishes a refresh that was begun.

For consumers of the outputs: a `reset` means that below the recorded ends all output was retracted, in upsert topics by tombstones and in
all others by deletion. A consumer that keeps rows of the latter must drop them. Afterwards it goes on as before: it waits for a step's
record, and reads up to the ends in that record.

The state machine does no I/O. The writer (transactions.py) and the reader (step_log_reader.py) both fold records into it.

The state is a value: a record makes another one. What a snapshot has of it is declared at the end of this module, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, assert_never

from base.version import VersionId
from io_kafka.errors import KafkaFault
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.former_records import CircuitRecord, Former, LeavesRecord
from io_kafka.step_log.layout_records import LayoutIntent, LayoutRecord, LayoutTurn, Ownership, Target
from io_kafka.step_log.layout_rules import LayoutGround, why_not_layout, why_not_placed
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    Claim,
    DivisionRecord,
    NodeErrors,
    OutputPart,
    PartitionOffset,
    Record,
    Refresh,
    Reset,
    RevisionRecord,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
    TopicIdentity,
    VersionOwnership,
)

PENDING_STEPS_MAX = 2
"""How many divisions may be recorded ahead of output: that of the step whose output is next, and that of the step after it, which the
workers run meanwhile."""

CHECKPOINTS_KEPT = 2
"""A database can open at most two versions, so recovery needs no older ones."""


class BrokenStepLog(KafkaFault):
    """A record of the step log cannot follow the ones before it."""

    def __init__(self, topic: str, offset: int, kind: str, epoch: int, reason: str) -> None:
        self.topic, self.offset = topic, offset
        super().__init__(
            f"step log {topic!r} partition 0 offset {offset}: a {kind} record of epoch {epoch}: {reason}. The log was "
            "written by something other than runs of this pipeline, or has lost records; nothing was changed.",
            "Restore the topic, or rebuild with `stepwell run --full-refresh`.",
        )


@dataclass(frozen=True)
class StepLogState:
    """The state after the records that were folded in so far. A new log has the defaults, and a `reset` gives them back. `offset_next`: all
    records below this offset are folded in. At the beginning it is the first offset that the topic still holds. If that is not 0, the first
    record must be a snapshot. Invariants, which `check()` asserts:

    - `claim` has the highest epoch, and every record after it has that epoch;
    - `step_records` holds the steps `first <= s < steps`; `divisions` those and the pending ones, without gap and in order;
    - a division starts, in every partition, where the one before it ended; the end of an output never decreases;
    - `checkpoints` hold only committed steps, and their numbers increase.
    """

    topic: str
    offset_next: int = 0
    claim: Claim | None = None
    divisions: Numbered[DivisionRecord] = field(default_factory=Numbered)
    step_records: Numbered[StepRecord] = field(default_factory=Numbered)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)  # where the next division starts
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the first division of each input began. Those of a log of format 2 whose first divisions were truncated are not known."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)  # of outputs
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    intent: VersionId | None = None
    checkpoints: tuple[VersionId, ...] = ()
    placed: Mapping[VersionId, Ownership] = field(default_factory=dict)  # in the checkpoints and in the intended one
    layout: LayoutRecord | None = None  # the last one that is settled
    rescale: LayoutIntent | None = None  # the rescale that is under way
    turns: tuple[LayoutTurn, ...] = ()  # of that rescale
    is_former: bool = False  # whether the state was made by a version with another format of this log
    revision: RevisionRecord | None = None  # the one in force; None in a log of format 2
    circuit: CircuitRecord | None = None  # in a log of format 2, and None as soon as it has a revision
    leaves: LeavesRecord | None = None  # likewise
    tables: Mapping[str, TableRecord] = field(default_factory=dict)  # the last record of each batch table, by handle
    generation: int = 0  # the number of full refreshes; it is part of the databases' identity
    refresh: Refresh | None = None  # the refresh that is under way
    counted: tuple[int, ...] = ()  # the nodes whose error rows the last division counts
    errors: tuple[NodeErrors, ...] = ()  # the error rows after the last committed step
    grown: frozenset[str] = frozenset()  # topics with more partitions than when the state began
    snapshots: tuple[tuple[int, int], ...] = ()  # (offset, steps committed before it)

    @property
    def first(self) -> int:
        """The first step whose records are in memory; those below were truncated or forgotten."""
        return self.step_records.first

    @property
    def steps(self) -> int:
        """The number of committed steps."""
        return self.step_records.end

    @property
    def epoch(self) -> int:
        """The highest epoch that was claimed; -1 before any claim."""
        return -1 if self.claim is None else self.claim.epoch

    @property
    def step_last(self) -> int | None:
        """The last step whose output is committed."""
        return self.steps - 1 if self.steps else None

    @property
    def division_next(self) -> int:
        """The step of the next division. It takes constant time, because the coordinator asks before every action."""
        return self.divisions.end

    @property
    def pending(self) -> tuple[DivisionRecord, ...]:
        """The divisions whose steps are not committed. A run must run these steps first."""
        return tuple(self.divisions[s] for s in range(self.steps, self.division_next))

    def outputs(self, step: int) -> tuple[OutputPart, ...]:
        """The output of a step with `first <= step < steps`."""
        return self.step_records[step].outputs

    def snapshot(self) -> Snapshot:
        """The state as one record. A log that begins with it gives the same state as the whole log, without the records of
        committed steps."""
        assert self.claim is not None, "nothing is written before a claim"
        return Snapshot(epoch=self.epoch, **{name: said(self) for name, said in IN_SNAPSHOTS.items()})

    @property
    def nodes_in_error(self) -> frozenset[int]:
        """The nodes that have error rows after the last committed step."""
        return frozenset(errors.node for errors in self.errors)

    @property
    def current_layout(self) -> LayoutRecord:
        """The last one that is settled. A run records the first one before it starts any worker."""
        assert self.layout is not None, "no layout is recorded"
        return self.layout

    @property
    def ground(self) -> LayoutGround:
        """What the rules for records of layouts depend on."""
        last = self.placed[self.checkpoints[-1]] if self.checkpoints else None
        return LayoutGround(self.layout, self.rescale, self.turns, last)

    @property
    def target(self) -> Target | None:
        """Where the change under way leads to; None without one."""
        return self.ground.target

    def topics_grown(self, topics: Iterable[TopicIdentity]) -> tuple[str, ...]:
        """The topics that have grown since the state began, in order, if `topics` are announced now."""
        known = ((t, self.topics.get(t.topic, t)) for t in topics)
        return tuple(sorted(self.grown | {t.topic for t, before in known if t.partitions > before.partitions}))

    def truncation_point(self, step: int) -> int | None:
        """The offset below which no record is needed for a replay from `step`. It is that of the last snapshot before which no step
        >= `step` was committed. None if there is no such snapshot."""
        return max((offset for offset, steps in self.snapshots if steps <= step), default=None)

    def truncate(self, offset: int) -> StepLogState:
        """Without the snapshots below `offset`, which the log no longer has."""
        return replace(self, snapshots=tuple(found for found in self.snapshots if found[0] >= offset))

    def forget_below(self, step: int) -> StepLogState:
        """Without the committed steps below `step`, which the log keeps. Their memory is free then."""
        first = min(step, self.steps)
        if first <= self.first:
            return self
        return replace(
            self, divisions=self.divisions.drop_below(first), step_records=self.step_records.drop_below(first)
        )

    def apply(self, record: Record, offset: int) -> StepLogState:
        """The state with the next record. Raises BrokenStepLog if the record cannot follow."""
        assert offset >= self.offset_next, f"offset {offset} was folded in before"
        reason = self._why_not(record)
        if reason is not None:
            raise BrokenStepLog(self.topic, offset, record.kind, record.epoch, reason)
        after = self._with(record, offset)
        assert after is not self
        object.__setattr__(
            after, "offset_next", offset + 1
        )  # it was made here; another `replace` would double the time
        return after

    def _why_not(self, record: Record) -> str | None:
        if self.claim is None and self.offset_next > 0 and not isinstance(record, Snapshot):
            return "the records before it were deleted, and it is not a snapshot"
        if isinstance(record, Claim):
            return None if record.epoch > self.epoch else f"epoch {self.epoch} was claimed before"
        if isinstance(record, Snapshot):
            return self._why_not_snapshot(record)
        if record.epoch < self.epoch:
            return f"epoch {self.epoch} has been claimed since: its writer was fenced"
        if record.epoch > self.epoch:
            return f"its epoch was never claimed; the highest is {self.epoch}"
        if isinstance(record, Refresh | TakenBack | Reset):
            return self._why_not_refresh(record)
        if self.refresh is not None:
            return f"a full refresh to generation {self.refresh.generation} is under way, and no reset followed"
        if isinstance(record, DivisionRecord):
            return self._why_not_division(record)
        if isinstance(record, StepRecord):
            return self._why_not_step(record)
        if isinstance(record, CheckpointIntent):
            return self._why_not_intent(record.version) or why_not_placed(record.placed, self.ground)
        if isinstance(record, CheckpointComplete):
            return self._why_not_complete(record.version)
        if isinstance(record, RevisionRecord):
            return self._why_not_revision(record)
        if isinstance(record, CircuitRecord | LeavesRecord):
            return self._why_not_former_project(record)
        if isinstance(record, TableRecord):
            return self._why_not_table(record)
        if isinstance(record, LayoutRecord | LayoutIntent | LayoutTurn):
            return why_not_layout(record, self.ground, self._why_not_first(record.kind))
        if isinstance(record, Former):
            return None
        assert_never(record)

    def _why_not_revision(self, record: RevisionRecord) -> str | None:
        """No step of another revision may be left to be replayed: its last checkpoint has all steps. A log of format 2 says in another way which
        project made all of its steps."""
        number = 1 if self.revision is None else self.revision.number + 1
        if record.number != number:
            return f"revision {record.number}, where {number} is the next one"
        step = 0 if self.circuit is not None else self.division_next
        if record.step != step:
            return f"revision {record.number} begins with step {record.step}, where step {step} is the next one"
        if step == 0:
            return None
        if self.pending or self.intent is not None or not self.checkpoints or self.checkpoints[-1].step != step:
            return (
                f"revision {record.number} begins with step {step}, and no complete checkpoint has all steps before it"
            )
        return None

    def _why_not_former_project(self, record: CircuitRecord | LeavesRecord) -> str | None:
        """Each comes once in a generation, the circuit before its first division."""
        known = self.circuit if isinstance(record, CircuitRecord) else self.leaves
        if known is not None or self.revision is not None:
            return f"{record.kind}: generation {self.generation} has that record already, and it cannot change"
        return self._why_not_first(record.kind) if isinstance(record, CircuitRecord) else None

    def _why_not_table(self, record: TableRecord) -> str | None:
        """A table is loaded once in a generation, before the first division, which begins where it begins."""
        known = self.tables.get(record.handle)
        if known is not None and known.is_whole:
            return f"the table {record.handle} is loaded already"
        partitions = [r.where for r in record.ranges]
        if any(left >= right for left, right in pairwise(partitions)) or any(r.end < r.start for r in record.ranges):
            return f"the ranges of the table {record.handle} are out of order, or there twice"
        if any(topic_partition.topic != record.topic.topic for topic_partition in partitions):
            return f"the table {record.handle} is said to be in several topics"
        return self._why_not_first(record.kind)

    def _why_not_first(self, kind: str) -> str | None:
        if self.division_next > 0:
            return f"step {self.division_next - 1} is divided already, and the first {kind} must precede step 0"
        return None

    def _why_not_refresh(self, record: Refresh | TakenBack | Reset) -> str | None:
        if record.generation != self.generation + 1:
            return f"generation {record.generation} does not follow generation {self.generation}"
        if isinstance(record, Refresh):
            return "a refresh is under way" if self.refresh is not None else None
        if self.refresh is None:
            return "no refresh is under way"
        if isinstance(record, Reset):
            ids = {(topic.topic, topic.id) for topic in self.refresh.topics}
            if not ids.issuperset((topic.topic, topic.id) for topic in record.topics):
                return "it keeps topics that the refresh did not empty"
        if isinstance(record, TakenBack):
            for end in record.ends:
                where = TopicPartition(end.topic, end.partition)
                if end.topic not in self.refresh.tombstones or end.offset < self.ends.get(where, 0):
                    return f"the end of {where} decreases, or the refresh has no tombstones for its topic"
        return None

    def _why_not_snapshot(self, record: Snapshot) -> str | None:
        if self.claim is None:
            return None
        known = self.snapshot().model_copy(update={"firsts": record.firsts})
        if record != known or not self._may_be_firsts(record):
            return "it contradicts the records before it"
        return None

    def _may_be_firsts(self, record: Snapshot) -> bool:
        """A snapshot of format 2 does not say where the inputs began. One that follows it can say it of inputs of which the records since do
        not, because its writer has read the log from an earlier record on."""
        if record.firsts is None:
            return True
        said = _as_offsets(record.firsts)
        return self.firsts.items() <= said.items() and said.keys() <= self.positions.keys()

    def _why_not_division(self, record: DivisionRecord) -> str | None:
        if self.steps <= record.step < self.division_next:
            before = self.divisions[record.step]
            if record.is_cut_of(before) or record.is_widening_of(before) or record.counts_more_than(before):
                return None
            if record.epoch > before.epoch:
                return self._why_not_again(record, before)
        if record.step != self.division_next:
            return f"of step {record.step}, where step {self.division_next} is the next to be divided"
        if record.step >= self.steps + PENDING_STEPS_MAX:
            return f"of step {record.step}, while output is committed only below step {self.steps}"
        partitions = [(r.topic, r.partition) for r in record.ranges]
        if any(left >= right for left, right in pairwise(partitions)):
            return f"of step {record.step}: its partitions are out of order or there twice"
        for r in record.ranges:
            start = self.positions.get(TopicPartition(r.topic, r.partition), r.start)
            if r.start != start or r.end < r.start:
                where = f"{r.topic}/{r.partition}"
                return f"of step {record.step}: {where} has the range [{r.start}, {r.end}), but should start at {start}"
        for topic in record.topics:
            known = self.topics.get(topic.topic, topic)
            if known.id != topic.id or known.partitions > topic.partitions:
                return f"of step {record.step}: topic {topic.topic!r} was {known.id}, now {topic.id}, or has shrunk"
        if record.grown != (grown := self.topics_grown(record.topics)):
            return f"of step {record.step}: it says that {record.grown} have grown, the records before it {grown}"
        return self._why_not_counted(record)

    def _why_not_counted(self, record: DivisionRecord) -> str | None:
        """A new division goes on counting the error rows of the nodes that have some. It counts those of other nodes only if it is recorded
        again, because no step may leave out rows before it is known that they have an error."""
        before, now = set(self.counted), set(record.counted)
        if not now <= before:
            return f"of step {record.step}: it counts the error rows of nodes {sorted(now - before)}, the division before it did not"
        if before - now and (self.pending or (before - now) & self.nodes_in_error):
            return f"of step {record.step}: it does not count the error rows of nodes {sorted(before - now)}, which may have some"
        if record.released and not before - now:
            return f"of step {record.step}: it releases {record.released}, and counts the error rows of the same nodes as before"
        return None

    def _why_not_again(self, record: DivisionRecord, before: DivisionRecord) -> str | None:
        """A later run may record the division of a pending step again, with another policy for malformed messages: nothing of the step was
        written, and every start rolls the state back to the last checkpoint. Everything else must be equal. (`is_cut_of` and
        `is_widening_of` handle a division over less or more input.)"""
        if record == before.with_policy(record.epoch, record.on_error, record.dead_letters, record.truncate):
            return None
        return f"of step {record.step}, recorded again with another input than epoch {before.epoch} recorded"

    def _why_not_step(self, record: StepRecord) -> str | None:
        if record.step != self.steps:
            return f"of step {record.step}, where step {self.steps} is the next to be written"
        if record.step not in self.divisions:
            return f"of step {record.step}, which was never divided"
        partitions = [(part.handle, part.partition) for part in record.outputs]
        if any(left >= right for left, right in pairwise(partitions)):
            return f"of step {record.step}: its output partitions are out of order or there twice"
        for part in record.outputs:
            before = self.ends.get(part.where, 0)
            if part.end < before:
                return f"of step {record.step}: the end of {part.where} decreases from {before} to {part.end}"
        uncounted = {errors.node for errors in record.errors} - set(self.divisions[record.step].counted)
        if uncounted:
            return f"of step {record.step}: it has error rows of nodes {sorted(uncounted)}, which its division does not count"
        return None

    def _why_not_intent(self, version: VersionId) -> str | None:
        if self.checkpoints and version.version > self.checkpoints[-1].version + 1:
            return f"version {version.version} would leave a gap after version {self.checkpoints[-1].version}"
        return None

    def _why_not_complete(self, version: VersionId) -> str | None:
        if version != self.intent:
            return f"version {version.version} ({version.checkpoint_id}) is complete without having been intended"
        if version.step > self.steps:
            return f"version {version.version} holds step {version.step - 1}, whose output is not committed"
        return None

    def _with(self, record: Record, offset: int) -> StepLogState:
        match record:
            case Claim():
                return replace(self, claim=record)
            case DivisionRecord() if record.step in self.divisions:
                return self._with_division_again(record)
            case DivisionRecord():
                return replace(
                    self,
                    divisions=self.divisions.with_next(record),
                    counted=record.counted,
                    firsts=self._firsts_with(record),
                    positions={**self.positions, **{r.where: r.end for r in record.ranges}},
                    topics={**self.topics, **{topic.topic: topic for topic in record.topics}},
                    grown=frozenset(record.grown),
                )
            case StepRecord():
                ends = {**self.ends, **record.ends}
                return replace(self, step_records=self.step_records.with_next(record), ends=ends, errors=record.errors)
            case CheckpointIntent():
                return replace(self, intent=record.version)._with_placed(record.version, record.placed)
            case CheckpointComplete(version=version):
                older = tuple(v for v in self.checkpoints if v.version < version.version)
                now = replace(self, intent=None, checkpoints=(*older, version)[-CHECKPOINTS_KEPT:])
                return now._with_placed(version, self.placed[version])
            case LayoutRecord():
                return replace(self, layout=record, rescale=None, turns=())
            case LayoutIntent():
                return replace(self, rescale=record)
            case LayoutTurn():
                return replace(self, turns=(*self.turns, record))
            case Former():
                return replace(self, is_former=True)
            case RevisionRecord():
                return replace(self, revision=record, circuit=None, leaves=None)
            case CircuitRecord():
                return replace(self, circuit=record)
            case LeavesRecord():
                return replace(self, leaves=record)
            case TableRecord():
                return replace(self, tables={**self.tables, record.handle: record})
            case Refresh():
                return replace(self, refresh=record)
            case TakenBack():
                taken = {TopicPartition(e.topic, e.partition): e.offset for e in record.ends}
                return replace(self, ends={**self.ends, **taken})
            case Reset():
                return self._reset(record)
            case Snapshot():
                adopted = self._adopted(record) if self.claim is None else self._with_firsts_of(record)
                return replace(adopted, snapshots=(*self.snapshots, (offset, record.steps)))
            case _:
                assert_never(record)

    def _with_firsts_of(self, record: Snapshot) -> StepLogState:
        return self if record.firsts is None else replace(self, firsts=_as_offsets(record.firsts))

    def _firsts_with(self, record: DivisionRecord) -> Mapping[TopicPartition, int]:
        new = {r.where: r.start for r in record.ranges if r.where not in self.positions}
        return {**self.firsts, **new} if new else self.firsts

    def _with_placed(self, version: VersionId, placed: Ownership) -> StepLogState:
        """Also of this version. Those of versions that no recovery opens are forgotten."""
        known = {*self.checkpoints, self.intent}
        every = {**self.placed, version: placed}
        return replace(self, placed={each: its for each, its in every.items() if each in known})

    def _with_division_again(self, again: DivisionRecord) -> StepLogState:
        """A division over less or more input than before, or that counts the error rows of other nodes: the next division starts where it
        ends. What was divided after it never reached a state. A division with another policy alone leaves those after it as they are."""
        before = self.divisions[again.step]
        if (again.ranges, again.counted) == (before.ranges, before.counted):
            return replace(self, divisions=self.divisions.with_value(again.step, again))
        positions = dict(self.positions)
        for step in range(self.division_next - 1, again.step, -1):
            positions.update({r.where: r.start for r in self.divisions[step].ranges})
        positions.update({r.where: r.end for r in again.ranges})
        divisions = self.divisions.drop_from(again.step).with_next(again)
        return replace(self, divisions=divisions, positions=positions, counted=again.counted)

    def _reset(self, record: Reset) -> StepLogState:
        """The state of a new log, but for the claim, the number of the last revision, and the ids and ends of the topics that were emptied."""
        kept = {topic.topic: topic for topic in record.topics}
        ends = {where: end for where, end in self.ends.items() if where.topic in kept}
        return StepLogState(
            self.topic,
            self.offset_next,
            claim=self.claim,
            revision=self.revision,
            topics=kept,
            ends=ends,
            generation=record.generation,
        )

    def _adopted(self, record: Snapshot) -> StepLogState:
        return replace(self, **{name: read(record) for name, read in FROM_SNAPSHOTS.items()})

    def check(self) -> None:
        """Asserts the invariants; a failure is a mistake of Stepwell's own."""
        assert 0 <= self.first == self.divisions.first <= self.steps
        assert self.steps <= self.division_next <= self.steps + PENDING_STEPS_MAX
        assert self.nodes_in_error <= set(self.counted), "error rows that the next division does not count"
        at: dict[TopicPartition, int] = {}
        for step in sorted(self.divisions):
            for r in self.divisions[step].ranges:
                topic_partition = TopicPartition(r.topic, r.partition)
                assert at.setdefault(topic_partition, r.start) == r.start <= r.end
                at[topic_partition] = r.end
        assert at.items() <= self.positions.items()
        assert all(first <= self.positions[where] for where, first in self.firsts.items())
        assert self.revision is None or (self.circuit is None and self.leaves is None)
        ends: dict[TopicPartition, int] = {}
        for step in sorted(self.step_records):
            for topic_partition, end in self.step_records[step].ends.items():
                assert ends.get(topic_partition, 0) <= end <= self.ends[topic_partition]
                ends[topic_partition] = end
        assert all(v.step <= self.steps for v in self.checkpoints)
        assert all(a.version < b.version for a, b in pairwise(self.checkpoints))
        assert len(self.checkpoints) <= CHECKPOINTS_KEPT
        assert self.placed.keys() == {*self.checkpoints, *([] if self.intent is None else [self.intent])}
        assert self.rescale is None or (self.layout is not None and self.rescale.change == self.layout.number + 1)
        assert self.rescale is not None or not self.turns
        assert all(a < b for a, b in pairwise(self.snapshots))
        assert all(offset < self.offset_next for offset, _ in self.snapshots)
        assert self.claim is not None or not (self.divisions or self.checkpoints or self.intent or self.snapshots)


def _as_parts(offsets: Mapping[TopicPartition, int]) -> tuple[PartitionOffset, ...]:
    return tuple(
        PartitionOffset(
            topic=topic_partition.topic, partition=topic_partition.partition, offset=offsets[topic_partition]
        )
        for topic_partition in sorted(offsets)
    )


def _as_offsets(parts: Iterable[PartitionOffset]) -> dict[TopicPartition, int]:
    return {TopicPartition(part.topic, part.partition): part.offset for part in parts}


def _placed_of(state: StepLogState, version: VersionId) -> VersionOwnership:
    return VersionOwnership(version=version, placed=state.placed[version])


def _placed_in(record: Snapshot) -> dict[VersionId, Ownership]:
    known = (*record.checkpoints, *([] if record.intent is None else [record.intent]))
    return {each.version: each.placed for each in known}


NOT_IN_SNAPSHOTS = {
    "topic": "the reader knows it",
    "offset_next": "it is that of the snapshot's own message",
    "snapshots": "those before it are of no use when the log begins with it",
}
"""The fields of the state that a snapshot does not have, with the reason."""

_AS_THEY_ARE = {each.name for each in fields(StepLogState)} & Snapshot.model_fields.keys() - {
    *("positions", "firsts", "ends", "topics", "intent", "checkpoints", "tables", "grown"),
}

IN_SNAPSHOTS: Mapping[str, Callable[[StepLogState], Any]] = {
    **{name: attrgetter(name) for name in _AS_THEY_ARE},
    "steps": lambda state: state.steps,
    "pending": lambda state: state.pending,
    "positions": lambda state: _as_parts(state.positions),
    "firsts": lambda state: _as_parts(state.firsts),
    "ends": lambda state: _as_parts(state.ends),
    "topics": lambda state: tuple(state.topics[name] for name in sorted(state.topics)),
    "change": lambda state: state.rescale,
    "intent": lambda state: None if state.intent is None else _placed_of(state, state.intent),
    "checkpoints": lambda state: tuple(_placed_of(state, version) for version in state.checkpoints),
    "tables": lambda state: tuple(state.tables[handle] for handle in sorted(state.tables)),
    "grown": lambda state: tuple(sorted(state.grown)),
}
"""How each field of a snapshot follows from the state. A field of both that has one name and is not named here is taken as it is."""

FROM_SNAPSHOTS: Mapping[str, Callable[[Snapshot], Any]] = {
    **{name: attrgetter(name) for name in _AS_THEY_ARE},
    "divisions": lambda record: Numbered(record.steps, record.pending),
    "step_records": lambda record: Numbered(record.steps),
    "positions": lambda record: _as_offsets(record.positions),
    "firsts": lambda record: _as_offsets(record.firsts or ()),
    "ends": lambda record: _as_offsets(record.ends),
    "topics": lambda record: {topic.topic: topic for topic in record.topics},
    "rescale": lambda record: record.change,
    "intent": lambda record: None if record.intent is None else record.intent.version,
    "checkpoints": lambda record: tuple(each.version for each in record.checkpoints),
    "placed": _placed_in,
    "tables": lambda record: {table.handle: table for table in record.tables},
    "grown": lambda record: frozenset(record.grown),
}
"""How each field of the state follows from a snapshot."""
