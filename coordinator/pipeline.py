"""One run of a pipeline, from its claim to its end.

    claim the epoch -> which revision is in force -> finish its steps, if the project continues it -> batch tables, topics -> the loop (loop.py)

Guarantees: one thread runs all steps and owns the pipeline's only writer. A fault of another run ends the run with its text, before any fault
that may only follow from it.

Other threads talk to it through `Requests` and read `StatusBoard`. ARCHITECTURE.md says what is in which folder of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from base.logger import Logger
from base.on_change import OnChange
from base.short_text import short_text
from coordinator.automatic.autoscaling import Automatic
from coordinator.checkpoints.checkpointing import Checkpointing
from coordinator.goal import Goal
from coordinator.loop import RevisionRun, RunParts
from coordinator.requests import Requests
from coordinator.rescale.planner import NO_PLANNERS, Planners
from coordinator.rescale.rescaling import Rescaling
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.document import Revision
from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.running.recovery import Recovery
from coordinator.running.requests_in_force import RequestsInForce
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import StateLost, TopicChanged
from coordinator.starting.project.beginning import Beginning, beginning
from coordinator.starting.project.in_force import next_revision, revision_in_force, revision_to_come
from coordinator.starting.project.same_project import numbers_if_continued
from coordinator.starting.topics.batch_tables import TableRows, load_tables, remove_lost_loads
from coordinator.starting.topics.lost_on_the_way import name_way_out, standing_still_if_lost
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.refresh import rebuild
from coordinator.starting.topics.unwritten_switch import why_switch_cannot_run
from coordinator.status import StatusBoard
from coordinator.stepping.idle_wait import Bell
from coordinator.stepping.views_in_error import check_answers
from coordinator.storing.storing import Storing
from coordinator.transition.transitions import Transitions
from engine.resident.launcher import Cluster
from faults.points import reached
from io_kafka.clients.broker_requests import AWAY_SECONDS_MAX
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import Claimant, FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.clients.writer_faults import Fenced
from io_kafka.errors import KafkaFault, OffsetGone, UnknownTopic
from io_kafka.step_log.lost import LogOffsetGone
from io_kafka.step_log.revision_state import Clearing
from storage.errors import NoDatabase, StaleEpoch
from storage.remote.errors import StoreFault

_log = Logger("coordinator.pipeline")

FAULTS_A_SUCCESSOR_MAY_CAUSE: tuple[type[Exception], ...] = (
    NoDatabase,
    LogOffsetGone,
    StateLost,
    StoreFault,
    OffsetGone,
    UnknownTopic,
)
"""What a run that is replaced may meet: its successor may have changed the layout and removed databases, objects of the checkpoint store or
loads of batch tables, and messages that the successor has read long ago may have expired."""


@dataclass(frozen=True)
class _ChosenProject:
    """The project that a run begins with. `revision`: the one in force; None for a new state. `numbers`: of the project's nodes, if it is to be
    recorded as the next revision, which continues the one in force. `following`: the project to which a transition leads, or is to lead; None
    without one."""

    begins: Beginning
    revision: Revision | None
    numbers: tuple[int, ...] | None
    following: PipelineSpec | None = None


class Pipeline:
    """One run of a pipeline. `run` returns after a stop, at a checkpoint, or raises the exception that ended the run."""

    def __init__(
        self,
        files: PipelineSpec,
        cluster: Cluster,
        requests: Requests,
        board: StatusBoard,
        *,
        table_rows: TableRows | None = None,
        planners: Planners = NO_PLANNERS,
        bell: Bell | None = None,
    ) -> None:
        """`files`: the project of the files. `table_rows` reads the batch tables that the log does not have yet; a pipeline without tables needs
        none. `planners`: the protocols by which a rescale may go. `bell`: tells when a message comes after a silence; without one the input is
        looked at more often."""
        self._files, self._requests, self._board, self._table_rows = files, requests, board, table_rows
        self._outside = files.kafka.outside
        self._topics = Topics(files.kafka, timeout_s=AWAY_SECONDS_MAX)
        log = FencedLog(files.kafka, files.transactional_id, files.log_topic)
        self._writer = writer = PipelineWriter(log, step_header=files.step_header)
        storing = Storing(files, writer, board, requests.wake)
        checkpoints = Checkpointing(files, writer, self._topics, board, kept=lambda: storing.versions_log_must_reach)
        rescaling = Rescaling(files, cluster.launcher, planners, writer, board)
        self._transitions = Transitions(files, writer, board, requests.wake, table_rows)
        self._parts = RunParts(
            topics=self._topics,
            writer=writer,
            board=board,
            bell=bell,
            requests=requests,
            in_force=RequestsInForce(requests, rescaling, self._transitions, checkpoints),
            recovery=Recovery(files, cluster, writer, board, storing),
            checkpoints=checkpoints,
            rescaling=rescaling,
            automatic=Automatic(files, cluster.launcher, writer, requests, board),
            storing=storing,
            transitions=self._transitions,
        )

    def run(
        self,
        *,
        goal: Goal = Goal.SERVE,
        full_refresh: bool = False,
        on_change: OnChange = "refuse",
        chosen: Chosen = NOTHING_CHOSEN,
        endpoint: str | None = None,
        expect_epoch: int | None = None,
        claimed: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """Runs the pipeline until its goal is reached or it is stopped.

        `full_refresh`: retract all output and rebuild it; a refresh that an earlier run began is finished in any case. `on_change`: see
        OnChange. `chosen`: for the change that is applied. `expect_epoch`: see FencedLog.start. `claimed(epoch)` is called when the claim
        is committed."""
        log_id = ensure_step_log(self._topics, self._files.log_topic).topic_id
        self._claim(endpoint, expect_epoch, claimed)
        has_ended = False
        try:
            if full_refresh or self._writer.state.refresh is not None:
                rebuild(self._files, self._writer, self._topics)
            self._run_project(self._choose_project(goal, on_change, chosen), log_id, goal)
            has_ended = True
        except StaleEpoch as fault:
            raise self._fence_fault() from fault
        except FAULTS_A_SUCCESSOR_MAY_CAUSE as fault:
            self._confirm_claim(fault)
            raise
        finally:
            self._transitions.end()
            if has_ended and not (self._parts.storing.acts_in_background or self._transitions.acts_in_background):
                self._writer.log.record_end()
            self._writer.log.close()
            self._requests.end()
            self._board.update(phase="stopped")

    def _claim(self, endpoint: str | None, expect_epoch: int | None, claimed: Callable[[int], None]) -> None:
        """Takes the pipeline over. From here on no earlier run writes to the step log."""
        claimant = Claimant(self._files.name, self._outside.hostname(), self._outside.pid(), endpoint)
        epoch = self._writer.log.start(claimant, expect_epoch=expect_epoch)
        claimed(epoch)
        self._board.update(epoch=epoch, phase="recovering")

    def _choose_project(self, goal: Goal, on_change: OnChange, chosen: Chosen) -> _ChosenProject:
        """Returns the project that the run begins with, and what it is to the revision in force."""
        files, revision = self._files, self._revision_that_can_run()
        if revision is not None:
            self._board.update(revision=revision.number)  # also while workers start
        state = self._writer.state
        to_come = revision_to_come(files.kafka, files.plan_topic, state)
        begins = beginning(files, revision, state, on_change, chosen, to_come=to_come)
        if revision is not None and begins.is_recorded:
            self._transitions.note_revision_at_start(revision)
            following = None if to_come is None else project_of_revision(to_come.document, files)
            needs_no_step = state.revisions.phase is None or isinstance(state.revisions.phase, Clearing)
            if begins.to_apply is not None and needs_no_step and goal.runs_new_steps:
                following = begins.to_apply.spec
            return _ChosenProject(begins, revision, numbers=None, following=following)
        numbers = numbers_if_continued(begins.spec, self._writer.state, revision, may_continue=goal.runs_new_steps)
        return _ChosenProject(begins, revision, numbers)

    def _run_project(self, project: _ChosenProject, log_id: str, goal: Goal) -> None:
        """Runs the project until its goal is reached or the run is stopped. If it continues the revision in force, that one's steps are finished
        first."""
        begins, revision, numbers = project.begins, project.revision, project.numbers
        if revision is not None and numbers is not None:
            self._finish_recorded_steps(revision, begins.spec, log_id)
            if self._parts.in_force.is_stop:
                return
        spec = load_tables(begins.spec, self._writer, self._topics, self._table_rows)
        if self._writer.state.tables and self._writer.state.steps:
            remove_lost_loads(spec.name, self._writer, self._topics)
        of_nodes = () if revision is None else revision.document.numbers
        if project.following is not None:
            spec = standing_still_if_lost(spec, project.following, self._topics, self._writer.state, numbers=of_nodes)
            if spec.lost_topics:
                _log.warning(
                    "topics are lost, and the project stands still until the change is made",
                    topics=sorted(spec.lost_topics),
                )
        try:
            spec = with_matching_topics(spec, self._topics, self._writer.state.topics)
        except TopicChanged as fault:
            name_way_out(fault, spec, self._topics, self._writer.state, numbers=of_nodes)
            raise
        if numbers is not None:
            revision = self._continue_as(spec, numbers)
        self._parts.in_force.to_apply = begins.to_apply
        made = RevisionRun(self._parts, begins.spec, log_id, goal=goal)
        plan = made.run(spec, revision)
        if goal.ends_with_input:
            check_answers(plan, self._writer.state, made.running.spec.column_names)

    def _revision_that_can_run(self) -> Revision | None:
        """The one in force. A switch whose step can never run is taken back first."""
        files, writer = self._files, self._writer
        revision = revision_in_force(files.kafka, files.plan_topic, writer.state)
        fault = None if revision is None else why_switch_cannot_run(files, revision, writer.state, self._topics)
        if fault is None or not self._transitions.turn_after_fault(fault):
            return revision
        return revision_in_force(files.kafka, files.plan_topic, writer.state)

    def _finish_recorded_steps(self, revision: Revision, files: PipelineSpec, log_id: str) -> None:
        """Runs the steps that are divided, as the revision in force says, and takes a checkpoint that has all of them."""
        former = project_of_revision(revision.document, files)
        former = with_matching_topics(former, self._topics, self._writer.state.topics)
        RevisionRun(self._parts, former, log_id, goal=Goal.FINISH_STEPS).run(former, revision)

    def _continue_as(self, spec: PipelineSpec, numbers: tuple[int, ...]) -> Revision:
        """Records the project as the next revision. `numbers`: of its nodes."""
        reached("revision.finished")
        revision = next_revision(spec, numbers, self._writer, self._topics)
        reached("revision.recorded")
        _log.info("the project has changed, and continues its state", revision=revision.number)
        return revision

    def _confirm_claim(self, fault: Exception) -> None:
        """Raises Fenced if another run has taken over, because then `fault` is no fault."""
        try:
            self._writer.log.confirm()
        except Fenced as fenced:
            raise fenced from fault
        except KafkaFault as unknown:
            _log.warning("it is not known whether another run has taken over", fault=short_text(unknown))

    def _fence_fault(self) -> Fenced:
        """The fault of a run whose databases were fenced. The step log says which run has taken over."""
        state = StepLogReader(self._files.kafka, self._files.log_topic).read()
        return Fenced(self._files.transactional_id, self._writer.epoch, state.claim)
