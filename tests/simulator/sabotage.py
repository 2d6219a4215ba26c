"""The project broken on purpose, one rule at a time: which seed of the simulator notices?

    python -m tests.simulator.sabotage [NAME ...]

Each mutation replaces one function of production code for the time of a run. A rule that stands behind another one is broken together with it;
a mutation that no seed notices would show where the simulator is blind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

from confluent_kafka import KafkaException

from base.slots import NO_SLOTS
from base.term import ATTEMPTS_MAX, Term
from base.version import EMPTY, VersionId
from coordinator import core, loop, pipeline
from coordinator.actions import Action, Collect, Divide, Give, Settle
from coordinator.boundary import Boundary
from coordinator.checkpoints import checkpointing
from coordinator.checkpoints import machine as checkpoint_machine
from coordinator.checkpoints.phases import NamedCheckpoint
from coordinator.core import Core
from coordinator.rescale import rescaling
from coordinator.rescale.actions import Cut, RemoveWorkers
from coordinator.rescale.machine import Rescale
from coordinator.rescale.phases import AddingWorkers
from coordinator.running import recovery
from coordinator.starting.project.beginning import Beginning
from coordinator.starting.topics import positions
from coordinator.starting.workers import bind_workers as binding_of_tasks
from coordinator.starting.workers import binding, database_names, expected_databases, opening
from coordinator.stepping import input_topics, inputs, new_nodes, stepping, views_in_error
from coordinator.transition import machine as transition_machine
from coordinator.transition import transitions
from engine.model.withholding import NOTHING_WITHHELD
from engine.operators.findings import Findings
from engine.resident import copies, crew, liveness, mesh, messages, pulse, registration, roster, slots, states
from engine.resident.crew.checkpoints import CrewCheckpoints
from engine.resident.crew.slots import CrewSlots
from engine.resident.crew.steps import CrewSteps
from engine.resident.transport import Arrived
from engine.resident.worker.coordinator_link import CoordinatorLink
from engine.run import cut, hidden_copies, tasks
from engine.run.stage import StageResult, WorkerStep
from io_kafka.clients import step_log_reader, topics, transactions, writer
from io_kafka.clients.open_transaction import OpenTransaction
from io_kafka.step_log import revision_rules, revision_state, rules
from io_kafka.step_log.output_progress import OutputDecision
from io_kafka.step_log.records import DivisionRecord
from io_kafka.step_log.state import StepLogState
from storage import committed, database, host_folder, undo
from storage.description import Description
from tests.simulator import circuit, sabotage_of_reading, sabotage_of_store, stages
from tests.simulator.breaking import Mutation, broken
from tests.simulator.oracle import LOG
from tests.simulator.sabotage_of_reading import READING, READING_WEATHER
from tests.simulator.sabotage_of_store import STORE, STORE_WEATHER
from tests.simulator.seeds import run
from tests.simulator.weather import ACTIVE, BENIGN

SEEDS = 500
"""By how many seeds a mutation must be noticed, if a command names no other number. The tests have their own bounds (test_simulator.py)."""


# Determinism and replay


@contextmanager
def _replays() -> Iterator[set[int]]:
    """The steps that were given as replays."""
    replays: set[int] = set()
    real = stepping.Stepping.give

    def give(self: Any, action: Give, at: Any, workers: Any) -> None:
        (replays.add if action.replay else replays.discard)(action.step)
        real(self, action, at, workers)

    with broken(stepping.Stepping, "give", give):
        yield replays


@contextmanager
def replay_that_differs() -> Iterator[None]:
    """A replayed step gives other output than the first time: production compares and stops."""
    real = stages.run_stage

    with _replays() as replays:

        def run_stage(task: WorkerStep, stage: int, store: Any, inbox: Any, sources: Any) -> StageResult:
            result = real(task, stage, store, inbox, sources)
            return (
                StageResult(result.sent, {}, Findings()) if stage and task.step.division.number in replays else result
            )

        with broken(stages, "run_stage", run_stage):
            yield


@contextmanager
def replay_not_compared() -> Iterator[None]:
    """A replayed step gives another state than the first time, and nobody compares: what is written and what the state holds part."""
    real, value = stages.run_stage, circuit.state_value

    def decide(step: int, digests: Any, recorded: Any, first: int, last: int) -> OutputDecision:
        return OutputDecision.APPEND if step == last else OutputDecision.DISCARD

    with _replays() as replays:

        def run_stage(task: WorkerStep, stage: int, store: Any, inbox: Any, sources: Any) -> StageResult:
            added = task.step.division.number in replays
            with mock.patch.object(circuit, "state_value", lambda count, total: value(count, total + added)):
                return real(task, stage, store, inbox, sources)

        with broken(stages, "run_stage", run_stage), broken(writer, "decide", decide):
            yield


# Division


@contextmanager
def division_at_the_high_watermark() -> Iterator[None]:
    levels = SimpleNamespace(READ_COMMITTED="READ_UNCOMMITTED", READ_UNCOMMITTED="READ_UNCOMMITTED")
    with broken(topics, "IsolationLevel", levels):
        yield


@contextmanager
def step_before_its_division_is_logged() -> Iterator[None]:
    real = transactions.FencedLog.append

    def append(self: Any, records: Sequence[Any]) -> None:
        if isinstance(records[0], DivisionRecord):
            _remember(self, records[0])
        else:
            real(self, records)

    with broken(transactions.FencedLog, "append", append):
        yield


@contextmanager
def division_ahead_before_it_is_logged() -> Iterator[None]:
    """The division that T(s) should carry is used before T(s)."""
    real = stepping.Stepping.collect

    def collect(self: Any, action: Collect, at: Core, workers: Any) -> None:
        real(self, action, at, workers)
        if action.step >= self._writer.state.steps:
            for division in self._inputs.choose_ahead(self._writer.state, action.step, ())[:1]:
                _remember(
                    self._writer.log,
                    self._inputs.record(self._writer.state, self._writer.epoch, division, is_drained=False),
                )
                self._inputs.topics.note_announced()

    with broken(stepping.Stepping, "collect", collect):
        yield


def _remember(written: Any, record: DivisionRecord) -> None:
    """As if the log had the record."""
    before = written.state
    written._state = replace(before.apply(record, before.offset_next), offset_next=before.offset_next)


@contextmanager
def cut_that_voids_no_later_division() -> Iterator[None]:
    real = StepLogState._with_division_replaced

    def keep(self: Any, cut: DivisionRecord) -> Any:
        if cut.counted != self.divisions[cut.step].counted or cut.ranges == self.divisions[cut.step].ranges:
            return real(self, cut)
        positions = {**self.next_offsets, **{r.where: r.end for r in cut.ranges}}
        return replace(self, divisions=self.divisions.with_value(cut.step, cut), next_offsets=positions)

    with broken(StepLogState, "_with_division_replaced", keep):
        yield


@contextmanager
def division_from_the_beginning_at_every_start() -> Iterator[None]:
    real = positions.starting_positions

    class FromTheBeginning(inputs.Inputs):
        """Remembers its own divisions, and nothing of the log's."""

        def __init__(self, spec: Any, plan: Any, topics: Any, nodes: Any, log: Any, **options: Any) -> None:
            self._at_start = dict(log.next_offsets)
            super().__init__(spec, plan, topics, nodes, log, **options)

        def choose(self, log: Any, step: int) -> Any:
            known = {place: at for place, at in log.next_offsets.items() if at != self._at_start.get(place)}
            return super().choose(SimpleNamespace(next_offsets=known), step)  # type: ignore[arg-type]

    with (
        broken(loop, "Inputs", FromTheBeginning),
        broken(input_topics, "starting_positions", lambda topics, sources, known: real(topics, sources, {})),
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
            tail += self._read_tail(in_doubt=True)
        self._is_in_doubt, self._producer = False, self._kept
        try:
            self._producer.abort_transaction(5)
        except KafkaException:
            self._kept = None

    with broken(transactions.FencedLog, "_renew", renew), _attribute(transactions.FencedLog, "_kept"):
        yield


@contextmanager
def errors_of_the_client_not_heeded() -> Iterator[None]:
    """A commit that succeeded at the second sending counts as plain success."""
    with broken(transactions.FencedLog, "_on_error", lambda self, error: None):
        yield


@contextmanager
def progress_read_before_fencing() -> Iterator[None]:
    real = transactions.FencedLog._read_tail

    def read_tail(self: Any, *, in_doubt: bool = False) -> Any:
        return real(self, in_doubt=True) if in_doubt else []

    with broken(transactions.FencedLog, "_read_tail", read_tail):
        yield


@contextmanager
def unknown_commit_taken_for_a_failure() -> Iterator[None]:
    """What the log holds after an error is not looked at: the transaction is written again."""

    def recover(self: Any, tail: Any) -> None:
        self._retry_while_away(lambda: self._renew(None))

    with broken(transactions.FencedLog, "_recover", recover):
        yield


@contextmanager
def higher_claim_not_heeded() -> Iterator[None]:
    def read_tail(self: Any, *, in_doubt: bool = False) -> Any:
        self._state, tail = self._reader.read_tail(self._state, in_doubt=in_doubt)
        return tail

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
    real_write, real_divide, real_give, real_settle = (
        writer.PipelineWriter.write_step, kind.divide, kind.give, kind.settle
    )  # fmt: skip

    def write_step(self: Any, step: int, outputs: Any, **facts: Any) -> Any:
        if step < self.state.steps:
            return real_write(self, step, outputs, **facts)
        self._waiting = (step, list(outputs), {**facts, "divisions": ()})
        return None

    def flush(self: Any) -> None:
        waiting, self._writer._waiting = self._writer._waiting, None
        if waiting is not None:
            real_write(self._writer, waiting[0], waiting[1], **waiting[2])

    def divide(self: Any, action: Divide, at: Core, *, awaits_answers: bool) -> None:
        flush(self)
        real_divide(self, action, at, awaits_answers=awaits_answers)

    def give(self: Any, action: Give, at: Core, workers: Any) -> None:
        flush(self)
        real_give(self, action, at, workers)

    def settle(self: Any, action: Settle, at: Core, workers: Any) -> Any:
        flush(self)
        return real_settle(self, action, at, workers)

    def settled(self: Any, step: int, log: Any) -> None:
        self.ran = None
        self.step += 1

    with (
        _attribute(writer.PipelineWriter, "_waiting"),
        broken(writer.PipelineWriter, "write_step", write_step),
        broken(inputs.Inputs, "choose_ahead", lambda self, log, step, errors: []),
        broken(kind, "divide", divide),
        broken(kind, "give", give),
        broken(kind, "settle", settle),
        broken(core.Core, "settled", settled),
        broken(core.Core, "check", lambda self, log: None),
    ):
        yield


# Workers


@contextmanager
def step_run_twice() -> Iterator[None]:
    """Every step is given twice, and a worker runs a step that does not follow its state."""
    real = stepping.Stepping.collect

    def collect(self: Any, action: Collect, at: Core, workers: Any) -> None:
        workers.steps.collect(action.step)
        workers.steps.give(self._step_input(workers, self._under_way))
        real(self, action, at, workers)

    def begin_step(self: states.StepState, step: int) -> None:
        self.step = step

    with (
        broken(stepping.Stepping, "collect", collect),
        broken(states.StepState, "begin_step", begin_step),
        broken(tasks.StepTask, "_follows", lambda self, at: True),
    ):
        yield


@contextmanager
def stage_without_all_peers() -> Iterator[None]:
    """A worker takes the messages of its peers that have come, and does not wait for the others."""
    real = mesh.Mesh._wait

    def wait(self: Any, done: Callable[[], bool], deadline: float | None, what: str) -> None:
        if deadline is not None:
            real(self, done, deadline, what)
            return
        event = self._events.next(0.001)
        if event is not None and not self.take(event):
            self._others(event)

    with broken(mesh.Mesh, "_wait", wait):
        yield


@contextmanager
def broken_stage_taken_for_whole() -> Iterator[None]:
    """A worker goes on with a step that has failed on a peer."""
    real = mesh.Mesh._deliver

    def deliver(self: Any, peer: int, message: messages.StageRows, buffers: Any) -> None:
        real(self, peer, message.model_copy(update={"broken": False}), buffers)

    with broken(mesh.Mesh, "_deliver", deliver):
        yield


@contextmanager
def step_without_the_results_of_all_workers() -> Iterator[None]:
    def collect(self: Any, step: int) -> Any:
        of_crew = self._workers.roster
        while not any("run_step" in member.answers for member in of_crew.members.values()):
            of_crew.poll(roster.POLL_SECONDS)
        self._is_given = False
        found = [self._take(number, step) for number, member in of_crew.members.items() if "run_step" in member.answers]
        failed = [answer for answer in found if isinstance(answer, Exception)]
        if failed:
            raise failed[0]
        return [answer for answer in found if answer is not None]

    with broken(CrewSteps, "collect", collect):
        yield


@contextmanager
def strangers_accepted() -> Iterator[None]:
    """Neither the token nor the term of a connection is looked at: a port is given out again, so a worker of another term comes by."""
    real_refusal, real_introduce = registration.Registration._refusal, mesh.Mesh._introduce
    real_take = roster.Roster._take

    def refusal(self: Any, term: Any, message: Any) -> Any:
        return real_refusal(self, self._term, message)

    def introduce(self: Any, connection: Any, term: Any, message: Any) -> None:
        real_introduce(self, connection, self._term, message.model_copy(update={"token": self._token}))

    def take(self: Any, event: Any) -> None:
        real_take(self, replace(event, frame=replace(event.frame, term=self._term)) if _arrived(event) else event)

    def take_of_peer(self: Any, event: Any) -> bool:
        taken: bool = real_of_peer(
            self, replace(event, frame=replace(event.frame, term=self._term)) if _arrived(event) else event
        )
        return taken

    def take_order(self: Any, event: Any) -> None:
        if _arrived(event) and event.connection is self.connection:
            event = replace(event, frame=replace(event.frame, term=self._term))
        real_order(self, event)

    real_order, real_of_peer = CoordinatorLink.take, mesh.Mesh.take
    with (
        broken(registration, "same_token", lambda one, other: True),
        broken(registration.Registration, "_refusal", refusal),
        broken(roster.Roster, "_take", take),
        broken(mesh.Mesh, "_introduce", introduce),
        broken(mesh.Mesh, "take", take_of_peer),
        broken(CoordinatorLink, "take", take_order),
    ):
        yield


def _arrived(event: Any) -> bool:
    return isinstance(event, Arrived)


@contextmanager
def recovery_with_the_workers_of_before() -> Iterator[None]:
    """A recovery goes on with the crew that has failed, if it was bound completely and its connections are there."""
    real_crew, real_close, real_launch = recovery.Recovery.make_crew, crew.Crew.close, crew.Crew.launch
    kept: dict[int, Any] = {}  # by epoch
    found: dict[Any, Any] = {}  # by crew: what binding it has found

    def make(self: Any, course: Any) -> Any:
        old = kept.pop(self._writer.epoch, None)
        if old is not None:
            members = old._roster.members.values()
            is_whole = old in found and len(members) == len(old.numbers)
            if is_whole and not any(member.connection.is_gone() for member in members):
                old.steps._is_given = False
                for member in members:
                    member.answers.clear()
                kept[self._writer.epoch] = old
                return old
            real_close(old)
        kept[self._writer.epoch] = real_crew(self, course)
        return kept[self._writer.epoch]

    def launch(self: Any) -> None:
        if not self.recruiting._jobs:
            real_launch(self)

    def bind_workers(kept_or_new: Any, *rest: Any, **named: Any) -> Any:
        if kept_or_new not in found:
            found[kept_or_new] = real_bind(kept_or_new, *rest, **named)
        return found[kept_or_new]

    real_bind = recovery.bind_workers
    with (
        broken(recovery, "bind_workers", bind_workers),
        broken(recovery.Recovery, "make_crew", make),
        broken(crew.Crew, "close", lambda self: None),
        broken(crew.Crew, "launch", launch),
    ):
        yield


@contextmanager
def worker_that_outlives_its_coordinator() -> Iterator[None]:
    """A worker does not end when its coordinator is silent."""
    real = pulse.WorkerPulse._run

    def run_pulse(self: Any) -> None:
        self.silence_s = float("inf")
        real(self)

    with broken(pulse.WorkerPulse, "_run", run_pulse):
        yield


@contextmanager
def silent_worker_waited_for() -> Iterator[None]:
    with (
        broken(liveness.Liveness, "find_silent", lambda self, now: None),
        broken(liveness.Liveness, "find_stopped", lambda self, unanswered, asked_at, slowest_step_s, now: None),
    ):
        yield


# Hosts


@contextmanager
def database_created_although_a_host_holds_it() -> Iterator[None]:
    """While the log has no checkpoint, nobody looks what the hosts hold."""
    real = binding_of_tasks.bind

    def bind(offers: Any, expected: Any, *, final: bool, restores: bool = False) -> Any:
        blind = [replace(offer, databases=()) for offer in offers] if expected.complete is None else offers
        return real(blind, expected, final=final, restores=restores)

    with broken(binding_of_tasks, "bind", bind):
        yield


@contextmanager
def empty_database_in_place_of_one_that_is_away() -> Iterator[None]:
    real = binding_of_tasks.bind

    def bind(offers: Any, expected: Any, *, final: bool, restores: bool = False) -> Any:
        owners = {EMPTY: expected.owners[expected.complete]} if expected.complete is not None else expected.owners
        return real(offers, replace(expected, owners=owners, complete=None), final=final, restores=restores)

    with broken(binding_of_tasks, "bind", bind):
        yield


@contextmanager
def numbers_in_the_order_of_registration() -> Iterator[None]:
    """A worker's database is looked for on the host where its task happens to be."""

    def bind(offers: Any, expected: Any, *, final: bool, restores: bool = False) -> Any:
        births = expected.owners[expected.complete or EMPTY]
        workers = {number: offers[place].serial for place, number in enumerate(births)}
        here = {
            n: [f for f in offers[i].databases if (f.worker, f.birth) == (n, births[n])] for i, n in enumerate(workers)
        }
        versions = {n: frozenset(version for found in here[n] for version in found.versions) for n in workers}
        created = frozenset(workers) if expected.complete is None else frozenset()
        return binding.Bound(workers, births, created, {}, versions)

    with broken(binding_of_tasks, "bind", bind):
        yield


@contextmanager
def one_database_for_all_workers_of_a_host() -> Iterator[None]:
    """Neither its identity nor the number of its last fence is compared."""
    real_open, real_owner = database.Database.open, database._check_owner

    def opened(path: Any, version: VersionId, *, epoch: int, identity: Any, fenced: int) -> Any:
        return real_open(path, version, epoch=epoch, identity=identity)

    def check_owner(path: Any, present: Any, identity: Any, epoch: int) -> None:
        real_owner(path, present, present.identity, epoch)

    with (
        broken(host_folder.HostFolder, "of_worker", lambda self, worker, birth="0": self.databases / "0000"),
        broken(database.Database, "open", staticmethod(opened)),
        broken(database, "_check_owner", check_owner),
    ):
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
def databases_fenced_once_in_an_epoch() -> Iterator[None]:
    """A new attempt with new workers relies on the fence of the first one."""
    real = database.Database.fence
    fenced: set[tuple[str, int]] = set()

    def fence(path: Any, *, epoch: int, identity: Any) -> Any:
        if (str(path), Term.of(epoch).epoch) not in fenced:
            fenced.add((str(path), Term.of(epoch).epoch))
            return real(path, epoch=epoch, identity=identity)
        present = committed.read_description(path)
        return database.FencedState(present.versions, present.layers_made)

    with broken(database.Database, "fence", staticmethod(fence)):
        yield


@contextmanager
def late_worker_opens_again() -> Iterator[None]:
    """A worker of an attempt that was given up opens its database when its replacement has run steps, and throws them away: its term counts
    for as high, and how often the database was fenced is not compared."""
    real = database.Database.open

    def opened(path: Any, version: VersionId, *, epoch: int, identity: Any, fenced: int) -> Any:
        return real(path, version, epoch=epoch, identity=identity)

    with (
        broken(database.Database, "open", staticmethod(opened)),
        broken(Term, "number", property(lambda self: self.epoch * ATTEMPTS_MAX)),
    ):
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
        broken(opening, "common_version", common),
        broken(checkpoint_machine, "common_version", common),
        broken(database.Database, "open", staticmethod(opened)),
    ):
        yield


@contextmanager
def folders_not_synced() -> Iterator[None]:
    """A database that was made is not there after a crash of the machine."""
    from tests.simulator.disk import SimPath

    with broken(SimPath, "sync", lambda self: None):
        yield


# Checkpoints


@contextmanager
def checkpoint_complete_before_all_have_it() -> Iterator[None]:
    """The answer of the first worker counts for all."""

    def folded(self: Any) -> Any:
        of_crew = self._workers.roster
        of_crew.poll(0.0)
        answers = [member.answers.get("fold_layer") for member in of_crew.members.values()]
        first = next((a[0] for a in answers if a is not None and isinstance(a[0], messages.LayerFolded)), None)
        if first is None:
            return None
        of_crew._asked_in_background.pop(messages.FoldLayer)
        return dict.fromkeys(self._workers.numbers, first)

    with broken(CrewCheckpoints, "poll_folds", folded):
        yield


@contextmanager
def checkpoint_while_a_step_is_under_way() -> Iterator[None]:
    """The core does not wait for a drained boundary."""
    real = core.Core._next_while_steps_run

    def next_while_steps_run(self: Core, log: Any) -> Action:
        wanted = None if self.ran is not None else self._checkpoint_action(log)
        return real(self, log) if wanted is None else wanted

    with (
        broken(core.Core, "_next_while_steps_run", next_while_steps_run),
        broken(core.Core, "_needs_drained_boundary", lambda self, log: False),
    ):
        yield


@contextmanager
def version_that_all_have_not_declared_complete() -> Iterator[None]:
    """A run that ended between the last fold and the record leaves that to its successor."""
    with broken(recovery, "record_completion", lambda writer, version: None):
        yield


@contextmanager
def working_layer_kept_by_open() -> Iterator[None]:
    """What was written after the version that is opened stays."""
    real = database.with_working

    def with_working(path: Any, old: Any) -> Any:
        kept = next((folder.name for folder in path.iterdir() if folder.name.startswith("layer-")), None)
        return real(path, old) if kept is None or old.frozen is not None else replace(old, working=kept)

    with broken(database, "with_working", with_working), broken(database, "remove_layers", lambda path: None):
        yield


# Changes of the layout


@contextmanager
def rows_left_at_the_source() -> Iterator[None]:
    with broken(circuit.Moves, "drop", staticmethod(lambda store, table, slots: None)):
        yield


@contextmanager
def slots_kept_by_their_source() -> Iterator[None]:
    """A worker is never told to release what it has given."""
    with broken(slots.SlotMover, "release", lambda self, order, of: None):
        yield


@contextmanager
def stale_copies_taken_over() -> Iterator[None]:
    """A cut takes over every copy that the destination has, also of what has changed at the source since."""
    real = hidden_copies.reveal_copies

    def reveal_copies(transaction: Any, of: Any, kept: Any = frozenset()) -> None:
        found = set(transaction.hidden_keys(transaction.get_hidden().intersection(of)))
        real(transaction, of, found)

    with broken(cut, "reveal_copies", reveal_copies):
        yield


@contextmanager
def what_is_new_since_a_copy_left_behind() -> Iterator[None]:
    """A cut of slots that were copied moves the copies alone."""
    real = copies.SlotCopier.divide_parts

    def divide_parts(self: Any, to: int, of: Any, parts: Any) -> Any:
        copied, left = real(self, to, of, parts)
        return copied, [] if copied else left

    with broken(copies.SlotCopier, "divide_parts", divide_parts):
        yield


@contextmanager
def cut_between_intent_and_freeze() -> Iterator[None]:
    real = core.Core._checkpoint_action

    def checkpoint_action(self: Core, log: Any) -> Any:
        named = self.checkpoint
        if isinstance(named, NamedCheckpoint) and log.intent == named.version and not self.rescale.is_idle:
            due = self.rescale.next(log, self._at_boundary(log))
            if isinstance(due, Cut):
                return due
        return real(self, log)

    with (
        broken(core.Core, "_checkpoint_action", checkpoint_action),
        broken(core.Core, "_report_before_freeze", lambda self, event: None),
    ):
        yield


@contextmanager
def worker_made_at_version_0() -> Iterator[None]:
    with broken(rescaling, "NewDatabase", lambda owned, base: messages.NewDatabase(owned, EMPTY)):
        yield


@contextmanager
def worker_that_does_not_enter() -> Iterator[None]:
    """A new worker joins without being set before the step of the others."""
    with broken(crew.Crew, "enter", lambda self, numbers, step: None):
        yield


@contextmanager
def worker_made_while_a_checkpoint_is_folded() -> Iterator[None]:
    real = Rescale.next

    def following(self: Any, log: Any, at: Boundary) -> Any:
        return real(self, log, replace(at, is_checkpointing=False))

    with (
        broken(Rescale, "next", following),
        broken(core.Core, "workers_added", lambda self, owned: self.rescale.workers_added(owned)),
    ):
        yield


@contextmanager
def workers_leave_before_the_rescale_is_settled() -> Iterator[None]:
    """As soon as they own nothing, and a crash may still go back to a version in which they do."""
    real = Rescale.next

    def following(self: Any, log: Any, at: Boundary) -> Any:
        if log.target is not None and not at.is_checkpointing and not isinstance(self.phase, AddingWorkers):
            idle = tuple(w for w, own in self.owned.items() if own == NO_SLOTS and w not in log.target.members)
            if idle:
                return RemoveWorkers(idle)
        return real(self, log, at)

    def workers_removed(self: Any, owned: Any) -> None:
        self.rescale.phase = replace(self.rescale.phase, owned=owned)

    with broken(Rescale, "next", following), broken(core.Core, "workers_removed", workers_removed):
        yield


@contextmanager
def recovery_asks_the_members_of_the_layout() -> Iterator[None]:
    """Whatever the checkpoints say of their owners."""

    def owners(state: Any) -> Any:
        known = {v for v in (state.intent, *state.checkpoints[-1:]) if v is not None} or {EMPTY}
        known |= set() if state.checkpoints else {EMPTY}
        return dict.fromkeys(known, state.layout.placed.owners)

    with broken(expected_databases, "owners_by_version", owners):
        yield


@contextmanager
def recovery_with_the_owners_of_the_target() -> Iterator[None]:
    """The owners of the moment of the crash, instead of those of the version that was opened."""
    real = opening.open_latest

    def opened(made: Any, state: Any, found: Any) -> Any:
        version, owned = real(made, state, found)
        if state.target is not None and set(state.target.members) <= set(owned):
            owned = {**dict.fromkeys(owned, NO_SLOTS), **state.target.owned}
        return version, owned

    with broken(recovery, "open_latest", opened):
        yield


@contextmanager
def rescale_without_a_checkpoint_of_its_own() -> Iterator[None]:
    """Nothing asks for the checkpoint that settles a rescale."""
    real: Any = Rescale.is_moved
    with broken(Rescale, "is_moved", property(lambda self: False if _asked_by_core() else real.fget(self))):
        yield


def _asked_by_core() -> bool:
    return sys._getframe(2).f_code.co_name == "_checkpoint_action"


@contextmanager
def rescale_settled_by_a_checkpoint_of_before() -> Iterator[None]:
    """After a turn back, a checkpoint that was frozen before slots moved on counts as the end of the rescale."""
    real = checkpointing.completion_records

    def records(version: Any, state: Any, epoch: int, *, is_moved: bool) -> Any:
        return real(version, state, epoch, is_moved=True)

    with broken(checkpointing, "completion_records", records), broken(Rescale, "check", lambda self, log: None):
        yield


@contextmanager
def databases_of_a_newer_run_removed() -> Iterator[None]:
    """A run that was fenced removes what it does not know."""
    with broken(database_names.DatabaseName, "epoch", property(lambda self: -1)):
        yield


@contextmanager
def checkpoint_with_the_owners_of_the_layout() -> Iterator[None]:
    """It records who owned what before the rescale."""
    with broken(checkpointing, "ownership_of", lambda placement, births, state: state.layout.placed):
        yield


@contextmanager
def databases_that_no_version_needs_kept() -> Iterator[None]:
    """What a change that was broken off has made is there for ever."""
    with broken(recovery, "remove_left", lambda made, found, epoch: None):
        yield


@contextmanager
def copies_kept_after_the_rescale() -> Iterator[None]:
    """A change that is reversed or aborted leaves its copies at their destinations."""
    with broken(CrewSlots, "discard_copies", lambda self: None):
        yield


# Old mistakes


@contextmanager
def late_marker_taken_for_a_short_log() -> Iterator[None]:
    real = step_log_reader.StepLogReader.read_tail
    with broken(step_log_reader.StepLogReader, "read_tail", lambda self, state, *, in_doubt=False: real(self, state)):
        yield


@contextmanager
def _attribute(kind: type, name: str) -> Iterator[None]:
    """A field that the mutation adds to a class."""
    setattr(kind, name, None)
    try:
        yield
    finally:
        delattr(kind, name)


# Views in error


@contextmanager
def replay_that_counts_no_errors() -> Iterator[None]:
    """A step is replayed as if its division did not say whose error rows it counts."""
    real = stepping.withholding_of_step

    with _replays() as replays:

        def withholding_of_step(pipeline: Any, record: Any) -> Any:
            return NOTHING_WITHHELD if record.step in replays else real(pipeline, record)

        with broken(stepping, "withholding_of_step", withholding_of_step):
            yield


@contextmanager
def snapshot_without_error_rows() -> Iterator[None]:
    """A log that begins with a snapshot knows nothing of the errors before it."""
    real = StepLogState._adopt

    def adopted(self: Any, record: Any) -> Any:
        return replace(real(self, record), counted=(), errors=())

    with broken(StepLogState, "_adopt", adopted):
        yield


@contextmanager
def division_counted_again_keeps_those_after_it() -> Iterator[None]:
    """A step is divided again to count its error rows, and the division after it still stands, which counts none."""
    real = StepLogState._with_division_replaced

    def keep(self: Any, again: Any) -> Any:
        if again.counted == self.divisions[again.step].counted:
            return real(self, again)
        return replace(self, divisions=self.divisions.with_value(again.step, again), counted=again.counted)

    with broken(StepLogState, "_with_division_replaced", keep):
        yield


@contextmanager
def outputs_released_with_errors_left() -> Iterator[None]:
    """Outputs are released by the step after the one that has found errors, whatever is left of them."""

    def goes_on(plan: Any, log: Any, *, is_drained: bool, before: Any) -> Any:
        if not is_drained:
            return views_in_error.Counting(log.counted, ())
        return views_in_error.Counting((), (circuit.GROUPS, circuit.SUMS) if log.counted else ())

    with (
        broken(new_nodes, "next_counting", goes_on),
        broken(rules, "_why_not_counted", lambda log, record: None),
    ):
        yield


# Transitions


@contextmanager
def switch_before_all_is_filled() -> Iterator[None]:
    """The switch comes after the first portion."""
    real = transition_machine.Transition._of_filled

    def early(self: Any, log: Any, phase: Any) -> Any:
        filled = phase.intent.whole if log.filled else 0
        return real(self, SimpleNamespace(filled=filled, has_reread_all=True), phase)

    with (
        broken(transition_machine.Transition, "_of_filled", early),
        broken(revision_rules, "_why_not_switch", lambda record, ground: None),
        broken(StepLogState, "check", lambda self: None),
    ):
        yield


@contextmanager
def _programs(choose: Callable[[Any, int, Any], int]) -> Iterator[None]:
    """`choose`: gives the step whose program a step runs, of the state of revisions, the step, and a passage with a switch."""
    real = revision_state.RevisionState.program_of

    def program_of(self: Any, step: int, before: int, after: int) -> Any:
        for passage in self.passages:
            if passage.switch is not None:
                step = choose(self, step, passage)
        return real(self, step, before, after)

    with broken(revision_state.RevisionState, "program_of", program_of):
        yield


@contextmanager
def step_of_the_switch_run_as_one_that_fills() -> Iterator[None]:
    with _programs(lambda state, step, passage: step - 1 if step == passage.switch > passage.first else step):
        yield


@contextmanager
def step_of_the_switch_run_as_one_after_it() -> Iterator[None]:
    """What differs is not passed on."""
    with _programs(lambda state, step, passage: step + 1 if step == passage.switch else step):
        yield


@contextmanager
def step_before_the_switch_run_as_one_after_it() -> Iterator[None]:
    with _programs(lambda state, step, passage: step + 2 if step == passage.switch - 1 >= passage.first else step):
        yield


@contextmanager
def tables_in_force_cleared() -> Iterator[None]:
    """After a switch those of the new nodes are removed, and after an abort those of the old ones."""
    real = transitions.Transitions._clear

    def clear(self: Any, crew: Any) -> None:
        facts = self.course.facts(self._writer.state.revisions.phase.intent)
        swapped = replace(facts, gone=facts.young, young=facts.gone)
        with mock.patch.object(self.course, "facts", lambda intent: swapped):
            real(self, crew)

    with broken(transitions.Transitions, "_clear", clear):
        yield


@contextmanager
def settled_without_clearing() -> Iterator[None]:
    with broken(transitions.Transitions, "_clear", lambda self, crew: self.machine.cleared(is_done=True, is_last=True)):
        yield


@contextmanager
def settled_by_a_checkpoint_of_before() -> Iterator[None]:
    """Tables are removed, and the checkpoint that has them is the last one."""
    real = transition_machine.Transition.cleared

    def cleared(self: Any, *, is_done: bool, is_last: bool) -> None:
        real(self, is_done=is_done, is_last=is_last)
        self.checkpoint = None

    with broken(transition_machine.Transition, "cleared", cleared):
        yield


@contextmanager
def files_read_within_a_transition() -> Iterator[None]:
    """A run that finds one begins with what the files say."""
    with broken(pipeline, "beginning", lambda files, revision, state, on_change, chosen, *, to_come: Beginning(files)):
        yield


@contextmanager
def plan_document_not_waited_for() -> Iterator[None]:
    """The marker of its transaction may be on its way."""
    with broken(topics.Topics, "high_watermarks", topics.Topics.end_offsets):
        yield


TRANSITIONS: tuple[Mutation, ...] = (
    switch_before_all_is_filled,
    step_of_the_switch_run_as_one_that_fills,
    step_of_the_switch_run_as_one_after_it,
    step_before_the_switch_run_as_one_after_it,
    tables_in_force_cleared,
    settled_without_clearing,
    settled_by_a_checkpoint_of_before,
    files_read_within_a_transition,
    plan_document_not_waited_for,
)


MUTATIONS: tuple[Mutation, ...] = (
    *TRANSITIONS,
    *READING,
    replay_that_counts_no_errors,
    snapshot_without_error_rows,
    division_counted_again_keeps_those_after_it,
    outputs_released_with_errors_left,
    replay_that_differs,
    replay_not_compared,
    division_at_the_high_watermark,
    step_before_its_division_is_logged,
    division_ahead_before_it_is_logged,
    division_from_the_beginning_at_every_start,
    cut_that_voids_no_later_division,
    producer_kept_after_an_unknown_commit,
    errors_of_the_client_not_heeded,
    progress_read_before_fencing,
    unknown_commit_taken_for_a_failure,
    higher_claim_not_heeded,
    output_and_record_in_two_transactions,
    checkpoint_ahead_of_output,
    step_run_twice,
    stage_without_all_peers,
    broken_stage_taken_for_whole,
    step_without_the_results_of_all_workers,
    strangers_accepted,
    recovery_with_the_workers_of_before,
    worker_that_outlives_its_coordinator,
    silent_worker_waited_for,
    database_created_although_a_host_holds_it,
    empty_database_in_place_of_one_that_is_away,
    numbers_in_the_order_of_registration,
    one_database_for_all_workers_of_a_host,
    epoch_of_databases_not_checked,
    databases_asked_and_not_fenced,
    databases_fenced_once_in_an_epoch,
    late_worker_opens_again,
    undo_skipped,
    open_keeps_the_newer_version,
    versions_told_apart_by_number_alone,
    folders_not_synced,
    checkpoint_complete_before_all_have_it,
    checkpoint_while_a_step_is_under_way,
    version_that_all_have_not_declared_complete,
    working_layer_kept_by_open,
    late_marker_taken_for_a_short_log,
    rows_left_at_the_source,
    slots_kept_by_their_source,
    stale_copies_taken_over,
    what_is_new_since_a_copy_left_behind,
    cut_between_intent_and_freeze,
    worker_made_at_version_0,
    worker_that_does_not_enter,
    worker_made_while_a_checkpoint_is_folded,
    workers_leave_before_the_rescale_is_settled,
    recovery_asks_the_members_of_the_layout,
    recovery_with_the_owners_of_the_target,
    rescale_without_a_checkpoint_of_its_own,
    rescale_settled_by_a_checkpoint_of_before,
    databases_of_a_newer_run_removed,
    checkpoint_with_the_owners_of_the_layout,
    databases_that_no_version_needs_kept,
    copies_kept_after_the_rescale,
    *STORE,
)


UNEQUAL_VERSIONS: dict[str, Any] = {
    "workers": 2,
    "crash_targets": ("fold.synced", "fold.done", "checkpoint.folded"),
    "crash_point": 0.0,
    "crash_places": (),
    "sleep": 0.0,
    "client": 0.0,
    "network": 0.0,
    "task": 0.0,
    "checkpoint_s": 0.01,
    "weights": {**BENIGN, **ACTIVE},
}

WEATHER: dict[str, dict[str, Any]] = {
    **READING_WEATHER,
    **STORE_WEATHER,
    # A worker has to come so late that its coordinator's port belongs to another one, which still waits for workers.
    "strangers_accepted": {
        "workers": 3,
        "register_s": 15,
        "task": 0.7,
        "network": 0.0,
        "client": 0.0,
        "weights": {**BENIGN, **ACTIVE, "kill": 3.0},
    },
    # A crew has to fail while all its workers live.
    "recovery_with_the_workers_of_before": {
        "task": 0.0,
        "network": 0.02,
        "client": 0.0,
        "workers": 4,
        "hosts": 1,
        "crash_point": 0.0,
        "crash_targets": (),
        "crash_places": (),
        "weights": {**BENIGN, **ACTIVE},
    },
    # A step has to be too large on some of the workers.
    "broken_stage_taken_for_whole": {"workers": 3, "step_bytes": 15, "rows": 6},
    # Two divisions have to be ahead when the first of them turns out to be too large.
    "cut_that_voids_no_later_division": {"step_bytes": 15, "rows": 3, "messages": 40},
    # A request that was sent twice has to arrive while the next transaction is open.
    "errors_of_the_client_not_heeded": {
        "workers": 1,
        "rows": 1,
        "messages": 40,
        "client": 0.05,
        "network": 0.0,
        "task": 0.0,
        "crash_point": 0.0,
        "crash_targets": (),
        "crash_places": (),
        "weights": {**BENIGN, **ACTIVE},
    },
    # One worker has to complete a version that another one does not.
    "open_keeps_the_newer_version": UNEQUAL_VERSIONS,
    "versions_told_apart_by_number_alone": UNEQUAL_VERSIONS,
    # A run has to end between the last fold and the record of it.
    "version_that_all_have_not_declared_complete": {"crash_targets": ("checkpoint.folded",), "crash_point": 0.0},
    # A worker has to lose its coordinator without being told, and its job must not be cancelled.
    "worker_that_outlives_its_coordinator": {"task": 0.3, "network": 0.05},
    "silent_worker_waited_for": {
        "network": 0.05,
        "task": 0.0,
        "client": 0.0,
        "crash_point": 0.0,
        "crash_targets": (),
        "crash_places": (),
        "weights": {**BENIGN, **ACTIVE},
    },
    # Workers have to be made and to leave again and again.
    "worker_that_does_not_enter": {
        "weights": {**BENIGN, **ACTIVE, "layout": 4.0},
        "points": 5000,
        "messages": 40,
        "task": 0.0,
        "network": 0.0,
        "client": 0.0,
        "register_s": 15,
    },
    "workers_leave_before_the_rescale_is_settled": {
        "weights": {**BENIGN, **ACTIVE, "layout": 4.0, "kill a worker": 0.5, "kill": 0.3},
        "points": 5000,
        "messages": 40,
        "task": 0.0,
        "network": 0.0,
    },
    # Slots have to have other owners when a run recovers.
    "recovery_asks_the_members_of_the_layout": {
        "weights": {**BENIGN, **ACTIVE, "layout": 3.0, "kill a worker": 0.5, "kill": 0.3},
        "points": 5000,
        "messages": 40,
    },
    # A worker has to sleep before it opens its database, until its replacement's steps are written.
    "late_worker_opens_again": {
        "crash_places": (),
        "crash_point": 0.0,
        "crash_targets": ("open.before",),
        "sleep": 1.0,
        "task": 0.3,
        "client": 0.0,
        "weights": {**BENIGN, **ACTIVE},
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
    assert not fails_by_itself(failure.text), f"{mutation.__name__} does not fit the code:\n{failure.text}"
    return failure.seed, failure.text.splitlines()[-2]


MODULES = (__file__, sabotage_of_reading.__file__, sabotage_of_store.__file__)
OWN_FAULTS = ("AttributeError", "NameError", "TypeError", "KeyError", "UnboundLocalError")


def fails_by_itself(text: str) -> bool:
    """Whether a failure, with its stack trace, is a mistake of a mutation's own code, which shows nothing."""
    lines = text.splitlines()
    raised_in = next((line for line in reversed(lines) if line.strip().startswith('File "')), "")
    is_own = any(f'{module}"' in raised_in for module in MODULES)
    kind, _, said = lines[-2].partition(":")
    # The code has called a function of the mutation, which has other parameters than the one in whose place it is.
    is_misfit = kind == "TypeError" and ".<locals>." in said
    return is_misfit or (is_own and kind in OWN_FAULTS)


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
