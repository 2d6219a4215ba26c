"""What a part of the loop is.

The loop (loop.py) asks the core for an action and carries it out. All else that happens in a run belongs to a part. A part works in the
background, or is told of the steps, and the loop asks it at four moments:

    recovered        new workers have opened a checkpoint, and the core of this attempt is about to be made
    look             between two actions
    note_step        a step is settled
    awaits_answers   the loop is about to wait

Some parts also carry out actions of the core, which the loop hands to them by name, such as `Rescaling.do`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

from base.term import Term
from base.version import VersionId
from coordinator.core import Core
from coordinator.goal import Goal
from coordinator.measures import SettledStep
from coordinator.rescale.slot_moves import Owned
from coordinator.starting.workers.bind_workers import StartFindings
from coordinator.transition.course import Course
from engine.resident.crew import Crew


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What an attempt of a run begins with. `term`: of the attempt. `version`: the last checkpoint that all workers have, which their databases
    are at. `owned`: the slots of each in it. `course`: what the steps run. `goal`: of the run."""

    term: Term
    version: VersionId
    owned: Owned
    found: StartFindings
    course: Course
    goal: Goal


class LoopPart(Protocol):
    """A part of the loop. It outlives a recovery. What it raises ends the attempt, or the run."""

    @abstractmethod
    def recovered(self, recovered: Recovered) -> None:
        """New workers have opened a checkpoint. The previous workers no longer answer."""

    @abstractmethod
    def look(self, core: Core, crew: Crew) -> None:
        """Takes what has happened in the background, and begins what is due there."""

    @abstractmethod
    def note_step(self, step: SettledStep) -> None:
        """The output of this step is in the log."""

    @property
    @abstractmethod
    def awaits_answers(self) -> bool:
        """Whether something is under way beside the steps whose answers have to be looked for."""
