"""One world, made by one seed: a broker, a machine with a disk, coordinators and their tasks, and all that befalls them.

First faults come and go while input grows; then they end, everything that slept wakes, what runs is asked to stop, and a last run takes what
is left. Throughout, the oracle looks at every commit.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from base.slots import SlotSet
from base.term import Term
from coordinator.goal import Goal
from coordinator.pipeline import Pipeline
from coordinator.requests import Requests
from coordinator.rescale.requests import LayoutRequest, PauseRequest, ReplaceRequest, RescaleRequest, TurnRequest
from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import ApplyRequest, RevisionRequest, TurnTransition
from coordinator.specification import InputTopic, OutputTopic, Pace, PipelineSpec, StoreSettings
from coordinator.starting.errors import CircuitChanged, DatabaseMissing, RecoveryFailed
from coordinator.status import StatusBoard
from coordinator.stepping.views_in_error import ViewsInError
from coordinator.storing import backups
from engine.model.layout import DynamicShards, FixedShards, Policy
from engine.resident.crew import Crew
from engine.resident.launcher import Cluster
from engine.resident.start_faults import NoSlots
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.writer_faults import Fenced, OutcomeUnknown
from io_kafka.errors import BrokerRefused, BrokerUnreachable, NoLeader, ReadDeadline
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.layout_records import CutProtocol, MoveStrategy, RescaleMode
from io_kafka.step_log.records import CheckpointStored
from protocols.planners import PLANNERS
from storage.errors import WriterBlocked
from storage.remote.errors import StoreFault, StoreUnreachable
from storage.remote.place import StorePlace
from tests.simulator import circuit
from tests.simulator.broker import Broker, Refused, Request, Transaction
from tests.simulator.disk import Disk, Environment, Folder, Records
from tests.simulator.launcher import SimLauncher
from tests.simulator.network import Network
from tests.simulator.object_store import ROOT, SimStore
from tests.simulator.oracle import Oracle
from tests.simulator.oracle_of_store import StoreOracle
from tests.simulator.producers import PARTITIONS, Producers
from tests.simulator.scheduler import Process, Scheduler, Strand
from tests.simulator.seams import installed, outside
from tests.simulator.stored_databases import databases
from tests.simulator.story import Story
from tests.simulator.weather import (
    BENIGN,
    FREQUENCY,
    PLACE_CHANCE,
    PROTOCOL_CHANCE,
    SELDOM_REACHED,
    TARGET_CHANCE,
    Weather,
)

PASSING = (
    BrokerUnreachable,
    ReadDeadline,
    NoLeader,
    Fenced,
    OutcomeUnknown,
    RecoveryFailed,
    WriterBlocked,
    NoSlots,
    ViewsInError,
)
"""What may end a run while there are faults. Anything else is a defect: an assertion, digests that differ, a broken log, lost state."""

SLOTS_COME_SECONDS = 120.0
"""After the start of a last run, people give a cluster all the slots that it asks for. A replacement that waits for some on the hosts that are
left would otherwise wait for ever. A start needs no more slots: then tasks come to all hosts that have databases."""

POINTS_MAX = 60_000
"""Of a world. One that needs more does not come to its end: runs recover or restart for ever."""

FINAL_RUNS_MAX = 2
"""Runs without faults that the pipeline has to come to its end."""


DRIVER, HOSTS = "host0", ("host0", "host1", "host2")
"""The coordinators run on the first host."""

SIZES = (1, 2, 3, 4)
"""To how many workers a layout may be changed."""

BUDGETS = (None, 1, 12, 18)
"""In bytes, of one cut of a live change. A record counts for about 6, so 12 and 18 are two or three. With 1 all slots are copied first."""

UNDISTURBED_CHANCE = 0.7
"""That nobody asks for anything else while a change is under way, where somebody could. Otherwise nearly every change would be turned."""

REPLACED_CHANCE = 0.2
"""That a user of a cluster asks for the replacement of a host, in place of another number of workers."""

POLICIES: tuple[Policy | None, ...] = (None, None, FixedShards(4), DynamicShards(0.5))
"""Those that a change asks for. Most change nothing of it."""

STALE_CHANCE = 0.15
"""That a disk that was lost comes back instead of an empty one."""

FILLING_FAILS = 0.1
"""Of the chance that a switch fails, that new nodes fail in a step on a worker."""

HOLD_CHANCE = 0.3
"""That the switch waits until a user asks for it."""

GRADUAL_CHANCE = 0.5
"""That what differs leaves in several steps."""

DRAIN_ROWS = 2
"""Of a step then. Few keys are there."""

TURNS: tuple[Literal["pause", "resume", "switch", "abort"], ...] = (
    "pause",
    "resume",
    "resume",
    "switch",
    "switch",
    "abort",
)

TURNS_OF_WAITING: tuple[Literal["resume", "switch", "abort"], ...] = ("resume", "resume", "switch", "switch", "abort")
"""After a detachment, a pause, or a switch that was taken back, nothing goes on by itself."""

HOLDER_CHANCE = 0.7
"""That a user asks the run that has the pipeline, and not one of those that have just begun or lost it."""

DEADLY_CHANCE = 0.4
"""That what is new does not fail with an error, but kills each worker that runs it, until the transition goes another way."""

GROWTH_SECONDS = 0.2
"""Between two looks for new partitions: some in every run."""


class World:
    """Is the `Outside` of real code, and the director of what befalls it."""

    def __init__(self, seed: int, weather: Weather | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.weather = weather or Weather.of(self.rng)
        self.story = Story()
        self.scheduler = Scheduler(self.rng, POINTS_MAX)
        self.broker = Broker(self._decided)
        self.hosts = HOSTS[: self.weather.hosts]
        self.away: set[str] = set()
        parts = {host: (host,) for host in self.hosts}
        self.disk = Disk(self, {**parts, DRIVER: ("state", *parts[DRIVER])})
        self.network = Network(self)
        self.store = SimStore(self)
        of_store = None
        if self.weather.store is not None:
            of_store = StoreOracle(self.store.objects, self.weather.lag_s if self.weather.store == "pause" else None)
        self.oracle = Oracle(self.broker, self.weather.step_bytes, of_store, lambda: self.now)
        self._lost: dict[str, list[dict[str, Folder]]] = {host: [] for host in self.hosts}
        """Disks that are gone, and may come back."""
        self.processes: list[Process] = []
        self.runs: dict[Process, Requests] = {}
        self._stops = itertools.count()
        self.ended: dict[Process, BaseException | None] = {}
        self.boards: dict[Process, StatusBoard] = {}
        self.faults = True
        self.is_draining, self._slots_come_at = False, math.inf
        self.is_renamed = False
        """Whether the files give a view another name than the state has."""
        self._producers = Producers(self, self.weather.messages, "abcde" + circuit.WRONG * self.weather.errors)
        self._deadly = (-1, 0)
        """A step that kills its workers, and how many turns the transition had had then."""
        self._alarms: list[tuple[int, Callable[[], None]]] = []
        self._pids = 0

    # The whole of it

    def run(self) -> None:
        """Raises what a check found; otherwise all was well."""
        with self.alive():
            self._storm()
            self._calm()
            self.drain()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """The project runs in this world while the body does."""
        chance = random.Random(self.rng.random())
        self._kafka = KafkaSettings((("bootstrap.servers", "simulated"),), outside(self, chance))
        with installed(self, chance):
            try:
                self._set_up()
                yield
            finally:
                self.scheduler.abandon()

    def _set_up(self) -> None:
        for topic in (circuit.INPUT, circuit.OTHER):
            self.broker.create(topic, PARTITIONS)
        for _ in range(self.rng.choice((0, 4, 12))):
            self._producers.send()
        scheduler, weather = self.scheduler, self.weather
        scheduler.interference, scheduler.switching = weather.interference, weather.switching
        scheduler.interfere, scheduler.idle = self._interfere, self._idle
        self.tell(f"weather: {weather}")

    def _storm(self) -> None:
        self.start()
        scheduler = self.scheduler
        scheduler.run_until(lambda: scheduler.points >= self.weather.points)

    def _calm(self) -> None:
        """Faults end: sleepers go on, what is under way arrives, foreign producers end, and whatever runs is asked to stop."""
        self.tell("faults end")
        self.faults = self.store.is_away = False
        self.away.clear()
        for process in self.processes:
            if process.stopped and process.alive:
                self.resume(process)
        self._producers.finish()
        for requests in self.runs.values():
            requests.layout.put(PauseRequest(False))
            requests.revision.put(self._turn())
            requests.ask("resume")
            requests.ask("stop")
        self.run_to_the_end()

    def drain(self) -> None:
        """A last run, or two: without faults nothing may end one but its work being done."""
        self.is_draining = True
        for _ in range(FINAL_RUNS_MAX):
            last = self.start(available_now=True)
            self._slots_come_at = self.now + SLOTS_COME_SECONDS
            if self.oracle.revisions.waits:
                self.runs[last].revision.put(self._turn())
            self.run_to_the_end()
            fault = self.ended.get(last, KeyError)
            is_told = isinstance(fault, ViewsInError) and self.oracle.steps.is_in_error
            assert fault is None or is_told, f"{last.name} ended by {self.ended.get(last)!r}"
            self.oracle.steps.check_drained()
            self.oracle.databases.check_settled(self.disk)
            self.oracle.check_stored()

    def run_to_the_end(self, *, sleepers: bool = False) -> None:
        """Until nothing runs any more. `sleepers`: some may be stopped then."""
        limit = POINTS_MAX
        self.scheduler.run_until(lambda: self.scheduler.points >= limit)
        assert self.scheduler.points < limit, "it does not come to an end"
        left = [strand.name for strand in self.scheduler.strands if not strand.done]
        assert sleepers or not left, f"{left} wait for ever"
        while self.broker.under_way:
            self._deliver_one()
        while undone := self.broker.undone():
            self.broker.finish(undone[0])

    # What real code asks for

    @property
    def now(self) -> float:
        return self.scheduler.now

    def point(self, place: str) -> None:
        self.scheduler.point(place)
        if self._alarms:
            self._ring()
        if self.faults and place in self.weather.crash_places and self.scheduler.current.acting:
            self._maybe_crash(place, PLACE_CHANCE)

    def _maybe_crash(self, place: str, chance: float) -> None:
        process = self.acting()
        if self.rng.random() >= chance:
            return
        if process.owner is not None and self.rng.random() < self.weather.sleep:
            self.count("a worker falls asleep at a point")
            self.stop(process, f"at {place}")
        else:
            self.count(f"crash at {place}")
            self.kill(process, f"at {place}")
        self.scheduler.point(place)

    def pass_time(self, seconds: float) -> None:
        self.scheduler.wait(None, seconds)

    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool:
        return until() or self.scheduler.wait(until, seconds)

    def acting(self) -> Process:
        return self.scheduler.process

    def writer(self) -> object:
        return self.scheduler.process

    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Strand:
        return self.scheduler.spawn(name, process, work)

    def start_task(self, name: str, owner: Process | None = None) -> Process:
        owner = owner or self.acting()
        process = self.process(f"{owner.name} {name}", owner)
        self.processes = [p for p in self.processes if p.alive]
        self.processes.append(process)
        return process

    def fate(self, place: str, fates: Sequence[str]) -> str | None:
        """What becomes of a request, a worker, a frame; None where all is well."""
        own = {"worker": self.weather.task, "cancel": self.weather.task, "store": self.weather.store_faults}
        weather = own.get(place, self.weather.client)
        chance = (self.weather.network if place in ("frame", "connect") else weather) * FREQUENCY.get(place, 1.0)
        if not self.faults or self.rng.random() >= chance:
            return None
        fate = self.rng.choice(fates)
        self.count(f"{place}: {fate}")
        self.tell(f"{place}: {fate}")
        return fate

    def count(self, kind: str) -> None:
        self.story.count(kind)

    def fails(self, step: int, what: str) -> bool:
        """Whether what is new in a step that is not written yet fails in it. Many steps fill, and there is one switch. It may kill its worker
        instead, and every later one, until the transition goes another way."""
        is_possible = self.faults or what == "the switch"  # most switches come when all faults are over
        if not is_possible or step < self.oracle.steps.written:
            return False
        now = step, self.oracle.revisions.turns
        if self._deadly != now:
            chance = self.weather.failing * (1.0 if what == "the switch" else FILLING_FAILS)
            if self.rng.random() >= chance:
                return False
            if self.rng.random() >= DEADLY_CHANCE:
                self.count(f"{what} failed")
                self.tell(f"{what} fails in step {step}")
                return True
            self._deadly = now
        self.count(f"{what} killed a worker")
        self.kill(self.acting(), f"by {what} in step {step}")
        self.scheduler.point("killed by what is new")
        return False

    def is_switch(self, step: int) -> bool:
        return self.oracle.revisions.is_switched(step)

    def tell(self, what: str) -> None:
        acting = self.scheduler.current.acting
        self.story.tell(self.now, acting[-1].name if acting else "world", what)

    def reached(self, point: str, worker: int | None) -> None:
        """A named crash point of the project."""
        self.story.lines.append(
            (self.now, self.acting().name, f"- {point}" if worker is None else f"- {point}/{worker}")
        )
        self.scheduler.point(point)
        is_rare = point in SELDOM_REACHED
        chance = TARGET_CHANCE * (1 + is_rare) if point in self.weather.crash_targets else self.weather.crash_point
        if self.faults:
            self._maybe_crash(point, chance)

    def committed(self, environment: Environment, before: Records) -> None:
        self.scheduler.judged(self.oracle.databases.committed, environment, before, self.acting(), self.disk)

    def renamed(self, place: tuple[str, ...]) -> None:
        self.scheduler.judged(self.oracle.databases.renamed, place, self.acting())

    def store_changed(self, name: str) -> None:
        """An object was written or deleted."""
        if self.oracle.store is not None:
            self.scheduler.judged(self.oracle.store.kept, name)

    def _decided(self, transaction: Transaction) -> None:
        if transaction.writer is not None:
            self.tell(f"committed: transaction of {transaction.writer.name}, {len(transaction.first)} partitions")  # type: ignore[attr-defined]
            self.scheduler.judged(self.oracle.decided, transaction, self.disk)

    # Coordinators

    def process(self, name: str, owner: Process | None = None) -> Process:
        self._pids += 1
        return Process(name, self._pids, owner)

    def start(self, *, available_now: bool | None = None, workers: int | None = None) -> Process:
        """`workers`: as `stepwell run --workers N`; None leaves that to the weather."""
        process = self.process(f"run{len(self.ended)}")
        process.host = DRIVER
        self.processes.append(process)
        self.ended[process] = KeyError()
        requests = self.runs[process] = _Requests(self)
        now = self.rng.random() < self.weather.available_now if available_now is None else available_now
        if self.faults and self.rng.random() < self.weather.edited:
            self.is_renamed = not self.is_renamed
        if self.faults and workers is None and self.rng.random() < self.weather.resized:
            workers = self.rng.choice(SIZES)
        expect = self.oracle.claims.epoch if self.oracle.claims.epoch >= 0 and self.rng.random() < 0.2 else None
        self.tell(
            f"{process.name} starts{' --available-now' if now else ''}{'' if expect is None else f' after epoch {expect}'}"
        )
        self.spawn(process.name, process, lambda: self._live(process, requests, now, expect, workers))
        return process

    def _live(
        self,
        process: Process,
        requests: Requests,
        available_now: bool,
        expect: int | None,
        workers_now: int | None,
    ) -> None:
        project, forced = self.files(), self.oracle.revisions.forced

        def claimed(epoch: int) -> None:
            process.epoch = epoch

        try:
            cluster = Cluster(SimLauncher(self), self.network.transport)
            self.boards[process] = board = StatusBoard(process.name)
            pipeline = Pipeline(self._spec(project, workers_now), cluster, requests, board, planners=PLANNERS)
            pipeline.run(
                goal=Goal.READ_AVAILABLE if available_now else Goal.SERVE, expect_epoch=expect, claimed=claimed
            )
            self.ended[process] = None
            self.tell("ended")
        except PASSING as fault:
            self._ended_by(process, fault)
        except BrokerRefused as fault:
            if "one after the other" not in str(fault):
                raise
            self._ended_by(process, fault)
        except CircuitChanged as fault:
            is_same = project[1:] == (self.oracle.revisions.in_force or project)[1:]
            if is_same and forced == self.oracle.revisions.forced:
                raise  # no other project was in force meanwhile
            self._ended_by(process, fault)
        except DatabaseMissing as fault:
            if len(self.hosts) == 1:
                raise
            self._ended_by(process, fault)
        except StoreUnreachable as fault:
            if self.is_draining:
                raise
            self._ended_by(process, fault)
        finally:
            self.runs.pop(process, None)
            if process.alive:
                self.end(process)

    def _ended_by(self, process: Process, fault: Exception) -> None:
        self.ended[process] = fault
        self.count(f"ended by {type(fault).__name__}")
        self.tell(f"ended by {type(fault).__name__}: {str(fault)[:300]}")

    def files(self) -> circuit.Project:
        """The project that they define: the one in force, perhaps with another name of a view."""
        project = self.oracle.revisions.in_force or circuit.PROJECTS[0]
        return project._replace(name=circuit.OTHER_NAME if self.is_renamed else circuit.SUMS)

    def _spec(self, project: circuit.Project, workers_now: int | None) -> PipelineSpec:
        weather = self.weather
        return PipelineSpec(
            name="p",
            storage=self.disk.path("state"),  # type: ignore[arg-type]
            circuit=project.circuit,
            inputs=tuple(InputTopic(circuit.SOURCES[topic], "earliest", "fail", None) for topic in project.inputs),
            outputs=tuple(OutputTopic(topic, topic, circuit.PARTITIONS[topic], False) for topic in project.outputs),
            kafka=self._kafka,
            limits=StepLimits(rows_max=weather.rows, bytes_max=weather.step_bytes, message_bytes=1),
            workers=weather.workers,
            workers_now=workers_now,
            shards=4,
            checkpoint_interval_s=weather.checkpoint_s,
            steps_kept=1,
            drain_rows_max=DRAIN_ROWS,
            pace=Pace(GROWTH_SECONDS, weather.snapshot_steps, weather.snapshot_steps),
            register_s=weather.register_s,
            shrink_after_s=weather.shrink_after_s,
            silence_s=weather.silence_s,
            progress_s=weather.progress_s,
            on_cluster=len(self.hosts) > 1,
            store=None
            if weather.store is None
            else StoreSettings(StorePlace(ROOT, lambda uri: self.store), weather.lag_s, weather.store),
        )

    def free_hosts(self) -> list[str]:
        """Those to which a task can come now. In local mode there are more slots than anybody needs."""
        tasks = [p for p in self.processes if p.alive and p.owner is not None and not p.is_companion]
        busy = Counter(process.host for process in tasks)
        slots = self.weather.slots if len(self.hosts) > 1 and self.now < self._slots_come_at else 1 << 10
        return [host for host in self.hosts if host not in self.away and busy[host] < slots]

    def folder_of(self, host: str) -> Path | None:
        """What STEPWELL_LOCAL_DIR is there."""
        return self.disk.path(host) if len(self.hosts) > 1 else None  # type: ignore[return-value]

    def bound(self, made: Crew) -> None:
        """A coordinator is about to give numbers to tasks."""
        reported: dict[int, set[str]] = {}
        for candidate in made.recruiting.candidates:
            for found in candidate.databases or ():
                if found.identity is not None:
                    reported.setdefault(found.worker, set()).add(candidate.registered.host)
        self.oracle.layouts.reported[made.term] = reported
        if self.oracle.store is not None:
            self.oracle.store.attempt()
        if any(len(hosts) > 1 for hosts in reported.values()):
            self.count("two hosts hold a database of one number")
        if made.placement is None and len(made.recruiting.candidates) > made.recruiting._tasks:
            self.count("more tasks than workers")

    def gave(self, term: Term, slots: SlotSet) -> None:
        """A coordinator has made a cut."""
        self.count("cut")
        self.oracle.layouts.gave((term.epoch, term.attempt), slots.ranges)

    # What befalls them

    def _interfere(self, place: str) -> None:
        kinds = {kind: weight for kind, weight in self.weather.weights.items() if self.faults or kind in BENIGN}
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        _EVENTS[kind](self)

    def _idle(self) -> bool:
        """Nothing can run: something has to happen, or time passes."""
        if self.faults and not self.runs and self.scheduler.points < self.weather.points:
            self.start()
            return True
        if self.rng.random() < 0.5:
            return False
        before = len(self.story.lines)
        self._interfere("idle")
        return len(self.story.lines) > before

    def _marker(self) -> None:
        undone = self.broker.undone()
        if undone:
            transaction = self.rng.choice(undone)
            self.broker.mark_one(transaction, self.rng.randrange(len(transaction.unmarked)))
            self.tell(f"a marker of {transaction.transactional_id}, {len(transaction.unmarked)} to come")

    def _deliver_one(self) -> None:
        if self.broker.under_way:
            self._deliver(self.rng.choice(self.broker.under_way))

    def _deliver(self, request: Request) -> None:
        if request not in self.broker.under_way:
            return
        self.broker.under_way.remove(request)
        try:
            request.arrive()
        except Refused:
            self.count("a late request is refused")
            self.tell(f"too late: {request.what}")
            return
        self.count("a late request is obeyed")
        self.tell(f"late: {request.what}")

    def _request(self) -> None:
        if self.runs:
            process = self.rng.choice(list(self.runs))
            what = self.rng.choice(("checkpoint", "checkpoint", "pause", "resume", "resume", "stop"))
            if what == "stop" and next(self._stops) % 2:
                what = "hand-over"
            self.tell(f"{process.name} is asked: {what}")
            self.count(f"asked: {what}")
            self.runs[process].ask(what)

    def _layout(self) -> None:
        """A user asks for another layout, or for another end of the change under way."""
        if self.runs:
            process = self.rng.choice(list(self.runs))
            mode: RescaleMode = self.rng.choice(("cold", "live", "live", "live"))
            protocol: CutProtocol = "batches"
            if mode == "live" and self.rng.random() < PROTOCOL_CHANCE:
                protocol = self.rng.choice(("damion", "icadd"))
            budget_bytes = self.rng.choice(BUDGETS) if mode == "live" else None
            policy = self.rng.choice(POLICIES)
            request: LayoutRequest = RescaleRequest(
                self.rng.choice(SIZES), MoveStrategy(mode, protocol, budget_bytes), policy
            )
            if len(self.hosts) > 1 and self.rng.random() < REPLACED_CHANCE:
                request = ReplaceRequest(self.rng.choice(self.hosts))
            if self.oracle.layouts.changing:
                if self.rng.random() < UNDISTURBED_CHANCE:
                    return
                request = self.rng.choice(
                    (PauseRequest(True), PauseRequest(False), TurnRequest("reverse"), TurnRequest("abort"))
                )
            self.tell(f"{process.name} is asked: {request}")
            self.count(f"asked: {type(request).__name__}")
            self.runs[process].layout.put(request)

    def _revision(self) -> None:
        """A user asks for another project, or for something of the transition under way."""
        if not self.runs:
            return
        holder, known = self.oracle.claims.holder, self.oracle.revisions
        process = (
            holder if holder in self.runs and self.rng.random() < HOLDER_CHANCE else self.rng.choice(list(self.runs))
        )
        project = self.rng.choice(circuit.PROJECTS)
        if known.in_force is not None:
            project = project._replace(name=known.in_force.name)
        draw = self.rng.random()
        chosen = Chosen(
            gradual=draw * 1e6 % 1 < GRADUAL_CHANCE
        )  # it needs no draw of its own, which would change the histories of all seeds
        request: RevisionRequest = ApplyRequest(self._spec(project, None), hold=draw < HOLD_CHANCE, chosen=chosen)
        if known.phase is not None:
            if not known.waits and self.rng.random() < UNDISTURBED_CHANCE:
                return
            request = self._turn()
        told = request.what if isinstance(request, TurnTransition) else "another project"
        self.tell(f"{process.name} is asked: {told}")
        self.count(f"asked: {told}")
        self.runs[process].revision.put(request)

    def _turn(self) -> TurnTransition:
        return TurnTransition(self.rng.choice(TURNS_OF_WAITING if self.oracle.revisions.waits else TURNS))

    def _kill(self) -> None:
        living = [process for process in self.runs if process.alive]
        if living:
            self.count("coordinator killed")
            self.kill(self.rng.choice(living), "anywhere")

    def _kill_worker(self) -> None:
        living = [process for process in self.processes if process.alive and process.owner is not None]
        if living:
            self.count("worker killed")
            self.kill(self.rng.choice(living), "anywhere")

    def end(self, process: Process) -> None:
        """The process is over, and the kernel closes its connections."""
        process.alive = False
        self.network.ended(process)
        for companion in process.companions:
            if companion.alive:
                self.kill(companion, "with its task")

    def kill(self, process: Process, why: str) -> None:
        self.tell(f"{process.name} is killed: {why}")
        self.end(process)
        if process in self.runs:
            self.runs.pop(process, None)

    def _crash_machine(self) -> None:
        if self.rng.random() < 0.5:
            return
        host = self.rng.choice(self.hosts)
        self.count("machine crashed")
        self.tell(f"{host} crashes")
        for process in self.processes:
            if process.alive and process.host == host:
                self.kill(process, "with its machine")
        self.disk.crash(host, self.rng)
        if len(self.hosts) > 1 and self.rng.random() < 0.5:
            self._host_leaves(host)
        self.scheduler.judged(self.oracle.databases.check_shared, self.disk)

    @property
    def _can_lose(self) -> bool:
        """Whether the log says that a lost database can be restored."""
        return self.oracle.store is not None and self.oracle.store.can_restore

    def _lose_disks(self) -> None:
        """A machine is gone for good, or all are, and another one has its name. Rarely an old disk comes back in place of the present one."""
        if not self._can_lose:
            return
        hosts = self.hosts if self.rng.random() < 0.3 else (self.rng.choice(self.hosts),)
        for host in hosts:
            old = self._lost[host]
            back = old.pop(self.rng.randrange(len(old))) if old and self.rng.random() < STALE_CHANCE else None
            self.lose_disk(host, back)
            if len(self.hosts) > 1 and self.rng.random() < 0.3:
                self._host_leaves(host)

    def lose_disk(self, host: str, back: dict[str, Folder] | None = None) -> None:
        """`back`: the disk that takes its place; without it that is an empty one."""
        self.count("disk lost" if back is None else "old disk came back")
        self.tell(f"{host} loses its disk" if back is None else f"{host} gets an old disk back")
        for process in self.processes:
            if process.alive and process.host == host:
                self.kill(process, "with its machine")
        for name in self.disk.parts[host]:
            self.oracle.databases.gone(self.disk, (name,))
        gone = self.disk.lose(host, back)
        for folder in gone.values():
            folder.crash(self.rng)
        self._lost[host].append(gone)

    def _lose_databases(self) -> None:
        """Databases are deleted under the workers that have them open."""
        if not self._can_lose:
            return
        places = sorted({place[:-1] for place, _ in databases(self.disk)})
        if not places:
            return
        count = self.rng.choice((1, 1, len(places)))
        for place in self.rng.sample(places, count):
            self.lose_database(place)

    def lose_database(self, place: tuple[str, ...]) -> None:
        self.count("database deleted")
        self.tell(f"{'/'.join(place)} is deleted")
        self.oracle.databases.gone(self.disk, place)
        self.disk.delete(place)

    def _make_store_unreachable(self) -> None:
        if self.oracle.store is None or self.store.is_away:
            return
        self.count("store away")
        self.tell("the store is away")
        self.store.is_away = True

        def come_back() -> None:
            self.store.is_away = False
            self.tell("the store is back")

        self.alarm(self.rng.choice((30, 100, 300, 900)), come_back)

    def _backup(self) -> None:
        """Somebody makes a backup of what is stored, beside the runs, or deletes one."""
        known = self.oracle.store
        if known is None or known.plain is None or known.stored is None:
            return
        record, version, name = known.plain, known.stored, f"b{self._pids}"
        process = self.process(f"backup {name}")
        process.host = DRIVER
        self.processes.append(process)
        self.count("backup")

        def make() -> None:
            try:
                backups.create(self.store, "p", name, CheckpointStored.model_validate_json(json.dumps(record)))
            except StoreFault as fault:
                self.tell(f"the backup {name} is not made: {fault}")
            else:
                self.tell(f"the backup {name} is made")
                self.scheduler.judged(known.keep, name, record["manifest"], record["digest"], version)
            self.end(process)

        self.spawn(process.name, process, make)

    def _lose_executor(self) -> None:
        """An executor is lost, and its host gets no new one for a while. Its processes may live on."""
        if len(self.hosts) == 1 or self.rng.random() < 0.5:
            return
        host = self.rng.choice(self.hosts)
        if self.rng.random() < 0.7:
            for process in self.processes:
                if process.alive and process.host == host and process.owner is not None:
                    self.kill(process, "with its executor")
        self._host_leaves(host)

    def _host_leaves(self, host: str) -> None:
        self.count("host away")
        self.tell(f"{host} is away")
        self.away.add(host)
        self.alarm(self.rng.choice((50, 200, 500, 1500)), lambda: self.away.discard(host))

    def stop(self, process: Process, why: str) -> None:
        if not self.faults:
            return
        process.stopped = True
        self.tell(f"{process.name} is stopped: {why}")

    def wake_later(self, process: Process) -> None:
        """A sleeper goes on beside its replacement, or some steps later."""

        def wake() -> None:
            if process.alive and process.stopped:
                self.resume(process)

        self.alarm(self.rng.choice((0, 10, 40, 80, 120, 200, 400)), wake)

    def send_late(self, request: Request) -> None:
        """It may arrive while the next transaction is open."""
        self.broker.under_way.append(request)
        self.alarm(self.rng.choice((4, 8, 16, 24, 32, 48, 64, 96, 200)), lambda: self._deliver(request))

    def alarm(self, points: int, action: Callable[[], None]) -> None:
        self._alarms.append((self.scheduler.points + points, action))

    def _ring(self) -> None:
        due = [action for at, action in self._alarms if at <= self.scheduler.points]
        if due:
            self._alarms = [alarm for alarm in self._alarms if alarm[0] > self.scheduler.points]
            for action in due:
                self.scheduler.judged(action)

    def _stop(self) -> None:
        running = [process for process in self.processes if process.alive and not process.stopped]
        if running:
            process = self.rng.choice(running)
            self.count("worker stopped" if process.owner is not None else "coordinator stopped")
            self.stop(process, "anywhere")
            if process.owner is None and self.rng.random() < 0.8:
                self._start_second_run()
            if self.rng.random() < 0.7:
                self.wake_later(process)

    def _resume_one(self) -> None:
        stopped = [process for process in self.processes if process.alive and process.stopped]
        if stopped:
            self.resume(self.rng.choice(stopped))

    def resume(self, process: Process) -> None:
        process.stopped = False
        self.tell(f"{process.name} goes on")
        if process.owner is not None and (process.is_given_up or not process.owner.alive):
            self.count("a worker that was given up goes on")
        if process.epoch < self.oracle.claims.epoch:
            self.count("zombie goes on")

    def _start_second_run(self) -> None:
        if len(self.runs) < 3:
            self.count("second coordinator")
            self.start()

    def _time_out(self) -> None:
        names = [name for name in self.broker.producers if name.startswith("stepwell")]
        if names and self.broker.time_out(names[0]):
            self.count("transaction timed out")
            self.tell("the broker aborts the open transaction: it timed out")


_EVENTS: dict[str, Callable[[World], None]] = {
    "input": lambda world: world._producers.send(),
    "marker": World._marker,
    "arrive": World._deliver_one,
    "request": World._request,
    "layout": World._layout,
    "revision": World._revision,
    "grow": lambda world: world._producers.grow(),
    "expire": lambda world: world._producers.expire(world.oracle.needless),
    "resume": World._resume_one,
    "kill": World._kill,
    "kill a worker": World._kill_worker,
    "machine": World._crash_machine,
    "stop": World._stop,
    "second": World._start_second_run,
    "time out": World._time_out,
    "away": World._lose_executor,
    "lose a disk": World._lose_disks,
    "lose databases": World._lose_databases,
    "store away": World._make_store_unreachable,
    "backup": World._backup,
}


class _Requests(Requests):
    """Waits in the world's time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, seconds: float) -> bool:
        return self._world.wait_for(self._event.is_set, seconds)
