"""The coordinator's shell. It asks the core for the next action, carries it out, and reports it.

Guarantees: one thread runs all steps and owns the pipeline's only writer. A fault of the data, of the project or of another run ends the
run with its text. A lost worker (a killed process, a broken connection, silence) is recovered from, at the last checkpoint, a bounded
number of times.

Other threads talk to it through `Requests` and read `StatusBoard`. The workers live as long as no loss makes it replace them; each recovery is
an attempt of its own, with new workers.

ARCHITECTURE.md says what is in which folder of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import assert_never

import structlog

from base.fault import Fault
from base.on_change import OnChange
from base.term import Term
from coordinator.automatic.automatic import Automatic
from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.checkpoints.upcoming import Upcoming
from coordinator.core import Adopt, Collect, Complete, Core, Divide, Exit, Fold, Freeze, Give, LogIntent, Settle, Wait
from coordinator.requests import Requests
from coordinator.rescale.actions import Bury, Cut, LogRescale, Staff
from coordinator.rescale.machine import Rescale
from coordinator.rescale.planner import NO_PLANNERS, Planners
from coordinator.rescale.requests import RescaleRefused
from coordinator.rescale.rescaling import Rescaling
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.document import Revision
from coordinator.revisions.former import former_project
from coordinator.revisions.requests import ApplyRequest, still_finishing, stopping
from coordinator.specification import PipelineSpec
from coordinator.starting.batch_tables import TableRows, load_tables, remove_lost_loads
from coordinator.starting.beginning import beginning
from coordinator.starting.binding import Bound
from coordinator.starting.binding_rules import rules_of
from coordinator.starting.errors import RecoveryFailed, StateLost
from coordinator.starting.in_force import next_revision, revision_in_force
from coordinator.starting.open_switch import why_switch_cannot_run
from coordinator.starting.patterns import with_matching_topics
from coordinator.starting.recoveries import RECOVERIES_MAX, Recoveries
from coordinator.starting.refresh import rebuild
from coordinator.starting.same_project import numbers_if_continued
from coordinator.starting.start import (
    bind_workers,
    first_needed_step,
    open_latest,
    prepare,
    record_completion,
    remove_left,
    write_owner,
)
from coordinator.status import StatusBoard
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.quiet import Bell
from coordinator.stepping.stepping import DividedAgain, Stepping
from coordinator.stepping.views_in_error import check_answers, error_rows, error_texts
from coordinator.storing.restoring import layout_if_restored, restore_missing
from coordinator.storing.storing import DAMAGED, Storing
from coordinator.transition.course import Course, Running
from coordinator.transition.disk_room import Room
from coordinator.transition.machine import Clear, LogSettled, LogSwitch, LogTransition, LogTurn, Look, Measure
from coordinator.transition.reading import ReadingAgain
from coordinator.transition.transitions import MAY_BE_OF_TRANSITION, Transitions
from engine.analysis.column_names import input_names, with_names
from engine.errors import EngineError
from engine.model.numbers import NumberedCircuit
from engine.model.placement import Placement
from engine.resident.crew import Crew, CrewLimits
from engine.resident.launcher import Cluster
from engine.resident.liveness import Limits
from engine.resident.roster import RECOVERABLE
from faults.points import reached
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import Claimant, FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.clients.writer_faults import Fenced
from io_kafka.errors import KafkaFault
from io_kafka.step_log.programs import ProgramKey
from storage.errors import NoDatabase, StaleEpoch
from storage.remote.errors import StoreFault

_log = structlog.get_logger("coordinator.loop")

WAIT_SECONDS = 1.0
"""The longest wait of a run that is paused. A request wakes it earlier."""

AWAY_SECONDS_MAX = 120.0
"""How long a run waits for a broker that does not answer, as long as its writer does (`WriterLimits`): a host restarts in that time. Then the
run ends, and what has started it decides."""

LOOK_SECONDS = 0.01
"""The longest wait while the workers fold or read, between two looks at what they have answered."""


class Pipeline:
    """One run of a pipeline. `run` returns after a stop, at a checkpoint, or raises the exception that ended the run."""

    def __init__(
        self,
        spec: PipelineSpec,
        cluster: Cluster,
        requests: Requests,
        board: StatusBoard,
        *,
        table_rows: TableRows | None = None,
        planners: Planners = NO_PLANNERS,
        bell: Bell | None = None,
    ) -> None:
        """`table_rows` reads the batch tables that the log does not have yet; a pipeline without tables needs none. `planners`: the protocols by
        which a rescale may go. `bell`: tells when a message comes after a silence; without one the input is looked at more often."""
        self._table_rows, self._bell = table_rows, bell
        self._spec, self._cluster, self._requests, self._board = spec, cluster, requests, board
        self._outside = spec.kafka.outside
        self._topics = Topics(spec.kafka, timeout_s=AWAY_SECONDS_MAX)
        log = FencedLog(spec.kafka, spec.transactional_id, spec.log_topic)
        self._writer = PipelineWriter(log, step_header=spec.step_header)
        self._checkpoints = Checkpointing(spec, self._writer, self._topics, board, kept=lambda: self._storing.kept)
        self._rescaling = Rescaling(spec, cluster.launcher, planners, self._writer, board)
        self._storing = Storing(spec, self._writer, board, requests.wake)
        self._automatic = Automatic(spec, cluster.launcher, self._writer, requests, board)
        self._transitions = Transitions(spec, self._writer, board, requests.wake, table_rows)
        # Layout, revision and `until` of circuit.json.
        self._owner_written: tuple[int, int, int | None] = (-1, -1, None)
        self._only_layout = False
        self._attempts = 0
        self._available_now = self._finishes = False
        self._inputs_before: Inputs | None = None  # which the run has read by last
        self._distrusted: frozenset[int] = frozenset()  # the workers whose databases are damaged
        self._to_apply: ApplyRequest | None = None  # to be asked for as soon as the workers run
        self._request_in_force: str | None = None  # "stop" or "pause" that is in force; it outlives a recovery

    def run(
        self,
        *,
        available_now: bool = False,
        full_refresh: bool = False,
        only_layout: bool = False,
        on_change: OnChange = "refuse",
        chosen: Chosen = NOTHING_CHOSEN,
        endpoint: str | None = None,
        expect_epoch: int | None = None,
        claimed: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """Runs the pipeline until it is stopped.

        `available_now`: process what is there at the start, take a checkpoint and return. `full_refresh`: retract all output and rebuild it;
        a refresh that an earlier run began is finished in any case. `only_layout`: make the rescale that `PipelineSpec.workers_now`
        asks for, or that is under way, and return at its checkpoint, without new input. `on_change`: see OnChange. `chosen`: for the change
        that is applied. `expect_epoch`: see PipelineWriter.start. `claimed(epoch)` is called when the claim is committed."""
        self._only_layout = only_layout
        log_facts = ensure_step_log(self._topics, self._spec.log_topic)
        claimant = Claimant(self._spec.name, self._outside.hostname(), self._outside.pid(), endpoint)
        epoch = self._writer.start(claimant, expect_epoch=expect_epoch)
        claimed(epoch)
        self._board.update(epoch=epoch, phase="recovering")
        spec, has_ended = self._spec, False
        try:
            if full_refresh or self._writer.state.refresh is not None:
                rebuild(self._spec, self._writer, self._topics)
            revision = self._revision_that_can_run()
            if revision is not None:
                self._board.update(revision=revision.number)  # also while workers start
            begins = beginning(spec, revision, self._writer.state, on_change, chosen)
            spec, self._to_apply, numbers = begins.spec, begins.to_apply, None
            self._spec = spec
            if revision is not None and begins.is_recorded:
                self._transitions.take_recorded(revision)
            else:
                numbers = numbers_if_continued(spec, self._writer.state, revision, may_continue=not only_layout)
            if revision is not None and numbers is not None:
                self._finish_recorded_steps(revision, log_facts.topic_id)
                if self._request_in_force == "stop":
                    has_ended = True
                    return
            spec = load_tables(spec, self._writer, self._topics, self._table_rows)
            if self._writer.state.tables and self._writer.state.steps:
                remove_lost_loads(spec.name, self._writer, self._topics)
            spec = with_matching_topics(spec, self._topics, self._writer.state.topics)
            if numbers is not None:
                revision = self._continue_as(spec, numbers)
            plan = self._run_revision(spec, revision, log_facts.topic_id, available_now=available_now)
            if available_now:
                check_answers(plan, self._writer.state, self._spec.column_names)
            has_ended = True
        except StaleEpoch as fault:
            raise self._fenced() from fault
        except EngineError as fault:
            if fault.node is not None and fault.node < len(self._spec.circuit.nodes):
                names = input_names(self._spec.circuit, self._spec.column_names, fault.node)
                fault.message = with_names(fault.message, names)
            raise
        except (NoDatabase, StateLost, StoreFault) as fault:
            self._confirm_claim(fault)
            raise
        finally:
            self._transitions.end()
            if has_ended and not (self._storing.acts_beside or self._transitions.acts_beside):
                self._writer.give_up()
            self._writer.close()
            self._requests.end()
            self._board.update(phase="stopped")

    def _revision_that_can_run(self) -> Revision | None:
        """The one in force. A switch whose step can never run is taken back first."""
        files, writer = self._spec, self._writer
        revision = revision_in_force(files.kafka, files.plan_topic, writer.state)
        fault = None if revision is None else why_switch_cannot_run(files, revision, writer.state, self._topics)
        if fault is None or not self._transitions.take_fault(fault):
            return revision
        return revision_in_force(files.kafka, files.plan_topic, writer.state)

    def _finish_recorded_steps(self, revision: Revision, log_id: str) -> None:
        """Runs the steps that are divided, as the revision in force says, and takes a checkpoint that has all of them."""
        files, former = self._spec, former_project(revision.document, self._spec)
        former = with_matching_topics(former, self._topics, self._writer.state.topics)
        self._spec = former  # also for the names in an error
        self._run_revision(former, revision, log_id, available_now=True, finishes=True)
        self._spec = files

    def _continue_as(self, spec: PipelineSpec, numbers: tuple[int, ...]) -> Revision:
        """Records the project as the next revision. `numbers`: of its nodes."""
        reached("revision.finished")
        revision = next_revision(spec, numbers, self._writer, self._topics)
        reached("revision.recorded")
        _log.info("the project has changed, and continues its state", revision=revision.number)
        return revision

    def _run_revision(
        self,
        spec: PipelineSpec,
        revision: Revision | None,
        log_id: str,
        *,
        available_now: bool,
        finishes: bool = False,
    ) -> NumberedCircuit:
        """`spec`: the project of the revision; a new state has none yet. `finishes`: see Inputs. Returns the circuit that has run."""
        start = self._start(spec, revision, log_id)
        course = Course(self._spec, self._writer, self._topics, log_id, start)
        self._available_now, self._finishes = available_now, finishes
        self._transitions.may_begin = not self._only_layout
        self._inputs_before = None
        self._recover_and_loop(course)
        assert self._writer.state.revision is not None
        return course.answers_of(self._writer.state.revision.number)

    def _inputs(self, running: Running) -> Inputs:
        """They outlive a recovery and a program as far as the run's start decides what it reads."""
        made = Inputs(
            running.spec,
            self._topics,
            self._board,
            running.identities,
            self._writer.state,
            plan=running.setup.numbered,
            available_now=self._available_now,
            finishes=self._finishes,
            counted=running.counted,
            portions=self._transitions.portions,
            reading=ReadingAgain(self._topics, running.again) if running.again else None,
            before=running.before,
            former=self._inputs_before,
        )
        self._inputs_before = made
        return made

    def _start(self, spec: PipelineSpec, revision: Revision | None, log_id: str) -> Running:
        """What workers are started with: the revision in force alone."""
        setup, identities = prepare(spec, self._writer, self._topics, log_id, revision)
        document = None if revision is None else revision.document
        self._board.update(revision=setup.revision)
        return Running(
            key=ProgramKey("present", setup.revision),
            spec=spec,
            setup=setup,
            identities=identities,
            answers=setup.numbered if document is None or not document.frozen else document.numbered,
            made_with=spec.made_with if document is None else document.made_with,
        )

    def _start_again(self, course: Course) -> None:
        """After a loss, workers are started with the revision that is in force then."""
        record = self._writer.state.revision
        assert record is not None
        if record.number != course.start.key.number:
            revision = Revision(record.number, course.document(record))
            spec = former_project(revision.document, course.files)
            spec = with_matching_topics(spec, self._topics, self._writer.state.topics)
            course.start = self._start(spec, revision, course.log_id)

    def _recover_and_loop(self, course: Course) -> None:
        recoveries = Recoveries()
        while True:
            try:
                self._start_again(course)
                self._spec = course.start.spec
                inputs = self._inputs(course.start)
                with closing(self._crew(course)) as crew:
                    core = self._recover(crew, inputs, course)
                    self._transitions.recovered(course)
                    core.transition = self._transitions.machine
                    self._outside.freeze_memory()
                    self._loop(core, crew, inputs, course)
                return
            except DividedAgain as again:
                self._checkpoints.give_up_fold(may_be_the_cause=False)
                self._board.measures.note_recovery("divided_again", again)
                _log.warning("a step was divided again; going back to the last checkpoint", reason=str(again)[:500])
            except RECOVERABLE as fault:
                self._checkpoints.give_up_fold(may_be_the_cause=True)
                self._board.measures.note_recovery("worker_lost", fault)
                if not self._transitions.take_loss():
                    self._count_loss(recoveries, fault)
            except DAMAGED as fault:
                if not self._storing.can_restore:
                    raise
                self._checkpoints.give_up_fold(may_be_the_cause=False)
                self._board.measures.note_recovery("state_damaged", fault)
                if not isinstance(fault, NoDatabase) and fault.worker is not None:
                    self._distrusted |= {fault.worker}
                self._count_loss(recoveries, fault)
            except MAY_BE_OF_TRANSITION as fault:
                self._checkpoints.give_up_fold(may_be_the_cause=False)
                if not self._transitions.take_fault(fault):
                    raise
                self._board.measures.note_recovery("transition_failed", fault)
            finally:
                # objects in cycles that stay frozen until the process ends are never freed, and libraries complain about them
                self._outside.release_memory()

    def _crew(self, course: Course) -> Crew:
        """Of the next attempt of the epoch."""
        term, spec = Term(self._writer.epoch, self._attempts), self._spec
        self._attempts += 1
        limits = CrewLimits(spec.register_s, Limits(spec.silence_s, spec.progress_s))
        tasks = rules_of(spec, self._writer.state, course.log_id).tasks
        transport = self._cluster.make_transport()
        return Crew(
            course.start.setup, tasks, term, launcher=self._cluster.launcher, transport=transport, limits=limits
        )

    def _count_loss(self, recoveries: Recoveries, fault: Exception) -> None:
        """Counts a lost worker. Raises RecoveryFailed if too many were lost in a row without progress."""
        at = self._writer.state.steps
        _log.warning("a worker was lost; going back to the last checkpoint", step=at, fault=str(fault)[:500])
        self._board.update(recoveries=self._board.show()["recoveries"] + 1)
        what = recoveries.count_loss(at, self._checkpoints.failed_in_a_row)
        if what is not None:
            raise RecoveryFailed(
                f"{what} (epoch {self._writer.epoch}) failed {RECOVERIES_MAX} times in a row: {str(fault)[:2000]}",
                "No data was lost. Find the cause in Spark's log, fix it, and run again.",
            ) from fault

    def _recover(self, crew: Crew, inputs: Inputs, course: Course) -> Core:
        """Starts the workers, opens the latest checkpoint that all of them have, and returns a core that continues from it."""
        began = self._outside.monotonic()
        crew.launch()
        inputs.check_topics()  # while the workers start
        found = bind_workers(
            crew, self._spec, self._writer.state, course.log_id, distrusted=self._distrusted, restore=self._restore
        )
        version, owned = open_latest(crew, self._writer.state, found)
        remove_left(crew, found, self._writer.epoch)
        known = {name: topic.partitions for name, topic in self._writer.state.topics.items()}
        # A replay may read topics of another revision.
        crew.join(Placement.initial(owned, {**known, **inputs.partitions}))
        self._show_workers(crew)
        record_completion(self._writer, version)
        if (layout := layout_if_restored(version, self._writer.state, self._writer.epoch)) is not None:
            self._writer.append([layout])
        self._storing.recovered(found.rules, crew.term)
        state = self._writer.state
        self._writer.forget(first_needed_step(version, state.checkpoints, self._storing.kept))
        self._board.update(
            recovery_ms=round(1e3 * (self._outside.monotonic() - began), 1),
            step=max(0, version.step - 1),
            checkpoint_version=version.version,
            checkpoint_step=version.step,
            in_error=error_texts(crew.setup.numbered, self._writer.state.errors, self._spec.column_names),
        )
        self._board.measures.show_error_rows(error_rows(crew.setup.numbered, self._writer.state.errors))
        rescale = Rescale.resume(owned, self._writer.state)
        core = Core(
            version,
            self._outside.new_id,
            rescale,
            self._transitions.machine,
            ProgramKey("present", crew.setup.revision),
            available_now=inputs.ends_now,
            only_layout=self._only_layout,
            finishes=inputs.finishes,
        )
        self._rescaling.begin(core, found)
        self._automatic.recovered()
        if self._request_in_force is not None:
            {"stop": core.request_stop, "pause": core.request_pause}[self._request_in_force]()
        return core

    def _restore(self, crew: Crew, bound: Bound) -> None:
        stored = self._writer.state.stored
        assert stored is not None, "nothing is stored"
        restore_missing(
            crew, bound, stored, store=self._storing.store, outside=self._outside, distrusted=self._distrusted
        )
        self._distrusted = frozenset()

    def _show_workers(self, crew: Crew) -> None:
        self._board.update(
            workers=[
                {
                    "worker": number,
                    "host": m.host,
                    "address": m.address.host,
                    "release": m.release,
                    "pid": m.pid,
                    "folder": m.folder,
                    "free_bytes": crew.disk_use[number].free_bytes,
                }
                for number, m in crew.members.items()
            ],
            worker_bytes={str(number): use.state_bytes for number, use in sorted(crew.disk_use.items())},
        )

    def _confirm_claim(self, fault: Exception) -> None:
        """Raises Fenced if another run has taken over: it may have changed the layout and removed databases, or objects of the checkpoint
        store, and then `fault` is no fault."""
        try:
            self._writer.confirm()
        except Fenced as fenced:
            raise fenced from fault
        except KafkaFault as unknown:
            _log.warning("it is not known whether another run has taken over", fault=str(unknown)[:500])

    def _fenced(self) -> Fenced:
        """The fault of a run whose databases were fenced. The step log says which run has taken over."""
        state = StepLogReader(self._spec.kafka, self._spec.log_topic).read()
        return Fenced(self._spec.transactional_id, self._writer.epoch, state.claim)

    def _steps(self, running: Running, inputs: Inputs) -> Stepping:
        return Stepping(
            running.spec,
            self._writer,
            inputs,
            self._requests,
            self._board,
            answers=running.answers,
            portions=self._transitions.portions,
            bell=self._bell,
        )

    def _adopt(self, step: int, core: Core, crew: Crew, course: Course) -> tuple[Inputs, Stepping]:
        """Has the workers run what this step runs, and reads and writes as its project says."""
        running = course.at(step, crew.programs.has_adopted)
        if running.order is not None:
            crew.programs.adopt(running.order)
        crew.setup, crew.answers, self._spec = running.setup, running.answers, running.spec
        self._board.update(revision=running.setup.revision)
        reached("program.adopted")
        core.adopted(running.key)
        inputs = self._inputs(running)
        return inputs, self._steps(running, inputs)

    def _is_asked(self, core: Core) -> bool:
        """Whether something is under way beside the steps whose answers the loop has to look for."""
        return (
            self._checkpoints.is_folding
            or self._requests.questions.are_waiting
            or not core.rescale.is_idle
            or core.transition.waits_beside
            or self._storing.is_under_way
        )

    def _loop(self, core: Core, crew: Crew, inputs: Inputs, course: Course) -> None:
        monotonic, interval_s = self._outside.monotonic, self._spec.checkpoint_interval_s
        steps = self._steps(course.start, inputs)
        checkpoint_at = monotonic()
        if self._to_apply is not None:
            asked, self._to_apply = self._to_apply, None
            self._transitions.ask(asked, None, self._room(crew))
        while True:
            self._take_requests(core, crew)
            if monotonic() - checkpoint_at >= interval_s and core.request_periodic_checkpoint(self._writer.state):
                checkpoint_at = monotonic()
            self._rescaling.look(core, crew)
            self._automatic.look(core)
            self._transitions.advance(crew)
            self._transitions.check_goes_on(core)
            self._storing.advance(core.version, crew)
            self._transitions.wait_for_store(self._storing.insisted_on)
            core.store_holds_steps = self._storing.holds_steps
            core.store_holds_stop = self._storing.holds_stop(is_stopping=core.stopping and not self._must_store)
            self._write_owner(course)
            inputs.may_divide_ahead = not core.is_transition_due(self._writer.state)
            inputs.is_filling_paused = core.transition.is_paused
            action = core.next(self._writer.state)
            left = max(0, self._writer.state.steps - core.step)
            self._board.update(phase=self._phase(core), steps_to_replay=left)
            match action:
                case Exit():
                    crew.stop(core.step)
                    return
                case Wait():
                    if core.paused and core.drained:
                        crew.steps.pause(core.step)
                    self._requests.wait(LOOK_SECONDS if self._is_asked(core) else WAIT_SECONDS)
                    crew.check()
                case Divide():
                    steps.divide(action, core, is_asked=self._is_asked(core))
                    crew.check()
                case Give():
                    steps.give(action, core, crew)
                case Collect():
                    steps.collect(action, core, crew)
                case Settle(step):
                    took_ms, write_ms = steps.settle(action, core, crew)
                    self._rescaling.note_step(took_ms, write_ms)
                    self._automatic.note_step(self._writer.state.divisions[step].division.rows, took_ms)
                    self._transitions.note_step(action)
                case LogIntent() | Freeze() | Fold() | Complete():
                    self._checkpoints.do(action, core, crew, self._rescaling.births)
                    self._show_workers(crew)
                case LogRescale() | Staff() | Cut() | Bury():
                    self._rescaling.do(action, core, crew)
                    self._show_workers(crew)
                case LogTransition() | Look() | Measure() | LogSwitch() | LogTurn() | Clear() | LogSettled():
                    self._transitions.do(action, core, crew)
                case Adopt(step):
                    inputs, steps = self._adopt(step, core, crew, course)
                    self._transitions.note_adopted()
                case _:
                    assert_never(action)
            self._checkpoints.notice_fold(core, crew)
            upcoming = Upcoming(course, self._writer.state)
            if self._requests.questions.serve(crew, course.revision_at, upcoming, core.version.step):
                core.request_checkpoint()

    @property
    def _must_store(self) -> bool:
        """Whether the last checkpoint has to be stored, however long that takes: the next revision of the project is recorded after it, and no
        run goes back to a version of before."""
        return self._finishes and self._request_in_force != "stop"

    def _write_owner(self, course: Course) -> None:
        """Keeps circuit.json as the step log has it: the databases of the layout, and the circuit whose views the last checkpoint has. It is
        written before workers leave."""
        log = self._writer.state
        last = max((version.step for version in log.checkpoints), default=0)
        revision = course.revision_at(last)
        in_force = log.revision
        is_of_another = in_force is not None and in_force.number != revision
        until = in_force.step if in_force is not None and is_of_another else None
        if log.layout is not None and (log.layout.number, revision, until) != self._owner_written:
            marks, made_with = course.marks_of(revision), course.made_with_of(revision)
            write_owner(self._spec, course.answers_of(revision), log, until, marks=marks, made_with=made_with)
            self._owner_written = (log.layout.number, revision, until)

    def _phase(self, core: Core) -> str:
        if core.stopping:
            return "stopping"
        if core.rescale.blocks_steps:
            return "changing"
        if core.is_replaying(self._writer.state):
            return "recovering"
        if core.store_holds_steps and not core.paused:
            return "waiting for the checkpoint store"
        return "paused" if core.paused else "run"

    def _room(self, crew: Crew) -> Room:
        folders = {number: member.folder for number, member in crew.members.items()}
        return Room(self._checkpoints.node_bytes, crew.disk_use, folders)

    def _take_requests(self, core: Core, crew: Crew) -> None:
        for asked in self._requests.take_layout():
            try:
                self._rescaling.ask(asked.request, core, crew)
            except RescaleRefused as fault:
                asked.answer(fault)
            else:
                asked.answer(None)
        wishes = self._requests.take_revision()  # before a stop that was asked first
        for what in self._requests.take():
            _log.info("asked", what=what)
            if what in ("stop", "pause", "resume") and self._request_in_force != "stop":
                self._request_in_force = None if what == "resume" else what
            match what:
                case "pause":
                    core.request_pause()
                case "resume":
                    core.request_resume()
                case "stop":
                    core.request_stop()
                case "checkpoint":
                    core.request_checkpoint()
                case _:
                    assert_never(what)
        for wish in wishes:
            try:
                if core.stopping:
                    raise stopping()
                if self._finishes:
                    raise still_finishing()
                self._transitions.ask(wish.request, wish.answer, self._room(crew))
            except Fault as fault:
                wish.answer(fault)
