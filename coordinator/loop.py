"""The run loop: it takes the next action from the core, executes it and reports the outcome.

A run has one loop for each revision that it was started with: usually one, and another before it if steps of the previous project are finished
first. The workers live as long as no loss makes it replace them, also when a transition leads to another revision.

Guarantees: a lost worker (a killed process, a broken connection, silence) is recovered from, at the last checkpoint, a bounded number of times.
A fault of the data or of the project ends the run with its text.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import assert_never

from base.logger import Logger
from base.short_text import short_text
from coordinator.actions import (
    ChangeProgram,
    Collect,
    Complete,
    Divide,
    Exit,
    Fold,
    Freeze,
    Give,
    LogIntent,
    OngoingAction,
    Settle,
    Wait,
)
from coordinator.automatic.autoscaling import Automatic
from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.checkpoints.machine import CheckpointMachine
from coordinator.checkpoints.upcoming import Upcoming
from coordinator.core import Core, StoreBlocks
from coordinator.goal import Goal
from coordinator.loop_part import LoopPart, Recovered
from coordinator.requests import Requests
from coordinator.rescale.actions import AddWorkers, Cut, LogRescale, RemoveWorkers
from coordinator.rescale.rescaling import Rescaling
from coordinator.revisions.document import Revision
from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.running.circuit_json import CircuitJson
from coordinator.running.plan_topic import PlanTopic
from coordinator.running.recoveries import RECOVERIES_MAX, Recoveries
from coordinator.running.recovery import Recovery
from coordinator.running.requests_in_force import RequestsInForce
from coordinator.running.workers_shown import show_workers
from coordinator.shown_status import WAITING_FOR_STORE, ServicePhase
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import RecoveryFailed
from coordinator.starting.topics.lost_on_the_way import standing_still_if_lost
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.setup import prepare
from coordinator.status import StatusBoard
from coordinator.stepping.dividing import groups_of_topics
from coordinator.stepping.idle_wait import Bell
from coordinator.stepping.input_topics import InputTopics
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.new_nodes import NewNodes
from coordinator.stepping.redividing import Redivided
from coordinator.stepping.reread_order import RereadOrder
from coordinator.stepping.stepping import Stepping
from coordinator.storing.storing import DAMAGED, Storing
from coordinator.transition.course import Course, RunningProgram
from coordinator.transition.machine import (
    CheckTopics,
    ClearUnusedTables,
    LogSettled,
    LogSwitch,
    LogTransition,
    LogTurn,
    MeasureWhatDiffers,
)
from coordinator.transition.reread_portions import RereadPortions
from coordinator.transition.step_faults import FAULTS_A_TRANSITION_MAY_CAUSE
from coordinator.transition.transitions import Transitions
from engine.analysis.column_names import input_names, with_names
from engine.errors import EngineError
from engine.model.numbers import NumberedCircuit
from engine.resident.crew import Crew
from engine.resident.roster import RECOVERABLE
from faults.points import reached
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.programs import ProgramKey
from io_kafka.step_log.revision_state import Filling
from storage.errors import NoDatabase

_log = Logger("coordinator.loop")

WAIT_SECONDS = 1.0
"""The longest wait of a run that is paused. A request wakes it earlier."""

LOOK_SECONDS = 0.01
"""The longest wait while the workers fold or read, between two looks at what they have answered."""


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """What a run has from its claim to its end, whatever revisions it runs."""

    topics: Topics
    writer: PipelineWriter
    board: StatusBoard
    bell: Bell | None
    requests: Requests
    in_force: RequestsInForce
    recovery: Recovery
    checkpoints: Checkpointing
    rescaling: Rescaling
    automatic: Automatic
    storing: Storing
    transitions: Transitions

    def of_loop(self, plan_topic: PlanTopic) -> tuple[LoopPart, ...]:
        """The parts of the loop, in the order in which it asks them. A rescale and a transition come before the store, which records what it has
        stored."""
        return self.checkpoints, plan_topic, self.rescaling, self.automatic, self.transitions, self.storing


@dataclass
class _StepsOfProgram:
    """What the loop divides and runs steps with, as long as the workers run one program. Another program gets other inputs and steps."""

    inputs: Inputs
    steps: Stepping


class RevisionRun:
    """Runs one revision, and those to which transitions lead, until the run is stopped or its input is read. `running`: what the workers run
    now."""

    running: RunningProgram
    _of_loop: tuple[LoopPart, ...]

    def __init__(self, parts: RunParts, files: PipelineSpec, log_id: str, *, goal: Goal) -> None:
        """`files`: see Course."""
        self._files, self._log_id, self._goal = files, log_id, goal
        self._outside = files.kafka.outside
        self._parts = parts
        self._inputs_before: Inputs | None = None  # which have read last

    def run(self, spec: PipelineSpec, revision: Revision | None) -> NumberedCircuit:
        """`spec`: the project of the revision; a new state has none yet. Returns the circuit that has run."""
        self.running = self._start(spec, revision)
        course = Course(self._files, self._parts.writer, self._parts.topics, self._log_id, self.running)
        if revision is not None:
            course.add_document(revision)
        plan_topic = PlanTopic(
            self._files, self._parts.writer, self._parts.topics, course.documents, self._parts.requests.wake
        )
        self._of_loop = self._parts.of_loop(plan_topic)
        try:
            self._recover_and_loop(course)
        except EngineError as fault:
            self._name_columns(fault)
            raise
        assert self._parts.writer.state.revision is not None
        return course.answers_of(self._parts.writer.state.revision.number)

    def _name_columns(self, fault: EngineError) -> None:
        """An error in a node names columns as the project calls them."""
        circuit, sources = self.running.spec.circuit, self.running.spec.column_names
        if fault.node is not None and fault.node < len(circuit.nodes):
            fault.message = with_names(fault.message, input_names(circuit, sources, fault.node))

    def _start(self, spec: PipelineSpec, revision: Revision | None) -> RunningProgram:
        """What workers are started with: the revision in force alone."""
        setup, identities = prepare(spec, self._parts.writer, self._parts.topics, self._log_id, revision)
        document = None if revision is None else revision.document
        self._parts.board.update(revision=setup.revision)
        if spec.lost_topics:
            self._parts.transitions.note_lost_topics(setup.revision, spec.lost_topics)
        return RunningProgram(
            key=ProgramKey("present", setup.revision),
            spec=spec,
            setup=setup,
            identities=identities,
            answers=setup.numbered if document is None or not document.frozen else document.numbered,
            made_with=spec.made_with if document is None else document.made_with,
        )

    def _start_again(self, course: Course) -> None:
        """After a loss, workers are started with the revision that is in force then."""
        record = self._parts.writer.state.revision
        assert record is not None
        if record.number != course.start.key.number:
            revision = Revision(record.number, course.plan_of(record))
            spec = project_of_revision(revision.document, course.files)
            if isinstance(phase := self._parts.writer.state.revisions.phase, Filling):  # a switch was taken back
                following = project_of_revision(course.plan_of_next(phase.intent), course.files)
                numbers = revision.document.numbers
                spec = standing_still_if_lost(
                    spec, following, self._parts.topics, self._parts.writer.state, numbers=numbers
                )
            spec = with_matching_topics(spec, self._parts.topics, self._parts.writer.state.topics)
            course.start = self._start(spec, revision)

    def _make_inputs(self, running: RunningProgram) -> Inputs:
        """Makes the inputs. They outlive a recovery and a program as far as the run's start decides what it reads."""
        spec, plan, board, log = running.spec, running.setup.numbered, self._parts.board, self._parts.writer.state
        former = self._inputs_before
        topics = InputTopics(
            spec,
            self._parts.topics,
            board,
            running.identities,
            log,
            goal=self._goal,
            former=None if former is None else former.topics,
        )
        new_nodes = NewNodes(
            plan,
            self._parts.transitions.portions,
            counted=running.counted,
            rereads=self._rereads(running) if running.reread_sources else None,
            before=running.before,
        )
        made = Inputs(spec, plan, topics, new_nodes, log, board=board, former=former)
        self._inputs_before = made
        return made

    def _rereads(self, running: RunningProgram) -> RereadPortions:
        topics, sources = self._parts.topics, running.reread_sources
        groups = groups_of_topics(running.setup.numbered.circuit, sources)
        return RereadPortions(topics, sources, RereadOrder(topics.offsets_since, groups))

    def _recover_and_loop(self, course: Course) -> None:
        recoveries, circuit_json = Recoveries(), CircuitJson(self._files, course)
        while True:
            try:
                self._start_again(course)
                self.running = course.start
                inputs = self._make_inputs(course.start)
                with closing(self._parts.recovery.make_crew(course)) as crew:
                    core = self._begin_attempt(
                        self._parts.recovery.open_latest_checkpoint(crew, inputs, course, self._goal), crew
                    )
                    self._outside.freeze_memory()
                    self._loop(core, crew, inputs, course, circuit_json)
                return
            except Redivided as again:
                self._parts.checkpoints.give_up_fold(may_be_the_cause=False)
                self._parts.board.measures.note_recovery("divided_again", again)
                _log.warning("a step was divided again; going back to the last checkpoint", reason=short_text(again))
            except RECOVERABLE as fault:
                self._parts.checkpoints.give_up_fold(may_be_the_cause=True)
                self._parts.board.measures.note_recovery("worker_lost", fault)
                if not self._parts.transitions.turn_after_loss():
                    self._count_loss(recoveries, fault)
            except DAMAGED as fault:
                if not self._parts.storing.can_restore:
                    raise
                self._parts.checkpoints.give_up_fold(may_be_the_cause=False)
                self._parts.board.measures.note_recovery("state_damaged", fault)
                if not isinstance(fault, NoDatabase) and fault.worker is not None:
                    self._parts.recovery.distrust(fault.worker)
                self._count_loss(recoveries, fault)
            except FAULTS_A_TRANSITION_MAY_CAUSE as fault:
                self._parts.checkpoints.give_up_fold(may_be_the_cause=False)
                if not self._parts.transitions.turn_after_fault(fault):
                    raise
                self._parts.board.measures.note_recovery("transition_failed", fault)
            finally:
                # objects in cycles that stay frozen until the process ends are never freed, and libraries complain about them
                self._outside.release_memory()

    def _begin_attempt(self, recovered: Recovered, crew: Crew) -> Core:
        """One that goes on from the checkpoint that was opened."""
        for part in self._of_loop:
            part.recovered(recovered)
        self._parts.checkpoints.forget_steps(recovered.version)
        core = Core(
            CheckpointMachine(recovered.version, self._outside.new_id),
            self._parts.rescaling.machine,
            self._parts.transitions.machine,
            ProgramKey("present", crew.setup.revision),
            goal=self._goal,
        )
        self._parts.in_force.repeat(core)
        return core

    def _count_loss(self, recoveries: Recoveries, fault: Exception) -> None:
        """Counts a lost worker. Raises RecoveryFailed if too many were lost in a row without progress."""
        at = self._parts.writer.state.steps
        _log.warning("a worker was lost; going back to the last checkpoint", step=at, fault=short_text(fault))
        self._parts.board.update(recoveries=self._parts.board.show()["recoveries"] + 1)
        what = recoveries.count_loss(at, self._parts.checkpoints.failed_in_a_row)
        if what is not None:
            raise RecoveryFailed(
                f"{what} (epoch {self._parts.writer.epoch}) failed {RECOVERIES_MAX} times in a row: {short_text(fault, 2000)}",
                "No data was lost. Find the cause in Spark's log, fix it, and run again.",
            ) from fault

    def _make_stepping(self, running: RunningProgram, inputs: Inputs) -> Stepping:
        return Stepping(
            running.spec,
            self._parts.writer,
            inputs,
            self._parts.requests,
            self._parts.board,
            answers=running.answers,
            portions=self._parts.transitions.portions,
            bell=self._parts.bell,
            wants_abort=lambda: self._parts.in_force.wants_abort,
        )

    def _adopt(self, step: int, core: Core, crew: Crew, course: Course, of_program: _StepsOfProgram) -> None:
        """Has the workers run what this step runs, and reads and writes as its project says. `of_program`: of the program before it; it becomes
        that of the new one."""
        running = course.at(step, crew.programs.has_adopted)
        if running.order is not None:
            crew.programs.adopt(running.order)
        crew.setup, crew.answers, self.running = running.setup, running.answers, running
        self._parts.board.update(revision=running.setup.revision)
        reached("program.adopted")
        core.adopted(running.key)
        of_program.inputs = self._make_inputs(running)
        of_program.steps = self._make_stepping(running, of_program.inputs)

    @property
    def _awaits_answers(self) -> bool:
        """Whether something is under way beside the steps whose answers the loop has to look for."""
        return self._parts.requests.questions.are_waiting or any(part.awaits_answers for part in self._of_loop)

    def _loop(self, core: Core, crew: Crew, inputs: Inputs, course: Course, circuit_json: CircuitJson) -> None:
        of_program = _StepsOfProgram(inputs, self._make_stepping(course.start, inputs))
        while True:
            blocked = self._look_around(core, crew)
            circuit_json.keep(self._parts.writer.state, core.version.step)
            of_program.inputs.allow(
                ahead=not core.is_transition_due(self._parts.writer.state),
                filling=not self._parts.writer.state.revisions.is_paused,
            )
            action = core.next(self._parts.writer.state, blocked)
            left = max(0, self._parts.writer.state.steps - core.step)
            self._parts.board.update(phase=self._phase(core), steps_to_replay=left)
            if isinstance(action, Exit):
                crew.stop(core.step)
                return
            self._carry_out(action, core, crew, course, of_program)
            self._parts.checkpoints.notice_fold(core, crew)
            upcoming = Upcoming(course, self._parts.writer.state)
            if self._parts.requests.questions.serve(crew, course.revision_at, upcoming, core.version.step):
                core.request_checkpoint()

    def _carry_out(
        self, action: OngoingAction, core: Core, crew: Crew, course: Course, of_program: _StepsOfProgram
    ) -> None:
        """Carries out an action of the core, and reports it."""
        steps = of_program.steps
        match action:
            case Wait():
                self._wait(core, crew, steps)
            case Divide():
                steps.divide(action, core, awaits_answers=self._awaits_answers)
                crew.check()
            case Give():
                steps.give(action, core, crew)
            case Collect():
                steps.collect(action, core, crew)
            case Settle():
                settled = steps.settle(action, core, crew)
                for part in self._of_loop:
                    part.note_step(settled)
            case LogIntent() | Freeze() | Fold() | Complete():
                self._parts.checkpoints.do(action, core, crew, self._parts.rescaling.births)
                show_workers(crew, self._parts.board)
            case LogRescale() | AddWorkers() | Cut() | RemoveWorkers():
                self._parts.rescaling.do(action, core, crew)
                show_workers(crew, self._parts.board)
            case (
                LogTransition()
                | CheckTopics()
                | MeasureWhatDiffers()
                | LogSwitch()
                | LogTurn()
                | ClearUnusedTables()
                | LogSettled()
            ):
                self._parts.transitions.do(action, core, crew)
            case ChangeProgram(step):
                self._adopt(step, core, crew, course, of_program)
                self._parts.transitions.note_adopted()
            case _:
                assert_never(action)

    def _wait(self, core: Core, crew: Crew, steps: Stepping) -> None:
        """Waits until something is asked for, or answered, but not for long."""
        if core.paused and core.drained:
            crew.steps.pause(core.step)
        steps.rest()
        self._parts.requests.wait(LOOK_SECONDS if self._awaits_answers else WAIT_SECONDS)
        crew.check()

    def _look_around(self, core: Core, crew: Crew) -> StoreBlocks:
        """Takes what has happened since the last action. What users have asked for comes first, because all parts heed it. A transition that has
        become due waits for the store, and only after all of them is known what the store blocks."""
        self._parts.in_force.take(core, crew)
        for part in self._of_loop:
            part.look(core, crew)
        self._parts.transitions.wait_for_store(self._parts.storing.version_steps_wait_for)
        return StoreBlocks(self._parts.storing.blocks_steps, self._blocks_end(core))

    def _blocks_end(self, core: Core) -> bool:
        if self._parts.in_force.is_hand_over:
            return False
        return self._parts.storing.blocks_end(may_give_up=core.stopping and not self._must_store)

    @property
    def _must_store(self) -> bool:
        """Whether the last checkpoint has to be stored, however long that takes: the next revision of the project is recorded after it, and no
        run goes back to a previous version."""
        return self._goal.precedes_revision and not self._parts.in_force.is_stop

    def _phase(self, core: Core) -> ServicePhase:
        if core.stopping:
            return "stopping"
        if core.rescale.blocks_steps:
            return "changing"
        if core.is_replaying(self._parts.writer.state):
            return "recovering"
        if core.blocked.steps and not core.paused:
            return WAITING_FOR_STORE
        return "paused" if core.paused else "run"
