"""The workers of a term with their connections: orders go out, answers come in, and a worker that is lost is noticed.

Guarantees: every wait ends, because a worker that does not answer is condemned (liveness.py). What a worker of another term sends is dropped. A
recoverable fault, and a bug in a worker, is raised as soon as it arrives, because the other workers may wait for ever. Each order is
answered once: a worker that answers twice, or what nobody has asked, contradicts itself and is lost (TaskLost).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from base.logger import Logger
from base.term import Term
from engine.errors import StaleTask, TaskLost
from engine.resident import faults
from engine.resident.frames import Buffer, Frame
from engine.resident.liveness import Liveness, LivenessLimits, LivenessVerdict, WatchedTime
from engine.resident.messages import (
    Answer,
    BackgroundOrder,
    Beat,
    Failed,
    Notice,
    Order,
    Register,
    order_answered_by,
    order_of,
)
from engine.resident.pulse import gap_s_max
from engine.resident.transport import Arrived, Connection, Disconnected, Event, Events
from io_kafka.outside import Outside
from storage.errors import NotOpen

_log = Logger("engine.resident.roster")

POLL_SECONDS = 0.5
"""The longest wait of one call, after which heartbeats are judged."""

STEPS_REMEMBERED = 100
"""How many steps are remembered. The slowest of them says how long a worker may make no progress."""

RECOVERABLE = (StaleTask, TaskLost, NotOpen)
"""Faults after which a crew is replaced."""

A = TypeVar("A", bound=Answer)


@dataclass
class Member:
    """A worker. `asked`: the kinds of order that it has been given and has not answered. `answers`: what it has sent and nobody has taken yet,
    by kind of order: an answer of its class, or `Failed`, which `_heard` holds."""

    number: int
    connection: Connection
    registered: Register
    asked: set[str] = field(default_factory=set)
    answers: dict[str, tuple[Any, tuple[Buffer, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.registered.pid} on {self.registered.host})"


class Roster:
    """The members of a crew with their connections, and the one place that takes what arrives from them. `on_unknown_connection` takes every
    event of a connection that belongs to no worker; `on_poll` is called at each poll."""

    def __init__(
        self,
        term: Term,
        events: Events,
        limits: LivenessLimits,
        outside: Outside,
        *,
        on_unknown_connection: Callable[[Event], None],
        on_poll: Callable[[], None],
    ) -> None:
        self._term, self._events = term, events
        self._on_unknown_connection, self._on_poll = on_unknown_connection, on_poll
        self._liveness = Liveness(limits)
        self._clock = WatchedTime(outside.monotonic, gap_s_max(limits.silence_s))
        # How long the slowest worker took for each of the last steps.
        self._step_s: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self.members: dict[int, Member] = {}
        self._asked_in_background: dict[
            type[BackgroundOrder[Any]], set[int]
        ] = {}  # the workers that were asked, by class of order

    def add(self, number: int, connection: Connection, registered: Register) -> None:
        assert number not in self.members, f"worker {number} has a task already"
        self.members[number] = Member(number, connection, registered)
        self._liveness.heard(number, self._clock.now(), connection.bytes_arrived())

    def remove(self, number: int) -> None:
        """The worker has ended as it should."""
        member = self.members.pop(number)
        self._liveness.forget(number)
        for asked in self._asked_in_background.values():
            asked.discard(number)
        member.connection.close()

    def note_step_time(self, seconds: float) -> None:
        """How long a step took, on the slowest worker."""
        self._step_s.append(seconds)

    # Orders and answers

    def send(self, number: int, message: Order[Any] | Notice) -> None:
        member = self.members[number]
        if isinstance(message, Order):
            member.asked.add(message.kind)
        member.connection.send(Frame(self._term, message))

    def ask_each(self, orders: Mapping[int, Order[A]]) -> dict[int, A]:
        """Gives each worker an order and waits for all answers. The orders are of one class. Raises the fault of the lowest worker that had
        one."""
        for number, order in orders.items():
            self.send(number, order)
        if not orders:
            return {}
        kind, asked = type(next(iter(orders.values()))), sorted(orders)
        self.wait_for(kind, kind.kind, asked)
        return {number: self.take_answer(number, kind) for number in asked}

    def take_outcome(self, number: int, kind: type[Order[A]]) -> tuple[A, tuple[Buffer, ...]] | Failed:
        """Returns what a worker has answered to an order of this class, with the buffers of the frame, or the fault that it had."""
        answer, buffers = self.members[number].answers.pop(kind.kind)
        return answer if isinstance(answer, Failed) else (answer, buffers)

    def take_answer(self, number: int, kind: type[Order[A]]) -> A:
        """Returns what a worker has answered, without the buffers; see `take_outcome`. Raises the fault that it had."""
        answer, _ = _no_failure(number, self.take_outcome(number, kind))
        return answer

    def wait_for(
        self, kind: type[Order[Any]], what: str, asked: Sequence[int], meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Waits until all workers that were asked have answered orders of this class. `what` names what they do. `meanwhile` is called again and
        again, and may raise TaskLost."""
        since, unanswered = self._clock.now(), self._without_answer(asked, kind)
        while unanswered:
            self.poll(POLL_SECONDS)
            if meanwhile is not None:
                meanwhile()
            left, now = self._without_answer(unanswered, kind), self._clock.now()
            if len(left) < len(unanswered):
                since = now  # the others may have waited for the one that has answered
            unanswered = left
            self._judge(self._liveness.find_stopped(unanswered, since, max(self._step_s, default=0.0), now), what)

    def _without_answer(self, asked: Iterable[int], kind: type[Order[Any]]) -> list[int]:
        return [number for number in asked if kind.kind not in self.members[number].answers]

    # Orders that are carried out in the background

    def begin(self, kind: type[BackgroundOrder[A]], orders: Mapping[int, BackgroundOrder[A]]) -> None:
        """Gives each worker an order of this class. `poll_answers` reports when that is over, and `poll_each` for each of them; until then the
        worker receives no other order of the class."""
        asked = self._asked_in_background.setdefault(kind, set())
        assert not asked & orders.keys(), f"{kind.kind} is under way"
        asked.update(orders)
        for number, order in orders.items():
            self.send(number, order)

    def workers_asked(self, kind: type[BackgroundOrder[Any]]) -> list[int]:
        """The workers that `begin` has asked and that have not answered. A worker that has left since is not among them."""
        return self._without_answer(sorted(self._asked_in_background[kind]), kind)

    def raise_failures(self, kind: type[BackgroundOrder[Any]]) -> None:
        """Raises the fault of the lowest worker that has answered with one."""
        for number in sorted(self._asked_in_background[kind]):
            answer = self.members[number].answers.get(kind.kind)
            if answer is not None and isinstance(answer[0], Failed):
                raise faults.from_wire(answer[0].fault, number)

    def poll_answers(self, kind: type[BackgroundOrder[A]]) -> dict[int, tuple[A, tuple[Buffer, ...]]] | None:
        """All answers to `begin`; None until the last one is there. Raises the fault of the lowest worker that had one."""
        if self.workers_asked(kind):
            return None
        answers = {number: self.take_outcome(number, kind) for number in sorted(self._asked_in_background.pop(kind))}
        return {number: _no_failure(number, answer) for number, answer in answers.items()}

    def poll_each(self, kind: type[BackgroundOrder[A]]) -> dict[int, tuple[A, tuple[Buffer, ...]]]:
        """The answers to `begin` that are there and were not taken yet. Raises the fault of the lowest worker that had one."""
        asked = self._asked_in_background[kind]
        answered = asked - set(self._without_answer(asked, kind))
        asked -= answered
        answers = {number: self.take_outcome(number, kind) for number in sorted(answered)}
        return {number: _no_failure(number, answer) for number, answer in answers.items()}

    # Events

    def poll(self, seconds: float) -> None:
        """Takes everything that has arrived, and then looks whether a worker is silent."""
        event = self._events.next(seconds)
        while event is not None:
            self._take(event)
            event = self._events.next(0.0)
        self._on_poll()
        now = self._clock.now()
        for member in self.members.values():
            self._liveness.heard(member.number, now, member.connection.bytes_arrived())
        self._judge(self._liveness.find_silent(now), "waiting for it")

    def _judge(self, verdict: LivenessVerdict | None, doing: str) -> None:
        """Raises TaskLost if there is a verdict."""
        if verdict is not None:
            _log.warning("a worker is given up", worker=verdict.worker, term=str(self._term), reason=verdict.reason)
            raise TaskLost(f"{doing}: worker {verdict.worker}: {verdict.reason}")

    def _take(self, event: Event) -> None:
        member = next((m for m in self.members.values() if m.connection is event.connection), None)
        if member is None:
            self._on_unknown_connection(event)
            return
        match event:
            case Arrived(_, frame):
                if frame.term == self._term:
                    self._heard(member, frame)
            case Disconnected(_, reason):
                answered = map(order_of, member.answers)
                if not any(order is not None and order.ends_worker for order in answered):
                    raise TaskLost(f"{member}: {reason}")

    def _heard(self, member: Member, frame: Frame) -> None:
        now, message = self._clock.now(), frame.message
        if isinstance(message, Beat):
            self._liveness.beat(member.number, message, now)
            return
        match message:
            case Failed(doing=name):
                kind = order_of(name)
            case Answer():
                kind = order_answered_by(message)
                assert kind is not None, f"{message.kind} answers no order"
                name = kind.kind
            case _:
                raise TaskLost(f"{member} has sent {message.kind}, which answers nothing")
        # What runs in the background has its faults raised by whoever takes its answers.
        if isinstance(message, Failed) and (kind is None or not issubclass(kind, BackgroundOrder)):
            fault = faults.from_wire(message.fault, member.number)
            if isinstance(fault, (*RECOVERABLE, faults.WorkerMistake)):
                raise fault
        if name in member.answers:
            raise TaskLost(f"{member} has answered {name} twice")
        if name not in member.asked:
            raise TaskLost(f"{member} has answered {name}, which nobody has asked")
        member.asked.remove(name)
        member.answers[name] = (message, frame.buffers)


def _no_failure(number: int, answer: tuple[A, tuple[Buffer, ...]] | Failed) -> tuple[A, tuple[Buffer, ...]]:
    if isinstance(answer, Failed):
        raise faults.from_wire(answer.fault, number)
    return answer
