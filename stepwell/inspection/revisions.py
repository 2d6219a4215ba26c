"""What `stepwell revision show` shows: the revision in force and the transition, as the service or the step log has them.

Only the service knows the views that differ, their differences and the time to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from coordinator.revisions.choices import recorded_choices
from coordinator.revisions.document import PlanDocument
from coordinator.topic_names import plan_topic_of
from coordinator.transition.progress import share_drained, share_filled
from io_kafka.step_log.revision_records import RevisionRecord
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling, Switching
from io_kafka.step_log.state import StepLogState


@dataclass(frozen=True)
class InForce:
    """What the step log and the topic of plan documents have of the revision in force. `document`: None if it cannot be read."""

    record: RevisionRecord
    document: PlanDocument | None


def of_service(status: Mapping[str, Any], pipeline: str, recorded: InForce | None) -> dict[str, Any]:
    """The revision in a status of the service. `recorded`: the revision in force; None if it cannot be read."""
    known = recorded if recorded is not None and recorded.record.number == status["revision"] else None
    return {
        "is_running": True,
        **_in_force(status["revision"], pipeline, known),
        "in_error": status["in_error"],
        "transition": status["transition"],
        "transition_last": status["transition_last"],
    }


def of_log(log: StepLogState, recorded: InForce, pipeline: str) -> dict[str, Any]:
    """The revision of a pipeline that does not run. `recorded`: the revision in force."""
    return {
        "is_running": False,
        **_in_force(recorded.record.number, pipeline, recorded),
        "in_error": None,
        "transition": _transition(log),
        "transition_last": None,
    }


def _in_force(number: int, pipeline: str, recorded: InForce | None) -> dict[str, Any]:
    record = None if recorded is None else recorded.record
    document = None if recorded is None else recorded.document
    return {
        "revision": number,
        "since_step": None if record is None else record.step,
        "plan": None if record is None else record.plan,
        "plan_topic": plan_topic_of(pipeline),
        "counts_from": None if document is None else [each.to_json() for each in document.counts_from],
    }


def _transition(log: StepLogState) -> dict[str, Any] | None:
    """In the form of a status. What the log does not know is None."""
    phase = log.revisions.phase
    if phase is None:
        return None
    found = {
        "number": phase.intent.number,
        "is_paused": log.revisions.is_paused,
        "held_because": "",
        "filled": 1.0,
        "seconds_left": None,
        "drained": None,
        "since_step": phase.intent.step,
        "differences": None,
        "views": None,
        "error": "",
        "in_error": None,
        "choices": recorded_choices(phase.intent.choices).to_json(),
    }
    match phase:
        case Filling():
            return found | _filling(phase, log)
        case Detached():
            return found | {"phase": "detached", "filled": 0.0, "error": phase.turn.error or ""}
        case Switching() | Draining():
            return found | {"phase": "switching", "drained": share_drained(log)}
        case Clearing():
            return found | {"phase": "clearing"}
        case _:
            assert_never(phase)


def _filling(phase: Filling, log: StepLogState) -> dict[str, Any]:
    """A transition that is filled is held if the user wants that, or if its switch was taken back."""
    is_filled = log.filled >= phase.intent.whole and log.has_reread_all
    if phase.is_held and phase.turn is not None:
        why = f"the step of the switch has failed: {phase.turn.error}"
    elif is_filled and phase.intent.choices.hold:
        why = "it waits for `stepwell revision switch`, as --hold asked for"
    else:
        return {"phase": "ready" if is_filled else "filling", "filled": round(share_filled(log), 4)}
    return {"phase": "held", "held_because": why}
