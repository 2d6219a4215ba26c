"""What one worker does in one step: a function of the step's division and of the worker's state.

    read its ranges -> stage 0 -> exchange -> stage 1 -> exchange -> ... -> last stage      stages 1 and later: one transaction of the database

It writes nothing to Kafka. If it raises, the state of this worker is unchanged, and peers that wait for its messages have been told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from engine.analysis.stages import Channel
from engine.errors import StaleTask
from engine.model.placement import Placement
from engine.operators.findings import Findings
from engine.operators.scattered_keys import ScatteredKey
from engine.run.clearing import clear_tables
from engine.run.exchange import ExchangeMessage
from engine.run.malformed_by_state import name_key, report_malformed
from engine.run.rereading import cannot_reread
from engine.run.sources import SourceReport, ranges_of_worker, read_sources
from engine.run.stage import StageResult, run_stage
from engine.run.step_input import StepInput
from engine.run.task_setup import TaskSetup
from engine.state.store import DictStore
from faults.points import reached
from io_kafka.clients.raw import RawBatch
from io_kafka.errors import CANNOT_READ
from io_kafka.offsets import OffsetRange
from storage.database import Database


class InputReader(Protocol):
    """What a worker reads with; see io_kafka/clients/reader.py, RangeReader."""

    def read(
        self, ranges: Sequence[OffsetRange], *, ahead: bool = False, bytes_max: int | None = None
    ) -> list[RawBatch]: ...

    def document(self, topic: str, digest: str) -> str: ...

    def close(self) -> None: ...


class Readers(NamedTuple):
    """The readers of a step. `present`: reads the ranges of the division. `again`: makes the reader of what is read again, or gives the one that
    was made."""

    present: InputReader
    again: Callable[[], InputReader]


class PeerFailed(Exception):
    """Another worker has failed in this step, so this one does not go on with it. Its state is unchanged."""


class Peers(Protocol):
    """The other workers, as a step sees them."""

    def exchange(
        self, step: int, stage: int, rows: Mapping[int, Mapping[Channel, pa.Table]]
    ) -> Sequence[ExchangeMessage]:
        """Sends what a stage has for each worker, and waits for the messages of the same stage from all workers, this one included. Raises
        PeerFailed if one of them is broken."""

    def abandon(self, step: int, stage: int) -> None:
        """Tells all peers, which wait for this worker's messages of the stage, that there are none."""


class StageTimes(NamedTuple):
    """The times of one stage in milliseconds. `compute_ms`: the operators with their traces. `state_ms`: to open the database's transaction
    and to commit it."""

    compute_ms: float
    state_ms: float


@dataclass
class StepOutcome:
    """The result of a step on one worker: the messages for Kafka by Output node, and reports."""

    output: dict[int, list[pa.Table]] = field(default_factory=dict)
    report: SourceReport = field(default_factory=SourceReport)
    read_ms: float = 0.0
    stages: list[StageTimes] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)

    def add(self, result: StageResult) -> None:
        self.findings.add(result.findings)
        for node, table in result.output.items():
            self.output.setdefault(node, []).append(table)


class StepTask:
    """One step on one worker. `stage` is the stage that is under way; `-1` before the input is read."""

    def __init__(self, setup: TaskSetup, placement: Placement, given: StepInput, worker: int, peers: Peers) -> None:
        self._setup, self._given, self._peers = setup, given, peers
        self._task = setup.task(placement, given, worker)
        self._stages = self._task.plan.stages
        self._outcome = StepOutcome()
        self._is_exchanging = False
        self.stage = -1

    def run(self, readers: Readers, database: Database) -> StepOutcome:
        """Raises the fault that ended the step on this worker, or PeerFailed. The database is at the next step if this returns."""
        try:
            result = self._run_stage_0(readers)
            if self._task.plan.has_state:
                self._run_stages(readers, database, result)
            return self._outcome
        except PeerFailed:
            raise
        except BaseException:
            # Peers wait for this worker's messages of the stage, unless they have them already or it is the last stage.
            if not self._is_exchanging and self.stage < self._stages - 1:
                self._peers.abandon(self._given.step, max(0, self.stage))
            raise

    def _run_stage_0(self, readers: Readers) -> StageResult:
        """Stage 0: reads the ranges of the worker's partitions, decodes them, and runs the operators that need no key."""
        setup, given, task, began = self._setup, self._given, self._task, time.perf_counter()
        mine = ranges_of_worker(given.ranges, task.placement, task.worker)
        batches = readers.present.read(mine, ahead=True, bytes_max=given.bytes_max_of(mine))
        again = self._read_again(readers)
        self.stage = 0
        reached("source.read", task.worker)
        rows, self._outcome.report = read_sources(setup.plan.circuit, setup.tables, given, batches, again)
        read = time.perf_counter()
        batches.clear()  # a later stage needs the memory
        again.clear()
        result = run_stage(task, 0, DictStore(), (), rows)
        for node, ms in self._outcome.report.work_ms.items():
            self._outcome.findings.note_work(node, ms)
        self._outcome.add(result)
        self._outcome.read_ms = _ms(began, read)
        self._outcome.stages.append(StageTimes(_ms(read, time.perf_counter()), 0.0))
        reached("source.done", task.worker)
        return result

    def _read_again(self, readers: Readers) -> list[RawBatch]:
        """Rereads old input for the new nodes of a transition. A read failure is charged to the transition, not to the revision in force."""
        given, task = self._given, self._task
        mine = ranges_of_worker(given.again, task.placement, task.worker)
        if not mine:
            return []
        try:
            return readers.again().read(mine, ahead=True, bytes_max=given.bytes_max_of(mine))
        except CANNOT_READ as fault:
            raise cannot_reread(self._setup.plan.circuit, given.step, fault) from fault

    def _run_stages(self, readers: Readers, database: Database, result: StageResult) -> None:
        """The stages with state, in one transaction of the database."""
        given, worker = self._given, self._task.worker
        inbox = self._exchange(result)
        began = time.perf_counter()
        reached("stages.before", worker)
        with database.transaction() as transaction:
            if not self._follows(at := transaction.get_step()):
                raise StaleTask(
                    f"worker {worker} is at step {at}, but the task is for step {given.step}; nothing was changed."
                )
            placed = self._task.placement.owned[worker]
            if (owned := transaction.get_owned()) != placed:
                raise StaleTask(
                    f"worker {worker} has the state of {owned}, but step {given.step} sends it the rows of {placed}; "
                    "nothing was changed."
                )
            if given.step == self._setup.first:
                clear_tables(transaction, self._setup.clears)
            state_ms = _ms(began, time.perf_counter())
            for stage in range(1, self._stages):
                if stage > 1:
                    inbox = self._exchange(result)
                began = time.perf_counter()
                try:
                    result = run_stage(self._task, stage, transaction, inbox, {})
                except ScatteredKey as fault:
                    name_key(fault, self._setup.tables)
                    raise
                self._outcome.add(result)
                if result.findings.malformed:
                    report_malformed(
                        result.findings.malformed,
                        self._setup,
                        given=given,
                        report=self._outcome.report,
                        read=readers.present.read,
                    )
                self._outcome.stages.append(StageTimes(_ms(began, time.perf_counter()), state_ms))
                state_ms = 0.0
            transaction.set_step(given.step + 1)
            reached("stages.inside", worker)
            began = time.perf_counter()
        last = self._outcome.stages[-1]
        self._outcome.stages[-1] = last._replace(state_ms=last.state_ms + _ms(began, time.perf_counter()))
        reached("stages.committed", worker)

    def _follows(self, at: int) -> bool:
        """Whether the step can follow the state, which is that before step `at`. Without state it may be older: only steps that withhold an
        output store something."""
        return at == self._given.step if self._setup.plan.has_state else at <= self._given.step

    def _exchange(self, result: StageResult) -> Sequence[ExchangeMessage]:
        self._is_exchanging = True
        inbox = self._peers.exchange(self._given.step, self.stage, result.sent)
        self._is_exchanging = False
        self.stage += 1
        return inbox


def _ms(began: float, ended: float) -> float:
    return 1e3 * (ended - began)
