"""Which records of revisions can follow which: see the diagram in revision_state.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from io_kafka.step_log.common_rules import is_ascending, why_not_topic
from io_kafka.step_log.form import TopicIdentity
from io_kafka.step_log.revision_records import (
    Drain,
    RevisionIntent,
    RevisionPause,
    RevisionRecord,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
)
from io_kafka.step_log.revision_state import Clearing, Detached, Filling, RevisionState, Switching
from io_kafka.step_log.table_records import why_not_loads

TransitionRecord = RevisionIntent | RevisionSwitch | RevisionTurn | RevisionPause | RevisionSettled


@dataclass(frozen=True, kw_only=True)
class RevisionGround:
    """What the rules depend on."""

    revisions: RevisionState
    division_next: int
    """The step of the next division."""
    is_drained: bool
    """Whether the steps of all divisions are written."""
    has_layout: bool
    """Whether the generation has begun."""
    is_of_format_2: bool
    """Whether the log has a circuit in place of a revision."""
    is_checkpointed: bool
    """Whether the last complete checkpoint has all steps, and no other is intended."""
    checkpoint_step: int | None
    """The steps in that checkpoint; None without any."""
    filled: int
    """The position before the next division."""
    has_reread_all: bool
    """Whether the new nodes have got all that is read again; see LogValue."""
    topics: Mapping[str, TopicIdentity]
    """Those that are known."""
    loads: frozenset[str]
    """The topics of the loads of batch tables."""


def why_not_revision(record: RevisionRecord, ground: RevisionGround) -> str | None:
    """No step of another revision may be left to be replayed: its last checkpoint has all steps. A log of format 2 says in another way which
    project made all of its steps."""
    if (reason := _why_not_at_rest(ground)) is not None:
        return reason
    if record.number != (number := _number_next(ground.revisions)):
        return f"revision {record.number}, where {number} is the next one"
    step = 0 if ground.is_of_format_2 else ground.division_next
    if record.step != step:
        return f"revision {record.number} begins with step {record.step}, where step {step} is the next one"
    if step > 0 and not (ground.is_drained and ground.is_checkpointed):
        return f"revision {record.number} begins with step {step}, and no complete checkpoint has all steps before it"
    return None


def why_not_transition(record: TransitionRecord, ground: RevisionGround) -> str | None:
    """Why the record cannot follow; None if it can."""
    if isinstance(record, RevisionIntent):
        return _why_not_intent(record, ground)
    phase = ground.revisions.phase
    if phase is None:
        return "no transition to another revision is under way"
    if record.number != phase.intent.number:
        return f"it is of revision {record.number}, and the transition leads to revision {phase.intent.number}"
    match record:
        case RevisionSwitch():
            return _why_not_switch(record, ground)
        case RevisionTurn():
            return _why_not_turn(record, ground)
        case RevisionPause():
            return _why_not_pause(record, ground)
        case RevisionSettled():
            return _why_not_settled(record, ground)
        case _:
            assert_never(record)


def _why_not_intent(record: RevisionIntent, ground: RevisionGround) -> str | None:
    if (reason := _why_not_at_rest(ground)) is not None:
        return reason
    if ground.revisions.in_force is None or not ground.has_layout:
        return "no revision is in force"
    if record.number != (number := _number_next(ground.revisions)):
        return f"revision {record.number}, where {number} is the next one"
    if not is_ascending(each.where for each in record.again):
        return "the partitions that are read again are out of order or there twice"
    if (reason := why_not_loads(record.tables, ground.loads)) is not None:
        return reason
    return _why_not_boundary("the transition", record.step, ground)


def _why_not_switch(record: RevisionSwitch, ground: RevisionGround) -> str | None:
    phase = ground.revisions.phase
    if not isinstance(phase, Filling):
        return f"the transition to revision {record.number} is not filling"
    if phase.is_paused:
        return f"the transition to revision {record.number} is paused"
    if ground.filled != phase.intent.whole:
        return f"new nodes are filled up to {ground.filled}, and not up to {phase.intent.whole}"
    if (record.drain is not None) != phase.intent.choices.gradual:
        return f"it drains {'nothing' if record.drain is None else 'what differs'}, and the transition was begun in the other way"
    if not ground.has_reread_all:
        return "new nodes lack input that the revision in force has read"
    names = [topic.topic for topic in record.topics]
    if len(names) != len(set(names)):
        return "it announces a topic twice"
    for topic in record.topics:
        if (reason := why_not_topic(topic, ground.topics)) is not None:
            return reason
    return _why_not_boundary("the switch", record.step, ground)


def _why_not_boundary(what: str, step: int, ground: RevisionGround) -> str | None:
    """A circuit is exchanged between two steps, and no step of the previous one may be left to run."""
    if step != ground.division_next:
        return f"{what} begins with step {step}, where step {ground.division_next} is the next one"
    return None if ground.is_drained else f"{what} begins with step {step}, and steps before it are not written"


def _why_not_turn(record: RevisionTurn, ground: RevisionGround) -> str | None:
    phase, reason = ground.revisions.phase, record.reason
    match reason:
        case "abort":
            is_possible = isinstance(phase, Filling | Detached | Switching)
        case "detached":
            is_possible = isinstance(phase, Filling)
        case "taken_back":
            is_possible = isinstance(phase, Switching)
        case "resume":
            is_possible = isinstance(phase, Detached)
        case _:
            assert_never(reason)
    if not is_possible:
        return f"{reason}: the transition to revision {record.number} is {'settled' if phase is None else phase.kind}"
    if isinstance(phase, Filling) and record.step is not None:
        first = ground.revisions.passages[-1].first
        if not first <= record.step < ground.division_next:
            return f"{reason}: step {record.step}, and the steps from {first} on, below {ground.division_next}, fill"
    if isinstance(phase, Switching) and record.step not in (None, phase.switch.step):
        return f"{reason}: step {record.step}, and step {phase.switch.step} is the first one of the next revision"
    if isinstance(phase, Detached) and record.step not in (None, ground.division_next):
        return f"{reason}: step {record.step}, where step {ground.division_next} is the next one"
    return None


def _why_not_pause(record: RevisionPause, ground: RevisionGround) -> str | None:
    phase = ground.revisions.phase
    if not isinstance(phase, Filling):
        return f"the transition to revision {record.number} is not filling, so it is neither paused nor goes on"
    if phase.is_paused == record.is_paused:
        return f"the transition to revision {record.number} is {'paused' if phase.is_paused else 'not paused'} already"
    return None


def _why_not_settled(record: RevisionSettled, ground: RevisionGround) -> str | None:
    """Numbers of nodes are free as soon as no recovery brings their tables back."""
    phase = ground.revisions.phase
    if not isinstance(phase, Clearing):
        return f"the transition to revision {record.number} has not ended"
    if record.step != ground.checkpoint_step:
        return f"it is of step {record.step}, and the last complete checkpoint of step {ground.checkpoint_step}"
    if record.step < phase.since:
        return f"the checkpoint of step {record.step} has tables that were to be removed from step {phase.since} on"
    unknown = sorted(set(record.tables_gone) - ground.loads)
    return f"it ends the loads of batch tables in {', '.join(unknown)}, which nobody has recorded" if unknown else None


def why_not_filled(step: int, filled: int | None, before: int, revisions: RevisionState) -> str | None:
    """Why the next division cannot fill, or drain, up to `filled`; None if it can. `before`: the position before it."""
    if (drain := revisions.drain_at(step)) is not None:
        return _why_not_drained(step, filled, before, drain)
    passage = revisions.passage_that_fills(step)
    if passage is None:
        return None if filled is None else f"of step {step}: it fills up to {filled}, and the step fills nothing"
    if filled is None:
        return f"of step {step}: it does not say how far it fills the new nodes of revision {passage.intent.number}"
    if not before <= filled <= passage.intent.whole:
        return f"of step {step}: it fills up to {filled}, which is not between {before} and {passage.intent.whole}"
    return None


def _why_not_drained(step: int, filled: int | None, before: int, drain: Drain) -> str | None:
    """A drain ends with the step at which everything has left. What follows it runs another program, so it is divided when that is written."""
    if filled is None:
        return f"of step {step}: it does not say how far what differs has left"
    if before == drain.whole:
        return f"of step {step}: everything that differs leaves in the step before it, which is not written"
    if not before <= filled <= drain.whole:
        return f"of step {step}: it drains up to {filled}, which is not between {before} and {drain.whole}"
    return None


def _why_not_at_rest(ground: RevisionGround) -> str | None:
    phase = ground.revisions.phase
    if phase is None:
        return None
    return f"a transition to revision {phase.intent.number} is under way, or is not settled"


def _number_next(revisions: RevisionState) -> int:
    return 1 if revisions.in_force is None else revisions.in_force.number + 1
