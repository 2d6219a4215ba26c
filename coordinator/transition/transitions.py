"""Carries out the actions of a transition, and answers users who ask for one.

asked -> the transition is planned in the background, and refused before anything is recorded (preparation.py) -> LogTransition
all is filled -> CheckTopics, in the background -> MeasureWhatDiffers: what differs, and what stands in the way of the switch -> LogSwitch
after the switch, or an abort -> ClearUnusedTables, a checkpoint -> LogSettled
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from base.logger import Logger
from base.short_text import short_text
from base.version import VersionId
from coordinator.background_work import BackgroundWork
from coordinator.core import Core
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.revisions.document import Revision
from coordinator.revisions.requests import (
    ApplyRequest,
    RevisionRequest,
    TransitionRefused,
    TurnTransition,
    another_revision,
    second_transition,
)
from coordinator.revisions.transition_shown import ViewDifference
from coordinator.revisions.turns import TurnName
from coordinator.specification import PipelineSpec
from coordinator.starting.project.release import stands_still
from coordinator.starting.topics.batch_tables import TableRows, remove_lost_loads
from coordinator.starting.topics.lost_on_the_way import cannot_go_on
from coordinator.status import StatusBoard
from coordinator.transition.course import Course
from coordinator.transition.disk_space import DiskSpace
from coordinator.transition.draining import DrainPortions
from coordinator.transition.findings import CheckingTopics, Measured, Preparing, TopicsChecked, WantedTransition
from coordinator.transition.machine import (
    CheckTopics,
    ClearUnusedTables,
    LogSettled,
    LogSwitch,
    LogTransition,
    LogTurn,
    MeasureWhatDiffers,
    Transition,
    TransitionAction,
)
from coordinator.transition.outputs_of_switch import outputs_of_switch
from coordinator.transition.portions import Portions
from coordinator.transition.preparation import Answer, Preparation
from coordinator.transition.prepared_request import Prepared, choices_of, prepare
from coordinator.transition.report import TransitionReport, preparing
from coordinator.transition.step_faults import Losses, Turn, turn_of_fault
from coordinator.transition.switch_obstacles import SwitchObstacles, TopicFindings, views_put_in_error
from engine.model.filling import HASHES
from engine.resident.crew import Crew
from faults.points import reached
from io_kafka.clients.broker_requests import AWAY_SECONDS_MAX
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.revision_records import (
    Drain,
    RevisionIntent,
    RevisionPause,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
    TurnTo,
)
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling

_log = Logger("coordinator.transition.transitions")

CLEARED_BYTES_MAX = 128 << 20
"""What is removed between two checkpoints. A checkpoint keeps what it removes until the next one, so this bounds its undo."""

ERROR_CHARACTERS_MAX = 500
"""How many characters of an error a record of the step log has."""


class Transitions(LoopPart):
    """The owner of what the transitions of one run are made of: the machine, which the core asks; how much each step fills (`portions`); and
    what users see. `portions` and what the machine knows of a request outlive a recovery. `wake` ends a wait of the loop."""

    def __init__(
        self,
        files: PipelineSpec,
        writer: PipelineWriter,
        board: StatusBoard,
        wake: Callable[[], None],
        table_rows: TableRows | None,
    ) -> None:
        self._files, self._writer, self._wake = files, writer, wake
        self._table_rows = table_rows
        self.machine: Transition[Preparation, Prepared, BackgroundWork[TopicFindings]] = Transition()
        self.portions = Portions(HASHES, drained=DrainPortions(min(files.drain_rows_max, files.switch_rows_max)))
        self._course: Course | None = None
        self._report = TransitionReport(board, files.kafka.outside.monotonic)
        self._losses = Losses()
        self._lost_topics: frozenset[str] = frozenset()  # of the revision in force, if it stands still because of them
        self._may_begin = True  # whether the run goes on until it is stopped

    def recovered(self, recovered: Recovered) -> None:
        self._course, self._may_begin = recovered.course, recovered.goal.runs_new_steps
        if isinstance(self.machine.known, Preparing):
            self.machine.known.preparation.recovered()
        self.machine = self.machine.after_recovery()
        self.show()

    @property
    def course(self) -> Course:
        assert self._course is not None
        return self._course

    @property
    def is_under_way(self) -> bool:
        """Whether the log has a transition."""
        return self._writer.state.revisions.phase is not None

    def note_revision_at_start(self, revision: Revision) -> None:
        """Notes with which revision the run begins. If this release cannot run it alone, its steps wait for a transition
        (coordinator/starting/project/release.py)."""
        self.machine.note_revision(revision.number, is_runnable=not revision.document.frozen)

    def note_lost_topics(self, number: int, topics: frozenset[str]) -> None:
        """Notes that topics of the revision in force are lost. Its steps wait for a transition that leads to a project without them."""
        self._lost_topics = topics
        self.machine.note_revision(number, is_runnable=False)

    def _check_goes_on(self, core: Core) -> None:
        """Raises CircuitChanged if no transition leads away from a revision that this release cannot run alone."""
        log = self._writer.state
        if self.machine.is_at_end(log) and not core.stopping:
            assert log.revision is not None
            document = self.course.plan_of(log.revision)
            raise stands_still(document) if document.frozen else cannot_go_on(self._lost_topics)

    # Requests

    def ask(self, request: RevisionRequest, answer: Answer | None, disk_space: DiskSpace) -> None:
        """`answer` is called when it is known whether the request is accepted; without one, a refusal ends the run. `disk_space`: on the disks
        now. What is refused at once raises TransitionRefused."""
        match request:
            case ApplyRequest():
                self._prepare(request, answer, disk_space)
            case TurnTransition(what):
                self._turn(what)
                if answer is not None:
                    answer(None)
            case _:
                assert_never(request)
        self.show()

    def _prepare(self, request: ApplyRequest, answer: Answer | None, disk_space: DiskSpace) -> None:
        log, outside = self._writer.state, self._files.kafka.outside
        revision = log.revision
        assert revision is not None
        if not self._may_begin:
            raise TransitionRefused(
                "the run ends as soon as it has done what it was started for.",
                "Start the service with `stepwell run`, and ask again.",
            )
        if (phase := log.revisions.phase) is not None or self.machine.has_request:
            raise second_transition(revision.number + 1 if phase is None else phase.intent.number)
        if request.expect_revision not in (None, revision.number):
            assert request.expect_revision is not None
            raise another_revision(revision.number, request.expect_revision)
        course, topics, table_rows = self.course, self._own_topics(), self._table_rows
        lost = course.start.spec.lost_topics

        def work() -> Prepared:
            found = prepare(request, course.plan_of(revision), log, topics, disk_space, table_rows=table_rows)
            found.refuse_lost(course.plan_of(revision), lost)
            course.documents.parse_ahead(found.plan)
            return found

        self.machine.preparing(Preparation(request, answer, work, outside, self._wake))

    def look(self, core: Core, crew: Crew) -> None:
        """Raises CircuitChanged if no transition leads away from a revision that this release cannot run alone."""
        self._advance(crew)
        self._check_goes_on(core)

    @property
    def awaits_answers(self) -> bool:
        return self.machine.waits_in_background

    def _advance(self, crew: Crew) -> None:
        match self.machine.known:
            case Preparing(preparation):
                preparation.advance(self._writer, self._files.plan_topic, crew, self.machine)
                self.show()
                if preparation.prepared is not None:
                    preparation.accept()
            case CheckingTopics(look=look) if look.is_over:
                found = look.result()
                if found.resolved is not None:
                    self.course.projects.note_resolved(self._filling().intent.number, found.resolved)
                self.machine.topics_checked(found.reasons)
            case _:
                pass

    @property
    def acts_in_background(self) -> bool:
        """Whether a thread is at work: it plans, loads batch tables, or looks at topics."""
        match self.machine.known:
            case Preparing(preparation):
                return preparation.acts_in_background
            case CheckingTopics(look=look):
                return not look.is_over
            case _:
                return False

    def end(self) -> None:
        """The run ends."""
        if isinstance(self.machine.known, Preparing):
            self.machine.known.preparation.end()

    def _turn(self, what: TurnName) -> None:
        log, machine = self._writer.state, self.machine
        phase = log.revisions.phase
        if phase is None and not machine.has_request:
            raise TransitionRefused("no transition is under way.", "Begin one with `stepwell apply`.")
        if not machine.ask(what, log):
            kind = "being prepared" if phase is None else phase.kind
            raise TransitionRefused(
                f"the transition is {kind}, so {what} is not possible.", "See `stepwell revision show`."
            )
        if isinstance(phase, Filling) and what != "abort":
            self._record_pause(phase, is_paused=what == "pause")

    def _record_pause(self, phase: Filling, *, is_paused: bool) -> None:
        """The answer comes after the record, so that a run which goes on after a crash has what the user was told."""
        if phase.is_paused == is_paused:
            return
        writer = self._writer
        writer.log.append([RevisionPause(epoch=writer.epoch, number=phase.intent.number, is_paused=is_paused)])
        _log.info("the transition is paused, or goes on", revision=phase.intent.number, is_paused=is_paused)

    def _own_topics(self) -> Topics:
        """For questions beside the steps, which have as long as those of the steps. Otherwise a broker that restarts would refuse a request, or
        hold the switch until a user asks for it."""
        return Topics(self._files.kafka, timeout_s=AWAY_SECONDS_MAX)

    # Actions

    def do(self, action: TransitionAction, core: Core, crew: Crew) -> None:
        match action:
            case LogTransition():
                self._begin(core)
            case CheckTopics():
                phase, topics = self._filling(), self._own_topics()
                obstacles = SwitchObstacles(self.course, self._writer.state, phase)
                self.machine.checking_topics(
                    BackgroundWork(
                        self._files.kafka.outside, "look at topics", lambda: obstacles.look(topics), self._wake
                    )
                )
            case MeasureWhatDiffers():
                self._measure(crew)
            case LogSwitch():
                self._switch(core)
            case LogTurn(reason):
                self._record_turn(reason, core.step if reason == "resume" else None)
            case ClearUnusedTables():
                self._clear(crew)
            case LogSettled():
                self._settle(core)
            case _:
                assert_never(action)
        self.show()

    def _filling(self) -> Filling:
        phase = self._writer.state.revisions.phase
        assert isinstance(phase, Filling)
        return phase

    def _switch(self, core: Core) -> None:
        intent, known, drain = self._filling().intent, self.machine.known, None
        assert isinstance(known, Measured), "a switch before the differences are measured"
        if intent.choices.gradual:
            drain = Drain(whole=HASHES, rows=sum(each.come + each.gone for each in known.differences))
        self._report.switches()
        self.portions.drained.begin()
        self._writer.log.append(
            [RevisionSwitch(epoch=self._writer.epoch, number=intent.number, step=core.step, drain=drain)]
        )
        self.machine.switched()
        reached("switch.recorded")

    def _begin(self, core: Core) -> None:
        known, writer = self.machine.known, self._writer
        assert isinstance(known, WantedTransition) and writer.state.revision is not None
        prepared, plan = known.prepared, known.prepared.plan
        self._report.begins()
        intent = RevisionIntent(
            epoch=writer.epoch,
            number=writer.state.revision.number + 1,
            plan=plan.plan,
            plans=plan.plans,
            whole=plan.facts.whole,
            choices=choices_of(prepared.request, prepared.reload),
            again=prepared.rereads.at(writer.state),
            step=core.step,
            tables=prepared.tables,
            topics=prepared.rereads.topics,
        )
        writer.log.append([intent])
        self.course.projects.files = prepared.request.spec
        self.portions.begin(plan.fed_levels)
        self.machine.began()
        reached("revision.intended")
        _log.info("a transition to another revision begins", revision=intent.number, step=core.step)

    def _measure(self, crew: Crew) -> None:
        known, phase = self.machine.known, self._filling()
        assert isinstance(known, TopicsChecked), "the differences are measured before the topics are looked at"
        measured = self.course.facts(phase.intent).differences
        sizes = crew.programs.measure([each.number for each in measured])
        obstacles = SwitchObstacles(self.course, self._writer.state, phase).reasons(
            known.reasons, sizes, self._files.switch_rows_max, accepts_errors=self.machine.asked.is_switch
        )
        pairs = zip(measured, sizes, strict=True)
        differences = tuple(ViewDifference(of.view, size.come, size.gone) for of, size in pairs)
        self.machine.measured(differences, obstacles, reads_again=bool(phase.intent.again))
        reached("switch.ready")

    def _clear(self, crew: Crew) -> None:
        phase = self._writer.state.revisions.phase
        assert isinstance(phase, Clearing | Detached)
        facts = self.course.facts(phase.intent)
        is_switched = isinstance(phase, Clearing) and phase.is_switched
        is_done = crew.programs.clear(facts.gone if is_switched else facts.young, CLEARED_BYTES_MAX)
        reached("clear.inside")
        self.machine.cleared(is_done=is_done, is_last=isinstance(phase, Clearing))

    def _settle(self, core: Core) -> None:
        phase, writer = self._writer.state.revisions.phase, self._writer
        assert isinstance(phase, Clearing)
        gone = self._tables_gone()
        writer.log.append(
            [RevisionSettled(epoch=writer.epoch, number=phase.intent.number, step=core.version.step, tables_gone=gone)]
        )
        self.machine.settled()
        reached("revision.settled")
        if gone:
            remove_lost_loads(self._files.name, writer, self._own_topics())
        assert writer.state.revision is not None
        ended = self._report.settled(phase, writer.state.revision)
        self.course.documents.forget_all_but({writer.state.revision.plan})
        _log.info("the transition is settled", revision=ended.number, outcome=ended.outcome)

    def wait_for_store(self, stored: VersionId | None) -> None:
        """`stored`: the version to which a lost disk is restored; None if there is none, or if the run does not insist on one. Its steps must
        not lose the loads that they read."""
        phase = self._writer.state.revisions.phase
        is_needed = (
            stored is not None and isinstance(phase, Clearing) and phase.is_switched and stored.step < phase.since
        )
        self.machine.note_store(needs_loads=is_needed and bool(self._tables_gone()))

    def _tables_gone(self) -> tuple[str, ...]:
        """The topics of the loads that the revision in force does not read."""
        revision = self._writer.state.revision
        assert revision is not None
        tables = (source.table for source in self.course.plan_of(revision).inputs if source.is_table)
        return tuple(sorted(self._writer.state.tables.keys() - {topic for table in tables for topic in table.topics}))

    # Faults

    def turn_after_fault(self, fault: Exception) -> bool:
        """Records a turn and returns True if the fault that ended a step is of the transition alone. Then the previous project goes on."""
        phase = self._writer.state.revisions.phase
        former = len(self.course.plan_of(phase.before).circuit.nodes) if isinstance(phase, Filling) else 0
        return self._record_turn_if_any(turn_of_fault(self._writer.state, fault, former))

    def turn_after_loss(self) -> bool:
        """Records a turn and returns True if workers were lost so often in a step that is not written that the transition may be the cause."""
        return self._record_turn_if_any(self._losses.turn(self._writer.state))

    def _record_turn_if_any(self, turn: Turn | None) -> bool:
        if turn is not None:
            self._record_turn(*turn)
        return turn is not None

    def _record_turn(self, reason: TurnTo, step: int | None, fault: Exception | None = None) -> None:
        phase, writer = self._writer.state.revisions.phase, self._writer
        assert phase is not None
        text = None if fault is None else short_text(fault, ERROR_CHARACTERS_MAX)
        writer.log.append(
            [RevisionTurn(epoch=writer.epoch, number=phase.intent.number, reason=reason, step=step, error=text)]
        )
        self.machine.turned(reason)
        reached("turn.written")
        _log.warning("the transition goes another way", revision=phase.intent.number, reason=reason, error=text)

    # What users see

    def note_adopted(self) -> None:
        """The workers run another program from the next step on."""
        self._report.adopted(self._writer.state)

    def note_step(self, step: SettledStep) -> None:
        log = self._writer.state
        self._report.stepped(step.number, log, self._outputs_of_switch, replay=step.is_replay)
        if log.revisions.phase is not None:
            self.show()

    def _outputs_of_switch(self, phase: Draining | Clearing) -> frozenset[str]:
        before, now = self.course.plan_of(phase.before), self.course.plan_of_next(phase.intent)
        return outputs_of_switch(before.numbered, now.numbered, self.course.facts(phase.intent))

    def show(self) -> None:
        log = self._writer.state
        if log.revisions.phase is not None:
            wrong = views_put_in_error(self.course, log.revisions.phase, log.errors)
            facts = self.course.facts(log.revisions.phase.intent)
            self._report.show(self._report.under_way(log, self.machine, facts, self.portions, in_error=wrong))
            return
        request, prepared = self._asked_for()
        if request is None or log.revision is None:
            self._report.show(None)
        else:
            planned = None if prepared is None else prepared.plan.facts
            self._report.show(preparing(log.revision.number + 1, planned, request.chosen))

    def _asked_for(self) -> tuple[ApplyRequest | None, Prepared | None]:
        """The request of the transition that is to begin, and what was made of it; None as long as there is none."""
        match self.machine.known:
            case Preparing(preparation):
                return preparation.request, preparation.prepared
            case WantedTransition(prepared):
                return prepared.request, prepared
            case _:
                return None, None
