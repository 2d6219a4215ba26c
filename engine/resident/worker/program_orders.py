"""The orders by which the steps run another program, and those about what a transition leaves behind."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

from engine.resident.frames import Buffer
from engine.resident.mesh import Mesh
from engine.resident.messages import (
    AdoptProgram,
    ClearTables,
    DifferencesMeasured,
    MeasureDifferences,
    PrefetchPrograms,
    ProgramAdopted,
    ProgramsPrefetched,
    Size,
    TablesCleared,
)
from engine.resident.readers import WorkerReaders
from engine.resident.worker.handlers import Job, carries_out
from engine.resident.worker.state import WorkerState
from engine.run.clearing import clear_tables
from engine.run.differences import measure
from engine.run.program_document import Outputs, setup_of


@dataclass(frozen=True, kw_only=True)
class ProgramOrders:
    """The orders about programs: to adopt one, to clear what former ones have left, and to measure differences. `mesh` and `readers` adopt a
    program too: it has other exchanges, and other inputs."""

    state: WorkerState
    mesh: Mesh
    readers: WorkerReaders

    @carries_out
    def adopt(self, order: AdoptProgram) -> ProgramAdopted:
        state = self.state
        assert state.step_state.at_boundary and order.step == state.step_state.step, (
            f"{order.kind} before step {state.step_state.step}"
        )
        ids = {handle: each.ids() for handle, each in order.schema_ids.items()}
        outputs = Outputs(topics=order.topics, partitions=order.partitions, schema_ids=ids)
        document = state.programs.adopt(order, self.readers.present)
        state.setup = setup_of(document, outputs, state.setup, revision=order.revision, first=order.first)
        self.readers.follow(state.setup.kafka)
        self.mesh.adopt(state.setup.plan)
        with state.open_database.transaction() as transaction:
            transaction.set_step(order.step)  # steps without state have left it alone
        return ProgramAdopted(step=order.step)

    @carries_out
    def prefetch(self, order: PrefetchPrograms) -> Job[ProgramsPrefetched]:
        # The consumer of the steps is not asked, because they go on. What is read again has another one, and nothing is read again yet.
        settings = replace(self.state.setup.kafka, is_second=True)

        def prefetch() -> tuple[ProgramsPrefetched, tuple[Buffer, ...]]:
            with closing(self.readers.make(settings)) as reader:
                self.state.programs.prefetch(order, reader)
            return ProgramsPrefetched(digests=order.digests), ()

        return prefetch

    @carries_out
    def clear(self, order: ClearTables) -> TablesCleared:
        with self.state.open_database.transaction() as transaction:
            return TablesCleared(is_done=clear_tables(transaction, order.numbers, order.bytes_max))

    @carries_out
    def measure(self, order: MeasureDifferences) -> DifferencesMeasured:
        with self.state.open_database.transaction() as transaction:
            sizes = measure(self.state.setup, transaction, self.state.step_state.step, order.numbers)
        return DifferencesMeasured(sizes=tuple(Size(*size) for size in sizes))
