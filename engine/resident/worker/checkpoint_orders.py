"""The orders of checkpoints: a freeze between two steps, a fold beside them, and reads of the last complete version."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import StaleTask
from engine.resident.folds import Folds
from engine.resident.frames import Buffer
from engine.resident.messages import Contents, ExpediteFold, FoldLayer, FreezeLayer, LayerFolded, LayerFrozen, Read
from engine.resident.worker.handlers import Job, carries_out
from engine.resident.worker.state import WorkerState
from engine.run.contents import read_views
from engine.run.exchange import to_buffer


@dataclass(frozen=True, kw_only=True)
class CheckpointOrders:
    state: WorkerState
    folds: Folds

    @carries_out
    def freeze(self, order: FreezeLayer) -> LayerFrozen:
        step_state, version = self.state.step_state, order.version
        assert step_state.at_boundary and version.step == step_state.step, f"{order} before step {step_state.step}"
        self._set_aside(order)
        return LayerFrozen(version=version)

    def _set_aside(self, order: FreezeLayer) -> None:
        """Freezes the working layer. Raises StaleTask if it has the state of another step."""
        state = self.state
        database = state.open_database
        with database.transaction() as transaction:
            if not state.setup.plan.has_state:
                transaction.set_step(order.version.step)
            elif (step := transaction.get_step()) != order.version.step:
                raise StaleTask(
                    f"worker {state.number} is at step {step}, but the checkpoint is for step {order.version.step}; nothing was changed."
                )
            if order.in_error is not None and transaction.get_in_error() != frozenset(order.in_error):
                transaction.set_in_error(frozenset(order.in_error))
        database.freeze(order.version)

    @carries_out
    def fold(self, order: FoldLayer) -> Job[LayerFolded]:
        looks = self.folds.begin(may_rewrite=order.may_rewrite)
        return lambda: (self.folds.fold(self.state.open_database, looks=looks), ())

    @carries_out
    def hurry(self, order: ExpediteFold) -> None:
        self.folds.hurry()

    @carries_out
    def read(self, order: Read) -> Job[Contents]:
        program = self.state.programs.of_revision(order.revision)

        def read() -> tuple[Contents, tuple[Buffer, ...]]:
            found = read_views(
                self.state.folder, program.plan, program.numbers, order.views, checks_errors=order.checks_errors
            )
            return Contents(version=found.version, owned=found.owned), tuple(map(to_buffer, found.tables))

        return read
