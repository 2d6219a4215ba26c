"""What users ask of the revision while the service runs, and the answers: accepted, or refused with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from base.fault import ExitCode, Fault
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.turns import TurnName
from coordinator.specification import PipelineSpec


class TransitionRefused(Fault):
    """A request that concerns the revision cannot be met now. Nothing was changed. `planned`: the JSON of `Planned`, if the reason is one
    that `stepwell plan` shows too."""

    exit_code = ExitCode.STATE

    def __init__(self, message: str, what_to_do: str = "", *, planned: dict[str, Any] | None = None) -> None:
        super().__init__(message, what_to_do)
        self.planned = planned


@dataclass(frozen=True)
class ApplyRequest:
    """Begin a transition to `spec`, which is the project of the files as it was planned. `hold`: the switch waits until the user asks for it.
    `chosen`: what else the user wants. `expect_revision`: the one in force for which the user has seen the plan; None if nobody has seen one."""

    spec: PipelineSpec
    hold: bool
    chosen: Chosen = NOTHING_CHOSEN
    expect_revision: int | None = None


@dataclass(frozen=True)
class TurnTransition:
    """Something for the transition that is prepared or under way."""

    what: TurnName


RevisionRequest = ApplyRequest | TurnTransition


def still_finishing() -> TransitionRefused:
    """The refusal while a run finishes the steps of the previous project, before it goes on with that of the files as the next revision."""
    return TransitionRefused(
        "the run finishes the steps that were begun with the previous project, and then goes on with that of its files.",
        "Ask again in a moment; `stepwell revision show` shows which revision is in force.",
    )


def stopping() -> TransitionRefused:
    """The refusal once the run has been asked to stop: what it accepted now would be lost."""
    return TransitionRefused("the service stops.", "Start it again with `stepwell run`, and ask again.")


def another_revision(in_force: int, seen: int) -> TransitionRefused:
    """The refusal of a plan that was made for a revision which is not in force any more."""
    return TransitionRefused(
        f"revision {in_force} is in force now, and the plan was made for revision {seen}.",
        "Run the command again, which shows the plan again.",
    )


def second_transition(number: int) -> TransitionRefused:
    """The refusal of a transition while the one to revision `number` is under way."""
    return TransitionRefused(
        f"the transition to revision {number} is under way, and no other one can begin before it is settled.",
        "`stepwell revision show` shows how far it is, and `stepwell revision abort` takes it back.",
    )
