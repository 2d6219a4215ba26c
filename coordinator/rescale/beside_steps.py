"""What a rescale does in the background: it waits for tasks, has the sources weigh their slots, and has them copied."""

from __future__ import annotations

from typing import assert_never

from base.fault import Fault
from base.logger import Logger
from base.slots import NO_SLOTS
from coordinator.core import Core
from coordinator.rescale.hosts import why_no_disk_space_for
from coordinator.rescale.parts import RescaleParts
from coordinator.rescale.phases import (
    AddingWorkers,
    AllMoved,
    Idle,
    MovingCold,
    MovingPortions,
    MovingRounds,
    RemovingWorkers,
    WantedRescale,
    Weighing,
)
from coordinator.rescale.planner import Planner
from coordinator.rescale.recruiting import Recruits
from coordinator.rescale.replacing import NoTaskThere
from coordinator.rescale.requests import TurnRequest
from coordinator.rescale.slot_moves import slots_to_leave
from coordinator.rescale.wishes import Wishes
from engine.resident.crew import Crew
from engine.resident.start_faults import NoSlots, RecruitsFailed
from io_kafka.step_log.layout_records import HostsPart, LayoutIntent, Target
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.rescale")

MOVED_BYTES_MAX = 128 << 20
"""By cuts, between two checkpoints of a live rescale. Each moved byte is folded at its destination and kept in the undo log of its source.
Copies do not count, because they do not hold up the steps, and checkpoints come by themselves."""


class RescaleBesideSteps:
    """What the rescales of one run do in the background. `reset` is called after each recovery."""

    def __init__(self, parts: RescaleParts, wishes: Wishes) -> None:
        self._machine, self._spec, self._writer = parts.machine, parts.spec, parts.writer
        self._launcher, self._planners, self._recruiting = parts.launcher, parts.planners, parts.recruiting
        self._view, self._copies, self._budget, self._monotonic = (
            parts.view,
            parts.copies,
            parts.budget,
            parts.monotonic,
        )
        self._wishes = wishes
        self._weighing: tuple[int, Target] | None = None  # the rescale, and where it leads, for which the sources count

    @property
    def _log_state(self) -> StepLogState:
        return self._writer.state

    def reset(self) -> None:
        """Other workers go on. They count nothing yet, and have no copies."""
        self._weighing = None
        self._recruiting.forget()
        self._copies.reset()

    def look(self, core: Core, crew: Crew) -> None:
        """Called by the loop between its actions. Raises TaskLost, NoSlots."""
        if self._log_state.rescale is None:
            self._copies.end()
        is_free = self._copies.discard_if_over(crew)
        self._machine.copies_changed(self._copies.has_begun)
        if not is_free:
            return
        match self._machine.phase:
            case Idle() | RemovingWorkers():
                return
            case WantedRescale() as wanted:
                if not wanted.is_recruited:
                    self._recruit(core, crew, wanted.new)
                if isinstance(self._machine.phase, WantedRescale) and self._machine.phase.is_recruited:
                    self._check_disk_space(crew, wanted)
                return
            case AddingWorkers() as adding:
                if not adding.is_recruited:
                    self._recruit(core, crew, adding.new)
            case Weighing() as weighing:
                self._weigh(crew, weighing)
            case MovingPortions():
                self._copy(core, crew)
            case MovingCold() | MovingRounds() | AllMoved():
                pass
            case _:
                assert_never(self._machine.phase)
        self._pace(core)

    def _recruit(self, core: Core, crew: Crew, new: tuple[int, ...]) -> None:
        match self._recruiting.look(crew, len(new), self._hosts()):
            case Recruits.PENDING:
                pass
            case Recruits.READY:
                self._machine.recruited()
            case Recruits.TIMED_OUT:
                self._no_recruits(core, crew, len(new))
            case never:
                assert_never(never)

    def _hosts(self) -> HostsPart | None:
        """Returns the hosts for the new workers of the rescale that is wanted or under way; None if they may be anywhere, and without a
        rescale."""
        if self._log_state.rescale is not None:
            return self._log_state.rescale_hosts
        return None if self._wishes.wish is None else self._wishes.wish.hosts

    def _no_recruits(self, core: Core, crew: Crew, count: int) -> None:
        registered = len(crew.recruiting.candidates)
        slots, busy = self._launcher.slots_now(), len(crew.members)
        hosts, register_s = self._hosts(), self._recruiting.register_s
        fault: Fault = NoSlots(count, registered, slots, register_s, busy)
        if hosts is not None and registered:
            fault = NoTaskThere(hosts, count, [str(task) for task in crew.recruiting.candidates], register_s)
        if failed := crew.recruiting.failed_recruits:
            fault = RecruitsFailed(count, failed)
        is_under_way = self._machine.is_under_way
        # A start that wants more workers than there are task slots goes on with those that it has, as after the loss of a host.
        goes_on = self._spec.shrink_after_s is not None and self._spec.state_location.on_cluster
        is_needed = self._wishes.is_asked_by_start and (core.goal.ends_with_rescale or not goes_on)
        if self._machine.mode == "cold" and (is_under_way or is_needed):
            crew.recruiting.dismiss()
            raise fault  # nothing goes on without them
        _log.warning("no tasks for the new workers", fault=str(fault), is_under_way=is_under_way)
        if is_under_way:
            self._recruiting.stop(crew, str(fault))
            if hosts is not None and not any(member.is_on(hosts.avoided) for member in crew.members.values()):
                # A recovery has brought its workers to other hosts, which may have no room for as many again.
                _log.info(
                    "no worker is on the host that was to be replaced, so nothing has to move", host=hosts.avoided
                )
                self._wishes.ask(TurnRequest("abort"), crew)
        else:
            self._wishes.drop(crew, str(fault))

    def _check_disk_space(self, crew: Crew, wanted: WantedRescale) -> None:
        """Once more before the rescale begins, when it is known to which hosts the new workers come."""
        fault = why_no_disk_space_for(wanted.wish, wanted.owned, crew, self._spec.state_location)
        if fault is None:
            return
        if self._wishes.is_asked_by_start:
            raise fault
        self._wishes.drop(crew, str(fault))

    def _weigh(self, crew: Crew, phase: Weighing) -> None:
        """Has the sources count the bytes of the slots that they are to give away."""
        intent = self._intent()
        present, strategy = (intent.change, phase.aim.target), phase.aim.strategy
        if self._weighing is None:
            self._weighing = present
            crew.slots.begin_weighing(slots_to_leave(phase.owned, phase.aim.target.owned))
        left_bytes = crew.slots.poll_weights()
        if left_bytes is None:
            return
        is_wanted, self._weighing = self._weighing == present, None
        if is_wanted:  # and the rescale was not turned meanwhile
            self._view.progress.note_weights(left_bytes, self._monotonic())
            if strategy.protocol == "batches":
                self._machine.weighed()
            else:
                self._machine.planned(self._planner(phase))
            self._view.show()

    def _planner(self, phase: Weighing) -> Planner:
        protocol = phase.aim.strategy.protocol
        assert protocol in self._planners, f"the log has a rescale by {protocol}, which this run has not"
        target = phase.aim.target.owned
        everybody = {worker: target.get(worker, NO_SLOTS) for worker in phase.owned}
        return self._planners[protocol](phase.owned, everybody, self._slots_per_round(phase))

    def _copy(self, core: Core, crew: Crew) -> None:
        """Has the sources copy what has to move."""
        copied_bytes, portions = self._copies.take(crew)
        for portion in portions:
            self._machine.copied(portion)
        if copied_bytes:
            self._view.progress.note_copy(copied_bytes, self._monotonic())
            self._view.show()
        moving = self._machine.phase
        assert isinstance(moving, MovingPortions)
        if not (moving.bookkeeping.is_paused or core.is_replaying(self._log_state)):
            wanted = self._budget.portion_bytes(moving.aim.strategy)
            self._copies.begin(crew, moving.moves, moving.copied_portions, wanted)

    def _pace(self, core: Core) -> None:
        """Tells the machine whether a checkpoint has to come before the next cut, and how much a round of a planner may move."""
        self._machine.checkpoint_needed(self._needs_checkpoint(core))
        if isinstance(self._machine.phase, MovingRounds):
            self._machine.sized(self._slots_per_round(self._machine.phase))

    def _needs_checkpoint(self, core: Core) -> bool:
        """Whether a live rescale has moved so much since the last version that a checkpoint has to come first. Asks for it."""
        if self._machine.mode != "live":
            return False
        if self._budget.moved_bytes_since(core.version.version) < MOVED_BYTES_MAX:
            return False
        core.request_checkpoint(forced=True)
        return True

    def _slots_per_round(self, phase: Weighing | MovingRounds) -> int:
        """Returns how many slots one round may move: as many as fit into the budget if all have the same size."""
        slots_left = sum(len(slots) for slots in phase.moves.values())
        budget, left_bytes = self._budget.bytes_max(phase.aim.strategy), self._view.progress.left_bytes or 0
        return max(1, slots_left * budget // left_bytes) if left_bytes > budget else max(1, slots_left)

    def _intent(self) -> LayoutIntent:
        assert self._log_state.rescale is not None
        return self._log_state.rescale
