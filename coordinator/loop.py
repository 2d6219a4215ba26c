"""The coordinator's shell: asks the core what is next, does it, reports.

It owns the pipeline's one writer and runs the steps, in one thread. Other threads speak to it through `Requests` and read `StatusBoard`; the
one thread that it starts itself folds a checkpoint while steps go on.

What fails is sorted here: a fault of the data, of the project or of another run ends the pipeline with its text; a task that was
lost (a killed process, a stale handle) is recovered from, at the last checkpoint, a bounded number of times.
"""

from __future__ import annotations

import gc
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import structlog
from py4j.protocol import Py4JError

from coordinator.background_fold import BackgroundFold
from coordinator.core import Action, Core
from coordinator.errors import RecoveryFailed
from coordinator.positions import starting_positions
from coordinator.refresh import rebuild
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.start import check_topics, open_latest, prepare
from coordinator.status import StatusBoard, StepTimes
from coordinator.step_output import StepResult, gather
from coordinator.truncation import snapshot_due, truncate
from engine.errors import StaleTask, TaskLost
from engine.model.circuit import Aggregate, Constant, FinalAggregate
from engine.run.database_jobs import Folded
from engine.run.parcels import Parcel
from engine.run.step_runner import StepRunner
from engine.run.tasks import StepInput, TaskSetup
from faults.points import reached
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.clients.writer import Fenced, PipelineWriter
from io_kafka.errors import StepTooLarge
from io_kafka.formats import ENCODER_ID
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import Division, divide
from io_kafka.step_log.output_progress import compare_inputs
from io_kafka.step_log.records import CheckpointComplete, CheckpointIntent, DivisionRecord, TopicIdentity
from io_kafka.step_log.records import VersionId as LoggedVersion
from storage.description import VersionId
from storage.errors import NotOpen, StaleEpoch

_log = structlog.get_logger("coordinator.loop")

IDLE_SECONDS = 0.005
"""Between two looks for input where there was none: a look costs 0.3 ms, and a waiting message should not notice."""

GROWTH_SECONDS = 10.0
"""Between two looks for partitions that were added to an input topic: rare, and never urgent."""

COLLECT_OBJECTS = 50_000
"""New objects between two collections of the youngest. Python's own 700 makes 14 rounds for one call that reads messages."""

FOLD_SECONDS_MAX = 60.0
"""For the fold of a lost attempt to end before databases are opened again. One that hangs is fenced by that, or holds a database's lock,
which `open` then tells."""

RECOVERIES_MAX = 3
"""Times in a row that a lost task is recovered from without a new step, or a lost fold without a checkpoint, in between."""


class Pipeline:
    """One run of a pipeline. `run` returns when it was stopped at a checkpoint, or raises what ended it."""

    def __init__(self, spec: PipelineSpec, context: Any, requests: Requests, board: StatusBoard) -> None:
        self._spec, self._context, self._requests, self._board = spec, context, requests, board
        self._topics = Topics(spec.kafka)
        self._writer = PipelineWriter(spec.kafka, spec.transactional_id, spec.log_topic, step_header=spec.step_header)
        self._standing: str | None = None  # "stop" or "pause", asked for and in force: a recovery does not forget it
        self._fold: BackgroundFold | None = None
        self._folds_failed = 0  # since the last checkpoint
        self._folded: dict[int, Folded] = {}
        self._until: dict[TopicPartition, int] | None = None
        self._divide_ms = 0.0

    def run(
        self,
        *,
        available_now: bool = False,
        full_refresh: bool = False,
        endpoint: str | None = None,
        expect_epoch: int | None = None,
        claimed: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """`available_now`: take what is there now, make a checkpoint and return. `full_refresh`: take all output back and rebuild;
        one that was begun is finished without being asked for. `expect_epoch`: see PipelineWriter.start.
        `claimed(epoch)` is called when the claim is committed."""
        log_facts = ensure_step_log(self._topics, self._spec.log_topic)
        epoch = self._writer.start(
            pipeline=self._spec.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            endpoint=endpoint,
            expect_epoch=expect_epoch,
        )
        claimed(epoch)
        self._board.update(epoch=epoch, phase="recovering")
        try:
            if full_refresh or self._writer.state.refresh is not None:
                rebuild(self._spec, self._writer, self._topics)
            setup, self._identities = prepare(self._spec, self._writer, self._topics, log_facts.topic_id)
            self._find_positions(self._writer.state.positions)
            self._until = self._topics.end_offsets_of(self._partitions) if available_now else None
            self._growth_at = time.monotonic()
            self._announced = False
            self._recover_and_loop(setup, available_now)
        except StaleEpoch as fault:
            raise self._fenced() from fault
        finally:
            self._writer.close()
            self._board.update(phase="stopped")

    def _recover_and_loop(self, setup: TaskSetup, available_now: bool) -> None:
        failures, failed_before = 0, -1
        while True:
            over = False
            try:
                core = self._recover(setup, available_now)
                _settle_memory()
                with closing(StepRunner(self._context, setup, self._spec.driver_rows_max)) as step:
                    self._loop(core, step, setup)
                    over = True
                return
            except (StaleTask, TaskLost, NotOpen, Py4JError) as fault:
                if over:
                    raise
                at = self._writer.state.steps
                failures = failures + 1 if at <= failed_before else 1
                failed_before = at
                _log.warning("a task was lost; going back to the last checkpoint", step=at, fault=str(fault)[:500])
                self._board.update(recoveries=self._board.show()["recoveries"] + 1)
                if max(failures, self._folds_failed) >= RECOVERIES_MAX:
                    what = f"step {at}" if failures >= RECOVERIES_MAX else f"the checkpoint before step {at}"
                    raise RecoveryFailed(
                        f"{what} (epoch {self._writer.epoch}) failed {RECOVERIES_MAX} times in a row: {str(fault)[:2000]}",
                        "Nothing was lost; see Spark's log for the cause, mend it, and run again.",
                    ) from fault
            finally:
                gc.unfreeze()  # a process that ends frozen cannot free what is in cycles, and libraries tell of it

    def _recover(self, setup: TaskSetup, available_now: bool) -> Core:
        """Opens the last checkpoint that all workers have."""
        began = time.monotonic()
        self._join_fold()
        self._check_topics()
        version = open_latest(self._context, setup, self._writer.state)
        if self._writer.state.intent == _logged(version):  # every worker had it; the run ended before it said so
            self._writer.append([CheckpointComplete(epoch=self._writer.epoch, version=_logged(version))])
        self._writer.state.forget(version.step)
        self._board.update(
            recovery_ms=round(1e3 * (time.monotonic() - began), 1),
            checkpoint_version=version.version,
            checkpoint_step=version.step,
        )
        core = Core(version, self._writer.state.division_next - 1, self._writer.state.steps - 1, available_now)
        if self._standing is not None:
            {"stop": core.request_stop, "pause": core.request_pause}[self._standing]()
        return core

    def _fenced(self) -> Fenced:
        """What a database's fence means: who has taken over is in the step log."""
        state = StepLogReader(self._spec.kafka, self._spec.log_topic).read()
        return Fenced(self._spec.transactional_id, self._writer.epoch, state.claim)

    def _loop(self, core: Core, step: StepRunner, setup: TaskSetup) -> None:
        last_checkpoint = time.monotonic()
        while True:
            self._take_requests(core)
            if time.monotonic() - last_checkpoint >= self._spec.checkpoint_interval_s and core.request_checkpoint():
                last_checkpoint = time.monotonic()
            action = core.next()
            self._board.update(phase=self._phase(core))
            match action:
                case Action.EXIT:
                    return
                case Action.WAIT:
                    self._wait_for_somebody(core)
                case Action.DIVIDE:
                    self._divide(core)
                case Action.RUN_STEP:
                    self._run_step(core, step, setup)
                case _:
                    self._checkpoint(core, action, step, setup)
            self._notice_fold(core)

    def _phase(self, core: Core) -> str:
        if core.stopping:
            return "stopping"
        return "recovering" if core.replaying else core.workers.state.value

    def _take_requests(self, core: Core) -> None:
        for what in self._requests.take():
            _log.info("asked", what=what)
            if what in ("stop", "pause", "resume") and self._standing != "stop":
                self._standing = None if what == "resume" else what
            {
                "pause": core.request_pause,
                "resume": core.request_resume,
                "stop": core.request_stop,
                "checkpoint": core.request_checkpoint,
            }[what]()

    def _wait_for_somebody(self, core: Core) -> None:
        self._requests.wait(1.0 if self._fold is None else 0.01)

    # Division

    def _divide(self, core: Core) -> None:
        began = time.monotonic()
        division = self._choose(core.step)
        if division is None and core.step == 0 and _speaks_first(self._spec):
            division = Division(
                0, tuple(OffsetRange(p.topic, p.partition, o, o) for p, o in sorted(self._positions.items()))
            )
        reached("division.chosen")
        if division is None:
            core.nothing_to_read()
            if self._until is None:
                self._requests.wait(IDLE_SECONDS)
            return
        self._writer.append([self._division_record(division)])
        self._divided(core, division)
        self._divide_ms = 1e3 * (time.monotonic() - began)

    def _choose(self, step: int) -> Division | None:
        if self._until is None and time.monotonic() - self._growth_at > GROWTH_SECONDS:
            self._look_for_growth()
        ends = self._ends()
        self._board.update(lag={str(p): ends[p] - self._positions[p] for p in ends})
        return divide(step, self._positions, ends, self._spec.limits)

    def _divide_ahead(self, core: Core) -> Division | None:
        """The division after the step that is about to be written, where a whole step waits already: recorded with the output, it costs no
        transaction of its own. Where less waits it is chosen later, and what comes until then is in it."""
        whole = self._spec.limits.rows
        if core.replaying or core.step < core.divided or self._writer.state.divisions[core.step].division.rows < whole:
            return None  # where this step is not a whole one there was no backlog: the end offsets are asked for once, by the next division
        division = self._choose(core.step + 1)
        return division if division is not None and division.rows >= whole else None

    def _divided(self, core: Core, division: Division) -> None:
        self._positions.update(division.ends)
        core.log_divided(division.step)

    def _ends(self) -> dict[TopicPartition, int]:
        """The last stable offsets; with --available-now those of the start, once."""
        if self._until is not None:
            return {p: max(end, self._positions[p]) for p, end in self._until.items()}
        return self._topics.end_offsets_of(self._partitions)

    def _division_record(self, division: Division) -> DivisionRecord:
        """The first division of a run, and the first after a topic grew, says which topics it means."""
        topics: tuple[TopicIdentity, ...] = () if self._announced else self._identities
        self._announced = True
        grown = self._writer.state.grown_with(topics)
        record = DivisionRecord.of(self._writer.epoch, division, topics, grown=grown)
        return record.model_copy(
            update={"on_error": self._spec.on_error, "dead_letters": self._spec.dead_letter_topics}
        )

    def _with_policy_in_force(self, record: DivisionRecord) -> DivisionRecord:
        """The division of a step without output; recorded again where an earlier run recorded it and the project now says otherwise
        about malformed messages. The databases were opened since, so nothing of the step under the former policy is left in them."""
        if (record.on_error, record.dead_letters) == (self._spec.on_error, self._spec.dead_letter_topics):
            return record
        again = record.with_policy(self._writer.epoch, self._spec.on_error, self._spec.dead_letter_topics)
        self._writer.append([again])
        return again

    def _find_positions(self, known: Mapping[TopicPartition, int]) -> None:
        """Of the partitions that `_identities` tells of: one that came since is not read before its topic's growth is recorded."""
        counts = {identity.topic: identity.partitions for identity in self._identities}
        found = starting_positions(self._topics, self._spec.inputs, known)
        self._positions = {place: at for place, at in found.items() if place.partition < counts[place.topic]}
        self._partitions = sorted(self._positions)

    def _check_topics(self) -> dict[str, TopicFacts]:
        """All topics as they are; raises TopicChanged for one that was recreated since the start."""
        facts = self._topics.describe(identity.topic for identity in self._identities)
        check_topics(self._spec, facts, {identity.topic: identity for identity in self._identities})
        return facts

    def _look_for_growth(self) -> None:
        self._growth_at = time.monotonic()
        facts = self._check_topics()
        inputs = set(self._spec.input_topics)
        found = tuple(
            TopicIdentity(topic=i.topic, id=i.id, partitions=facts[i.topic].partitions) if i.topic in inputs else i
            for i in self._identities
        )
        if found == self._identities:
            return
        self._identities = found
        self._announced = False
        self._find_positions(self._positions)
        _log.info("an input topic has grown", partitions=len(self._partitions))

    # A step

    def _run_step(self, core: Core, runner: StepRunner, setup: TaskSetup) -> None:
        record = self._writer.state.divisions[core.step]
        if not core.replaying:
            record = self._with_policy_in_force(record)
        began = time.monotonic()
        reached("step.begun")
        parcels = self._run_divided(record, runner, None if core.replaying else self._spec.limits.bytes_max)
        result = gather(self._spec, setup.plan, setup.partitions, parcels, record.dead_letters)
        computed = time.monotonic()
        reached("step.gathered")
        if core.replaying and core.step in self._writer.state.step_records:
            compare_inputs(core.step, result.inputs, self._writer.state.step_records[core.step])
        replayed = core.replaying
        ahead = self._divide_ahead(core)
        chosen = time.monotonic()
        self._writer.write_step(
            core.step,
            result.outputs,
            encoder=ENCODER_ID,
            inputs=result.inputs,
            skipped=result.skipped,
            division_next=None if ahead is None else self._division_record(ahead),
        )
        reached("replay.compared" if replayed else "step.complete")
        times = self._times(result, 1e3 * (computed - began), 1e3 * (time.monotonic() - chosen))
        self._board.stepped(core.step, result.rows, times, replayed=replayed, skipped=result.skipped)
        core.stepped()
        if ahead is not None:
            self._divided(core, ahead)
            self._divide_ms = 1e3 * (chosen - computed)

    def _run_divided(self, record: DivisionRecord, runner: StepRunner, bytes_max: int | None) -> list[Parcel]:
        """Runs the step. One whose messages have more than `bytes_max` is divided again, over less input, and then run; a step with output
        (None) stays as it is."""
        given = StepInput(
            record.step, record.division.ranges, dict(record.on_error), frozenset(record.grown), bytes_max
        )
        try:
            return runner.run(given)
        except StepTooLarge as fault:
            less = record.cut(self._writer.epoch, fault.ends)
            self._writer.append([less])
            self._positions.update(less.division.ends)
            _log.info("a step was larger than stepwell.step.bytes.max", step=record.step, rows=less.division.rows)
            return runner.run(replace(given, ranges=less.division.ranges, bytes_max=None))

    def _times(self, result: StepResult, job_ms: float, write_ms: float) -> StepTimes:
        known = result.read_ms + result.compute_ms + result.state_ms
        return StepTimes(
            divide=round(self._divide_ms, 2),
            read=round(result.read_ms, 2),
            compute=round(result.compute_ms, 2),
            state=round(result.state_ms, 2),
            shuffle=round(max(0.0, job_ms - known), 2),
            write=round(write_ms, 2),
        )

    # A checkpoint

    def _checkpoint(self, core: Core, action: Action, runner: StepRunner, setup: TaskSetup) -> None:
        match action:
            case Action.INTEND:
                self._checkpoint_began = time.monotonic()
                reached("checkpoint.paused")
                core.intended(uuid.uuid4().hex)
                assert core.pending is not None
                self._writer.append([CheckpointIntent(epoch=self._writer.epoch, version=_logged(core.pending))])
            case Action.FREEZE:
                assert core.pending is not None
                reached("checkpoint.intended")
                runner.freeze(core.pending)
                reached("checkpoint.frozen")
                core.frozen()
            case Action.FOLD:
                self._fold = BackgroundFold(runner.fold, self._requests.wake)
                core.folding()
            case Action.COMPLETE:
                self._complete(core, setup)

    def _notice_fold(self, core: Core) -> None:
        if self._fold is not None and self._fold.is_over:
            fold, self._fold = self._fold, None
            self._folds_failed += 1
            self._folded = fold.result()
            self._folds_failed = 0
            core.folded()

    def _join_fold(self) -> None:
        """Before databases are opened again, the fold of the former attempt is over."""
        if self._fold is not None:
            self._fold.join(FOLD_SECONDS_MAX)
            self._fold = None

    def _complete(self, core: Core, setup: TaskSetup) -> None:
        reached("checkpoint.folded")
        former = core.version
        core.completed({worker: folded.versions for worker, folded in self._folded.items()})
        self._writer.append([CheckpointComplete(epoch=self._writer.epoch, version=_logged(core.version))])
        reached("checkpoint.completed")
        if snapshot_due(self._writer.state):
            self._writer.append([self._writer.state.snapshot()])
            reached("checkpoint.snapshot")
        self._writer.state.forget(former.step)
        if truncate(self._topics, self._writer.state, former.step, self._spec.steps_kept) is not None:
            reached("checkpoint.truncated")
        took_ms = 1e3 * (time.monotonic() - self._checkpoint_began)
        self._board.checkpointed(core.version.version, core.version.step, took_ms)
        self._measure_state(setup)

    def _measure_state(self, setup: TaskSetup) -> None:
        tables: dict[str, int] = {}
        disk: dict[str, int] = {}
        for folded in self._folded.values():
            for table, size in folded.statistics.table_bytes.items():
                owner = setup.owner_of_table(table)
                tables[owner] = tables.get(owner, 0) + size
            for layer, size in folded.statistics.disk_bytes.items():
                disk[layer] = disk.get(layer, 0) + size
        self._board.update(state_bytes=tables, disk_bytes=disk)


def _speaks_first(spec: PipelineSpec) -> bool:
    """Whether there is output before any input: constants, and counts of nothing."""
    return any(
        isinstance(n, Constant) or (isinstance(n, Aggregate | FinalAggregate) and not n.group)
        for n in spec.circuit.nodes
    )


def _settle_memory() -> None:
    """What lives by now lives as long as the run: the collector need not look at it again. And a batch of messages is thousands of
    objects that die at once: collections are for cycles, of which steps make few."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)


def _logged(version: VersionId) -> LoggedVersion:
    return LoggedVersion(version=version.version, step=version.step, checkpoint_id=version.checkpoint_id)
