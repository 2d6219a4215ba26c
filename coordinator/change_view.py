"""A change of the layout as users see it: what it is at, how far it is, and how long it keeps steps from beginning.

It says so in `Status.layout`, after each action of the change and whenever what the change is at is something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from base.slots import NO_SLOTS, SlotSet, owning
from coordinator.change_progress import Progress
from coordinator.core import Core
from coordinator.cut_budget import CutBudget
from coordinator.status import StatusBoard
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import ChangeMode
from io_kafka.step_log.state import StepLogState

MEASURED_BYTES_MIN = 1 << 20
"""Of a change whose rate says how fast the next one may be."""


class ChangeView:
    """Of the changes of one run. `progress`: of the last one."""

    def __init__(
        self, writer: PipelineWriter, board: StatusBoard, budget: CutBudget, monotonic: Callable[[], float]
    ) -> None:
        self._writer, self._board, self._budget, self._monotonic = writer, board, budget, monotonic
        self.progress = Progress(monotonic())
        self._under_way: dict[str, object] = {}  # what was said of it last
        self._last: dict[str, object] = {}  # the change that was settled last
        self._shown: tuple[int, bool, str] | None = None
        self._slots_left = 0
        self._blocked_since: float | None = None  # when the change began to keep the next step from beginning
        self._measured: dict[str, dict[str, float]] = {}

    @property
    def _state(self) -> StepLogState:
        return self._writer.state

    def requested(self) -> None:
        """A user has asked for a change, and it was accepted."""
        self.progress = Progress(self._monotonic())

    def recovered(self, core: Core) -> None:
        """New workers go on with the change, and nobody has paused it any more."""
        self._blocked_since = None
        self.progress.held(core.change.is_held, self._monotonic())

    def acts(self) -> None:
        """An action of the change begins, and the workers have no step."""
        if self._blocked_since is None:
            self._blocked_since = self._monotonic()

    def look(self, core: Core, births: Mapping[int, str]) -> None:
        """Called by the loop between its actions. `births`: of the workers."""
        self._time_pause(core)
        if (phase := (self._state.settled_layout.number, self._state.change is None, self._doing(core))) != self._shown:
            self._shown = phase
            self.show(core, births)

    def _time_pause(self, core: Core) -> None:
        """Notices how long no step can begin because of the change: the workers have none, and the change has something to do or holds them."""
        if core.is_held_up(self._state):
            self.acts()
        elif self._blocked_since is not None:
            self.progress.blocked(1e3 * (self._monotonic() - self._blocked_since))
            self._blocked_since = None

    def _doing(self, core: Core) -> str:
        """What the change is at, in a word; empty without one. Each look asks, so it counts no slots."""
        change, state = core.change, self._state
        if change.wanted is None and state.change is None:
            return ""
        if change.is_held:
            return "paused"
        if state.change is None or not change.is_weighed:
            return "starting" if state.change is None or self._slots_left else "settling"
        if self._slots_left == 0:
            return "settling"
        if change.is_copying and not change.is_copied:
            return "copying"
        return "resting" if change.steps_due else "moving"

    def show(self, core: Core, births: Mapping[int, str]) -> None:
        """Updates the status."""
        layout, now = self._state.settled_layout, self._monotonic()
        if self._blocked_since is not None:
            self.progress.blocked(1e3 * (now - self._blocked_since))
        members = {
            str(worker): {"birth": births.get(worker, ""), "slots": len(slots)}
            for worker, slots in sorted(core.change.owned.items())
        }
        shown: dict[str, object] = {
            "number": layout.number,
            "outcome": layout.outcome,
            "shards": layout.shards,
            "policy": layout.policy.kind,
            "members": members,
        }
        mode = core.change.mode(self._state)
        if mode is not None:
            shown["change"] = self._shown_change(mode, core)
        elif self._under_way:
            if self._under_way["number"] == layout.number:
                done = self.progress.done(now)
                self._last = {**self._under_way, "outcome": layout.outcome, **done}
                self._note_rate()
            self._under_way = {}
        if self._last:
            shown["last_change"] = self._last
        if self._measured:
            shown["measured"] = self._measured
        self._board.update(layout=shown)

    def _note_rate(self) -> None:
        """For plans. A change that has moved little says more of messages than of bytes."""
        progress = self.progress
        if progress.bytes_per_s is not None and progress.moved_bytes >= MEASURED_BYTES_MIN:
            rate = {"bytes_per_s": round(progress.bytes_per_s), "pause_ms": round(progress.longest_pause_ms, 1)}
            self._measured = {**self._measured, str(self._last["mode"]): rate}

    def _shown_change(self, mode: ChangeMode, core: Core) -> dict[str, object]:
        change, target = self._state.change, core.change.target(self._state)
        assert target is not None
        left = self._slots_left = sum(len(slots) for slots in leaving(core.change.owned, target.owned).values())
        if left == 0:
            self.progress.left_bytes = 0
        number = self._state.settled_layout.number + 1 if change is None else change.change
        self._under_way = {"number": number, "mode": mode, "workers": len(target.members)}
        if core.change.migration is not None and change is not None:
            self._under_way |= {"protocol": change.protocol, "messages": core.change.migration.messages}
        return {
            **self._under_way,
            "state": self._doing(core),
            "is_paused": core.change.is_held,
            "slots_left": left,
            "cut_bytes_max": None if change is None else self._budget.bytes_max(change),
            **self.progress.done(self._monotonic()),
            **self.progress.left(),
        }


def leaving(owned: Mapping[int, SlotSet], target: Mapping[int, SlotSet]) -> dict[int, SlotSet]:
    """The slots that each worker has to give away, of those that have to."""
    found = {worker: slots.minus(target.get(worker, NO_SLOTS)) for worker, slots in owned.items()}
    return owning(found)
