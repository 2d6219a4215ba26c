"""The project broken on purpose, one rule at a time: which seed of the simulator notices?

    python -m tests.simulator.sabotage [NAME ...]

Each mutation replaces one function of production code for the time of a run. A rule that stands behind another one is broken together with it;
a mutation that no seed notices would show where the simulator is blind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from confluent_kafka import KafkaException

from base.version import VersionId
from coordinator import core, inputs, loop, positions, start, stepping
from coordinator.core import RunStep
from engine.run import database_jobs, region, spark_step, tasks
from engine.run.region import StageTask
from engine.run.tasks import StepInput
from io_kafka.clients import step_log_reader, topics, transactions, writer
from io_kafka.clients.open_transaction import OpenTransaction
from io_kafka.step_log.output_progress import Decision
from io_kafka.step_log.records import DivisionRecord
from storage import database, undo
from storage.description import Description
from tests.simulator import circuit
from tests.simulator.oracle import LOG
from tests.simulator.seeds import run
from tests.simulator.weather import ACTIVE, BENIGN

SEEDS = 500
"""As many as the suite runs."""


@contextmanager
def broken(target: Any, name: str, value: Any) -> Iterator[None]:
    with mock.patch.object(target, name, value):
        yield


# Determinism and replay


@contextmanager
def replay_that_differs() -> Iterator[None]:
    """A replayed step gives another state and other output than the first time: production compares and stops."""
    replaying = [False]
    real_stage, real_run, value = circuit._sums_stage, stepping.Stepping.run, circuit.state_value

    def run_step(self: Any, action: RunStep, at: Any, runner: Any, setup: Any) -> None:
        replaying[0] = action.replay
        real_run(self, action, at, runner, setup)

    def stage(task: StageTask, store: Any, inbox: Any) -> Any:
        with mock.patch.object(circuit, "state_value", lambda count, total: value(count, total + replaying[0])):
            return real_stage(task, store, inbox)

    with broken(stepping.Stepping, "run", run_step), broken(circuit, "_sums_stage", stage):
        yield


@contextmanager
def replay_not_compared() -> Iterator[None]:
    """... and nobody compares: what is written and what the state holds part."""

    def decide(step: int, digests: Any, recorded: Any, first: int, last: int) -> Decision:
        return Decision.APPEND if step == last else Decision.DISCARD

    with replay_that_differs(), broken(writer, "decide", decide):
        yield


# Division


@contextmanager
def division_at_the_high_watermark() -> Iterator[None]:
    levels = SimpleNamespace(READ_COMMITTED="READ_UNCOMMITTED")
    with broken(topics, "IsolationLevel", levels):
        yield


@contextmanager
def step_before_its_division_is_logged() -> Iterator[None]:
    real = writer.PipelineWriter.append

    def append(self: Any, records: Sequence[Any]) -> None:
        if isinstance(records[0], DivisionRecord):
            after = self.state.fork()
            after.apply(records[0], after.offset_next)
            after.offset_next -= 1
            self._log._state = after
            return
        real(self, records)

    with broken(writer.PipelineWriter, "append", append):
        yield


@contextmanager
def division_from_the_beginning_at_every_start() -> Iterator[None]:
    real = positions.starting_positions

    class FromTheBeginning(inputs.Inputs):
        """Remembers its own divisions, and nothing of the log's."""

        def __init__(self, spec: Any, topics: Any, board: Any, identities: Any, log: Any, **options: Any) -> None:
            self._before = dict(log.positions)
            super().__init__(spec, topics, board, identities, log, **options)

        def choose(self, log: Any, step: int) -> Any:
            known = {place: at for place, at in log.positions.items() if at != self._before.get(place)}
            return super().choose(SimpleNamespace(positions=known), step)  # type: ignore[arg-type]

    with (
        broken(loop, "Inputs", FromTheBeginning),
        broken(inputs, "starting_positions", lambda topics, sources, known: real(topics, sources, {})),
    ):
        yield


# Transactions


@contextmanager
def producer_kept_after_an_unknown_commit() -> Iterator[None]:
    """The tail of the log is read, and the same producer goes on."""
    real = transactions.FencedLog._renew

    def renew(self: Any, tail: Any = None) -> None:
        if self._claim is None or self._kept is None:
            real(self, tail)
            self._kept = self._producer
            return
        if tail is not None:
            tail += self._read_tail(unsettled=True)
        self._is_in_doubt, self._producer = False, self._kept
        try:
            self._producer.abort_transaction(5)
        except KafkaException:
            self._kept = None

    with broken(transactions.FencedLog, "_renew", renew), _attribute(transactions.FencedLog, "_kept"):
        yield


@contextmanager
def errors_of_the_client_not_heeded() -> Iterator[None]:
    """A commit that succeeded at the second sending is taken for plain success."""
    with broken(transactions.FencedLog, "_on_error", lambda self, error: None):
        yield


@contextmanager
def progress_read_before_fencing() -> Iterator[None]:
    real = transactions.FencedLog._read_tail

    def read_tail(self: Any, *, unsettled: bool = False) -> Any:
        return real(self, unsettled=True) if unsettled else []

    with broken(transactions.FencedLog, "_read_tail", read_tail):
        yield


@contextmanager
def unknown_commit_taken_for_a_failure() -> Iterator[None]:
    """What the log holds after an error is not looked at: the transaction is written again."""

    def recover(self: Any) -> list[Any]:
        self._retry_while_away(lambda: self._renew(None))
        return []

    with broken(transactions.FencedLog, "_recover", recover):
        yield


@contextmanager
def higher_claim_not_heeded() -> Iterator[None]:
    def read_tail(self: Any, *, unsettled: bool = False) -> Any:
        return self._reader.read_tail(self._state, unsettled=unsettled)

    with broken(transactions.FencedLog, "_read_tail", read_tail):
        yield


@contextmanager
def output_and_record_in_two_transactions() -> Iterator[None]:
    real = OpenTransaction.flush

    def flush(self: Any) -> None:
        real(self)
        if self.ends and not any(place.topic == LOG for place in self.ends):
            self.producer.commit_transaction(30)
            self.producer.begin_transaction()

    with broken(OpenTransaction, "flush", flush):
        yield


@contextmanager
def checkpoint_ahead_of_output() -> Iterator[None]:
    """A step counts as done before its output is written: that waits for the next division or step, and a checkpoint does not."""
    kind = stepping.Stepping
    real_write, real_divide, real_run = writer.PipelineWriter.write_step, kind.divide, kind.run

    def write_step(self: Any, step: int, outputs: Any, **facts: Any) -> Any:
        if step < self.state.steps:
            return real_write(self, step, outputs, **facts)
        self._waiting = (step, list(outputs), {**facts, "division_next": None})
        return None

    def flush(self: Any) -> None:
        waiting, self._writer._waiting = self._writer._waiting, None
        if waiting is not None:
            real_write(self._writer, waiting[0], waiting[1], **waiting[2])

    def divide(self: Any, action: Any, at: Any) -> None:
        flush(self)
        real_divide(self, action, at)

    def run_step(self: Any, action: Any, at: Any, runner: Any, setup: Any) -> None:
        flush(self)
        real_run(self, action, at, runner, setup)

    def stepped(self: Any, step: int, log: Any) -> None:
        self.step += 1

    with (
        _attribute(writer.PipelineWriter, "_waiting"),
        broken(writer.PipelineWriter, "write_step", write_step),
        broken(inputs.Inputs, "choose_ahead", lambda self, log, step: None),
        broken(kind, "divide", divide),
        broken(kind, "run", run_step),
        broken(core.Core, "stepped", stepped),
        broken(core.Core, "check", lambda self, log: None),
    ):
        yield


# Tasks


@contextmanager
def task_computes_again_when_run_twice() -> Iterator[None]:
    def again(task: StageTask, store: Any, inbox: Any) -> Any:
        key = region.shard_prefix(region.MARKER_TABLE, task.stage)
        outbox = circuit.run_stage(task, store, inbox, {})
        store.put(key, task.step.to_bytes(8, "big", signed=True))
        return outbox

    with broken(tasks, "run_stage_once", again):
        yield


@contextmanager
def input_that_broke_off_taken_for_whole() -> Iterator[None]:
    def region_task(shared: Any, given: StepInput, stage: int, worker: int, routed: Any) -> Any:
        inbox = [message for _, message in routed]
        return spark_step._sent(
            shared.value, stage, worker, spark_step.run_region(shared.value, given, stage, worker, inbox)
        )

    with broken(spark_step, "region_task", region_task):
        yield


@contextmanager
def results_that_broke_off_taken_for_all() -> Iterator[None]:
    def collected(rdd: Any, workers: int, worker_of: Any, what: str) -> Any:
        return rdd.collect()

    with broken(spark_step, "collected", collected), broken(database_jobs, "collected", collected):
        yield


@contextmanager
def task_of_any_step_accepted() -> Iterator[None]:
    """The stored result is honoured, and a marker of another step is not refused."""
    real = region.run_stage_once

    class Anywhere:
        def __init__(self, store: Any, step: int) -> None:
            self._store, self._step = store, step

        def get(self, key: bytes, **options: Any) -> Any:
            found = self._store.get(key, **options)
            if key[:2] != region.MARKER_TABLE.to_bytes(2) or found is None:
                return found
            last = int.from_bytes(bytes(found), "big", signed=True)
            return found if last == self._step else memoryview((self._step - 1).to_bytes(8, "big", signed=True))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

    with broken(tasks, "run_stage_once", lambda task, store, inbox: real(task, Anywhere(store, task.step), inbox)):
        yield


# Databases


@contextmanager
def epoch_of_databases_not_checked() -> Iterator[None]:
    def check_owner(path: Any, present: Any, identity: Any, epoch: int) -> None:
        assert present.identity == identity

    def check_open(self: Any, present: Any) -> None:
        if present.working is None:
            raise database.NotOpen(self.path, self.epoch, "never opened")

    with broken(database, "_check_owner", check_owner), broken(database.Database, "_check_open", check_open):
        yield


@contextmanager
def databases_asked_and_not_fenced() -> Iterator[None]:
    def asked(path: Any, *, epoch: int, identity: Any) -> Any:
        return database.FencedState(database.Database.versions(path), 0)

    real = database.Database.open

    def opened(path: Any, version: VersionId, *, epoch: int, identity: Any, fenced: int) -> Any:
        return real(path, version, epoch=epoch, identity=identity)

    with (
        broken(database.Database, "fence", staticmethod(asked)),
        broken(database.Database, "open", staticmethod(opened)),
    ):
        yield


@contextmanager
def late_attempt_opens_again() -> Iterator[None]:
    """An attempt of the task that opened a database goes on when steps have run, and throws them away."""
    real = database.Database.open

    def opened(path: Any, version: VersionId, *, epoch: int, identity: Any, fenced: int) -> Any:
        return real(path, version, epoch=epoch, identity=identity)

    with broken(database.Database, "open", staticmethod(opened)):
        yield


@contextmanager
def undo_skipped() -> Iterator[None]:
    with broken(undo, "put", lambda writer, key, former, part_bytes: None):
        yield


@contextmanager
def open_keeps_the_newer_version() -> Iterator[None]:
    """Version 5 is opened, and 6 stays to be opened later."""
    real = database.described.save
    left: dict[int, Description] = {}  # by worker: as it was before the rollback

    def save(saver: Any, description: Description) -> None:
        try:
            old = database.described.load(saver)
        except Exception:
            old = description
        worker = description.identity.worker
        if description.versions[-1] in old.versions[:-1]:
            left[worker] = old
        elif worker in left and description.merge_progress is None and description.working is not None:
            before = left.pop(worker)
            description = replace(
                description, versions=before.versions, record_set_checksums=before.record_set_checksums
            )
        real(saver, description)

    with broken(database.described, "save", save):
        yield


@contextmanager
def versions_told_apart_by_number_alone() -> Iterator[None]:
    """Together with `open` that keeps what it should discard."""

    def common(versions: dict[int, tuple[VersionId, ...]]) -> VersionId:
        number = max(set.intersection(*({v.version for v in held} for held in versions.values())))
        return next(v for v in versions[0] if v.version == number)

    real = database.Database.open

    def opened(path: Any, version: VersionId, *, epoch: int, identity: Any, fenced: int) -> Any:
        own = next((v for v in database.Database.versions(path) if v.version == version.version), version)
        return real(path, own, epoch=epoch, identity=identity, fenced=fenced)

    with (
        open_keeps_the_newer_version(),
        broken(start, "common_version", common),
        broken(core, "common_version", common),
        broken(database.Database, "open", staticmethod(opened)),
    ):
        yield


@contextmanager
def folders_not_synced() -> Iterator[None]:
    """A database that was made is not there after a crash of the machine."""
    from tests.simulator.disk import SimPath

    with broken(SimPath, "sync", lambda self: None):
        yield


@contextmanager
def killed_fold_not_synced() -> Iterator[None]:
    real = database.Database.fold

    def fold(self: Any) -> VersionId:
        present = database._read_description(self.path)
        self._check_open(present)
        return present.last if present.frozen is None else real(self)

    with broken(database.Database, "fold", fold):
        yield


@contextmanager
def killed_freeze_in_the_way() -> Iterator[None]:
    real = database._with_working

    def with_working(path: Any, old: Any) -> Any:
        with broken(database.environments, "remove", lambda folder: None):
            return real(path, old)

    with broken(database, "_with_working", with_working):
        yield


# Checkpoints


@contextmanager
def checkpoint_complete_before_all_have_it() -> Iterator[None]:
    """The first worker's word is taken for all."""
    real = database_jobs.fold

    def fold_all(context: Any, setup: Any) -> Any:
        first = real(setup, 0)
        return dict.fromkeys(range(len(setup.databases)), first)

    with broken(database_jobs, "fold_all", fold_all):
        yield


@contextmanager
def version_that_all_have_not_declared_complete() -> Iterator[None]:
    """A run that ended between the last fold and the record leaves that to its successor."""
    with broken(loop, "record_completion", lambda writer, version: None):
        yield


@contextmanager
def working_layer_kept_by_open() -> Iterator[None]:
    """What was written after the version that is opened stays."""
    real = database._with_working

    def with_working(path: Any, old: Any) -> Any:
        kept = next((folder.name for folder in path.iterdir() if folder.name.startswith("layer-")), None)
        return real(path, old) if kept is None or old.frozen is not None else replace(old, working=kept)

    with broken(database, "_with_working", with_working), broken(database, "_remove_layers", lambda path: None):
        yield


# Old mistakes


@contextmanager
def late_marker_taken_for_a_short_log() -> Iterator[None]:
    real = step_log_reader.StepLogReader.read_tail
    with broken(step_log_reader.StepLogReader, "read_tail", lambda self, state, *, unsettled=False: real(self, state)):
        yield


@contextmanager
def _attribute(kind: type, name: str) -> Iterator[None]:
    """A field that the mutation adds to a class."""
    setattr(kind, name, None)
    try:
        yield
    finally:
        delattr(kind, name)


Mutation = Callable[[], AbstractContextManager[None]]

MUTATIONS: tuple[Mutation, ...] = (
    replay_that_differs,
    replay_not_compared,
    division_at_the_high_watermark,
    step_before_its_division_is_logged,
    division_from_the_beginning_at_every_start,
    producer_kept_after_an_unknown_commit,
    errors_of_the_client_not_heeded,
    progress_read_before_fencing,
    unknown_commit_taken_for_a_failure,
    higher_claim_not_heeded,
    output_and_record_in_two_transactions,
    checkpoint_ahead_of_output,
    task_computes_again_when_run_twice,
    input_that_broke_off_taken_for_whole,
    results_that_broke_off_taken_for_all,
    task_of_any_step_accepted,
    epoch_of_databases_not_checked,
    databases_asked_and_not_fenced,
    late_attempt_opens_again,
    undo_skipped,
    open_keeps_the_newer_version,
    versions_told_apart_by_number_alone,
    folders_not_synced,
    killed_fold_not_synced,
    killed_freeze_in_the_way,
    checkpoint_complete_before_all_have_it,
    version_that_all_have_not_declared_complete,
    working_layer_kept_by_open,
    late_marker_taken_for_a_short_log,
)


WEATHER: dict[str, dict[str, Any]] = {
    # A task has to die between a commit and its sync, and its machine soon after the next task.
    "killed_fold_not_synced": {
        "crash_places": ("database sync",),
        "crash_point": 0.0,
        "crash_targets": (),
        "task": 0.0,
        "client": 0.0,
        "driver": 0.0,
        "checkpoint_s": 0.01,
        "weights": {**BENIGN, **ACTIVE, "machine": 8.0},
    },
    # An attempt to open a database has to sleep until its replacement's steps are written.
    "late_attempt_opens_again": {
        "crash_places": (),
        "crash_point": 0.0,
        "crash_targets": (),
        "task": 0.3,
        "client": 0.0,
        "driver": 0.0,
        "weights": {**BENIGN, **ACTIVE, "kill": 1.0},
    },
}
"""For a mutation that only a rare chain of events shows: it would take thousands of seeds to draw it."""


def first_seed(mutation: Mutation, seeds: int = SEEDS) -> tuple[int, str] | None:
    """(the first seed that fails, how)."""
    with mutation():
        findings = run(range(seeds), weather=WEATHER.get(mutation.__name__))
    if not findings.failures:
        return None
    failure = findings.failures[0]
    return failure.seed, failure.text.splitlines()[-2]


def main(names: list[str]) -> None:
    for mutation in MUTATIONS:
        if not names or mutation.__name__ in names:
            found = first_seed(mutation)
            print(
                f"{mutation.__name__:50} {'NOT NOTICED' if found is None else f'seed {found[0]:4}: {found[1][:160]}'}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
