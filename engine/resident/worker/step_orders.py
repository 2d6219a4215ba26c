"""The orders of steps: to run one, and to stand still between two of them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import StaleTask
from engine.model.placement import Placement
from engine.resident.mesh import Mesh
from engine.resident.messages import Pause, Paused, Resume, Resumed, RunStep, StepAbandoned
from engine.resident.progress import WatchedMesh, WorkerProgress
from engine.resident.readers import WorkerReaders
from engine.resident.step_report import step_done
from engine.resident.worker.coordinator_link import CoordinatorLink
from engine.resident.worker.end_orders import answer_if_stopped
from engine.resident.worker.handlers import Later, carries_out
from engine.resident.worker.state import WorkerState
from engine.run.tasks import PeerFailed, Readers, StepTask


@dataclass(frozen=True, kw_only=True)
class StepOrders:
    """The orders to run steps, to pause and to go on. `progress`: what the heartbeat reports of the step."""

    state: WorkerState
    control: CoordinatorLink
    mesh: Mesh
    readers: WorkerReaders
    progress: WorkerProgress

    @carries_out
    def run_step(self, order: RunStep) -> Later:
        state, given, step = self.state, order.given, order.given.step
        if not state.setup.plan.has_state and step == state.step_state.step - 1:
            # Such a step waits for no peer. So this worker may have finished one that was too large for another worker, and is to be run again.
            state.step_state.repeat_step(step)
        state.step_state.begin_step(step)
        self.mesh.begin_step(order.serial)
        placement = self._placement_of(order)
        task = StepTask(state.setup, placement, given, state.number, WatchedMesh(self.mesh, self.progress))
        self.progress.step, self.progress.stage = step, 0
        try:
            outcome = task.run(
                Readers(self.readers.present, lambda: self.readers.again(state.setup.kafka_reread)),
                state.open_database,
            )
        except PeerFailed:
            self.control.answer(StepAbandoned(step=step))
            return Later.LATER
        state.step_state.end_step()
        self.control.answer(*step_done(step, outcome))
        answer_if_stopped(state, self.control)
        return Later.LATER

    def _placement_of(self, order: RunStep) -> Placement:
        """The worker's placement. Raises StaleTask if the step has another one, or another program."""
        state, step = self.state, order.given.step
        placement, program = state.placement, state.programs.name
        if placement is None or placement.number != order.placement:
            raise StaleTask(
                f"worker {state.number} has placement {placement and placement.number}, and step {step} has {order.placement}; "
                "nothing was changed."
            )
        if order.program != program:
            raise StaleTask(
                f"worker {state.number} has program {program!r}, and step {step} has {order.program!r}; nothing was changed."
            )
        return placement

    @carries_out
    def pause(self, order: Pause) -> Paused:
        return Paused(step=self.state.step_state.pause())

    @carries_out
    def resume(self, order: Resume) -> Resumed:
        return Resumed(step=self.state.step_state.resume())
