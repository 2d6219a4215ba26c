"""What one worker does in one step: a function of the step's division and of the worker's state.

    read its ranges -> stage 0 -> swap -> stage 1 -> swap -> ... -> last stage      stages 1 and later: one transaction of the database

It writes nothing to Kafka. If it raises, the state of this worker is unchanged, and peers that wait for its messages have been told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from base.options import OnError, Truncate
from engine.analysis.stages import Channel, Plan, plan
from engine.errors import StaleTask
from engine.model.placement import Placement
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from engine.operators.base import TRACES_MAX, TimeReport
from engine.operators.error_rows import ErrorRows
from engine.run.exchange import ExchangeMessage
from engine.run.refused import leave_out
from engine.run.region import StageResult, StageTask, name_of, run_stage
from engine.run.sources import SourceReport, SourceTable, of_worker, read_sources
from engine.state.store import DictStore
from faults.points import reached
from io_kafka.clients.raw import RawBatch
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.encodings import SchemaIds
from io_kafka.offsets import OffsetRange
from storage.database import Database
from storage.host_folder import StatePlace
from storage.keys import TABLE_FIRST


@dataclass(frozen=True)
class TaskSetup:
    """What all workers of a run share. `plan`: that of a step that withholds nothing. `partitions`: the number of partitions of each output
    topic, by handle. `place`: where each host keeps the databases. `append_only`, `schema_ids`: see StageTask."""

    plan: Plan
    kafka: KafkaSettings
    tables: Mapping[str, SourceTable]
    partitions: Mapping[str, int]
    place: StatePlace
    append_only: Mapping[int, tuple[bool, ...]]
    schema_ids: Mapping[str, SchemaIds] = field(default_factory=dict)
    _plans: dict[frozenset[str], Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def plan_with(self, withholding: Withholding) -> Plan:
        """The plan of a step with this withholding. That of the last one is kept, because the next step seldom has another."""
        outputs = withholding.outputs
        if not outputs:
            return self.plan
        if outputs not in self._plans:
            self._plans.clear()
            self._plans[outputs] = plan(self.plan.circuit, outputs)
        return self._plans[outputs]

    def task(self, plan: Plan, placement: Placement, given: StepInput, stage: int, worker: int) -> StageTask:
        """`plan`: that of the step."""
        grown = frozenset(handle for handle, table in self.tables.items() if not given.grown.isdisjoint(table.topics))
        return StageTask(
            plan,
            placement,
            given.step,
            stage,
            worker,
            self.partitions,
            self.append_only,
            grown,
            self.schema_ids,
            given.withholding,
        )

    def owner_of_table(self, table: int) -> str:
        """The name for users of the view, source or output whose state a table holds."""
        node = (table - TABLE_FIRST) // TRACES_MAX
        return name_of(self.plan.circuit, node) if node >= 0 else "the engine"


@dataclass(frozen=True)
class StepInput:
    """What differs from step to step. `on_error`: the policy by source handle. `grown`: the topics that have more partitions than when the state
    began. `truncate`: the policy for truncations, of the sources for which it is not `fail`. All are as the division recorded them."""

    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: Mapping[str, OnError]
    grown: frozenset[str] = frozenset()
    bytes_max: int | None = None
    """The bound on the keys and values in `ranges`. It is None if the ranges are final, because the step has output already or was measured."""
    withholding: Withholding = NOTHING_WITHHELD
    """As the division recorded it."""
    truncate: Mapping[str, Truncate] = field(default_factory=dict)

    def bytes_max_of(self, ranges: Sequence[OffsetRange]) -> int | None:
        """The share of `bytes_max` for these of the step's ranges. Each offset has an equal share, so all ranges together stay within the
        bound."""
        if self.bytes_max is None:
            return None
        offsets = sum(span.length for span in self.ranges)
        return self.bytes_max * sum(span.length for span in ranges) // max(1, offsets)


class Reader(Protocol):
    """See io_kafka/clients/reader.py, RangeReader."""

    def read(
        self, ranges: Sequence[OffsetRange], *, ahead: bool = False, bytes_max: int | None = None
    ) -> list[RawBatch]: ...

    def close(self) -> None: ...


class StepAbandoned(Exception):
    """Another worker has failed in this step, so this one does not go on with it. Its state is unchanged."""


class Peers(Protocol):
    """The other workers, as a step sees them."""

    def swap(self, step: int, stage: int, rows: Mapping[int, Mapping[Channel, pa.Table]]) -> Sequence[ExchangeMessage]:
        """Sends what a stage has for each worker, and waits for the messages of the same stage from all workers, this one included. Raises
        StepAbandoned if one of them is broken."""

    def abandon(self, step: int, stage: int) -> None:
        """Tells all peers, which wait for this worker's messages of the stage, that there are none."""


class StageTimes(NamedTuple):
    """The times of one stage in milliseconds. `compute_ms`: the operators with their traces. `state_ms`: to open the database's transaction
    and to commit it. `exchange_ms`: the wait for the peers before the stage."""

    compute_ms: float
    state_ms: float
    exchange_ms: float


@dataclass
class StepOutcome:
    """What a worker made of a step: the messages for Kafka by Output node, and reports."""

    output: dict[int, list[pa.Table]] = field(default_factory=dict)
    report: SourceReport = field(default_factory=SourceReport)
    read_ms: float = 0.0
    stages: list[StageTimes] = field(default_factory=list)
    times: TimeReport = field(default_factory=TimeReport)
    errors: dict[int, ErrorRows] = field(default_factory=dict)
    """See StageResult."""

    def add(self, result: StageResult) -> None:
        self.errors.update(result.errors)
        for node, table in result.output.items():
            self.output.setdefault(node, []).append(table)
        self.times.late.update(result.times.late)
        self.times.watermarks.update(result.times.watermarks)


class StepTask:
    """One step on one worker. `stage` is the stage that is under way; `-1` before the input is read."""

    def __init__(self, setup: TaskSetup, placement: Placement, given: StepInput, worker: int, peers: Peers) -> None:
        self._setup, self._placement = setup, placement
        self._given, self._worker, self._peers = given, worker, peers
        self._plan = setup.plan_with(given.withholding)
        self._outcome = StepOutcome()
        self._is_swapping = False
        self.stage = -1

    def run(self, reader: Reader, database: Database) -> StepOutcome:
        """Raises the fault that ended the step on this worker, or StepAbandoned. The database is at the next step if this returns."""
        try:
            result = self._source(reader)
            if self._plan.stages > 1:
                self._regions(reader, database, result)
            return self._outcome
        except StepAbandoned:
            raise
        except BaseException:
            # Peers wait for this worker's messages of the stage, unless they have them already or it is the last stage.
            if not self._is_swapping and self.stage < self._plan.stages - 1:
                self._peers.abandon(self._given.step, max(0, self.stage))
            raise

    def _source(self, reader: Reader) -> StageResult:
        """Stage 0: reads the ranges of the worker's partitions, decodes them, and runs the operators that need no key."""
        setup, given, began = self._setup, self._given, time.perf_counter()
        mine = of_worker(given.ranges, self._placement, self._worker)
        batches = reader.read(mine, ahead=True, bytes_max=given.bytes_max_of(mine))
        self.stage = 0
        reached("source.read", self._worker)
        rows, self._outcome.report = read_sources(
            setup.plan.circuit, setup.tables, batches, given.on_error, given.step, given.truncate
        )
        read = time.perf_counter()
        batches.clear()  # a later stage needs the memory
        result = run_stage(setup.task(self._plan, self._placement, given, 0, self._worker), DictStore(), (), rows)
        self._outcome.add(result)
        self._outcome.read_ms = _ms(began, read)
        self._outcome.stages.append(StageTimes(_ms(read, time.perf_counter()), 0.0, 0.0))
        reached("source.done", self._worker)
        return result

    def _regions(self, reader: Reader, database: Database, result: StageResult) -> None:
        """The stages with state, in one transaction of the database."""
        inbox, waited_ms = self._swap(result)
        began = time.perf_counter()
        reached("region.before", self._worker)
        with database.transaction() as transaction:
            if not self._follows(at := transaction.get_step()):
                raise StaleTask(
                    f"worker {self._worker} is at step {at}, but the task is for step {self._given.step}; nothing was changed."
                )
            placed = self._placement.owned[self._worker]
            if (owned := transaction.get_owned()) != placed:
                raise StaleTask(
                    f"worker {self._worker} has the state of {owned}, but step {self._given.step} sends it the rows of {placed}; "
                    "nothing was changed."
                )
            state_ms = _ms(began, time.perf_counter())
            for stage in range(1, self._plan.stages):
                if stage > 1:
                    inbox, waited_ms = self._swap(result)
                began = time.perf_counter()
                task = self._setup.task(self._plan, self._placement, self._given, stage, self._worker)
                result = run_stage(task, transaction, inbox, {})
                self._outcome.add(result)
                if result.refused:
                    given, report = self._given, self._outcome.report
                    leave_out(result.refused, self._setup.tables, given.on_error, given.step, report, reader.read)
                self._outcome.stages.append(StageTimes(_ms(began, time.perf_counter()), state_ms, waited_ms))
                state_ms = 0.0
            transaction.set_step(self._given.step + 1)
            reached("region.inside", self._worker)
            began = time.perf_counter()
        last = self._outcome.stages[-1]
        self._outcome.stages[-1] = last._replace(state_ms=last.state_ms + _ms(began, time.perf_counter()))
        reached("region.committed", self._worker)

    def _follows(self, at: int) -> bool:
        """Whether the step can follow the state, which is that before step `at`. Steps of a circuit of one stage leave the state alone, but for
        those that withhold an output, so the state may be older there."""
        return at <= self._given.step if self._setup.plan.stages == 1 else at == self._given.step

    def _swap(self, result: StageResult) -> tuple[Sequence[ExchangeMessage], float]:
        began = time.perf_counter()
        self._is_swapping = True
        inbox = self._peers.swap(self._given.step, self.stage, result.rows)
        self._is_swapping = False
        self.stage += 1
        return inbox, _ms(began, time.perf_counter())


def _ms(began: float, ended: float) -> float:
    return 1e3 * (ended - began)
