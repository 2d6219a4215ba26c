"""What one task of a step does, in Spark (spark_step.py) or in the driver (driver_step.py).

A task acts for one worker and uses only that worker's database, in one transaction per stage. It writes nothing to Kafka. It sends a fault as
an exchange message, so that the driver gets the exception itself and no later task of the step changes its state.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.options import OnError
from engine.analysis.stages import Plan
from engine.errors import EngineError
from engine.model.placement import Placement
from engine.operators.base import TABLE_FIRST, TRACES_MAX
from engine.run.exchange import ExchangeMessage
from engine.run.region import Outbox, StageTask, failed_outbox, name_of, run_stage, run_stage_once, with_report
from engine.run.reports import RegionReport
from engine.run.sources import SourceTable, of_worker, read_sources
from engine.state.store import DictStore
from faults.points import reached
from io_kafka.clients.raw import RawBatch
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import KafkaFault
from io_kafka.offsets import OffsetRange
from storage.database import Database
from storage.errors import StorageError
from storage.identity import Identity


@dataclass(frozen=True)
class TaskSetup:
    """What all tasks of a run share. It is broadcast once. `partitions`: the number of partitions of each output topic, by handle.
    `input_partitions`: that of each input topic, by topic. `append_only`: see StageTask."""

    plan: Plan
    placement: Placement
    kafka: KafkaSettings
    tables: Mapping[str, SourceTable]
    partitions: Mapping[str, int]
    input_partitions: Mapping[str, int]
    pipeline: str
    databases: tuple[tuple[Path, str], ...]
    """The folder and the uuid of each worker's database."""
    epoch: int
    append_only: Mapping[int, tuple[bool, ...]]

    def task(self, step: int, stage: int, worker: int, grown: frozenset[str] = frozenset()) -> StageTask:
        """`grown`: the input topics that have more partitions than when the state began."""
        handles = frozenset(handle for handle, table in self.tables.items() if table.topic in grown)
        return StageTask(self.plan, self.placement, step, stage, worker, self.partitions, self.append_only, handles)

    def identity(self, worker: int) -> Identity:
        return Identity(self.pipeline, worker, self.databases[worker][1])

    def owner_of_table(self, table: int) -> str:
        """The name for users of the view, source or output whose state a table holds."""
        node = (table - TABLE_FIRST) // TRACES_MAX
        return name_of(self.plan, node) if node >= 0 else "the engine"

    def attach(self, worker: int) -> Database:
        return Database.attach(self.databases[worker][0], epoch=self.epoch, identity=self.identity(worker))


@dataclass(frozen=True)
class StepInput:
    """What differs from step to step. `on_error`: the policy by source handle. `grown`: the topics that have more partitions than when the state
    began. Both are as the division recorded them."""

    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: Mapping[str, OnError]
    grown: frozenset[str] = frozenset()
    bytes_max: int | None = None
    """The bound on the keys and values in `ranges`. It is None if the ranges are final, because the step has output already or was measured."""

    def bytes_max_of(self, ranges: Sequence[OffsetRange]) -> int | None:
        """The share of `bytes_max` for these of the step's ranges. Each offset has an equal share, so all ranges together stay within the
        bound."""
        if self.bytes_max is None:
            return None
        offsets = sum(span.length for span in self.ranges)
        return self.bytes_max * sum(span.length for span in ranges) // max(1, offsets)


def read_and_run_source(setup: TaskSetup, given: StepInput, worker: int) -> Outbox:
    """Stage 0 of one worker: reads the ranges of its partitions, decodes them, and runs the operators that need no key."""
    began = time.perf_counter()
    try:
        owners = setup.placement.partition_owners(setup.input_partitions)
        mine = of_worker(given.ranges, owners, worker, setup.placement.workers)
        batches = RangeReader(setup.kafka).read(mine, bytes_max=given.bytes_max_of(mine))
    except KafkaFault as error:
        return failed_outbox(setup.task(given.step, 0, worker, given.grown), error)
    return run_source(setup, given, worker, batches, began)


def run_source(
    setup: TaskSetup, given: StepInput, worker: int, batches: Sequence[RawBatch], read_began: float
) -> Outbox:
    """Stage 0 of one worker on the messages that were read. `read_began`: the value of `time.perf_counter` at which reading began."""
    task = setup.task(given.step, 0, worker, given.grown)
    reached("source.read", worker)
    try:
        rows, report = read_sources(setup.plan.circuit, setup.tables, batches, given.on_error, given.step)
        report.read_ms = 1e3 * (time.perf_counter() - read_began)
        outbox = run_stage(task, DictStore(), (), rows, (report.packed(),))
    except EngineError as error:
        return failed_outbox(task, error)
    reached("source.done", worker)
    return outbox


def run_region(setup: TaskSetup, given: StepInput, stage: int, worker: int, inbox: Sequence[ExchangeMessage]) -> Outbox:
    """Stage k > 0 of one worker, in one transaction of its database."""
    task = setup.task(given.step, stage, worker, given.grown)
    began = time.perf_counter()
    reached("region.before", worker)
    try:
        with setup.attach(worker).transaction() as transaction:
            opened = time.perf_counter()
            outbox = run_stage_once(task, transaction, inbox)
            ran = time.perf_counter()
            if task.is_last and not any(message.error for message in outbox.values()):
                transaction.set_step(given.step + 1)
            reached("region.inside", worker)
        reached("region.committed", worker)
        state_ms = 1e3 * (opened - began + time.perf_counter() - ran)
        return with_report(task, outbox, RegionReport(stage, worker, 1e3 * (ran - opened), state_ms).packed())
    except (EngineError, StorageError) as error:
        return failed_outbox(task, error)
