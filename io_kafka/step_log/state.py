"""The step log: the one-partition topic that holds, in order, what was claimed, divided, written and checkpointed.

Guarantees: `StepLogState` is a function of the records folded into it, and refuses a record that cannot follow them;
so a log that was read to its end without error is one that a correct run can have written. Reading is read_committed
and goes to the last stable offset: of a transaction, a reader sees all records or none.

    claim(e) ----> division(s) ----> step(s) ----> division(s+1) ----> ...
       ^              |  at most PENDING_STEPS_MAX ahead     checkpoint_intent -> checkpoint_complete, at any time
       |              v
       +---- claim(e' > e), at any time; what was divided and not yet written stays divided: the new run may record it
             again, with the policy for malformed messages that is in force now

    division(s) ----> division(s) over less input, where s is the last one divided: its messages had more bytes than a step may have.
    Nothing of s was written, and no state has seen it. With other input than less of the same, a step is never divided again.

    circuit, layout: once each in a generation, before division(0)

    refresh(g) ----> taken_back(g), any number ----> reset(g) ----> as in a new log: circuit, layout, division(0), ...

Between refresh and reset nothing else can follow but a claim: a refresh that was begun is finished by the next run. A consumer
that reads `reset` knows that below the ends recorded so far every output is taken back: an upsert topic by tombstones, any other
by deletion (who keeps its rows drops them). From there on its rule is what it was: a step's record, then up to the record's ends.

The state machine does no I/O: what writes the log (writer.py) and what reads it (step_log_reader.py) both fold into it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import pairwise
from typing import assert_never

from base.version import VersionId
from io_kafka.errors import KafkaFault
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    CircuitRecord,
    Claim,
    DivisionRecord,
    LayoutRecord,
    OutputPart,
    PartitionOffset,
    Record,
    Refresh,
    Reset,
    Snapshot,
    StepRecord,
    TakenBack,
    TopicIdentity,
)

PENDING_STEPS_MAX = 2
"""Divisions recorded ahead of output: one for the step that computes, one for the step that may start beside it."""

CHECKPOINTS_KEPT = 2
"""A database can open one version or two, never more: older ones are of no use to recovery."""


class BrokenStepLog(KafkaFault):
    """A record that cannot follow the ones before it."""

    def __init__(self, topic: str, offset: int, kind: str, epoch: int, reason: str) -> None:
        self.topic, self.offset = topic, offset
        super().__init__(
            f"step log {topic!r} partition 0 offset {offset}: a {kind} record of epoch {epoch}: {reason}. The log was "
            "written by something else than one run after another of this pipeline, or has lost records; nothing was changed.",
            "Restore the topic, or rebuild with `stepwell run --full-refresh`.",
        )


class StepLogState:
    """What the log says so far. Invariants, proved by `check()`:

    - `claim` has the highest epoch, and every record after it has that epoch;
    - `step_records` holds the steps `first <= s < steps`; `divisions` those and the pending ones, without gap and in order;
    - a division starts, in every partition, where the one before it ended; no end of an output goes back;
    - `checkpoints` hold committed steps only, and their numbers rise.
    """

    def __init__(self, topic: str, begin: int = 0) -> None:
        """`begin`: the first offset the topic still holds; where it is not 0, the first record must be a snapshot."""
        self.topic = topic
        self.claim: Claim | None = None
        self.first = 0  # the first step whose records are at hand; those below were truncated or forgotten
        self.steps = 0  # how many steps are committed; the last one is steps - 1
        self.divisions: dict[int, DivisionRecord] = {}
        self.step_records: dict[int, StepRecord] = {}
        self.positions: dict[TopicPartition, int] = {}  # where the next division starts
        self.ends: dict[TopicPartition, int] = {}  # of outputs
        self.topics: dict[str, TopicIdentity] = {}
        self.intent: VersionId | None = None
        self.checkpoints: tuple[VersionId, ...] = ()
        self.layout: LayoutRecord | None = None
        self.circuit: CircuitRecord | None = None
        self.generation = 0  # how often state and outputs were rebuilt; part of the databases' identity
        self.refresh: Refresh | None = None  # begun and not done
        self.grown: frozenset[str] = frozenset()  # topics with more partitions than when the state began
        self.snapshots: list[tuple[int, int]] = []  # (offset, steps committed before it)
        self.offset_next = begin  # all records below this offset are folded in

    @property
    def epoch(self) -> int:
        """The highest epoch claimed; -1 before any claim."""
        return -1 if self.claim is None else self.claim.epoch

    @property
    def step_last(self) -> int | None:
        """The last step whose output is committed."""
        return self.steps - 1 if self.steps else None

    @property
    def division_next(self) -> int:
        """The step that the next division is for. The coordinator asks before every action, so it costs the same for any number of steps."""
        return next(reversed(self.divisions), self.steps - 1) + 1

    @property
    def pending(self) -> tuple[DivisionRecord, ...]:
        """Divided but not committed: a run must take up these steps first."""
        return tuple(self.divisions[s] for s in range(self.steps, self.division_next))

    def outputs(self, step: int) -> tuple[OutputPart, ...]:
        """What step wrote; `first <= step < steps`."""
        return self.step_records[step].outputs

    def snapshot(self) -> Snapshot:
        """The state in one record: a log that begins with it is read as if nothing had been truncated, but for the
        committed steps themselves."""
        assert self.claim is not None, "nothing is written before a claim"
        return Snapshot(
            epoch=self.epoch,
            claim=self.claim,
            steps=self.steps,
            pending=self.pending,
            positions=_as_parts(self.positions),
            ends=_as_parts(self.ends),
            topics=tuple(self.topics[name] for name in sorted(self.topics)),
            intent=self.intent,
            checkpoints=self.checkpoints,
            layout=self.layout,
            circuit=self.circuit,
            generation=self.generation,
            refresh=self.refresh,
            grown=tuple(sorted(self.grown)),
        )

    def grown_with(self, topics: Iterable[TopicIdentity]) -> tuple[str, ...]:
        """The topics that have grown since the state began, once these are found, in order."""
        known = ((t, self.topics.get(t.topic, t)) for t in topics)
        return tuple(sorted(self.grown | {t.topic for t, before in known if t.partitions > before.partitions}))

    def truncation_point(self, step: int) -> int | None:
        """The offset below which nothing is needed to replay from `step`: that of the last snapshot with no step >=
        `step` before it; None where there is none."""
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
        """Folds the next record in; raises BrokenStepLog, and changes nothing, where it cannot follow."""
        assert offset >= self.offset_next, f"offset {offset} was folded in before"
        reason = self._why_not(record)
        if reason is not None:
            raise BrokenStepLog(self.topic, offset, record.kind, record.epoch, reason)
        self._fold(record, offset)
        self.offset_next = offset + 1

    def fork(self) -> StepLogState:
        """A copy that can be folded into without changing this one."""
        other = copy.copy(self)
        for name in ("divisions", "step_records", "positions", "ends", "topics", "snapshots"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def _why_not(self, record: Record) -> str | None:
        if self.claim is None and self.offset_next > 0 and not isinstance(record, Snapshot):
            return "what came before was deleted, and this is no snapshot of it"
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
            return f"the outputs are being taken back for generation {self.refresh.generation}, and no reset followed"
        if isinstance(record, DivisionRecord):
            return self._why_not_division(record)
        if isinstance(record, StepRecord):
            return self._why_not_step(record)
        if isinstance(record, CheckpointIntent):
            return self._why_not_intent(record.version)
        if isinstance(record, CheckpointComplete):
            return self._why_not_complete(record.version)
        if isinstance(record, CircuitRecord | LayoutRecord):
            return self._why_not_ground(record)
        assert_never(record)

    def _why_not_ground(self, record: CircuitRecord | LayoutRecord) -> str | None:
        """Circuit and layout come once in a generation, before its first division: the state of all its steps belongs to them."""
        known = self.circuit if isinstance(record, CircuitRecord) else self.layout
        if known is not None:
            return f"the {record.kind} of generation {self.generation} is recorded already, and cannot change"
        if self.division_next > 0:
            return f"step {self.division_next - 1} is divided already, and the {record.kind} must precede step 0"
        if isinstance(record, LayoutRecord) and record.number != 0:
            return f"layout {record.number}, where the first layout of a generation has number 0"
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
                return "it keeps topics that were not taken back"
        if isinstance(record, TakenBack):
            for end in record.ends:
                where = TopicPartition(end.topic, end.partition)
                if end.topic not in self.refresh.tombstones or end.offset < self.ends.get(where, 0):
                    return f"the end of {where} goes back, or its topic is not to be taken back with tombstones"
        return None

    def _why_not_snapshot(self, record: Snapshot) -> str | None:
        if self.claim is None:
            return None
        return None if record == self.snapshot() else "it does not say what the records before it say"

    def _why_not_division(self, record: DivisionRecord) -> str | None:
        if self.steps <= record.step < self.division_next:
            before = self.divisions[record.step]
            if record.step == self.division_next - 1 and record.is_cut_of(before):
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
                return f"of step {record.step}: {where} goes [{r.start}, {r.end}), and should start at {start}"
        for topic in record.topics:
            known = self.topics.get(topic.topic, topic)
            if known.id != topic.id or known.partitions > topic.partitions:
                return f"of step {record.step}: topic {topic.topic!r} was {known.id}, now {topic.id}, or has shrunk"
        if record.grown != (grown := self.grown_with(record.topics)):
            return f"of step {record.step}: it says that {record.grown} have grown, the records before it {grown}"
        return None

    def _why_not_again(self, record: DivisionRecord, before: DivisionRecord) -> str | None:
        """A pending step may be divided again by a later run, with another policy for malformed messages: nothing of it
        was written, and the state goes back to the last checkpoint at every start. All else must be as it was. (Less input is another
        matter: `DivisionRecord.is_cut_of`.)"""
        if record == before.with_policy(record.epoch, record.on_error, record.dead_letters):
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
                return f"of step {record.step}: the end of {part.where} goes back from {before} to {part.end}"
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
                if record.step == self.division_next - 1:  # it may have been cut, and the next one starts where it ends
                    self.positions.update({r.where: r.end for r in record.ranges})
                self.divisions[record.step] = record
            case DivisionRecord():
                self.divisions[record.step] = record
                self.positions.update({TopicPartition(r.topic, r.partition): r.end for r in record.ranges})
                self.topics.update({topic.topic: topic for topic in record.topics})
                self.grown = frozenset(record.grown)
            case StepRecord():
                self.step_records[record.step] = record
                self.steps = record.step + 1
                self.ends.update(record.ends)
            case CheckpointIntent():
                self.intent = record.version
            case CheckpointComplete():
                older = tuple(v for v in self.checkpoints if v.version < record.version.version)
                self.checkpoints = (*older, record.version)[-CHECKPOINTS_KEPT:]
                self.intent = None
            case LayoutRecord():
                self.layout = record
            case CircuitRecord():
                self.circuit = record
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

    def _reset(self, record: Reset) -> None:
        """As a new log, but for who holds it, and for the topics that were taken back: what they are and where they end."""
        kept = {topic.topic: topic for topic in record.topics}
        self.ends = {where: end for where, end in self.ends.items() if where.topic in kept}
        self.topics, self.grown = kept, frozenset()
        self.first = self.steps = 0
        self.divisions, self.step_records, self.positions, self.snapshots = {}, {}, {}, []
        self.intent, self.checkpoints, self.layout, self.circuit = None, (), None, None
        self.generation, self.refresh = record.generation, None

    def _adopt(self, record: Snapshot) -> None:
        self.claim = record.claim
        self.first = self.steps = record.steps
        self.divisions = {division.step: division for division in record.pending}
        self.positions = {TopicPartition(p.topic, p.partition): p.offset for p in record.positions}
        self.ends = {TopicPartition(p.topic, p.partition): p.offset for p in record.ends}
        self.topics = {topic.topic: topic for topic in record.topics}
        self.intent, self.checkpoints = record.intent, record.checkpoints
        self.layout, self.circuit = record.layout, record.circuit
        self.generation, self.refresh, self.grown = record.generation, record.refresh, frozenset(record.grown)

    def check(self) -> None:
        """Proves the invariants; a failure is our own mistake."""
        assert 0 <= self.first <= self.steps
        assert sorted(self.step_records) == list(range(self.first, self.steps))
        assert list(self.divisions) == list(range(self.first, self.division_next))
        assert self.steps <= self.division_next <= self.steps + PENDING_STEPS_MAX
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
        assert all(a < b for a, b in pairwise(self.snapshots))
        assert all(offset < self.offset_next for offset, _ in self.snapshots)
        assert self.claim is not None or not (self.divisions or self.checkpoints or self.intent or self.snapshots)


def _as_parts(offsets: dict[TopicPartition, int]) -> tuple[PartitionOffset, ...]:
    return tuple(
        PartitionOffset(topic=place.topic, partition=place.partition, offset=offsets[place])
        for place in sorted(offsets)
    )
