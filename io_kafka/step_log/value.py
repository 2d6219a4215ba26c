"""What the step log says, as a value: all that is known after the records so far, and what follows from it.

How a record changes it is in state.py, which record may follow in rules.py, and what a snapshot has of it in snapshots.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.former_formats import CircuitRecord, LeavesRecord
from io_kafka.step_log.layout_records import (
    HostsPart,
    LayoutAuto,
    LayoutIntent,
    LayoutRecord,
    LayoutTurn,
    Ownership,
    Target,
)
from io_kafka.step_log.layout_rules import LayoutGround
from io_kafka.step_log.numbered import Numbered
from io_kafka.step_log.programs import ProgramKey, ProgramOfStep, key_of
from io_kafka.step_log.records import (
    CheckpointStored,
    Claim,
    DivisionRecord,
    NodeErrors,
    Origin,
    OutputPart,
    Refresh,
    StepRecord,
    TableRecord,
    TopicIdentity,
)
from io_kafka.step_log.revision_records import RevisionRecord
from io_kafka.step_log.revision_rules import RevisionGround
from io_kafka.step_log.revision_state import Filling, RevisionState

PENDING_STEPS_MAX = 2
"""How many divisions may be recorded ahead of output: that of the step whose output is next, and that of the step after it, which the
workers run meanwhile."""

CHECKPOINTS_KEPT = 2
"""A database can open at most two versions, so recovery needs no older ones."""


@dataclass(frozen=True)
class LogValue:
    """What is known after the records that were folded in so far. A new log has the defaults, and a `reset` gives them back, but for some. The
    invariants are in invariants.py."""

    topic: str
    offset_next: int = 0
    """All records below this offset are folded in. At the beginning it is the first offset that the topic still holds. If that is not 0, the
    first record must be a snapshot."""
    claim: Claim | None = None
    """The claim of the highest epoch, which every record after it has."""
    divisions: Numbered[DivisionRecord] = field(default_factory=Numbered)
    """The divisions of the steps in `step_records` and of the pending ones, without gap and in order. In every partition a division starts where
    the one before it ended."""
    step_records: Numbered[StepRecord] = field(default_factory=Numbered)
    """The records of the steps `first <= s < steps`."""
    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the next division starts."""
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the first division of each input began. Those of a log of format 2 whose first divisions were truncated are not known."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the outputs end. An end never decreases."""
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    """The topics that divisions and switches have announced, and those of outputs that a refresh has kept."""
    intent: VersionId | None = None
    """The version of the checkpoint that is intended and not complete."""
    checkpoints: tuple[VersionId, ...] = ()
    """The last complete ones, CHECKPOINTS_KEPT at most. They hold only committed steps, and their numbers increase."""
    placed: Mapping[VersionId, Ownership] = field(default_factory=dict)
    """The owners of slots in each of the checkpoints and in the intended one."""
    layout: LayoutRecord | None = None
    """The last one that is settled."""
    rescale: LayoutIntent | None = None
    """The rescale that is under way."""
    turns: tuple[LayoutTurn, ...] = ()
    """The turns of that rescale."""
    is_former: bool = False
    """Whether the state was made by a version with another format of this log."""
    revisions: RevisionState = field(default_factory=RevisionState)
    circuit: CircuitRecord | None = None
    """The circuit of a log of format 2. It is None as soon as the log has a revision."""
    leaves: LeavesRecord | None = None
    """The leaves of a log of format 2. It is None as soon as the log has a revision."""
    tables: Mapping[str, TableRecord] = field(default_factory=dict)
    """The last record of each load of a batch table, by topic."""
    generation: int = 0
    """The number of full refreshes. It is part of the databases' identity."""
    refresh: Refresh | None = None
    """The refresh that is under way."""
    counted: tuple[int, ...] = ()
    """The nodes whose error rows the last division counts."""
    errors: tuple[NodeErrors, ...] = ()
    """The error rows after the last committed step."""
    grown: frozenset[str] = frozenset()
    """The topics with more partitions than when the state began."""
    snapshots: tuple[tuple[int, int], ...] = ()
    """(offset, steps committed before it) of each snapshot in the log."""
    again: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Up to where the transition under way has read input again before the next division, in partitions of which it has read something."""
    replayed_from: int = 0
    """No step below it can be replayed, because the topics of batch tables that such steps read may be deleted."""
    stored: CheckpointStored | None = None
    """The version that the checkpoint store has."""
    auto: LayoutAuto | None = None
    """Between which numbers of workers Stepwell may choose; None as long as nobody has said it. A full refresh keeps it."""
    origin: Origin | None = None
    """From where the state was copied; None if it was computed from the beginning. A full refresh forgets it."""
    clock_us: int | None = None
    """The time of the last division that has one. No later one has an earlier time."""
    idle: tuple[str, ...] = ()
    """The sources that the last division says are idle."""
    has_ended: bool = False
    """Whether the run that has claimed the pipeline last has ended by itself. No record but a claim follows then."""

    @property
    def rescale_hosts(self) -> HostsPart | None:
        """Where the new workers of the rescale under way may be; None if anywhere. A turn leads somewhere else, so nothing is said of it."""
        return None if self.rescale is None or self.turns else self.rescale.hosts

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

    @property
    def revision(self) -> RevisionRecord | None:
        """The one in force, to which the next division belongs. It is None in a log of format 2. From a switch on it is the revision that the
        switch leads to, and the previous one again if the switch is taken back or the transition is aborted."""
        return self.revisions.in_force

    @property
    def filled(self) -> int:
        """The position up to which the transition under way has filled new nodes before the next division; during a drain, the position up to
        which differences have left."""
        return self.filled_before(self.division_next)

    def filled_before(self, step: int) -> int:
        """The position before a step with `first <= step <= division_next`; 0 where a transition begins to fill, and where a drain begins."""
        passage = self.revisions.passage_that_fills(step)
        if passage is not None:
            return 0 if step == passage.first else self.filled_after(step - 1)
        passage = self.revisions.passage_that_switches(step)
        if passage is None or passage.drain is None or step == passage.switch:
            return 0
        return self.filled_after(step - 1)

    def filled_after(self, step: int) -> int:
        """The position after a step with `first - 1 <= step < division_next`, as its division says; 0 if it says nothing."""
        return self.revisions.filled_before if step < self.first else self.divisions[step].filled or 0

    def program_of(self, step: int) -> ProgramOfStep:
        """What a step runs, in its first run and in a replay, with `first <= step < division_next`. A step below that of `revisions.root` is
        not replayed, and what is told of it may be wrong."""
        assert step in self.divisions, f"step {step} is not divided, or forgotten"
        return self.revisions.program_of(step, self.filled_before(step), self.filled_after(step))

    def program_key(self, step: int) -> ProgramKey:
        """Which program a step runs, also of one that is not divided yet."""
        return key_of(self.revisions.program_of(step, 0, 0))

    @property
    def reads_again(self) -> dict[TopicPartition, int]:
        """From where the next division reads each partition again that the transition under way names; none unless it fills."""
        phase = self.revisions.phase
        if not isinstance(phase, Filling):
            return {}
        return {**{each.where: each.start for each in phase.intent.again}, **self.again}

    @property
    def only_read_again(self) -> frozenset[TopicPartition]:
        """The partitions that only the new nodes of the transition under way read. The log may have an old position of them."""
        phase = self.revisions.phase
        again = phase.intent.again if isinstance(phase, Filling) else ()
        return frozenset(each.where for each in again if not each.is_live)

    @property
    def has_reread_all(self) -> bool:
        """Whether the new nodes of the transition under way have got all that the revision in force has read, of what is read again."""
        only_new, found = self.only_read_again, self.reads_again.items()
        return all(at == self.next_offsets.get(where, at) for where, at in found if where not in only_new)

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
    def layout_ground(self) -> LayoutGround:
        """What the rules for records of layouts depend on."""
        last = self.placed[self.checkpoints[-1]] if self.checkpoints else None
        stored = None if self.stored is None else self.stored.placed
        return LayoutGround(self.layout, self.rescale, self.turns, last, stored)

    @property
    def target(self) -> Target | None:
        """Where the change under way leads to; None without one."""
        return self.layout_ground.target

    def topics_grown(self, topics: Iterable[TopicIdentity]) -> tuple[str, ...]:
        """The topics that have grown since the state began, in order, if `topics` are announced now."""
        known = ((t, self.topics.get(t.topic, t)) for t in topics)
        return tuple(sorted(self.grown | {t.topic for t, before in known if t.partitions > before.partitions}))

    @property
    def revision_ground(self) -> RevisionGround:
        """What the rules for records of revisions depend on."""
        last = self.checkpoints[-1].step if self.checkpoints else None
        return RevisionGround(
            revisions=self.revisions,
            division_next=self.division_next,
            is_drained=not self.pending,
            has_layout=self.layout is not None,
            is_of_format_2=self.circuit is not None,
            is_checkpointed=self.intent is None and last == self.division_next,
            checkpoint_step=last,
            filled=self.filled,
            has_reread_all=self.has_reread_all,
            topics=self.topics,
            loads=frozenset(self.tables),
        )
