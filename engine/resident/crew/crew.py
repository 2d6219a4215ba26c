"""The workers of one term, as the coordinator sees them: it starts them, gives them orders, and takes their answers.

    launch -> wait_for_candidates -> bind -> [remove, create] -> fence -> open -> join     recruiting.py has the tasks until they are bound
    steps.give, steps.collect | steps.pause                                                steps.py
    checkpoints.freeze, begin_fold, poll_folds                                             checkpoints.py
    slots.begin_weighing, begin_copying, cut                                               slots.py
    store.begin_upload, poll_upload; store.restore in place of create                              store.py
    stop; close in any case

    recruiting.recruit -> admit -> enter -> join          while steps run: workers that a rescale adds
    join -> leave                                          workers that own nothing any more

Guarantees: a crew belongs to one term and is thrown away at its first loss, which is a worker that died, hangs or contradicts itself; then
TaskLost is raised. What a worker of another term sends is dropped. engine/resident/roster.py says how workers are watched.

One thread uses it. Threads of its own only send pings (pulse.py) and wait for Spark's jobs (spark_launcher.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from base.logger import Logger
from base.slots import SlotSet
from base.term import Term
from base.version import VersionId
from engine.model.placement import Placement
from engine.resident.crew.checkpoints import CrewCheckpoints
from engine.resident.crew.programs import CrewPrograms
from engine.resident.crew.recruiting import Recruiting
from engine.resident.crew.slots import CrewSlots
from engine.resident.crew.steps import CrewSteps
from engine.resident.crew.store import CrewStore
from engine.resident.crew.workers import DiskUse, Workers
from engine.resident.entry import Assignment
from engine.resident.launcher import Launcher
from engine.resident.liveness import LivenessLimits
from engine.resident.messages import (
    Create,
    Enter,
    FenceDatabase,
    JoinPeers,
    Leave,
    NewDatabase,
    OpenDatabase,
    Register,
    Remove,
    Stop,
    Welcome,
)
from engine.resident.pulse import CoordinatorPulse
from engine.resident.roster import Roster
from engine.resident.transport import Connection, Event, Events, Transport
from engine.run.task_setup import TaskSetup
from storage.database import FencedState
from storage.identity import NamedDatabase, UnneededDatabase

_log = Logger("engine.resident.crew")


@dataclass(frozen=True)
class CrewLimits:
    """How long a crew waits for its workers. `register_s`: how long it may take until tasks have registered for all workers, in seconds.
    `liveness`: see liveness.py."""

    register_s: float
    liveness: LivenessLimits


class Crew:
    """The workers of one term, as the coordinator sees them. `tasks`: how many tasks the start needs. The other orders are in `recruiting`,
    `steps`, `checkpoints`, `programs`, `slots` and `store`."""

    def __init__(
        self,
        setup: TaskSetup,
        tasks: int,
        term: Term,
        *,
        launcher: Launcher,
        transport: Transport,
        limits: CrewLimits,
    ) -> None:
        self.setup, self.term = setup, term
        self.answers = setup.numbered
        """The circuit of the project whose views have answers; another one than that of `setup` in a transition."""
        outside = setup.kafka.outside
        self._transport = transport
        silence_s = limits.liveness.silence_s
        assignment = Assignment(setup, term, transport.address, secrets.token_hex(16), silence_s=silence_s, looks=False)
        self._roster = Roster(
            term,
            Events(transport),
            limits.liveness,
            outside,
            on_unknown_connection=self._take_unknown,
            on_poll=self._expire_connections,
        )
        self.recruiting = Recruiting(
            tasks, launcher, assignment, register_s=limits.register_s, outside=outside, poll=self._roster.poll
        )
        self._workers = Workers(self._roster)
        self.steps = CrewSteps(self._workers)
        self.checkpoints = CrewCheckpoints(self._workers)
        self.slots = CrewSlots(self._workers)
        self.store = CrewStore(self._workers)
        self.programs = CrewPrograms(self._workers, setup.revision)
        self._seniority: list[int] = []
        self._pulse = CoordinatorPulse(self._connections, term, outside)

    def _connections(self) -> list[Connection]:
        """Returns the connections of all workers and candidates. Another thread asks for them."""
        return [member.connection for member in list(self._roster.members.values())] + self.recruiting.connections

    def _take_unknown(self, event: Event) -> None:
        self.recruiting.take(event)

    def _expire_connections(self) -> None:
        self.recruiting.expire()

    @property
    def placement(self) -> Placement | None:
        """None until the workers have joined each other."""
        return self._workers.placement

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the workers, ascending; see Workers."""
        return self._workers.numbers

    @property
    def disk_use(self) -> dict[int, DiskUse]:
        """How much of its disk each worker uses; see Workers."""
        return self._workers.disk_use

    @property
    def members(self) -> dict[int, Register]:
        """What the workers have said of themselves, in the order of their numbers."""
        return {number: self._roster.members[number].registered for number in sorted(self._roster.members)}

    # From the start to the first step

    def launch(self) -> None:
        """Starts the workers' jobs. Raises NoSlots if it is known that there are too few task slots."""
        self.recruiting.launch()
        self._pulse.start()

    def bind(self, workers: Mapping[int, int], databases: Mapping[int, NamedDatabase]) -> None:
        """Makes candidates workers: from each worker's number to the candidate's serial number. All other candidates are sent away."""
        assert workers.keys() == databases.keys() and len(set(workers.values())) == len(workers), f"{workers}"
        by_serial = {candidate.serial: candidate for candidate in self.recruiting.close_registration()}
        for number in sorted(workers):
            candidate = by_serial.pop(workers[number])
            registered = candidate.registered
            self._roster.add(number, candidate.connection, registered)
            self._seniority.append(number)
            birth, uuid = databases[number]
            self._roster.send(number, Welcome(worker=number, birth=birth, database=uuid))
            _log.info("worker bound", worker=number, pid=registered.pid, host=registered.host, term=str(self.term))
        for spare in by_serial.values():
            self.recruiting.send_away(spare)

    def remove(self, databases: Mapping[int, Sequence[UnneededDatabase]]) -> None:
        """Has some workers remove databases from their hosts that no run will open again."""
        orders = {number: Remove(databases=tuple(found)) for number, found in databases.items()}
        for number, answer in self._roster.ask_each(orders).items():
            _log.info("databases removed that nobody needs", by=number, of_workers=list(answer.workers))

    def create(self, databases: Mapping[int, NewDatabase]) -> None:
        """Has these workers create their databases."""
        for number in self._roster.ask_each({n: Create(new=new) for n, new in databases.items()}):
            registered = self._roster.members[number].registered
            _log.info("database created", worker=number, host=registered.host, folder=registered.folder)

    def fence(self, numbers: Iterable[int] | None = None) -> dict[int, FencedState]:
        """Fences the databases of these workers, or of all: no older run can change them from now on. Returns what each of them can open."""
        asked = self.numbers if numbers is None else tuple(numbers)
        found = self._roster.ask_each(dict.fromkeys(asked, FenceDatabase()))
        return {number: FencedState(answer.versions, answer.number) for number, answer in found.items()}

    def open(self, version: VersionId, fenced: Mapping[int, FencedState]) -> dict[int, SlotSet]:
        """The databases that were fenced open `version`, durably, and discard the other one. Returns the slots that each of them owns."""
        orders = {number: OpenDatabase(version=version, fenced=fenced[number].number) for number in sorted(fenced)}
        answers = self._roster.ask_each(orders)
        for number, answer in answers.items():
            self._workers.note_disk_use(number, answer.state_bytes, answer.free_bytes)
        return {number: answer.owned for number, answer in answers.items()}

    def join(self, placement: Placement) -> None:
        """Connects the workers of the placement to each other, and makes it that of the next step. Those that are connected stay so."""
        placement.check()
        self._workers.placement = placement
        self._seniority = [number for number in self._seniority if number in placement.owned]
        members = tuple((number, self._roster.members[number].registered.address) for number in self._seniority)
        self._workers.ask(JoinPeers(members=members, placement=placement))

    # Workers that come and go while steps run

    def admit(self, workers: Mapping[int, int], databases: Mapping[int, NamedDatabase], new: NewDatabase) -> None:
        """Makes recruits workers, with databases that are created and opened at `new.base`. They take part when they have joined."""
        self.bind(workers, databases)
        self.create(dict.fromkeys(sorted(workers), new))
        self.open(new.base, self.fence(sorted(workers)))

    def enter(self, numbers: Iterable[int], step: int) -> None:
        """Sets the empty databases of these workers to `step`."""
        self._roster.ask_each(dict.fromkeys(sorted(numbers), Enter(step=step)))
        self.programs.catch_up(numbers, step)

    def leave(self, numbers: Iterable[int]) -> None:
        """These workers, which the placement no longer has, remove their databases and end."""
        for number in self._roster.ask_each(dict.fromkeys(sorted(numbers), Leave())):
            self._roster.remove(number)
            del self.disk_use[number]

    # The end

    def stop(self, step: int) -> None:
        """Every worker ends before `step`, and so do their jobs."""
        self._workers.ask(Stop(step=step))

    def close(self) -> None:
        """Ends the workers, whatever they do. Does not wait for them: what they may still do is fenced."""
        self._pulse.over = True
        self._transport.close()
        self.recruiting.cancel()

    def check(self) -> None:
        """Receives what has arrived, without waiting. Raises TaskLost if a worker was lost."""
        self._roster.poll(0.0)
