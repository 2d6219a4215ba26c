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

    circuit: once in a generation, before division(0)
    leaves: once in a generation, at any time: a state that was made without them adopts those of a later start
    table(t): any number, the last of them whole, before division(0)

    layout(0) ----> layout_intent(1) ----> [layout_turn(1)] ----> checkpoint with the target's owners ----> layout(1) ----> ...
                    ^ before division(0) or at any time           ^ checkpoints before it have the owners of that moment

    refresh(g) ----> taken_back(g), any number ----> reset(g) ----> as in a new log: circuit, layout, division(0), ...

Between refresh and reset only taken_back and a claim can follow, because the next run finishes a refresh that was begun.

For consumers of the outputs: a `reset` means that below the recorded ends all output was retracted, in upsert topics by tombstones and in
all others by deletion. A consumer that keeps rows of the latter must drop them. Afterwards it goes on as before: it waits for a step's
record, and reads up to the ends in that record.

The state machine does no I/O. The writer (transactions.py) and the reader (step_log_reader.py) both fold records into it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import pairwise
from typing import assert_never

from base.version import VersionId
from io_kafka.errors import KafkaFault
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.former_records import Former
from io_kafka.step_log.layout_records import LayoutIntent, LayoutRecord, LayoutTurn, Placed, Target
from io_kafka.step_log.layout_rules import LayoutGround, why_not_layout, why_not_placed
from io_kafka.step_log.leaves import LeavesRecord
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    CircuitRecord,
    Claim,
    DivisionRecord,
    NodeErrors,
    OutputPart,
    PartitionOffset,
    Record,
    Refresh,
    Reset,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
    TopicIdentity,
    VersionPlaced,
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


class StepLogState:
    """The state after the records that were folded in so far. Invariants, which `check()` asserts:

    - `claim` has the highest epoch, and every record after it has that epoch;
    - `step_records` holds the steps `first <= s < steps`; `divisions` those and the pending ones, without gap and in order;
    - a division starts, in every partition, where the one before it ended; the end of an output never decreases;
    - `checkpoints` hold only committed steps, and their numbers increase.
    """

    def __init__(self, topic: str, begin: int = 0) -> None:
        """`begin` is the first offset that the topic still holds. If it is not 0, the first record must be a snapshot."""
        self.topic = topic
        self.claim: Claim | None = None
        self.first = 0  # the first step whose records are in memory; those below were truncated or forgotten
        self.steps = 0  # the number of committed steps; the last one is steps - 1
        self.divisions: dict[int, DivisionRecord] = {}
        self.step_records: dict[int, StepRecord] = {}
        self.positions: dict[TopicPartition, int] = {}  # where the next division starts
        self.ends: dict[TopicPartition, int] = {}  # of outputs
        self.topics: dict[str, TopicIdentity] = {}
        self.intent: VersionId | None = None
        self.checkpoints: tuple[VersionId, ...] = ()
        self.placed: dict[VersionId, Placed] = {}  # who owns what in the checkpoints and in the intended one
        self.layout: LayoutRecord | None = None  # the last one that is settled
        self.change: LayoutIntent | None = None  # the change of the layout that is under way
        self.turns: tuple[LayoutTurn, ...] = ()  # of that change
        self.is_former = False  # whether the state was made by a version with another format of this log
        self.circuit: CircuitRecord | None = None
        self.leaves: LeavesRecord | None = None  # None also for a state of a version without them
        self.tables: dict[str, TableRecord] = {}  # the last record of each batch table, by handle
        self.generation = 0  # the number of full refreshes; it is part of the databases' identity
        self.refresh: Refresh | None = None  # the refresh that is under way
        self.counted: tuple[int, ...] = ()  # the nodes whose error rows the last division counts
        self.errors: tuple[NodeErrors, ...] = ()  # the error rows after the last committed step
        self.grown: frozenset[str] = frozenset()  # topics with more partitions than when the state began
        self.snapshots: list[tuple[int, int]] = []  # (offset, steps committed before it)
        self.offset_next = begin  # all records below this offset are folded in

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
        return next(reversed(self.divisions), self.steps - 1) + 1

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
        return Snapshot(
            epoch=self.epoch,
            claim=self.claim,
            steps=self.steps,
            pending=self.pending,
            positions=_as_parts(self.positions),
            ends=_as_parts(self.ends),
            topics=tuple(self.topics[name] for name in sorted(self.topics)),
            intent=None if self.intent is None else self._with_placed(self.intent),
            checkpoints=tuple(self._with_placed(version) for version in self.checkpoints),
            layout=self.layout,
            change=self.change,
            turns=self.turns,
            circuit=self.circuit,
            generation=self.generation,
            refresh=self.refresh,
            grown=tuple(sorted(self.grown)),
            is_former=self.is_former,
            counted=self.counted,
            errors=self.errors,
            tables=tuple(self.tables[handle] for handle in sorted(self.tables)),
            leaves=self.leaves,
        )

    def _with_placed(self, version: VersionId) -> VersionPlaced:
        return VersionPlaced(version=version, placed=self.placed[version])

    @property
    def nodes_in_error(self) -> frozenset[int]:
        """The nodes that have error rows after the last committed step."""
        return frozenset(errors.node for errors in self.errors)

    @property
    def settled_layout(self) -> LayoutRecord:
        """The last one that is settled. A run records the first one before it starts any worker."""
        assert self.layout is not None, "no layout is recorded"
        return self.layout

    @property
    def ground(self) -> LayoutGround:
        """What the rules for records of layouts depend on."""
        last = self.placed[self.checkpoints[-1]] if self.checkpoints else None
        return LayoutGround(self.layout, self.change, self.turns, last)

    @property
    def target(self) -> Target | None:
        """Where the change under way leads to; None without one."""
        return self.ground.target

    def grown_with(self, topics: Iterable[TopicIdentity]) -> tuple[str, ...]:
        """The topics that have grown since the state began, in order, if `topics` are announced now."""
        known = ((t, self.topics.get(t.topic, t)) for t in topics)
        return tuple(sorted(self.grown | {t.topic for t, before in known if t.partitions > before.partitions}))

    def truncation_point(self, step: int) -> int | None:
        """The offset below which no record is needed for a replay from `step`. It is that of the last snapshot before which no step
        >= `step` was committed. None if there is no such snapshot."""
        return max((offset for offset, steps in self.snapshots if steps <= step), default=None)

    def truncated(self, offset: int) -> None:
        """Forgets the snapshots below `offset`, which the log no longer has."""
        self.snapshots = [found for found in self.snapshots if found[0] >= offset]

    def forget(self, step: int) -> None:
        """Drops the committed steps below `step` from memory; the log keeps them."""
        for old in range(self.first, min(step, self.steps)):
            del self.divisions[old], self.step_records[old]
            self.first = old + 1

    def apply(self, record: Record, offset: int) -> None:
        """Folds the next record in. Raises BrokenStepLog, and changes nothing, if the record cannot follow."""
        assert offset >= self.offset_next, f"offset {offset} was folded in before"
        reason = self._why_not(record)
        if reason is not None:
            raise BrokenStepLog(self.topic, offset, record.kind, record.epoch, reason)
        self._fold(record, offset)
        self.offset_next = offset + 1

    def fork(self) -> StepLogState:
        """A copy; records that are folded into it do not change this state."""
        other = copy.copy(self)
        for name in ("divisions", "step_records", "positions", "ends", "topics", "snapshots", "placed", "tables"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

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
        if isinstance(record, CircuitRecord):
            return self._why_not_circuit(record)
        if isinstance(record, LeavesRecord):
            return None if self.leaves is None else self._why_not_twice(record)
        if isinstance(record, TableRecord):
            return self._why_not_table(record)
        if isinstance(record, LayoutRecord | LayoutIntent | LayoutTurn):
            return why_not_layout(record, self.ground, self._why_not_first(record.kind))
        if isinstance(record, Former):
            return None
        assert_never(record)

    def _why_not_circuit(self, record: CircuitRecord) -> str | None:
        """The circuit comes once in a generation, before its first division, because the state of all its steps depends on it."""
        return self._why_not_first(record.kind) if self.circuit is None else self._why_not_twice(record)

    def _why_not_twice(self, record: CircuitRecord | LeavesRecord) -> str:
        return f"{record.kind}: generation {self.generation} has that record already, and it cannot change"

    def _why_not_table(self, record: TableRecord) -> str | None:
        """A table is loaded once in a generation, before the first division, which begins where it begins."""
        known = self.tables.get(record.handle)
        if known is not None and known.is_whole:
            return f"the table {record.handle} is loaded already"
        places = [r.where for r in record.ranges]
        if any(left >= right for left, right in pairwise(places)) or any(r.end < r.start for r in record.ranges):
            return f"the ranges of the table {record.handle} are out of order, or there twice"
        if any(place.topic != record.topic.topic for place in places):
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
        return None if record == self.snapshot() else "it contradicts the records before it"

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
        places = [(r.topic, r.partition) for r in record.ranges]
        if any(left >= right for left, right in pairwise(places)):
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
        if record.grown != (grown := self.grown_with(record.topics)):
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
        places = [(part.handle, part.partition) for part in record.outputs]
        if any(left >= right for left, right in pairwise(places)):
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

    def _fold(self, record: Record, offset: int) -> None:
        match record:
            case Claim():
                self.claim = record
            case DivisionRecord() if record.step in self.divisions:
                before = self.divisions[record.step]
                if (record.ranges, record.counted) != (before.ranges, before.counted):
                    self._forget_divisions_after(record)
                    self.counted = record.counted
                self.divisions[record.step] = record
            case DivisionRecord():
                self.divisions[record.step] = record
                self.counted = record.counted
                self.positions.update({TopicPartition(r.topic, r.partition): r.end for r in record.ranges})
                self.topics.update({topic.topic: topic for topic in record.topics})
                self.grown = frozenset(record.grown)
            case StepRecord():
                self.step_records[record.step] = record
                self.steps = record.step + 1
                self.ends.update(record.ends)
                self.errors = record.errors
            case CheckpointIntent():
                self.intent = record.version
                self.placed[record.version] = record.placed
                self._forget_placed()
            case CheckpointComplete():
                older = tuple(v for v in self.checkpoints if v.version < record.version.version)
                self.checkpoints = (*older, record.version)[-CHECKPOINTS_KEPT:]
                self.intent = None
                self._forget_placed()
            case LayoutRecord():
                self.layout, self.change, self.turns = record, None, ()
            case LayoutIntent():
                self.change = record
            case LayoutTurn():
                self.turns = (*self.turns, record)
            case Former():
                self.is_former = True
            case CircuitRecord():
                self.circuit = record
            case LeavesRecord():
                self.leaves = record
            case TableRecord():
                self.tables[record.handle] = record
            case Refresh():
                self.refresh = record
            case TakenBack():
                self.ends.update({TopicPartition(e.topic, e.partition): e.offset for e in record.ends})
            case Reset():
                self._reset(record)
            case Snapshot():
                if self.claim is None:
                    self._adopt(record)
                self.snapshots.append((offset, record.steps))
            case _:
                assert_never(record)

    def _forget_placed(self) -> None:
        known = {*self.checkpoints, self.intent}
        self.placed = {version: placed for version, placed in self.placed.items() if version in known}

    def _forget_divisions_after(self, again: DivisionRecord) -> None:
        """The next division starts where `again` ends, which has less or more input than before, or counts the error rows of other nodes. What
        was divided after it never reached a state."""
        for step in range(self.division_next - 1, again.step, -1):
            self.positions.update({r.where: r.start for r in self.divisions.pop(step).ranges})
        self.positions.update({r.where: r.end for r in again.ranges})

    def _reset(self, record: Reset) -> None:
        """Resets the state to that of a new log. The claim stays, and so do the ids and the ends of the topics that were emptied."""
        kept = {topic.topic: topic for topic in record.topics}
        self.ends = {where: end for where, end in self.ends.items() if where.topic in kept}
        self.topics, self.grown = kept, frozenset()
        self.first = self.steps = 0
        self.divisions, self.step_records, self.positions, self.snapshots = {}, {}, {}, []
        self.intent, self.checkpoints, self.placed, self.circuit = None, (), {}, None
        self.layout, self.change, self.turns, self.is_former = None, None, (), False
        self.leaves = None
        self.tables, self.counted, self.errors = {}, (), ()
        self.generation, self.refresh = record.generation, None

    def _adopt(self, record: Snapshot) -> None:
        self.claim = record.claim
        self.first = self.steps = record.steps
        self.divisions = {division.step: division for division in record.pending}
        self.positions = {TopicPartition(p.topic, p.partition): p.offset for p in record.positions}
        self.ends = {TopicPartition(p.topic, p.partition): p.offset for p in record.ends}
        self.topics = {topic.topic: topic for topic in record.topics}
        self.intent = None if record.intent is None else record.intent.version
        self.checkpoints = tuple(each.version for each in record.checkpoints)
        known = (*record.checkpoints, *([] if record.intent is None else [record.intent]))
        self.placed = {each.version: each.placed for each in known}
        self.layout, self.change, self.turns = record.layout, record.change, record.turns
        self.circuit, self.leaves, self.is_former = record.circuit, record.leaves, record.is_former
        self.tables = {table.handle: table for table in record.tables}
        self.counted, self.errors = record.counted, record.errors
        self.generation, self.refresh, self.grown = record.generation, record.refresh, frozenset(record.grown)

    def check(self) -> None:
        """Asserts the invariants; a failure is a mistake of Stepwell's own."""
        assert 0 <= self.first <= self.steps
        assert sorted(self.step_records) == list(range(self.first, self.steps))
        assert list(self.divisions) == list(range(self.first, self.division_next))
        assert self.steps <= self.division_next <= self.steps + PENDING_STEPS_MAX
        assert self.nodes_in_error <= set(self.counted), "error rows that the next division does not count"
        at: dict[TopicPartition, int] = {}
        for step in sorted(self.divisions):
            for r in self.divisions[step].ranges:
                place = TopicPartition(r.topic, r.partition)
                assert at.setdefault(place, r.start) == r.start <= r.end
                at[place] = r.end
        assert at.items() <= self.positions.items()
        ends: dict[TopicPartition, int] = {}
        for step in sorted(self.step_records):
            for place, end in self.step_records[step].ends.items():
                assert ends.get(place, 0) <= end <= self.ends[place]
                ends[place] = end
        assert all(v.step <= self.steps for v in self.checkpoints)
        assert all(a.version < b.version for a, b in pairwise(self.checkpoints))
        assert len(self.checkpoints) <= CHECKPOINTS_KEPT
        assert self.placed.keys() == {*self.checkpoints, *([] if self.intent is None else [self.intent])}
        assert self.change is None or (self.layout is not None and self.change.change == self.layout.number + 1)
        assert self.change is not None or not self.turns
        assert all(a < b for a, b in pairwise(self.snapshots))
        assert all(offset < self.offset_next for offset, _ in self.snapshots)
        assert self.claim is not None or not (self.divisions or self.checkpoints or self.intent or self.snapshots)


def _as_parts(offsets: dict[TopicPartition, int]) -> tuple[PartitionOffset, ...]:
    return tuple(
        PartitionOffset(topic=place.topic, partition=place.partition, offset=offsets[place])
        for place in sorted(offsets)
    )
