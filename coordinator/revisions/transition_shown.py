"""A transition as users see it: what it is at, how far it is, and how the last one ended.

It is what `Status.transition` and `Status.transition_last` have. Names and meanings of the JSON stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen

TransitionPhase = Literal["preparing", "filling", "ready", "held", "detached", "switching", "clearing"]
PHASES: tuple[TransitionPhase, ...] = get_args(TransitionPhase)


@dataclass(frozen=True)
class ViewDifference:
    """How many rows of a changed view come and go at the switch. An updated row is one that goes and one that comes."""

    view: str
    come: int
    gone: int

    def to_json(self) -> dict[str, Any]:
        return {"view": self.view, "come": self.come, "gone": self.gone}


@dataclass(frozen=True)
class ChangedViews:
    """The names of the views that differ between the two revisions."""

    rebuilt: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        return {"rebuilt": list(self.rebuilt), "new": list(self.new), "dropped": list(self.dropped)}


@dataclass(frozen=True, kw_only=True)
class TransitionShown:
    """The transition under way. `number`: of the revision that it leads to. `filled`: the part that is filled, from 0 to 1. `seconds_left`:
    until it is filled; None if that is not known yet. `drained`: the part of what differs that has left, from 0 to 1, while it leaves in several
    steps; otherwise None. `since_step`: the first step that fills; None before there is one. `differences`: None
    before the new nodes are filled. `held_because`: why the switch waits for the user; empty unless the phase is `held`. `error`: of the new
    node that has failed, or of the switch that was taken back; otherwise empty. `in_error`: the views that the switch puts in error, because
    rows of new nodes are. `chosen`: how the user wants it."""

    number: int
    phase: TransitionPhase
    is_paused: bool
    held_because: str
    filled: float
    seconds_left: float | None
    drained: float | None
    since_step: int | None
    differences: tuple[ViewDifference, ...] | None
    views: ChangedViews
    error: str
    in_error: tuple[str, ...] = ()
    chosen: Chosen = NOTHING_CHOSEN

    def to_json(self) -> dict[str, Any]:
        differences = None if self.differences is None else [each.to_json() for each in self.differences]
        return {
            "number": self.number,
            "phase": self.phase,
            "is_paused": self.is_paused,
            "held_because": self.held_because,
            "filled": self.filled,
            "seconds_left": self.seconds_left,
            "drained": self.drained,
            "since_step": self.since_step,
            "differences": differences,
            "views": self.views.to_json(),
            "error": self.error,
            "in_error": list(self.in_error),
            "choices": self.chosen.to_json(),
        }

    def check(self) -> None:
        """Asserts what holds of every transition."""
        assert 0 <= self.filled <= 1
        assert self.drained is None or (0 <= self.drained <= 1 and self.phase == "switching")
        assert bool(self.held_because) == (self.phase == "held"), "a hold has a reason, and nothing else has"
        assert self.phase != "detached" or self.error, "a transition is detached because of an error"


@dataclass(frozen=True, kw_only=True)
class TransitionEnded:
    """The last transition that this run has seen ended. `step`: the first one of the revision that was switched to; after an abort the next
    step of the one that stays. `begin_ms`, `pause_ms`: how long no step could begin because it began, and because of the switch. `messages`:
    what the outputs that the change concerns received in the step of the switch, with what new input changed in them. `filling_s`: from its
    beginning to the switch, holds and pauses included. `seconds`: from its beginning to its end."""

    number: int
    outcome: Literal["switched", "aborted"]
    step: int
    begin_ms: float
    pause_ms: float
    messages: int
    seconds: float
    filling_s: float

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "outcome": self.outcome,
            "step": self.step,
            "begin_ms": self.begin_ms,
            "pause_ms": self.pause_ms,
            "messages": self.messages,
            "seconds": self.seconds,
            "filling_s": self.filling_s,
        }
