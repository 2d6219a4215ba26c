"""The coordinator's shell. It asks the core for the next action, carries it out, and reports it.

Guarantees: one thread runs all steps and owns the pipeline's only writer. A fault of the data, of the project or of another run ends the
run with its text. A lost task (a killed process, a stale handle) is recovered from, at the last checkpoint, a bounded number of times.

Other threads talk to it through `Requests` and read `StatusBoard`. It starts one thread itself, which folds a checkpoint while the steps
go on.

    loop.py            start, recovery, requests, and the loop itself
    inputs.py          where to read: positions, growth of topics, divisions
    stepping.py        what a division and a step do
    checkpointing.py   what a checkpoint does
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, assert_never

import structlog
from py4j.protocol import Py4JError

from coordinator.checkpointing import Checkpointing
from coordinator.core import Complete, Core, Divide, Exit, Fold, Freeze, LogIntent, RunStep, Wait
from coordinator.errors import RecoveryFailed
from coordinator.inputs import Inputs
from coordinator.recoveries import RECOVERIES_MAX, Recoveries
from coordinator.refresh import rebuild
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.start import open_latest, prepare, record_completion
from coordinator.status import StatusBoard
from coordinator.stepping import Stepping
from engine.errors import StaleTask, TaskLost
from engine.run.step_runner import StepRunner
from engine.run.tasks import TaskSetup
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import Fenced, FencedLog, PipelineWriter
from storage.errors import NotOpen, StaleEpoch

_log = structlog.get_logger("coordinator.loop")

WAIT_SECONDS = 1.0
"""The longest wait of a run that is paused or waits for its fold. A request and the end of the fold wake it earlier."""

FOLD_LOOK_SECONDS = 0.01
"""The same while a fold is under way. Its thread wakes the loop a moment before the thread itself has ended."""


class Pipeline:
    """One run of a pipeline. `run` returns after a stop, at a checkpoint, or raises the exception that ended the run."""

    def __init__(self, spec: PipelineSpec, context: Any, requests: Requests, board: StatusBoard) -> None:
        self._spec, self._context, self._requests, self._board = spec, context, requests, board
        self._outside = spec.kafka.outside
        self._topics = Topics(spec.kafka)
        log = FencedLog(spec.kafka, spec.transactional_id, spec.log_topic)
        self._writer = PipelineWriter(log, step_header=spec.step_header)
        self._checkpoints = Checkpointing(spec, self._writer, self._topics, requests, board)
        self._request_in_force: str | None = None  # "stop" or "pause" that is in force; it outlives a recovery

    def run(
        self,
        *,
        available_now: bool = False,
        full_refresh: bool = False,
        endpoint: str | None = None,
        expect_epoch: int | None = None,
        claimed: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """Runs the pipeline until it is stopped.

        `available_now`: process what is there at the start, take a checkpoint and return. `full_refresh`: retract all output and rebuild it;
        a refresh that an earlier run began is finished in any case. `expect_epoch`: see PipelineWriter.start. `claimed(epoch)` is called
        when the claim is committed."""
        log_facts = ensure_step_log(self._topics, self._spec.log_topic)
        epoch = self._writer.start(
            pipeline=self._spec.name,
            host=self._outside.hostname(),
            pid=self._outside.pid(),
            endpoint=endpoint,
            expect_epoch=expect_epoch,
        )
        claimed(epoch)
        self._board.update(epoch=epoch, phase="recovering")
        try:
            if full_refresh or self._writer.state.refresh is not None:
                rebuild(self._spec, self._writer, self._topics)
            setup, identities = prepare(self._spec, self._writer, self._topics, log_facts.topic_id)
            inputs = Inputs(
                self._spec, self._topics, self._board, identities, self._writer.state, available_now=available_now
            )
            self._recover_and_loop(setup, inputs)
        except StaleEpoch as fault:
            raise self._fenced() from fault
        finally:
            self._writer.close()
            self._board.update(phase="stopped")

    def _recover_and_loop(self, setup: TaskSetup, inputs: Inputs) -> None:
        recoveries = Recoveries()
        steps = Stepping(self._spec, self._writer, inputs, self._requests, self._board)
        while True:
            over = False
            try:
                core = self._recover(setup, inputs)
                self._outside.settle_memory()
                with closing(StepRunner(self._context, setup, self._spec.driver_rows_max)) as runner:
                    self._loop(core, steps, runner, setup)
                    over = True
                return
            except (StaleTask, TaskLost, NotOpen, Py4JError) as fault:
                if over:
                    raise
                self._count_loss(recoveries, fault)
            finally:
                # objects in cycles that stay frozen until the process ends are never freed, and libraries complain about them
                self._outside.release_memory()

    def _count_loss(self, recoveries: Recoveries, fault: Exception) -> None:
        """Counts a lost task. Raises RecoveryFailed if too many were lost in a row without progress."""
        at = self._writer.state.steps
        _log.warning("a task was lost; going back to the last checkpoint", step=at, fault=str(fault)[:500])
        self._board.update(recoveries=self._board.show()["recoveries"] + 1)
        what = recoveries.lost(at, self._checkpoints.failed_in_a_row)
        if what is not None:
            raise RecoveryFailed(
                f"{what} (epoch {self._writer.epoch}) failed {RECOVERIES_MAX} times in a row: {str(fault)[:2000]}",
                "No data was lost. Find the cause in Spark's log, fix it, and run again.",
            ) from fault

    def _recover(self, setup: TaskSetup, inputs: Inputs) -> Core:
        """Opens the latest checkpoint that all workers have, and returns a core that continues from it."""
        began = self._outside.monotonic()
        self._checkpoints.join_fold()
        inputs.check_topics()
        version = open_latest(self._context, setup, self._writer.state)
        record_completion(self._writer, version)
        self._writer.state.forget(version.step)
        self._board.update(
            recovery_ms=round(1e3 * (self._outside.monotonic() - began), 1),
            checkpoint_version=version.version,
            checkpoint_step=version.step,
        )
        core = Core(version, self._outside.new_id, inputs.ends_now)
        if self._request_in_force is not None:
            {"stop": core.request_stop, "pause": core.request_pause}[self._request_in_force]()
        return core

    def _fenced(self) -> Fenced:
        """The fault of a run whose databases were fenced. The step log says which run has taken over."""
        state = StepLogReader(self._spec.kafka, self._spec.log_topic).read()
        return Fenced(self._spec.transactional_id, self._writer.epoch, state.claim)

    def _loop(self, core: Core, steps: Stepping, runner: StepRunner, setup: TaskSetup) -> None:
        monotonic, interval_s = self._outside.monotonic, self._spec.checkpoint_interval_s
        checkpoint_at = monotonic()
        while True:
            self._take_requests(core)
            if monotonic() - checkpoint_at >= interval_s and core.request_checkpoint():
                checkpoint_at = monotonic()
            action = core.next(self._writer.state)
            self._board.update(phase=self._phase(core))
            match action:
                case Exit():
                    return
                case Wait():
                    self._requests.wait(FOLD_LOOK_SECONDS if self._checkpoints.is_folding else WAIT_SECONDS)
                case Divide():
                    steps.divide(action, core)
                case RunStep():
                    steps.run(action, core, runner, setup)
                case LogIntent() | Freeze() | Fold() | Complete():
                    self._checkpoints.do(action, core, runner, setup)
                case _:
                    assert_never(action)
            self._checkpoints.notice_fold(core)

    def _phase(self, core: Core) -> str:
        if core.stopping:
            return "stopping"
        if core.replaying(self._writer.state):
            return "recovering"
        return "paused" if core.paused else "run"

    def _take_requests(self, core: Core) -> None:
        for what in self._requests.take():
            _log.info("asked", what=what)
            if what in ("stop", "pause", "resume") and self._request_in_force != "stop":
                self._request_in_force = None if what == "resume" else what
            {
                "pause": core.request_pause,
                "resume": core.request_resume,
                "stop": core.request_stop,
                "checkpoint": core.request_checkpoint,
            }[what]()
