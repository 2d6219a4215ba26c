"""The workers of one term, as the coordinator sees them: it starts them, gives them orders, and takes their answers.

    launch -> wait_for_candidates -> bind -> [remove, create] -> fence -> open -> join -> give, collect | freeze | begin_fold, folded | pause ...
    -> stop; close in any case

    recruit -> recruits -> admit -> enter -> join          while steps run: workers that a change of the layout adds
    give_slots -> place                                    at a drained boundary: slots with their state go from one worker to another
    join -> leave                                          workers that own nothing any more

A task that has registered is a *candidate*. It becomes a worker only when enough candidates are there, because the coordinator gives the numbers
by the databases that the candidates' hosts hold (coordinator/binding.py).

Guarantees: a crew belongs to one term and is thrown away at its first loss, which is a worker that died, hangs or contradicts itself; then
TaskLost is raised. What a worker of another term sends is rejected. roster.py says how workers are watched.

One thread uses it. Threads of its own only send pings (pulse.py) and wait for Spark's jobs (spark_launcher.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from base.slots import SlotSet
from base.term import Term
from base.version import VersionId
from engine.errors import TaskLost
from engine.model.placement import Placement
from engine.resident import faults
from engine.resident.entry import Assignment
from engine.resident.frames import Buffer
from engine.resident.launcher import Job, Launcher
from engine.resident.liveness import Limits
from engine.resident.messages import (
    Contents,
    Copied,
    Copy,
    Create,
    Created,
    Enter,
    Entered,
    Failed,
    Fence,
    Fenced,
    Fold,
    Folded,
    Freeze,
    Frozen,
    Given,
    GiveSlots,
    Hurry,
    Join,
    Joined,
    Leave,
    Left,
    NewDatabase,
    Open,
    Opened,
    Order,
    Pause,
    Paused,
    Place,
    Read,
    Register,
    Released,
    ReleaseSlots,
    Remove,
    Removed,
    Resume,
    Resumed,
    RunStep,
    StepAbandoned,
    StepDone,
    Stop,
    Stopped,
    Taken,
    TakeSlots,
    Unstage,
    Unstaged,
    Weigh,
    Weighed,
    Welcome,
)
from engine.resident.pulse import CoordinatorPulse
from engine.resident.registration import ENOUGH, Candidate, Registration
from engine.resident.roster import POLL_SECONDS, A, Roster, taken_as
from engine.resident.start_faults import NoSlots
from engine.resident.transport import Connection, Event, Events, Transport
from engine.run.tasks import StepInput, TaskSetup
from io_kafka.errors import StepTooLarge
from storage.database import FencedState
from storage.identity import Identity
from storage.transaction import CutNumber

_log = structlog.get_logger("engine.resident.crew")

FAILURE_CHARACTERS_MAX = 2000
"""Of the text about a failed job. Spark's has the stack traces of the JVM."""

STEP = "run_step"
"""The kind of order that a step's answers belong to."""

SPARES_MAX = 64
"""Candidates beyond the number of workers. Each occupies a task slot and some 60 MB until the numbers are given."""

EXTRA_SECONDS = 1.0
"""Between two additional tasks, after the first ones: as many as there are workers come as fast as they register. Spark may go on placing tasks
where they do not help, so the later ones only wait for a host that comes back."""


@dataclass(frozen=True)
class WorkerOutput:
    """What one worker made of a step. `buffers`: see StepDone."""

    worker: int
    done: StepDone
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class Room:
    """What a worker has said last of its state and of the disk under it, in bytes. `host`: names the folder of its host."""

    host: str
    state_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class CrewLimits:
    """`register_s`: how long it may take until tasks have registered for all workers, in seconds. `liveness`: see liveness.py."""

    register_s: float
    liveness: Limits


class Crew:
    """`tasks`: how many tasks the start needs."""

    def __init__(
        self, setup: TaskSetup, tasks: int, term: Term, launcher: Launcher, transport: Transport, limits: CrewLimits
    ) -> None:
        self.setup, self.term = setup, term
        self.placement: Placement | None = None
        """None until the workers have joined each other."""
        self._tasks = tasks
        self._outside = setup.kafka.outside
        self._launcher, self._transport, self._limits = launcher, transport, limits
        self._token = secrets.token_hex(16)
        self._jobs: list[Job] = []
        self._registration = Registration(term, self._token, self._outside.monotonic)
        self._register_until = 0.0
        self._roster = Roster(
            term, Events(transport), limits.liveness, self._outside, self._take_stranger, self._expire_strangers
        )
        self._seniority: list[int] = []
        self.rooms: dict[int, Room] = {}
        """By worker: since its database was opened, and since each checkpoint."""
        self._given_at: float | None = None
        self._serial = -1
        self._paused = False
        self._pulse = CoordinatorPulse(self._connections, term, self._outside)

    def _connections(self) -> list[Connection]:
        """Of all workers and candidates; another thread asks."""
        return [member.connection for member in list(self._roster.members.values())] + self._registration.connections

    def _take_stranger(self, event: Event) -> None:
        self._registration.take(event)

    def _expire_strangers(self) -> None:
        self._registration.expire()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the workers, ascending: those that have joined each other, and before that those that are bound."""
        return self.placement.workers if self.placement is not None else tuple(sorted(self._roster.members))

    @property
    def members(self) -> dict[int, Register]:
        """What the workers have said of themselves, in the order of their numbers."""
        return {number: self._roster.members[number].registered for number in sorted(self._roster.members)}

    # From the start to the first step

    def launch(self) -> None:
        """Starts the workers' jobs. Raises NoSlots if it is known that there are too few task slots."""
        slots = self._launcher.slots
        if slots is not None and slots < self._tasks:
            raise NoSlots(self._tasks, 0, slots, 0.0)
        if slots == self._tasks and self.term.attempt == 0:
            _log.warning(
                "the workers take all task slots of Spark",
                slots=slots,
                what_to_do="a worker that replaces a lost one may have to wait, and a change of the layout finds none: give Spark at least one "
                "more (spark.master), or run with fewer workers",
            )
        for _ in range(self._tasks):
            self._start_task()
        self._pulse.start()

    def _start_task(self) -> None:
        looks = self.setup.place.on_cluster or not self._jobs
        silence_s = self._limits.liveness.silence_s
        self._jobs.append(
            self._launcher.start(
                Assignment(self.setup, self.term, self._transport.address, self._token, silence_s, looks)
            )
        )

    @property
    def candidates(self) -> list[Candidate]:
        """Those that have told what their hosts hold, in the order of their registration."""
        return self._registration.candidates

    def wait_for_candidates(self) -> None:
        """Waits until there are as many candidates as the start needs. Raises NoSlots or TaskLost."""
        self._register_until = self._outside.monotonic() + self._limits.register_s
        if not self._wait_for_count(self._tasks):
            raise NoSlots(self._tasks, len(self.candidates), self._launcher.slots_now(), self._limits.register_s)

    def wait_for_another(self) -> bool:
        """Starts one task more, and waits until it is a candidate. Returns False if it did not register before the deadline of all, or if there
        are SPARES_MAX already. Raises TaskLost."""
        count = len(self.candidates)
        if count >= self._tasks + SPARES_MAX:
            return False
        if count >= 2 * self._tasks:
            self._wait_for_count(count + 1, self._outside.monotonic() + EXTRA_SECONDS)  # a late one may come
        self._start_task()
        return self._wait_for_count(count + 1)

    def _wait_for_count(self, count: int, until: float | None = None) -> bool:
        """Whether there are so many candidates before the deadline."""
        deadline = self._register_until if until is None else min(until, self._register_until)
        while len(self.candidates) < count:
            left = deadline - self._outside.monotonic()
            if left <= 0:
                return False
            self._check_jobs()
            self._roster.poll(min(POLL_SECONDS, left))
        return True

    def _check_jobs(self) -> None:
        for job in self._jobs:
            if job.failure is not None:
                text = str(job.failure)[:FAILURE_CHARACTERS_MAX] or type(job.failure).__name__
                raise TaskLost(
                    f"the Spark job of a worker ended before all workers had registered: {text}"
                ) from job.failure

    def bind(self, workers: Mapping[int, int], databases: Mapping[int, tuple[str, str]]) -> None:
        """Makes candidates workers: from each worker's number to the candidate's serial number. All other candidates are sent away. `databases`:
        the birth of each worker, and the uuid of its database."""
        assert workers.keys() == databases.keys() and len(set(workers.values())) == len(workers), f"{workers}"
        by_serial = {candidate.serial: candidate for candidate in self._registration.end()}
        for number in sorted(workers):
            candidate = by_serial.pop(workers[number])
            registered = candidate.registered
            self._roster.add(number, candidate.connection, registered)
            self._seniority.append(number)
            self._roster.send(number, Welcome(worker=number, birth=databases[number][0], database=databases[number][1]))
            _log.info("worker bound", worker=number, pid=registered.pid, host=registered.host, term=str(self.term))
        for spare in by_serial.values():
            self._registration.refuse(spare.connection, ENOUGH)

    def remove(self, databases: Mapping[int, Sequence[tuple[int, str, Identity | None]]]) -> None:
        """Has some workers remove databases from their hosts that no run will open again."""
        orders = {number: Remove(databases=tuple(found)) for number, found in databases.items()}
        for number, answer in self._roster.ask_each(orders, Removed).items():
            _log.info("databases removed that nobody needs", by=number, of_workers=list(answer.workers))

    def create(self, databases: Mapping[int, NewDatabase]) -> None:
        """Has these workers create their databases."""
        for number in self._roster.ask_each({n: Create(new=new) for n, new in databases.items()}, Created):
            registered = self._roster.members[number].registered
            _log.info("database created", worker=number, host=registered.host, folder=registered.folder)

    def fence(self, numbers: Iterable[int] | None = None) -> dict[int, FencedState]:
        """Fences the databases of these workers, or of all: no older run can change them from now on. Returns what each of them can open."""
        asked = self.numbers if numbers is None else tuple(numbers)
        found = self._roster.ask_each(dict.fromkeys(asked, Fence()), Fenced)
        return {number: FencedState(answer.versions, answer.number) for number, answer in found.items()}

    def open(self, version: VersionId, fenced: Mapping[int, FencedState]) -> dict[int, SlotSet]:
        """The databases that were fenced open `version`, durably, and discard the other one. Returns the slots that each of them owns."""
        orders = {number: Open(version=version, fenced=fenced[number].number) for number in sorted(fenced)}
        answers = self._roster.ask_each(orders, Opened)
        for number, answer in answers.items():
            self._note_room(number, answer.state_bytes, answer.free_bytes)
        return {number: answer.owned for number, answer in answers.items()}

    def _note_room(self, number: int, state_bytes: int, free_bytes: int) -> None:
        self.rooms[number] = Room(self._roster.members[number].registered.folder_name, state_bytes, free_bytes)

    def join(self, placement: Placement) -> None:
        """Connects the workers of the placement to each other, and makes it that of the next step. Those that are connected stay so."""
        placement.check()
        self.placement = placement
        self._seniority = [number for number in self._seniority if number in placement.owned]
        members = tuple((number, self._roster.members[number].registered.address) for number in self._seniority)
        self._ask(Join(members=members, placement=placement), Joined)

    # Steps

    def give(self, given: StepInput) -> None:
        """Gives a step to all workers. `collect` takes its results; at most one step is under way."""
        assert self._given_at is None, f"step {given.step} is given before the step before was collected"
        assert self.placement is not None, "a step before the workers have joined each other"
        if self._paused:
            self._ask(Resume(), Resumed)
            self._paused = False
        self._given_at = self._outside.monotonic()
        self._serial += 1
        self._send_to_all(
            RunStep(
                serial=self._serial,
                placement=self.placement.number,
                step=given.step,
                ranges=given.ranges,
                on_error=dict(given.on_error),
                grown=given.grown,
                bytes_max=given.bytes_max,
                counted=tuple(sorted(given.withholding.nodes)),
                released=tuple(sorted(given.withholding.released)),
            )
        )

    def collect(self, step: int) -> list[WorkerOutput]:
        """The results of the step that was given. Waits until every worker has answered. If several failed, a StepTooLarge goes first, then the
        fault of the lowest worker. Recoverable faults and mistakes are raised as soon as they arrive."""
        assert self._given_at is not None, f"step {step} was not given"
        self._roster.wait_for(STEP, f"step {step}", self.numbers)
        self._given_at = None
        taken = {number: self._take_step(number, step) for number in self.numbers}
        failed = [answer for answer in taken.values() if isinstance(answer, Exception)]
        if failed:
            raise next((fault for fault in failed if isinstance(fault, StepTooLarge)), failed[0])
        outputs = [answer for answer in taken.values() if isinstance(answer, WorkerOutput)]
        if len(outputs) < len(taken):
            raise TaskLost(f"step {step}: workers abandoned it, and none has said why")
        self._roster.took(max(_seconds_of(output.done) for output in outputs))
        return outputs

    def _take_step(self, number: int, step: int) -> WorkerOutput | Exception | None:
        answer, buffers = self._roster.pop(number, STEP)
        match answer:
            case StepDone() if answer.step == step:
                return WorkerOutput(number, answer, buffers)
            case StepAbandoned() if answer.step == step:
                return None
            case Failed(fault=fault):
                return faults.from_wire(fault, number)
        raise TaskLost(f"worker {number} answered step {step} with {answer}")

    # Checkpoints

    def freeze(self, version: VersionId, in_error: Collection[str] | None) -> None:
        """Sets every worker's changes since the last version aside as `version`. Called at a drained boundary. `in_error`: the views that have
        no answer in the version; None if they are those of the version before."""
        views = None if in_error is None else tuple(sorted(in_error))
        self._ask(Freeze(version=version, in_error=views), Frozen)

    def hurry(self) -> None:
        """Something waits for the fold under way."""
        self._send_to_all(Hurry())

    def begin_fold(self, *, may_rewrite: bool) -> None:
        """Makes the frozen changes durable, beside the steps. `folded` tells when it is over. `may_rewrite`: whether files that are mostly free
        may be rewritten."""
        self._roster.begin("fold", dict.fromkeys(self.numbers, Fold(may_rewrite=may_rewrite)))

    def folded(self) -> dict[int, Folded] | None:
        """The answers to `begin_fold`; None until all workers have answered. Raises the fault of a fold that failed, without waiting for the
        others."""
        self.check()
        self._roster.raise_failures("fold")
        answers = self._ended("fold", Folded)
        for number, answer in (answers or {}).items():
            self._note_room(number, sum(answer.table_bytes.values()), answer.free_bytes)
        return answers

    @property
    def folding(self) -> list[int]:
        """The workers that have not answered `begin_fold`."""
        return self._roster.unanswered("fold")

    # Views

    def begin_read(self, views: Sequence[str]) -> None:
        """Has every worker read the views, beside the steps. `contents` tells when that is over."""
        self._roster.begin("read", dict.fromkeys(self.numbers, Read(views=tuple(views))))

    def contents(self) -> dict[int, tuple[Contents, tuple[Buffer, ...]]] | None:
        """The answers to `begin_read`; None until all workers have answered. Raises the fault of the lowest worker that had one."""
        self.check()
        answers = self._roster.ended("read")
        if answers is None:
            return None
        found: dict[int, tuple[Contents, tuple[Buffer, ...]]] = {}
        for number, (answer, buffers) in answers.items():
            match answer:
                case Contents():
                    found[number] = answer, buffers
                case Failed(fault=fault):
                    raise faults.from_wire(fault, number)
                case _:
                    raise TaskLost(f"worker {number} answered read with {answer.kind}")
        return found

    # Changes of the layout

    def recruit(self, count: int) -> None:
        """Starts so many tasks that are to become workers. `candidates` has those that are ready."""
        self._registration = Registration(self.term, self._token, self._outside.monotonic)
        for _ in range(count):
            self._start_task()

    def dismiss(self) -> None:
        """Sends the recruits away: no worker is needed."""
        for candidate in self._registration.end():
            self._registration.refuse(candidate.connection, ENOUGH)

    def admit(self, workers: Mapping[int, int], databases: Mapping[int, tuple[str, str]], new: NewDatabase) -> None:
        """Makes recruits workers, with databases that are created and opened at `new.base`. They take part when they have joined."""
        self.bind(workers, databases)
        self.create(dict.fromkeys(sorted(workers), new))
        self.open(new.base, self.fence(sorted(workers)))

    def enter(self, numbers: Iterable[int], step: int) -> None:
        """The databases of these workers, which have no state, take their place before the step."""
        self._roster.ask_each(dict.fromkeys(sorted(numbers), Enter(step=step)), Entered)

    def begin_weighing(self, slots: Mapping[int, SlotSet], heavy_bytes: int) -> None:
        """Has workers estimate the bytes of some of their slots, beside the steps. `weighed` tells when that is over."""
        orders = {number: Weigh(slots=its, heavy_bytes=heavy_bytes) for number, its in slots.items()}
        self._roster.begin("weigh", orders)

    def weighed(self) -> tuple[int, SlotSet] | None:
        """The bytes of all slots that `begin_weighing` named, and those slots that each have more than `heavy_bytes`; None until all workers
        have answered. Raises the fault of a worker."""
        self.check()
        self._roster.raise_failures("weigh")
        answers = self._ended("weigh", Weighed)
        if answers is None:
            return None
        heavy = SlotSet.of(span for answer in answers.values() for span in answer.heavy.ranges)
        return sum(answer.total_bytes for answer in answers.values()), heavy

    def begin_copying(self, orders: Mapping[int, tuple[SlotSet, int]], bytes_max: int) -> None:
        """Has workers send copies of slots to others, beside the steps: from each source to (its slots, the destination), so many bytes more.
        `copied` tells when that is over."""
        self._roster.begin(
            "copy", {source: Copy(slots=slots, to=to, bytes_max=bytes_max) for source, (slots, to) in orders.items()}
        )

    def copied(self) -> dict[int, Copied] | None:
        """What each source has copied; None until all have answered. Raises the fault of a worker."""
        self.check()
        self._roster.raise_failures("copy")
        return self._ended("copy", Copied)

    def unstage(self) -> None:
        """All workers discard what was copied and has not moved. No copying is under way."""
        self._ask(Unstage(), Unstaged)

    def give_slots(
        self, number: CutNumber, slots: SlotSet, source: int, destination: int, bytes_max: int
    ) -> tuple[SlotSet, int]:
        """A cut: some of the slots, with their state, go from one worker to the other. Returns which ones, and the bytes of their state. At a
        drained boundary."""
        assert self.placement is not None
        self._roster.send(destination, TakeSlots(number=number, giver=source))
        give = GiveSlots(number=number, slots=slots, to=destination, bytes_max=bytes_max)
        given = self._roster.ask_each({source: give}, Given)[source]
        self._roster.wait_for("take_slots", "a cut", [destination])
        self._roster.raise_failure(destination, "take_slots")
        taken = self._roster.taken(destination, "take_slots", Taken)
        if taken.slots != given.slots:
            raise TaskLost(f"worker {source} gave {given.slots}, and worker {destination} took {taken.slots}")
        if not given.slots.is_within(slots):
            raise TaskLost(f"worker {source} gave {given.slots}, and was to give some of {slots}")
        self._roster.ask_each({source: ReleaseSlots(number=number, slots=given.slots)}, Released)
        self.placement = self.placement.with_moved(given.slots, source, destination)
        self._send_to_all(Place(placement=self.placement))
        return given.slots, given.moved_bytes

    def leave(self, numbers: Iterable[int]) -> None:
        """These workers, which have joined nobody, remove their databases and end."""
        for number in self._roster.ask_each(dict.fromkeys(sorted(numbers), Leave()), Left):
            self._roster.remove(number)
            del self.rooms[number]

    # The end of a step, and of all

    def pause(self, step: int) -> None:
        """Every worker stands before `step` and runs none until the next one is given. Raises TaskLost if one stands elsewhere."""
        if self._paused:
            return
        steps = {number: answer.step for number, answer in self._ask(Pause(), Paused).items()}
        if set(steps.values()) != {step}:
            raise TaskLost(f"the workers should stand before step {step}; they stand before {steps}")
        self._paused = True

    def stop(self, step: int) -> None:
        """Every worker ends before `step`, and so do their jobs."""
        self._ask(Stop(step=step), Stopped)

    def close(self) -> None:
        """Ends the workers, whatever they do. Does not wait for them: what they may still do is fenced."""
        self._pulse.over = True
        self._transport.close()
        for job in self._jobs:
            job.cancel()

    def check(self) -> None:
        """Takes what has arrived, without waiting. Raises TaskLost if a worker was lost."""
        self._roster.poll(0.0)

    def _ended(self, name: str, kind: type[A]) -> dict[int, A] | None:
        answers = self._roster.ended(name)
        if answers is None:
            return None
        return {number: taken_as(kind, number, name, answer) for number, (answer, _) in answers.items()}

    def _ask(self, order: Order, kind: type[A]) -> dict[int, A]:
        return self._roster.ask_each(dict.fromkeys(self.numbers, order), kind)

    def _send_to_all(self, order: Order) -> None:
        for number in self.numbers:
            self._roster.send(number, order)


def _seconds_of(done: StepDone) -> float:
    """How long a worker took for a step, without what it waited for its peers."""
    return 1e-3 * (done.read_ms + sum(stage.compute_ms + stage.state_ms for stage in done.stages))
