"""Whether a fault that ended a step is of the transition alone, and which way the transition goes then. It has no I/O.

A transition may only cost itself. If the step of the switch fails, or a new node, or if workers are lost again and again where a new node may be
the cause, the previous project goes on."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import DataError, TaskLost
from io_kafka.errors import CANNOT_READ
from io_kafka.step_log.revision_records import TurnTo
from io_kafka.step_log.revision_state import Filling, Switching
from io_kafka.step_log.value import LogValue

LOSSES_MAX = 2
"""A worker that is lost in one step twice is lost by what the step does, more likely than by its machine."""

FAULTS_A_TRANSITION_MAY_CAUSE: tuple[type[Exception], ...] = (DataError, *CANNOT_READ)
"""Faults that end a step, and that the transition may have caused. In the step of the switch, input may be gone that only the next project
reads."""


class Turn(NamedTuple):
    """Another way of a transition. `step`: that which has failed, as far as it is known."""

    reason: TurnTo
    step: int | None
    fault: Exception


def turn_of_fault(log: LogValue, fault: Exception, former_nodes: int) -> Turn | None:
    """The turn after a fault that ended a step; None if the fault is not of the transition. `former_nodes`: how many nodes the program of
    before has; those behind them are new."""
    phase = log.revisions.phase
    if isinstance(phase, Switching):
        return Turn("taken_back", phase.switch.step, fault)
    node = getattr(fault, "node", None)
    if not isinstance(phase, Filling) or node is None or node < former_nodes:
        return None
    step = _step_that_fills(log)
    # Nothing is filled before the first one, so there is nothing to go on with either.
    return Turn("abort" if step is None else "detached", step, fault)


class Losses:
    """How often workers were lost in a step that is not written. It outlives a recovery."""

    def __init__(self) -> None:
        self._count, self._step = 0, -1

    def turn(self, log: LogValue) -> Turn | None:
        """Workers were lost. Returns the turn if that has happened in one step LOSSES_MAX times, and a new node may be the cause."""
        phase, step = log.revisions.phase, log.steps
        self._count = self._count + 1 if self._step == step else 1
        self._step = step
        failed = phase.switch.step if isinstance(phase, Switching) else _step_that_fills(log)
        if self._count < LOSSES_MAX or failed != step or not isinstance(phase, Filling | Switching):
            return None
        self._count = 0
        fault = TaskLost(f"workers were lost {LOSSES_MAX} times in step {step}")
        return Turn("taken_back" if isinstance(phase, Switching) else "detached", step, fault)


def _step_that_fills(log: LogValue) -> int | None:
    """The last step of the transition that has failed or may have, as far as it is divided; None before the first one."""
    step = min(log.steps, log.division_next - 1)
    return step if log.revisions.passage_that_fills(step) is not None else None
