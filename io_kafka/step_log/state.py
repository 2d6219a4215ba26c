"""The state machine of the step log, a topic with one partition that holds all claims, divisions, steps and checkpoints in order.

Guarantee: `StepLogState` is a function of the records that were folded into it, and it refuses a record that cannot follow
them. So a log that was read to its end without an error is one that correct runs can have written.

    claim(e) ----> division(s) ----> step(s) ----> division(s+1) ----> ...
       ^              |  at most PENDING_STEPS_MAX ahead     checkpoint_intent -> checkpoint_complete, at any time
       |              v
       +---- claim(e' > e), at any time; a division whose step is not written stays; the new run may record it again, with
             the project's present policy for malformed messages

    ended(e): after whatever a run has done; only a claim follows it

    division(s) ----> division(s) over less input: its messages had more bytes than a step may have. Nothing of s was written,
    and no state has seen it. A division after it is void, because it began where this one ended.

    division(s) ----> division(s) over more input, if s ends where a view has no answer (is_widening_of); or over less of what is read again
    for new nodes (rereads_less_than). Any other input is refused.

    division(s) ----> division(s) that counts the error rows of more nodes: rows of s gave an error. Of a node that has no error rows after the
    last step, the next division counts none.

    revision(n), of which the last one is in force:
    - before division(0); or
    - at a drained boundary whose checkpoint is complete, if the state can be continued as it is; or
    - in a log of format 2, which has `circuit` and perhaps `leaves` in its place, once at any time

    revision_intent(n+1) ----> division(s) that fills, ... ----> revision_switch(n+1) ----> step(t) ----> revision_settled(n+1)
       ^ at a drained boundary                                      ^ likewise, when everything is filled     ^ when a checkpoint lacks the
                                                                                                                tables that no revision has
                                                                  ^ with a drain, all steps in which a part of what differs leaves
    revision_turn(n+1): in between, as revision_state.py shows. An aborted transition is settled too

    table(t): any number, the last of them whole, before division(0)

    checkpoint_complete(v) ----> checkpoint_stored(v), at any time after it
                           ----> checkpoint_stored(u) that restores an older version, of which the log still has all steps since

    layout(0) ----> layout_intent(1) ----> [layout_turn(1)] ----> checkpoint with the target's owners ----> layout(1) ----> ...
                    ^ before division(0) or at any time           ^ checkpoints before it have the owners of that moment
                    layout(n+1) may also go back to the owners of the stored version, which ends a change that is under way

    layout_auto: at any time after layout(0); the last one counts, also after a refresh
    copied: right after the claims of a new log. Steps begin at that of the version, which is stored

    refresh(g) ----> taken_back(g), any number ----> reset(g) ----> as in a new log: revision, layout, division(0), ...

Between refresh and reset only taken_back and a claim can follow, because the next run finishes a refresh that was begun.

For consumers of the outputs: a `reset` means that below the recorded ends all output was retracted, in upsert topics by tombstones and in
all others by deletion. A consumer that keeps rows of the latter must drop them. Afterwards it goes on as before: it waits for a step's
record, and reads up to the ends in that record.

The state machine does no I/O. The writer (transactions.py) and the reader (step_log_reader.py) both fold records into it.

The state is a value: a record makes another one. Which record may follow is in rules.py, what a snapshot has in snapshots.py, and what is
always true in invariants.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, assert_never

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.former_formats import CircuitRecord, Former, LeavesRecord
from io_kafka.step_log.invariants import check_invariants
from io_kafka.step_log.layout_records import LayoutAuto, LayoutIntent, LayoutRecord, LayoutTurn, Ownership
from io_kafka.step_log.lost import StepLogUnreadable
from io_kafka.step_log.records import (
    CheckpointComplete,
    CheckpointIntent,
    CheckpointStored,
    Claim,
    Copied,
    DivisionRecord,
    Ended,
    Record,
    Refresh,
    Reset,
    Snapshot,
    StepRecord,
    TableRecord,
    TakenBack,
)
from io_kafka.step_log.revision_records import (
    RevisionIntent,
    RevisionPause,
    RevisionRecord,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
)
from io_kafka.step_log.revision_state import Clearing, Filling, RevisionState, Switching
from io_kafka.step_log.rules import why_not
from io_kafka.step_log.snapshots import FROM_SNAPSHOTS, as_offsets, snapshot_of
from io_kafka.step_log.value import CHECKPOINTS_KEPT, LogValue


class BrokenStepLog(StepLogUnreadable):
    """A record of the step log cannot follow the ones before it."""

    def __init__(self, topic: str, offset: int, kind: str, epoch: int, reason: str) -> None:
        self.offset = offset
        super().__init__(
            topic,
            f"step log {topic!r} partition 0 offset {offset}: a {kind} record of epoch {epoch}: {reason}. The log was "
            "written by something other than runs of this pipeline, or has lost records; nothing was changed.",
        )


class StepLogState(LogValue):
    """The value with what a record makes of it. It has no field of its own."""

    def snapshot(self) -> Snapshot:
        """The state as one record. A log that begins with it gives the same state as the whole log, without the records of
        committed steps."""
        return snapshot_of(self)

    def truncation_point(self, step: int) -> int | None:
        """The offset below which no record is needed for a replay from `step`. It is that of the last snapshot before which no step
        >= `step` was committed. None if there is no such snapshot."""
        return max((offset for offset, steps in self.snapshots if steps <= step), default=None)

    def truncate(self, offset: int) -> StepLogState:
        """Returns the state without the snapshots below `offset`, which the log no longer has."""
        return replace(self, snapshots=tuple(found for found in self.snapshots if found[0] >= offset))

    def forget_below(self, step: int) -> StepLogState:
        """Returns the state without the committed steps below `step`, which the log keeps. Their memory is free then."""
        first = min(step, self.steps)
        if first <= self.first:
            return self
        return replace(
            self,
            divisions=self.divisions.drop_below(first),
            step_records=self.step_records.drop_below(first),
            revisions=self.revisions.forgotten_below(first, self.filled_after(first - 1)),
        )

    def apply(self, record: Record, offset: int) -> StepLogState:
        """The state with the next record. Raises BrokenStepLog if the record cannot follow."""
        assert offset >= self.offset_next, f"offset {offset} was folded in before"
        reason = why_not(self, record)
        if reason is not None:
            raise BrokenStepLog(self.topic, offset, record.kind, record.epoch, reason)
        after = self._after(record, offset)
        assert after is not self
        # It was made here; another `replace` would double the time.
        object.__setattr__(after, "offset_next", offset + 1)
        return after

    def _after(self, record: Record, offset: int) -> StepLogState:
        """Returns the state after a record that can follow."""
        match record:
            case Claim():
                return replace(self, claim=record, has_ended=False)
            case Ended():
                return replace(self, has_ended=True)
            case DivisionRecord() if record.step in self.divisions:
                return self._with_division_replaced(record)
            case DivisionRecord():
                return self._with_division(record)
            case StepRecord():
                return self._with_step(record)
            case CheckpointIntent():
                return replace(self, intent=record.version)._with_placed(record.version, record.placed)
            case CheckpointComplete():
                return self._with_checkpoint(record.version)
            case CheckpointStored():
                return self._with_stored(record)
            case LayoutRecord():
                return replace(self, layout=record, rescale=None, turns=())
            case LayoutIntent():
                return replace(self, rescale=record)
            case LayoutTurn():
                return replace(self, turns=(*self.turns, record))
            case LayoutAuto():
                return replace(self, auto=record)
            case Former():
                return replace(self, is_former=True)
            case RevisionRecord():
                return replace(self, revisions=self.revisions.with_revision(record), circuit=None, leaves=None)
            case RevisionIntent():
                return self._with_intent(record)
            case RevisionSwitch():
                return self._with_switch(record)
            case RevisionTurn():
                return self._with_turn(record)
            case RevisionPause():
                return replace(self, revisions=self.revisions.with_pause(record))
            case RevisionSettled():
                return self._with_settled(record)
            case CircuitRecord():
                return replace(self, circuit=record)
            case LeavesRecord():
                return replace(self, leaves=record)
            case TableRecord():
                return replace(self, tables={**self.tables, record.topic.topic: record})
            case Refresh():
                return replace(self, refresh=record)
            case TakenBack():
                return self._with_taken_back(record)
            case Reset():
                return self._reset(record)
            case Snapshot():
                adopted = self._adopt(record) if self.claim is None else self._with_firsts_of(record)
                return replace(adopted, snapshots=(*self.snapshots, (offset, record.steps)))
            case Copied():
                return self._adopt(record.state)
            case _:
                assert_never(record)

    def _with_division(self, record: DivisionRecord) -> StepLogState:
        return replace(
            self,
            divisions=self.divisions.with_next(record),
            firsts=self._firsts_with(record),
            topics={**self.topics, **{topic.topic: topic for topic in record.topics}},
            grown=frozenset(record.grown),
            clock_us=self.clock_us if record.clock_us is None else record.clock_us,
            **self._present_by(record),
        )

    def _with_step(self, record: StepRecord) -> StepLogState:
        """Returns the state with the output of a step. The step of a switch or of a drain also leads the transition on."""
        ends = {**self.ends, **record.ends}
        now = replace(self, step_records=self.step_records.with_next(record), ends=ends, errors=record.errors)
        if not self.revisions.is_to_pass_on(record.step):
            return now
        drained = self.divisions[record.step].filled
        return replace(now, revisions=self.revisions.with_passed_on(record.step, drained), again={})

    def _with_checkpoint(self, version: VersionId) -> StepLogState:
        """Returns the state in which all databases have this version. Of the former ones, those with a lower number stay."""
        older = tuple(v for v in self.checkpoints if v.version < version.version)
        now = replace(self, intent=None, checkpoints=(*older, version)[-CHECKPOINTS_KEPT:])
        return now._with_placed(version, self.placed[version])

    def _with_stored(self, record: CheckpointStored) -> StepLogState:
        """Returns the state with what the checkpoint store has. After a restore, no other version can be opened."""
        if not record.restores:
            return replace(self, stored=record)
        only = replace(self, stored=record, intent=None, checkpoints=(record.version,))
        return only._with_placed(record.version, record.placed)

    def _with_intent(self, record: RevisionIntent) -> StepLogState:
        """Returns the state in which a transition is under way, whose loads of batch tables are there already."""
        loads = {each.topic.topic: each for each in record.tables}
        revisions = self.revisions.with_intent(record)
        return replace(self, revisions=revisions, again={}, tables={**self.tables, **loads})

    def _with_taken_back(self, record: TakenBack) -> StepLogState:
        """Returns the state in which a refresh has written tombstones up to these ends."""
        taken = {TopicPartition(e.topic, e.partition): e.offset for e in record.ends}
        return replace(self, ends={**self.ends, **taken})

    def _with_switch(self, record: RevisionSwitch) -> StepLogState:
        """The next division starts where input was read again, in the partitions that only the next revision reads."""
        assert isinstance(self.revisions.phase, Filling)
        again = self.revisions.phase.intent.again
        live = {each.where: each.start for each in again if each.is_live and not each.is_from_now}
        only_new = {each.where: each.start for each in again if not each.is_live}
        return replace(
            self,
            revisions=self.revisions.with_switch(record, self.counted, tuple(sorted(self.topics))),
            topics={**self.topics, **{topic.topic: topic for topic in record.topics if topic.topic not in self.topics}},
            next_offsets={**self.next_offsets, **self.reads_again},
            firsts={**live, **self.firsts, **only_new},
        )

    def _with_firsts_of(self, record: Snapshot) -> StepLogState:
        return self if record.firsts is None else replace(self, firsts=as_offsets(record.firsts))

    def _firsts_with(self, record: DivisionRecord) -> Mapping[TopicPartition, int]:
        new = {r.where: r.start for r in record.ranges if r.where not in self.next_offsets}
        return {**self.firsts, **new} if new else self.firsts

    def _with_placed(self, version: VersionId, placed: Ownership) -> StepLogState:
        """Returns the state with the owners of slots in this version. Those in versions that no recovery opens are forgotten."""
        known = {*self.checkpoints, self.intent}
        every = {**self.placed, version: placed}
        return replace(self, placed={each: its for each, its in every.items() if each in known})

    def _with_division_replaced(self, record: DivisionRecord) -> StepLogState:
        """A division over less or more input than before, or that counts the error rows of other nodes: the next division starts where it
        ends. What was divided after it never reached a state. A division with another policy alone leaves those after it as they are."""
        before = self.divisions[record.step]
        if (record.ranges, record.again, record.counted) == (before.ranges, before.again, before.counted):
            return replace(self, divisions=self.divisions.with_value(record.step, record))
        now = self._without_divisions_from(record.step + 1)
        return replace(now, divisions=now.divisions.with_value(record.step, record), **now._present_by(record))

    def _present_by(self, record: DivisionRecord) -> dict[str, Any]:
        """The fields that say what holds after the last division, if this is the last one."""
        return {
            "counted": record.counted,
            "next_offsets": {**self.next_offsets, **{r.where: r.end for r in record.ranges}},
            "again": {**self.again, **{r.where: r.end for r in record.again}},
            "idle": record.idle,
        }

    def _without_divisions_from(self, step: int) -> StepLogState:
        """Returns the state as if the divisions from `step` on had not been recorded, but for `counted` and `idle`, which the caller sets: the
        division before `step` may no longer be known. `clock_us` and `grown` stay, because the time never goes back and a topic never has fewer
        partitions."""
        next_offsets, again = dict(self.next_offsets), dict(self.again)
        for void in range(self.division_next - 1, step - 1, -1):
            next_offsets.update({r.where: r.start for r in self.divisions[void].ranges})
            again.update({r.where: r.start for r in self.divisions[void].again})
        return replace(self, divisions=self.divisions.drop_from(step), next_offsets=next_offsets, again=again)

    def _with_turn(self, record: RevisionTurn) -> StepLogState:
        """If the turn ends a switch, the divisions from its step on are void, and so is what only the next revision knows of topics."""
        log, phase = self, self.revisions.phase
        if isinstance(phase, Switching):
            step, read_again = phase.switch.step, {each.topic for each in phase.intent.again if not each.is_live}
            kept = replace(self._without_divisions_from(step), counted=phase.counted, idle=())
            log = kept._without_topics((self.topics.keys() | read_again) - set(phase.known))
        if record.reason != "taken_back":  # what was filled is void
            log = replace(log, again={})
        return replace(log, revisions=log.revisions.with_turn(record, log.steps, log.division_next))

    def _with_settled(self, record: RevisionSettled) -> StepLogState:
        """Steps before the switch may read loads that are gone now. After an abort, all steps that are replayed run the former project alone.
        What is known of the topics of these loads goes too, or it would grow with each load."""
        phase, gone = self.revisions.phase, frozenset(record.tables_gone)
        assert isinstance(phase, Clearing)
        now = replace(self, revisions=self.revisions.with_settled())
        if not gone:
            return now
        return replace(
            now._without_topics(gone),
            tables={name: load for name, load in self.tables.items() if name not in gone},
            replayed_from=max(self.replayed_from, phase.since if phase.is_switched else 0),
        )

    def _without_topics(self, gone: Set[str]) -> StepLogState:
        """Returns the state without what is known of these topics as inputs. Each field that has an entry for each input topic is named here."""
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name not in gone},
            grown=self.grown - gone,
            next_offsets={where: at for where, at in self.next_offsets.items() if where.topic not in gone},
            firsts={where: at for where, at in self.firsts.items() if where.topic not in gone},
        )

    def _reset(self, record: Reset) -> StepLogState:
        """The state of a new log, but for the claim, the number of the last revision, the bounds of the number of workers, and the ids and ends
        of the topics that were emptied.
        A transition that was under way is over, because all tables are gone."""
        kept = {topic.topic: topic for topic in record.topics}
        ends = {where: end for where, end in self.ends.items() if where.topic in kept}
        return StepLogState(
            self.topic,
            self.offset_next,
            claim=self.claim,
            revisions=RevisionState(root=self.revisions.root, in_force=self.revision),
            topics=kept,
            ends=ends,
            generation=record.generation,
            auto=self.auto,
        )

    def _adopt(self, record: Snapshot) -> StepLogState:
        return replace(self, **{name: read(record) for name, read in FROM_SNAPSHOTS.items()})

    def check(self) -> None:
        """Asserts the invariants; a failure is a bug in Stepwell."""
        check_invariants(self)
