"""What users ask of a run, from the queues to the parts that do it.

    whose wish                                           who owns it until it is done or in the step log
    stop, hand-over, pause; the change of the start      RequestsInForce
    another layout                                       Wishes (rescale/wishes.py)
    another revision, and turns of a transition          Transition (transition/machine.py)

Guarantee: a stop or a pause that was asked for outlives a recovery, and the change from one revision to the next.
"""

from __future__ import annotations

from typing import Literal, assert_never

from base.fault import Fault
from base.logger import Logger
from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.core import Core
from coordinator.requests import Requests
from coordinator.rescale.requests import RescaleRefused
from coordinator.rescale.rescaling import Rescaling
from coordinator.revisions.requests import ApplyRequest, still_finishing, stopping
from coordinator.transition.disk_space import DiskSpace
from coordinator.transition.transitions import Transitions
from engine.resident.crew import Crew

_log = Logger("coordinator.running.requests_in_force")


class RequestsInForce:
    """The stop or the pause that is in force in one run, from its claim to its end. Every other request is handed to its owner.
    `to_apply`: the change that the run was started with, which is asked for as soon as the workers run and no transition is under way."""

    def __init__(
        self, requests: Requests, rescaling: Rescaling, transitions: Transitions, checkpoints: Checkpointing
    ) -> None:
        self._requests, self._rescaling = requests, rescaling
        self._transitions, self._checkpoints = transitions, checkpoints
        self._in_force: Literal["stop", "hand-over", "pause"] | None = None
        self.to_apply: ApplyRequest | None = None

    @property
    def is_stop(self) -> bool:
        """Whether a user has stopped the run."""
        return self._in_force in ("stop", "hand-over")

    @property
    def is_hand_over(self) -> bool:
        """Whether the next run is about to open the databases of this one."""
        return self._in_force == "hand-over"

    @property
    def wants_abort(self) -> bool:
        """Whether a user wants the transition under way aborted, and the log does not have that yet."""
        return self._requests.abort_waits or self._transitions.machine.wants_abort

    def repeat(self, core: Core) -> None:
        """Asks the core of a recovery what was asked of the one before it."""
        match self._in_force:
            case "stop" | "hand-over":
                core.request_stop()
            case "pause":
                core.request_pause()
            case None:
                pass
            case _:
                assert_never(self._in_force)

    def take(self, core: Core, crew: Crew) -> None:
        """Takes what was asked since the last call."""
        self._apply_if_possible(crew)
        for asked in self._requests.layout.take():
            try:
                self._rescaling.ask(asked.request, crew)
            except RescaleRefused as fault:
                asked.answer(fault)
            else:
                asked.answer(None)
        wishes = self._requests.revision.take()  # before a stop that was asked first
        self._take_names(core)
        for wish in wishes:
            try:
                if core.stopping:
                    raise stopping()
                if core.goal.precedes_revision:
                    raise still_finishing()
                self._transitions.ask(wish.request, wish.answer, self._disk_space(crew))
            except Fault as fault:
                wish.answer(fault)

    def _apply_if_possible(self, crew: Crew) -> None:
        """A transition that the run has found has to be settled first. A refusal ends the run."""
        if self.to_apply is not None and not self._transitions.is_under_way:
            asked, self.to_apply = self.to_apply, None
            self._transitions.ask(asked, None, self._disk_space(crew))

    def _disk_space(self, crew: Crew) -> DiskSpace:
        return DiskSpace.on_hosts(self._checkpoints.node_bytes, crew)

    def _take_names(self, core: Core) -> None:
        for what in self._requests.take():
            _log.info("asked", what=what)
            if what != "checkpoint" and not self.is_stop:
                self._in_force = None if what == "resume" else what
            match what:
                case "pause":
                    core.request_pause()
                case "resume":
                    core.request_resume()
                case "stop" | "hand-over":
                    core.request_stop()
                case "checkpoint":
                    core.request_checkpoint()
                case _:
                    assert_never(what)
