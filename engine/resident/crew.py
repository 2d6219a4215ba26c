"""The workers of one term, as the coordinator sees them: it starts them, gives them orders, and takes their answers.

    launch -> wait_for_candidates -> bind -> [remove, create] -> fence -> open -> give, collect | freeze | begin_fold, folded | pause ... ->
    stop; close in any case

A task that has registered is a *candidate*. It becomes a worker only when enough candidates are there, because the coordinator gives the numbers
by the databases that the candidates' hosts hold (coordinator/binding.py).

Guarantees: a crew belongs to one term and is thrown away at its first loss, which is a worker that died, hangs or contradicts itself; then
TaskLost is raised. Every wait ends, because a worker that does not answer is condemned (liveness.py). What a worker of another term sends is
rejected.

One thread uses it. Threads of its own only send pings (pulse.py) and wait for Spark's jobs (spark_launcher.py).
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from base.term import Term
from base.version import VersionId
from engine.errors import StaleTask, TaskLost
from engine.resident import faults
from engine.resident.entry import Assignment
from engine.resident.frames import Buffer, Frame
from engine.resident.launcher import Job, Launcher
from engine.resident.liveness import Limits, Liveness, Verdict
from engine.resident.messages import (
    Answer,
    Beat,
    Contents,
    Create,
    Created,
    Failed,
    Fence,
    Fenced,
    Fold,
    Folded,
    Freeze,
    Frozen,
    Join,
    Joined,
    Message,
    Open,
    Opened,
    Order,
    Pause,
    Paused,
    Read,
    Register,
    Remove,
    Removed,
    Resume,
    Resumed,
    RunStep,
    StepAbandoned,
    StepDone,
    Stop,
    Stopped,
    Welcome,
)
from engine.resident.pulse import CoordinatorPulse
from engine.resident.registration import ENOUGH, Candidate, Registration
from engine.resident.start_faults import NoSlots
from engine.resident.transport import Arrived, Connection, Ended, Event, Events, Transport
from engine.run.tasks import StepInput, TaskSetup
from io_kafka.errors import StepTooLarge
from storage.database import FencedState
from storage.errors import NotOpen
from storage.identity import Identity

_log = structlog.get_logger("engine.resident.crew")

POLL_SECONDS = 0.5
"""The longest wait of one call, after which heartbeats are judged."""

FAILURE_CHARACTERS_MAX = 2000
"""Of the text about a failed job. Spark's has the stack traces of the JVM."""

STEPS_REMEMBERED = 100
"""Of which the slowest says how long a worker may make no progress."""

RECOVERABLE = (StaleTask, TaskLost, NotOpen)
"""Faults after which a crew is replaced. They are raised as soon as they arrive, for the other workers may wait for ever."""

STEP = "run_step"
"""The kind of order that a step's answers belong to."""

SPARES_MAX = 64
"""Candidates beyond the number of workers. Each occupies a task slot and some 60 MB until the numbers are given."""

EXTRA_SECONDS = 1.0
"""Between two additional tasks, after the first ones: as many as there are workers come as fast as they register. Spark may go on placing tasks
where they do not help, so the later ones only wait for a host that comes back."""

BESIDE = ("fold", "read")
"""The kinds of order that a worker carries out beside the steps."""

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True)
class WorkerOutput:
    """What one worker made of a step. `buffers`: see StepDone."""

    worker: int
    done: StepDone
    buffers: tuple[Buffer, ...]


@dataclass
class _Member:
    """A worker. `answers`: what it has sent and nobody has taken yet, by kind."""

    number: int
    connection: Connection
    registered: Register
    answers: dict[str, tuple[Answer, tuple[Buffer, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class CrewLimits:
    """`register_s`: how long it may take until tasks have registered for all workers, in seconds. `liveness`: see liveness.py."""

    register_s: float
    liveness: Limits


class Crew:
    """As many workers as `setup.placement` has."""

    def __init__(
        self, setup: TaskSetup, term: Term, launcher: Launcher, transport: Transport, limits: CrewLimits
    ) -> None:
        self.setup, self.term = setup, term
        self._outside = setup.kafka.outside
        self._launcher, self._transport, self._limits = launcher, transport, limits
        self._events = Events(transport)
        self._token = secrets.token_hex(16)
        self._liveness = Liveness(limits.liveness)
        self._jobs: list[Job] = []
        self._registration = Registration(term, self._token, self._outside.monotonic)
        self._register_until = 0.0
        self._members: dict[int, _Member] = {}
        self._given_at: float | None = None
        self._serial = -1
        # How long the slowest worker took for each of the last steps.
        self._step_s: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._paused = False
        self._pulse = CoordinatorPulse(self._connections, term, self._outside)

    def _connections(self) -> list[Connection]:
        """Of all workers and candidates; another thread asks."""
        return [member.connection for member in list(self._members.values())] + self._registration.connections

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the workers, ascending."""
        return self.setup.placement.workers

    @property
    def members(self) -> list[Register]:
        """What the workers have said of themselves, in the order of their numbers."""
        return [self._members[number].registered for number in sorted(self._members)]

    # From the start to the first step

    def launch(self) -> None:
        """Starts the workers' jobs. Raises NoSlots if it is known that there are too few task slots."""
        slots = self._launcher.slots
        if slots is not None and slots < len(self.numbers):
            raise NoSlots(len(self.numbers), 0, slots, 0.0)
        for _ in self.numbers:
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
        """Waits until there are as many candidates as workers. Raises NoSlots or TaskLost."""
        self._register_until = self._outside.monotonic() + self._limits.register_s
        if not self._wait_for_count(len(self.numbers)):
            registered, slots = len(self.candidates), self._launcher.slots
            raise NoSlots(len(self.numbers), registered, slots, self._limits.register_s)

    def wait_for_another(self) -> bool:
        """Starts one task more, and waits until it is a candidate. Returns False if it did not register before the deadline of all, or if there
        are SPARES_MAX already. Raises TaskLost."""
        count = len(self.candidates)
        if count >= len(self.numbers) + SPARES_MAX:
            return False
        if count >= 2 * len(self.numbers):
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
            self._poll(min(POLL_SECONDS, left))
        return True

    def bind(self, workers: Mapping[int, int]) -> None:
        """Makes candidates workers: from each worker's number to the candidate's serial number. All other candidates are sent away."""
        assert not self._members, "the workers have their numbers already"
        assert workers.keys() == set(self.numbers) and len(set(workers.values())) == len(workers), f"{workers}"
        by_serial = {candidate.serial: candidate for candidate in self._registration.end()}
        now = self._outside.monotonic()
        for number in self.numbers:
            candidate = by_serial.pop(workers[number])
            registered = candidate.registered
            self._members[number] = _Member(number, candidate.connection, registered)
            self._liveness.heard(number, now, candidate.connection.bytes_arrived())
            candidate.connection.send(Frame(self.term, Welcome(worker=number)))
            _log.info("worker bound", worker=number, pid=registered.pid, host=registered.host, term=str(self.term))
        for spare in by_serial.values():
            self._registration.refuse(spare.connection, ENOUGH)

    def remove(self, databases: Mapping[int, Sequence[tuple[int, Identity | None]]]) -> None:
        """Has some workers remove databases of older generations from their hosts."""
        orders = {number: Remove(databases=tuple(found)) for number, found in databases.items()}
        for number, answer in self._ask_each(orders, Removed).items():
            _log.info("databases of an older generation removed", by=number, of_workers=list(answer.workers))

    def create(self, numbers: Iterable[int]) -> None:
        """Has these workers create their databases."""
        for number in self._ask_each(dict.fromkeys(sorted(numbers), Create()), Created):
            folder = self._members[number].registered.folder
            _log.info("database created", worker=number, host=self._members[number].registered.host, folder=folder)

    def fence(self) -> dict[int, FencedState]:
        """Fences every worker's database: no older run can change it from now on. Returns what each of them can open."""
        found = self._ask(Fence(), Fenced)
        return {number: FencedState(answer.versions, answer.number) for number, answer in found.items()}

    def open(self, version: VersionId, fenced: Mapping[int, FencedState]) -> None:
        """Every database opens `version`, durably, and discards the other one. Then the workers connect to each other."""
        self._ask_each({number: Open(version=version, fenced=fenced[number].number) for number in self.numbers}, Opened)
        self._ask(Join(members={number: self._members[number].registered.address for number in self.numbers}), Joined)

    # Steps

    def give(self, given: StepInput) -> None:
        """Gives a step to all workers. `collect` takes its results; at most one step is under way."""
        assert self._given_at is None, f"step {given.step} is given before the step before was collected"
        if self._paused:
            self._ask(Resume(), Resumed)
            self._paused = False
        self._given_at = self._outside.monotonic()
        self._serial += 1
        self._send_to_all(
            RunStep(
                serial=self._serial,
                step=given.step,
                ranges=given.ranges,
                on_error=dict(given.on_error),
                grown=given.grown,
                bytes_max=given.bytes_max,
            )
        )

    def collect(self, step: int) -> list[WorkerOutput]:
        """The results of the step that was given. Waits until every worker has answered. If several failed, a StepTooLarge goes first, then the
        fault of the lowest worker. Recoverable faults and mistakes are raised as soon as they arrive."""
        assert self._given_at is not None, f"step {step} was not given"
        self._wait_for(STEP, f"step {step}", self.numbers)
        self._given_at = None
        taken = {number: self._take_step(self._members[number], step) for number in self.numbers}
        failed = [answer for answer in taken.values() if isinstance(answer, Exception)]
        if failed:
            raise next((fault for fault in failed if isinstance(fault, StepTooLarge)), failed[0])
        outputs = [answer for answer in taken.values() if isinstance(answer, WorkerOutput)]
        if len(outputs) < len(taken):
            raise TaskLost(f"step {step}: workers abandoned it, and none has said why")
        self._step_s.append(max(_seconds_of(output.done) for output in outputs))
        return outputs

    def _take_step(self, member: _Member, step: int) -> WorkerOutput | Exception | None:
        answer, buffers = member.answers.pop(STEP)
        match answer:
            case StepDone() if answer.step == step:
                return WorkerOutput(member.number, answer, buffers)
            case StepAbandoned() if answer.step == step:
                return None
            case Failed(fault=fault):
                return faults.from_wire(fault, member.number)
        raise TaskLost(f"worker {member.number} answered step {step} with {answer}")

    # Checkpoints

    def freeze(self, version: VersionId) -> None:
        """Sets every worker's changes since the last version aside as `version`. Called at a drained boundary."""
        self._ask(Freeze(version=version), Frozen)

    def begin_fold(self) -> None:
        """Makes the frozen changes durable, beside the steps. `folded` tells when it is over."""
        self._send_to_all(Fold())

    def folded(self) -> dict[int, Folded] | None:
        """The answers to `begin_fold`; None until all workers have answered. Raises the fault of a fold that failed."""
        self.check()
        answers = {number: self._members[number].answers.get("fold") for number in self.numbers}
        for number, answer in answers.items():
            if answer is not None and isinstance(answer[0], Failed):
                raise faults.from_wire(answer[0].fault, number)
        if any(answer is None for answer in answers.values()):
            return None
        return {number: self._taken(number, "fold", Folded) for number in self.numbers}

    @property
    def folding(self) -> list[int]:
        """The workers that have not answered `begin_fold`."""
        return [number for number in self.numbers if "fold" not in self._members[number].answers]

    # Views

    def begin_read(self, views: Sequence[str]) -> None:
        """Has every worker read the views, beside the steps. `contents` tells when that is over."""
        self._send_to_all(Read(views=tuple(views)))

    def contents(self) -> dict[int, tuple[Contents, tuple[Buffer, ...]]] | None:
        """The answers to `begin_read`; None until all workers have answered. Raises the fault of the lowest worker that had one."""
        self.check()
        if any("read" not in self._members[number].answers for number in self.numbers):
            return None
        answers = {number: self._members[number].answers.pop("read") for number in self.numbers}
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
        self._poll(0.0)

    # Orders and answers

    def _ask(self, order: Order, kind: type[A]) -> dict[int, A]:
        return self._ask_each(dict.fromkeys(self.numbers, order), kind)

    def _ask_each(self, orders: Mapping[int, Order], kind: type[A]) -> dict[int, A]:
        """Gives each worker an order and waits for all answers. Raises the fault of the lowest worker that had one."""
        for number, order in orders.items():
            self._members[number].connection.send(Frame(self.term, order))
        if not orders:
            return {}
        name, asked = next(iter(orders.values())).kind, sorted(orders)
        self._wait_for(name, name, asked)
        for number in asked:
            answer, _ = self._members[number].answers[name]
            if isinstance(answer, Failed):
                raise faults.from_wire(answer.fault, number)
        return {number: self._taken(number, name, kind) for number in asked}

    def _taken(self, number: int, name: str, kind: type[A]) -> A:
        answer, _ = self._members[number].answers.pop(name)
        if not isinstance(answer, kind):
            raise TaskLost(f"worker {number} answered {name} with {answer.kind}")
        return answer

    def _send_to_all(self, order: Order) -> None:
        for number in self.numbers:
            self._members[number].connection.send(Frame(self.term, order))

    def _wait_for(self, name: str, what: str, asked: Sequence[int]) -> None:
        """Until all workers that were asked have answered orders of the kind `name`. `what` names what they do."""
        asked_at = self._outside.monotonic()
        while unanswered := [number for number in asked if name not in self._members[number].answers]:
            self._poll(POLL_SECONDS)
            unanswered = [number for number in unanswered if name not in self._members[number].answers]
            now = self._outside.monotonic()
            self._judge(self._liveness.stopped(unanswered, asked_at, max(self._step_s, default=0.0), now), what)

    # Events

    def _poll(self, seconds: float) -> None:
        """Takes everything that has arrived, and then looks whether a worker is silent."""
        event = self._events.next(seconds)
        while event is not None:
            self._take(event)
            event = self._events.next(0.0)
        self._registration.expire()
        now = self._outside.monotonic()
        for member in self._members.values():
            self._liveness.heard(member.number, now, member.connection.bytes_arrived())
        self._judge(self._liveness.silent(now), "waiting for it")

    def _judge(self, verdict: Verdict | None, doing: str) -> None:
        """Raises TaskLost if there is a verdict."""
        if verdict is not None:
            _log.warning("a worker is given up", worker=verdict.worker, term=str(self.term), reason=verdict.reason)
            raise TaskLost(f"{doing}: worker {verdict.worker}: {verdict.reason}")

    def _take(self, event: Event) -> None:
        member = next((m for m in self._members.values() if m.connection is event.connection), None)
        if member is None:
            self._registration.take(event)
            return
        match event:
            case Arrived(_, frame):
                if frame.term == self.term:
                    self._heard(member, frame)
            case Ended(_, reason):
                if "stop" not in member.answers:
                    registered = member.registered
                    raise TaskLost(f"worker {member.number} (process {registered.pid} on {registered.host}): {reason}")

    def _heard(self, member: _Member, frame: Frame) -> None:
        now, message = self._outside.monotonic(), frame.message
        if isinstance(message, Beat):
            self._liveness.beat(member.number, message, now)
            return
        # `folded` and `contents` raise the faults of what runs beside the steps. Any other recoverable fault or mistake is raised here: other
        # workers may never answer.
        if isinstance(message, Failed) and message.doing not in BESIDE:
            fault = faults.from_wire(message.fault, member.number)
            if isinstance(fault, (*RECOVERABLE, faults.WorkerMistake)):
                raise fault
        name = _question_of(message)
        if name in member.answers:
            raise TaskLost(f"worker {member.number} has answered {name} twice")
        member.answers[name] = (message, frame.buffers)  # type: ignore[assignment]

    def _check_jobs(self) -> None:
        for job in self._jobs:
            if job.failure is not None:
                text = str(job.failure)[:FAILURE_CHARACTERS_MAX] or type(job.failure).__name__
                raise TaskLost(
                    f"the Spark job of a worker ended before all workers had registered: {text}"
                ) from job.failure


def _seconds_of(done: StepDone) -> float:
    """How long a worker took for a step, without what it waited for its peers."""
    return 1e-3 * (done.read_ms + sum(stage.compute_ms + stage.state_ms for stage in done.stages))


def _question_of(message: Message) -> str:
    """The kind of order that a message answers."""
    match message:
        case Failed(doing=doing):
            return doing
        case StepDone() | StepAbandoned():
            return STEP
        case Removed():
            return "remove"
        case Created():
            return "create"
        case Fenced():
            return "fence"
        case Opened():
            return "open"
        case Joined():
            return "join"
        case Frozen():
            return "freeze"
        case Folded():
            return "fold"
        case Contents():
            return "read"
        case Paused():
            return "pause"
        case Resumed():
            return "resume"
        case Stopped():
            return "stop"
        case _:
            raise TaskLost(f"a worker has sent {message.kind}, which answers nothing")
