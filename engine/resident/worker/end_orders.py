"""The orders that end a worker: at a step (Stop), or because it owns no slots any more (Leave)."""

from __future__ import annotations

from dataclasses import dataclass

from base.slots import NO_SLOTS
from engine.resident.messages import Leave, Left, Stop, Stopped
from engine.resident.states import State
from engine.resident.worker.coordinator_link import CoordinatorLink
from engine.resident.worker.handlers import Later, carries_out
from engine.resident.worker.state import WorkerState
from storage.database import Database
from storage.identity import UnneededDatabase


@dataclass(frozen=True, kw_only=True)
class EndOrders:
    """The orders that end a worker. An order to stop is answered when the worker has run the steps until there."""

    state: WorkerState
    control: CoordinatorLink

    @carries_out
    def leave(self, order: Leave) -> Left:
        state = self.state
        with state.open_database.read() as stored:
            assert stored.get_owned() == NO_SLOTS, f"worker {state.number} is to leave and owns {stored.get_owned()}"
        state.database = None
        Database.close(state.folder)
        state.host_folder.remove(UnneededDatabase(state.number, state.birth, state.identity))
        state.step_state.stop(state.step_state.step)
        return Left()

    @carries_out
    def stop(self, order: Stop) -> Later:
        self.state.step_state.stop(order.step)
        answer_if_stopped(self.state, self.control)
        return Later.LATER


def answer_if_stopped(state: WorkerState, control: CoordinatorLink) -> None:
    """Answers an order to stop as soon as the worker has come to its step."""
    if state.step_state.state is State.STOPPED:
        control.answer(Stopped(step=state.step_state.step))
