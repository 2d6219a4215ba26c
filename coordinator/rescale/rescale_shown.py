"""A rescale as users see it: what it is at, how far it is, and how long it keeps steps from beginning.

It says so in `Status.layout`, after each action of the rescale and whenever what the rescale is at is something else. Users call it a
change of the layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from coordinator.core import Core
from coordinator.rescale.cut_budget import CutBudget
from coordinator.rescale.layout_shown import (
    ChangeNumber,
    ChangeSettled,
    ChangeShown,
    LayoutShown,
    MemberShown,
    RateShown,
)
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import (
    AddingWorkers,
    AllMoved,
    Idle,
    Moving,
    MovingCold,
    MovingPortions,
    MovingRounds,
    Phase,
    RemovingWorkers,
    RescaleBookkeeping,
    UnderWay,
    WantedRescale,
    Weighing,
)
from coordinator.rescale.progress import RescaleProgress
from coordinator.rescale.slot_moves import slots_to_leave
from coordinator.status import StatusBoard
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import RescaleMode
from io_kafka.step_log.state import StepLogState

MEASURED_BYTES_MIN = 1 << 20
"""How many bytes a rescale has to move so that its rate says how fast the next one may be."""


class RescaleView:
    """What users see of the rescales of one run. `births`: those of the workers, kept up to date by the shell. `progress`: of the last
    rescale."""

    def __init__(
        self,
        machine: Rescale,
        writer: PipelineWriter,
        board: StatusBoard,
        budget: CutBudget,
        *,
        births: Mapping[int, str],
        monotonic: Callable[[], float],
    ) -> None:
        self._machine, self._births = machine, births
        self._writer, self._board, self._budget, self._monotonic = writer, board, budget, monotonic
        self.progress = RescaleProgress(monotonic())
        self._under_way: ChangeNumber | None = None  # as it was shown last
        self._last: ChangeSettled | None = None
        self._shown: tuple[int, bool, str] | None = None
        self._blocked_since: float | None = None  # when the rescale began to keep the next step from beginning
        self._measured: dict[RescaleMode, RateShown] = {}

    @property
    def _state(self) -> StepLogState:
        return self._writer.state

    def note_request(self) -> None:
        """A user has asked for a rescale, and it was accepted."""
        self.progress = RescaleProgress(self._monotonic())

    def reset(self) -> None:
        """New workers go on with the rescale, and nobody has paused it any more."""
        self._blocked_since = None
        self.progress.note_pause(self._machine.is_paused, self._monotonic())

    def note_action(self) -> None:
        """An action of the rescale begins, and the workers have no step."""
        if self._blocked_since is None:
            self._blocked_since = self._monotonic()

    def look(self, core: Core) -> None:
        """Called by the loop between its actions."""
        self._time_pause(core)
        doing = state_text(self._machine.phase)
        if (shown := (self._state.current_layout.number, self._state.rescale is None, doing)) != self._shown:
            self._shown = shown
            self.show()

    def _time_pause(self, core: Core) -> None:
        """Notices how long no step can begin because of the rescale: the workers have none, and it has something to do or blocks them."""
        if core.is_held_up_by_rescale(self._state):
            self.note_action()
        elif self._blocked_since is not None:
            self.progress.note_block(1e3 * (self._monotonic() - self._blocked_since))
            self._blocked_since = None

    def show(self) -> None:
        """Updates the status."""
        layout, now = self._state.current_layout, self._monotonic()
        if self._blocked_since is not None:
            self.progress.note_block(1e3 * (now - self._blocked_since))
        members = {
            worker: MemberShown(self._births.get(worker, ""), len(slots))
            for worker, slots in sorted(self._machine.owned.items())
        }
        change: ChangeShown | None = None
        if not isinstance(self._machine.phase, Idle | RemovingWorkers):
            change = self._shown_rescale(self._machine.phase)
            self._under_way = change.change
        elif self._under_way is not None:
            if self._under_way.number == layout.number:
                self._last = ChangeSettled(self._under_way, layout.outcome, self.progress.done_numbers(now))
                self._note_rate(self._under_way.mode)
            self._under_way = None
        shown = LayoutShown(
            number=layout.number,
            outcome=layout.outcome,
            shards=layout.shards,
            policy=layout.policy.kind,
            members=members,
            change=change,
            last_change=self._last,
            measured=self._measured,
        )
        self._board.update(layout=shown.to_json())

    def _note_rate(self, mode: RescaleMode) -> None:
        """Remembers the rate for `layout plan`, unless too little moved for the rate to be one of bytes."""
        progress = self.progress
        if progress.bytes_per_s is not None and progress.moved_bytes >= MEASURED_BYTES_MIN:
            self._measured[mode] = RateShown(round(progress.bytes_per_s), round(progress.longest_pause_ms, 1))

    def _shown_rescale(self, phase: WantedRescale | AddingWorkers | Weighing | Moving | AllMoved) -> ChangeShown:
        log = self._state
        aim = phase.wish.aim if isinstance(phase, WantedRescale) else phase.aim
        target, strategy = aim.target, aim.strategy
        left = sum(len(slots) for slots in slots_to_leave(phase.owned, target.owned).values())
        if left == 0:
            self.progress.left_bytes = 0
        number = log.current_layout.number + 1 if log.rescale is None else log.rescale.change
        change = ChangeNumber(number, strategy.mode, len(target.members))
        match phase:
            case MovingRounds(planner=planner):
                change = replace(change, protocol=strategy.protocol, messages=planner.messages)
            case AllMoved(messages=int(messages)):
                change = replace(change, protocol=strategy.protocol, messages=messages)
            case _:
                pass
        return ChangeShown(
            change=change,
            state=state_text(phase),
            is_paused=isinstance(phase, UnderWay) and phase.bookkeeping.is_paused,
            slots_left=left,
            cut_bytes_max=None if log.rescale is None else self._budget.bytes_max(strategy),
            numbers={**self.progress.done_numbers(self._monotonic()), **self.progress.left_numbers()},
        )


def state_text(phase: Phase) -> str:
    """What a rescale is at in this phase, in a word; empty without one."""
    match phase:
        case Idle() | RemovingWorkers():
            return ""
        case UnderWay(bookkeeping=RescaleBookkeeping(is_paused=True)):
            return "paused"
        case WantedRescale() | AddingWorkers() | Weighing():
            return "starting"
        case MovingPortions(copied_portions=()):
            return "copying"
        case MovingCold() | MovingPortions() | MovingRounds():
            return "resting" if phase.bookkeeping.steps_due else "moving"
        case AllMoved():
            return "settling"
        case _:
            assert_never(phase)
