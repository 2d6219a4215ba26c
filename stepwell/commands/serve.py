"""The life of a service, from the start of its process to its last status.

    check the holder -> endpoint -> Spark -> circuit -> claim, recover, run -> checkpoint -> write the last status, remove the endpoint
    with --hand-over: Spark and the circuit come first, and then the holder is asked to stop

Spark starts beside the first two. So a second run, or a broker that is down, is reported without waiting for Spark.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from base.address import Address
from base.fault import Fault, exit_code_of
from base.on_change import OnChange
from coordinator.goal import Goal
from coordinator.pipeline import Pipeline
from coordinator.requests import Requests
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from coordinator.topic_names import log_topic_of
from engine.model.layout import Policy
from engine.resident.launcher import Cluster
from engine.resident.spark_launcher import spark_cluster, warm_up
from io_kafka.clients.doorbell import Doorbell
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.errors import UnknownTopic
from io_kafka.step_log.lost import StepLogUnreadable
from io_kafka.step_log.state import StepLogState
from protocols.planners import PLANNERS
from stepwell.commands.common import PlaceUnusable, note
from stepwell.commands.hand_over import take_from_running
from stepwell.commands.missing_inputs import make_missing_inputs
from stepwell.commands.query_keeper import QueryKeeper
from stepwell.commands.spark import StartingSpark
from stepwell.planning.files_now import forget_modules, project_now
from stepwell.planning.kept_circuit import keep_circuit
from stepwell.planning.kept_plan import PlanCheck, content_key, read_plan, write_plan
from stepwell.planning.pipeline import NOTHING_PLANNED, PlannedProject, pipeline_spec, plan_project
from stepwell.planning.query_key import query_key
from stepwell.planning.sharding import policies_of
from stepwell.project.loading import Project
from stepwell.project.places import unwritable_part
from stepwell.service.holder import wait_until_claimable
from stepwell.service.kafka_watch import kafka_watched
from stepwell.service.last_run import reserve_last_run, write_last_run
from stepwell.service.listener import Listener, check_listener, token_of
from stepwell.service.server import ControlServer

if TYPE_CHECKING:
    from stepwell.planning.kept_definitions import KeptDefinitions
    from stepwell.planning.plans import ResolvedProject  # loads the analyser, which a kept plan does not need


@dataclass(frozen=True)
class RunOptions:
    """The options of one run, as the command has them. `hand_over`: see hand_over.py. `on_change`: what is done if the files have another
    project than the state, and `chosen` how. `workers` and `policy`: of the layout; None keeps what the state has."""

    goal: Goal = Goal.SERVE
    full_refresh: bool = False
    on_change: OnChange = "refuse"
    chosen: Chosen = NOTHING_CHOSEN
    take_over: bool = False
    hand_over: bool = False
    workers: int | None = None
    policy: Policy | None = None

    @property
    def may_keep_plan(self) -> bool:
        """A run that ends by itself would end before a kept plan is compared, and a full refresh may follow changed definitions, as a change
        that is to be applied does."""
        return not (self.goal.ends_by_itself or self.full_refresh or self.on_change == "apply")


def serve(project: Project, spark: StartingSpark, options: RunOptions) -> dict[str, Any]:
    """Runs the pipeline in this process until it is stopped, and returns its last status. Raises the error that ended it."""
    requests, board = Requests(), StatusBoard(project.name)
    definitions = _Definitions(project, lambda: spark.session)
    with _stopping_on_signals(requests) as signals:
        try:
            service = _Service(signals, requests, board, definitions, QueryKeeper(project))
            if options.hand_over:
                prepared = _prepare(project, spark, options, service)
                log = _log_reader(project)()
                if log.claim is not None:
                    _check_listener(project)
                    take_from_running(project, prepared.pipeline, log, options.on_change, options.chosen)
                claimable = _claimable_epoch(project, take_over=options.take_over)
                with _control(project, service) as server:
                    _run(project, prepared, options, service, server, claimable=claimable)
            else:
                claimable = _claimable_epoch(project, take_over=options.take_over)
                with _control(project, service) as server:
                    _run(
                        project,
                        _prepare(project, spark, options, service),
                        options,
                        service,
                        server,
                        claimable=claimable,
                    )
        except StepLogUnreadable as fault:
            _add_written_topics(fault, project, definitions)
            raise
        except _StoppedEarly:
            pass  # the last line says it
    return board.show()


def _add_written_topics(fault: StepLogUnreadable, project: Project, definitions: _Definitions) -> None:
    """Adds the topics that have to go with the log to the text of the fault. If the project cannot be planned now, the text is without these
    names."""
    with suppress(Fault):
        fault.name_written(pipeline_spec(project, definitions.plan()).written_topics)


@dataclass(frozen=True)
class _Service:
    """The parts of a service that exist before its pipeline: signals, requests, status, definitions, queries."""

    signals: _Signals
    requests: Requests
    board: StatusBoard
    definitions: _Definitions
    queries: QueryKeeper


@dataclass(frozen=True)
class _Prepared:
    """What a run needs before its claim. `check`: compares a kept plan with the definitions while the run goes on."""

    pipeline: PipelineSpec
    cluster: Cluster
    check: AbstractContextManager[object]


def _refuse_unwritable(project: Project) -> None:
    """A worker that cannot make its database would be taken for one that has lost it."""
    place = None if project.on_cluster else unwritable_part(project.databases.databases)
    if place is not None:
        raise PlaceUnusable(str(place), "it cannot be written by this user")


def _prepare(project: Project, spark: StartingSpark, options: RunOptions, service: _Service) -> _Prepared:
    """Everything that takes long, or that can be refused without a look at the state."""
    _refuse_unwritable(project)
    context = spark.context
    warm_up(context)
    plan, check = (
        (NOTHING_PLANNED, nullcontext())
        if options.on_change == "keep"
        else _plan(project, service.definitions, service.requests, service.board, may_be_kept=options.may_keep_plan)
    )
    pipeline = pipeline_spec(project, plan, workers_now=options.workers, policy_now=options.policy)
    for topic in make_missing_inputs(pipeline):
        note(f"the local broker had no topic {topic}: it has now, empty")
    cluster = spark_cluster(context, project.name, insecure=project.settings.stepwell.cluster_insecure)
    return _Prepared(pipeline, cluster, check)


def _run(
    project: Project,
    prepared: _Prepared,
    options: RunOptions,
    service: _Service,
    server: ControlServer,
    *,
    claimable: int | None,
) -> None:
    """`claimable`: the epoch of a run that holds the pipeline and may be fenced; None if there is none."""
    service.signals.stops_at_checkpoint = True
    kafka = prepared.pipeline.kafka
    with prepared.check, kafka_watched(kafka, service.board), Doorbell(kafka, service.requests.wake) as bell:
        pipeline_run = Pipeline(
            prepared.pipeline,
            prepared.cluster,
            service.requests,
            service.board,
            table_rows=service.definitions.table_rows,
            planners=PLANNERS,
            bell=bell,
        )
        pipeline_run.run(
            goal=options.goal,
            endpoint=server.endpoint.url,
            full_refresh=options.full_refresh,
            on_change=options.on_change,
            chosen=options.chosen,
            expect_epoch=claimable,
            claimed=lambda epoch: _announce(project, server, service.queries, epoch),
        )


class _Definitions:
    """The project's definitions, resolved when they are needed first. `session` makes Spark's session, which a kept plan does not need.
    Threads may call it beside each other: one plans after the other, because a definition runs in the process's working folder."""

    def __init__(self, project: Project, session: Callable[[], SparkSession]) -> None:
        self._project, self._session = project, session
        self._resolved: ResolvedProject | None = None
        self._next: ResolvedProject | None = None  # of the files, when they were last planned for a transition
        self._planning = threading.Lock()

    def plan(self) -> PlannedProject:
        from stepwell.planning.kept_definitions import KeptDefinitions

        with self._planning:
            self._resolved, plan = self._plan_project(self._project, KeptDefinitions.of(self._project))
        return plan

    def plan_afresh(self) -> PlannedProject:
        """Plans as `plan` does, without any plan that is kept. A kept plan is compared with the result."""
        from stepwell.planning.kept_definitions import KeptDefinitions

        with self._planning:
            self._resolved, plan = self._plan_project(self._project, KeptDefinitions.nothing())
        return plan

    def plan_files(self) -> PipelineSpec:
        """The project as it is in the files now, with the settings with which the service was started. Raises faults that name file and
        line."""
        from stepwell.planning.kept_definitions import KeptDefinitions

        with self._planning:
            project = project_now(self._project)
            forget_modules(project.root)
            self._next, plan = self._plan_project(project, KeptDefinitions.of(project))
        return pipeline_spec(project, plan)

    def table_rows(self, handle: str) -> Iterator[pa.RecordBatch]:
        """The rows of a batch table. Those of the run's own project are read at its start, so a table that the project of a transition has is
        read as that one says. A run with a kept plan that was interrupted before they were loaded resolves the definitions for that."""
        from stepwell.planning.batch_tables import rows_reader

        following = self._next
        if following is not None and handle in following.tables:
            return rows_reader(following.tables)(handle)
        if self._resolved is None:
            self.plan()
        assert self._resolved is not None
        return rows_reader(self._resolved.tables)(handle)

    def _plan_project(self, project: Project, kept: KeptDefinitions) -> tuple[ResolvedProject, PlannedProject]:
        # A kept plan needs neither, and they take a quarter of a second.
        from stepwell.lowering.driver import lower
        from stepwell.planning.resolver import resolve

        resolved = resolve(project, self._session(), kept)
        return resolved, plan_project(resolved, lower(resolved))


def _plan(
    project: Project,
    definitions: _Definitions,
    requests: Requests,
    board: StatusBoard,
    *,
    may_be_kept: bool,
) -> tuple[PlannedProject, AbstractContextManager[object]]:
    """(the plan, what compares a kept plan with the definitions while the run goes on). A run that ends by itself would end before that."""

    def is_due() -> bool:
        return board.show()["phase"] in ("run", "paused")

    key, query = content_key(project), query_key(project)
    kept = read_plan(project, key) if may_be_kept else None
    if kept is not None:
        keep_circuit(project, query, kept.circuit)
        check = PlanCheck(project, kept, definitions.plan_afresh, is_due, lambda: requests.ask("stop"), key=key)
        return kept, check
    plan = definitions.plan()
    write_plan(project, key, plan)
    keep_circuit(project, query, plan.circuit)
    return plan, nullcontext()


def _claimable_epoch(project: Project, *, take_over: bool) -> int | None:
    """The epoch of the holder that may be replaced; None if the pipeline has never run. Raises HeldByAnother."""
    silence_s = project.settings.stepwell.takeover_silence
    return wait_until_claimable(project.name, _log_reader(project), silence_s, take_over=take_over, say=note)


def _log_reader(project: Project) -> Callable[[], StepLogState]:
    """Reads the step log; a pipeline that has never run has an empty one."""
    reader = StepLogReader(KafkaSettings.parse(project.settings.kafka), log_topic_of(project.name))

    def read() -> StepLogState:
        try:
            return reader.read()
        except UnknownTopic:
            return StepLogState(log_topic_of(project.name))

    return read


@contextmanager
def _control(project: Project, service: _Service) -> Iterator[ControlServer]:
    """Serves the endpoint while the body runs, and writes the last status afterwards."""
    settings = project.settings.stepwell
    policies = policies_of(settings)
    server = ControlServer(
        service.requests,
        service.board,
        settings.control_port,
        policies,
        plan_files=service.definitions.plan_files,
        answer_query=service.queries.answer,
        ready_lag_s=settings.ready_lag,
    )
    listener = _listener(project, server)
    reserve_last_run(project.state_folder)
    server.start()
    try:
        if listener is not None:
            listener.start()
            note(f"{project.name}: metrics at http://{listener.address}/metrics")
        server.endpoint.write_unless_served(project.state_folder)
        yield server
    except Exception as error:
        text = str(error) if exit_code_of(error) is not None else f"{type(error).__name__}: {error}"
        service.board.update(phase="failed", error=text)
        raise
    finally:
        # The status comes first, because a client that finds no endpoint looks for the status.
        write_last_run(project.state_folder, service.board.show())
        server.endpoint.remove(project.state_folder)
        service.queries.close()
        server.close()
        if listener is not None:
            listener.close()


def _check_listener(project: Project) -> None:
    """Raises MetricsUnavailable if `_listener` would, while another run may still listen at the same address."""
    settings = project.settings.stepwell
    if settings.metrics_address is not None:
        check_listener(Address.parse(settings.metrics_address), settings.metrics_token_file, project.state_folder)


def _listener(project: Project, server: ControlServer) -> Listener | None:
    """For monitoring, if the settings ask for one. Raises MetricsUnavailable."""
    settings = project.settings.stepwell
    if settings.metrics_address is None:
        return None
    address = Address.parse(settings.metrics_address)
    token = token_of(address, settings.metrics_token_file, project.state_folder)
    return Listener(address, token, server.exposition, server.probes)


def _announce(project: Project, server: ControlServer, queries: QueryKeeper, epoch: int) -> None:
    """Tells clients and users that this process has claimed the pipeline."""
    server.endpoint.write(project.state_folder)
    queries.begin()
    note(f"{project.name}: epoch {epoch}, control at {server.endpoint.url}; stop with Ctrl-C or `stepwell stop`")


class _StoppedEarly(KeyboardInterrupt):
    """A signal has come before the claim, when there is nothing yet for a checkpoint."""


_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Signals:
    """What Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) do. Before the claim they just end the run. After it, the first one requests a
    stop at a checkpoint. A second one kills the process, which is a crash, so the next run replays. A second SIGHUP does nothing, because the
    system and the shell both send one. If SIGHUP is ignored, as `nohup` has it, it stays so."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.stops_at_checkpoint = False

    def install(self) -> None:
        for number in _STOPPING:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if not self.stops_at_checkpoint:
            raise _StoppedEarly
        for each in _STOPPING:
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        # The thread that is interrupted may hold the locks that this takes, so another one takes them.
        _thread.start_new_thread(self._stop, ())

    def _stop(self) -> None:
        self._requests.ask("stop")
        note("stopping at a checkpoint (once more to stop at once: the next run will replay)")


@contextmanager
def _stopping_on_signals(requests: Requests) -> Iterator[_Signals]:
    former = {number: signal.getsignal(number) for number in _STOPPING}
    signals = _Signals(requests)
    signals.install()
    try:
        yield signals
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
