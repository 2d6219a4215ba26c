"""A step as one Spark job: a stage of the plan is a stage of the job, an exchange is Spark's shuffle.

    parallelize(workers) -> source task -> partitionBy(worker) -> region task -> partitionBy(worker) -> ... -> collect

Elements are (target worker, Parcel): whole Arrow blobs, never rows, and never a DataFrame (planning one costs more than a step).
Task i of every stage acts for worker i. Tasks touch only their own worker's database, in one transaction a stage; they write nothing
to Kafka. Errors come back as parcels, so the driver gets the exception itself and no later task of the step goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.growth import append_only_inputs
from engine.operators.base import TABLE_FIRST, TRACES_MAX
from engine.parcels import Parcel, error_of, first_error
from engine.placement import Placement
from engine.region import StageTask, failed_outbox, name_of, run_stage, run_stage_once, with_report
from engine.reports import RegionReport
from engine.sources import SourceTable, of_worker, read_sources
from engine.stages import Plan
from engine.store import DictStore
from io_kafka.clients import KafkaSettings
from io_kafka.errors import KafkaFault
from io_kafka.offsets import OffsetRange
from io_kafka.reader import RangeReader
from storage.database import Database
from storage.description import Identity
from storage.errors import StorageError


@dataclass(frozen=True)
class TaskSetup:
    """What all tasks of a run share; broadcast once. `partitions`: of output topics by handle; `input_partitions`: by topic."""

    plan: Plan
    placement: Placement
    kafka: KafkaSettings
    tables: Mapping[str, SourceTable]
    partitions: Mapping[str, int]
    input_partitions: Mapping[str, int]
    pipeline: str
    databases: tuple[tuple[Path, str], ...]
    """By worker: folder and uuid."""
    epoch: int
    append_only: Mapping[int, tuple[bool, ...]] = field(default_factory=dict)

    def task(self, step: int, stage: int, worker: int, grown: frozenset[str] = frozenset()) -> StageTask:
        """`grown`: the topics that have."""
        handles = frozenset(handle for handle, table in self.tables.items() if table.topic in grown)
        return StageTask(self.plan, self.placement, step, stage, worker, self.partitions, self.append_only, handles)

    def identity(self, worker: int) -> Identity:
        return Identity(self.pipeline, worker, self.databases[worker][1])

    def owner_of_table(self, table: int) -> str:
        """Whose state a table holds, for people."""
        node = (table - TABLE_FIRST) // TRACES_MAX
        return name_of(self.plan, node) if node >= 0 else "the engine"

    def attach(self, worker: int) -> Database:
        return Database.attach(self.databases[worker][0], epoch=self.epoch, identity=self.identity(worker))


@dataclass(frozen=True)
class StepInput:
    """What is new in each step. `on_error`: by source handle, and `grown`: topics, as the division recorded them."""

    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: Mapping[str, str]
    grown: frozenset[str] = frozenset()


class SparkStep:
    """Runs steps on a SparkContext. One at a time."""

    def __init__(self, context: Any, setup: TaskSetup) -> None:
        assert setup.append_only == append_only_inputs(setup.plan.circuit)
        self._setup = setup
        self._shared = context.broadcast(setup)
        workers = setup.placement.workers
        self._seeds = context.parallelize(range(workers), workers)

    def run(self, given: StepInput) -> list[Parcel]:
        """The parcels for the driver. Raises what a task reported: EngineError, KafkaFault, StorageError."""
        workers = self._setup.placement.workers
        rdd = self._seeds.mapPartitionsWithIndex(partial(source_task, self._shared, given))
        for stage in range(1, self._setup.plan.stages):
            routed = rdd.partitionBy(workers, int)
            rdd = routed.mapPartitionsWithIndex(partial(region_task, self._shared, given.step, given.grown, stage))
        parcels = [parcel for _, parcel in rdd.collect()]
        failed = first_error(parcels)
        if failed is not None:
            raise error_of(failed)
        return parcels

    def close(self) -> None:
        self._shared.destroy()


def source_task(shared: Any, given: StepInput, worker: int, _: Iterable[int]) -> Iterator[tuple[int, Parcel]]:
    """Stage 0 of one worker: reads its partitions' ranges, decodes, runs what needs no key."""
    setup: TaskSetup = shared.value
    task = setup.task(given.step, 0, worker, given.grown)
    began = time.perf_counter()
    try:
        owners = setup.placement.partition_owners(setup.input_partitions)
        batches = RangeReader(setup.kafka).read(of_worker(given.ranges, owners, worker))
        rows, report = read_sources(setup.plan.circuit, setup.tables, batches, given.on_error, given.step)
        report.read_ms = 1e3 * (time.perf_counter() - began)
        outbox = run_stage(task, DictStore(), (), rows, (report.packed(),))
    except (EngineError, KafkaFault) as error:
        outbox = failed_outbox(task, error)
    return iter(outbox.items())


def region_task(
    shared: Any, step: int, grown: frozenset[str], stage: int, worker: int, routed: Iterable[tuple[int, Parcel]]
) -> Iterator[tuple[int, Parcel]]:
    """Stage k > 0 of one worker: one transaction of its database."""
    setup: TaskSetup = shared.value
    task = setup.task(step, stage, worker, grown)
    inbox = [parcel for _, parcel in routed]
    began = time.perf_counter()
    try:
        with setup.attach(worker).transaction() as transaction:
            opened = time.perf_counter()
            outbox = run_stage_once(task, transaction, inbox)
            ran = time.perf_counter()
            if task.is_last and not any(parcel.error for parcel in outbox.values()):
                transaction.set_step(step + 1)
        state_ms = 1e3 * (opened - began + time.perf_counter() - ran)
        report = RegionReport(stage, worker, 1e3 * (ran - opened), state_ms).packed()
        outbox = with_report(task, outbox, report)
    except (EngineError, StorageError) as error:
        outbox = failed_outbox(task, error)
    return iter(outbox.items())
