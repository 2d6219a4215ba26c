"""A circuit that runs step by step in this process, with the databases that workers have.

It runs the same stages in the same transactions as the workers of a service. Kafka, JSON and checkpoints are left out, because they cost the
same for every query, and `make bench` measures them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from base.version import EMPTY, VersionId
from engine.analysis.content import content_of
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.circuit import Circuit, View
from engine.model.layout import FixedShards, Layout
from engine.model.placement import Placement
from engine.model.rows import Source
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, RunFacts
from engine.rows import zset
from engine.run.exchange import ExchangeMessage
from engine.run.stage import WorkerStep, run_stage
from engine.state.store import DictStore, Store
from storage.database import Database, Identity

EPOCH = 1
CHECKPOINT_STEPS = 4
"""A checkpoint follows so many steps. Without one, all changes stay in the layer of the newest, which a service does not let happen."""


class Running:
    """Holds the state of `circuit` in databases below `folder`, which is removed in the end."""

    def __init__(self, circuit: Circuit, folder: Path, workers: int = 1) -> None:
        circuit.check()
        self.circuit = circuit
        self.plan = plan_stages(circuit)
        self.placement = Placement.of(Layout.initial(FixedShards(), workers), {})
        self.facts = RunFacts(
            tuple(range(len(circuit.nodes))), append_only_inputs(circuit), partitions={}, schema_ids={}
        )
        self.folder = folder
        self.databases = [self._database(worker) for worker in range(workers)]
        self.steps = 0

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for database in self.databases:
            Database.close(database.path)
        shutil.rmtree(self.folder, ignore_errors=True)

    def step(self, inputs: Mapping[str, pa.Table]) -> float:
        """Runs one step over the Z-set of each source, and returns the seconds that it took."""
        began = time.perf_counter()
        workers = range(len(self.databases))
        read = [self._sources(worker, inputs) for worker in workers]
        tasks = [self._task(worker) for worker in workers]
        made = [run_stage(tasks[worker], 0, DictStore(), [], read[worker]) for worker in workers]
        with ExitStack() as stack:
            stores = [stack.enter_context(database.transaction()) for database in self.databases]
            for stage in range(1, self.plan.stages):
                inboxes = [
                    [ExchangeMessage(w, m.sent[to]) for w, m in enumerate(made) if to in m.sent] for to in workers
                ]
                made = [run_stage(tasks[worker], stage, stores[worker], inboxes[worker], {}) for worker in workers]
            for store in stores:
                store.set_step(self.steps + 1)
        self.steps += 1
        return time.perf_counter() - began

    def checkpoint(self) -> None:
        """Completes a version, as a service does beside its steps. It is called after every CHECKPOINT_STEPS steps."""
        for database in self.databases:
            database.freeze(VersionId(self.steps // CHECKPOINT_STEPS, self.steps, f"checkpoint {self.steps}"))
            database.fold()

    def content(self) -> pa.Table:
        """The consolidated Z-set of the circuit's one view, read as a query reads it."""
        view = next(index for index, node in enumerate(self.circuit.nodes) if isinstance(node, View))
        parts = []
        for worker, database in enumerate(self.databases):
            with database.read() as store:
                parts.append(content_of(self.circuit, view, self._contexts(store, worker)))
        return zset.consolidate(zset.add(parts))

    def _contexts(self, store: Store, worker: int):  # type: ignore[no-untyped-def]
        return partial(StepContext, self.facts, self._task(worker).step, store)

    def _task(self, worker: int) -> WorkerStep:
        return WorkerStep.of(self.facts, DivisionFacts(number=self.steps), self.plan, self.placement, worker, first=0)

    def _sources(self, worker: int, inputs: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
        """This worker's part of each source's rows."""
        tables = {}
        for index, node in enumerate(self.circuit.nodes):
            if isinstance(node, Source):
                whole = inputs.get(node.handle, zset.empty(node.types))
                first, last = (whole.num_rows * at // len(self.databases) for at in (worker, worker + 1))
                tables[index] = zset.as_schema(whole.slice(first, last - first), zset.schema_of(node.types))
        return tables

    def _database(self, worker: int) -> Database:
        path, identity = self.folder / str(worker), Identity("suite", worker, f"suite-{worker}")
        Database.create(path, identity, EPOCH, self.placement.owned[worker])
        return Database.open(path, EMPTY, epoch=EPOCH, identity=identity)
