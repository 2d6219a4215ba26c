"""Orders that workers carry out beside the steps, while others join and leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from base.slots import ALL_SLOTS, NO_SLOTS
from base.term import Term
from base.version import EMPTY
from engine.errors import DataError, TaskLost
from engine.resident import faults
from engine.resident.frames import Frame
from engine.resident.liveness import LivenessLimits
from engine.resident.messages import (
    Answer,
    Beat,
    Contents,
    DatabaseFenced,
    EstimateSlotBytes,
    Failed,
    FenceDatabase,
    FreezeLayer,
    Holds,
    SlotBytesEstimated,
    WireFault,
)
from engine.resident.roster import Roster
from engine.resident.transport import Arrived

TERM = Term(1, 0)


class Line:
    """The connection to one worker."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.is_closed = False
        self.arrived_bytes = 0

    def send(self, frame: Frame) -> None:
        self.sent.append(frame.message)

    def bytes_arrived(self) -> int:
        return self.arrived_bytes

    def close(self) -> None:
        self.is_closed = True


class Workers:
    """A roster whose workers answer when the test says so. `now`: the time in seconds. `naps`: how long the next waits last in
    which nothing arrives."""

    def __init__(self, *numbers: int) -> None:
        self.lines: dict[int, Line] = {}
        self._arrived: deque[Any] = deque()
        self.now, self.naps = 0.0, list[float]()
        events: Any = SimpleNamespace(next=self._next)
        outside: Any = SimpleNamespace(monotonic=lambda: self.now)
        limits = LivenessLimits(silence_s=5.0, progress_s=30.0)
        self.roster = Roster(
            TERM, events, limits, outside, on_unknown_connection=lambda event: None, on_poll=lambda: None
        )
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        line: Any = Line()
        self.lines[number] = line
        self.roster.add(number, line, SimpleNamespace(pid=number, host="h"))  # type: ignore[arg-type]

    def _next(self, seconds: float) -> Any:
        if self.naps:
            self.now += self.naps.pop()
            return None
        event = self._arrived.popleft() if self._arrived else None
        if event is not None:
            if isinstance(event, float):
                self.now += event
                return None
            event.connection.arrived_bytes += 1
        return event

    def answer(self, number: int, answer: Answer) -> None:
        line: Any = self.lines[number]
        self._arrived.append(Arrived(line, Frame(TERM, answer)))
        self.roster.poll(0.0)

    def arrive(self, *events: Arrived | float) -> None:
        """Adds to what arrives. A number is so many seconds without anything, after which the roster looks at its workers."""
        self._arrived.extend(events)

    def arrival(self, number: int, message: Any) -> Arrived:
        line: Any = self.lines[number]
        return Arrived(line, Frame(TERM, message))

    def begin(self, *numbers: int) -> None:
        self.roster.begin(EstimateSlotBytes, dict.fromkeys(numbers, EstimateSlotBytes(slots=ALL_SLOTS)))

    def ended(self) -> dict[int, int] | None:
        answers = self.roster.poll_answers(EstimateSlotBytes)
        return None if answers is None else {n: answer.total_bytes for n, (answer, _) in answers.items()}


def beat(cpu_ms: int, *, waiting: bool) -> Beat:
    return Beat(step=0, stage=0, cpu_ms=cpu_ms, bytes_moved=0, waiting=waiting)


def loss(act: Callable[[], None]) -> str:
    try:
        act()
    except TaskLost as lost:
        return str(lost)
    return ""


def test_nobody_was_silent_or_idle_while_the_machine_stood_still() -> None:
    workers = Workers(0, 1)
    for workers.now in (1.0, 41.0, 42.0):
        assert loss(lambda: workers.roster.poll(0.0)) == ""
    workers.now = 43.0
    assert "worker 0: it has been silent for 5.5 s" in loss(lambda: workers.roster.poll(0.0))
    asked = Workers(0)
    asked.begin(0)
    line: Any = asked.lines[0]
    asked._arrived.append(Arrived(line, Frame(TERM, SlotBytesEstimated(total_bytes=7))))
    asked.naps = [40.0]
    assert loss(lambda: asked.roster.wait_for(EstimateSlotBytes, "weighing", [0])) == "" and asked.ended() == {0: 7}


@pytest.mark.parametrize(
    ("more_s", "lost"), [(20, ""), (32, "a step: worker 1: it waits, as all others do, for 31.0 s (limit 30 s)")]
)
def test_a_worker_that_has_waited_for_a_slow_one_is_not_given_up_when_that_has_answered(more_s: int, lost: str) -> None:
    """Its rows have come just then. If they have not, it is given up after the time that it has from then on."""
    workers = Workers(0, 1)
    workers.begin(0, 1)
    waits = workers.arrival(1, beat(5, waiting=True))
    for second in range(40):
        workers.arrive(workers.arrival(0, beat(1000 * second, waiting=False)), waits, 1.0)
    workers.arrive(workers.arrival(0, SlotBytesEstimated(total_bytes=7)))
    for second in range(more_s):
        workers.arrive(workers.arrival(0, beat(40_000 + second, waiting=True)), waits, 1.0)
    workers.arrive(workers.arrival(1, SlotBytesEstimated(total_bytes=7)))
    assert loss(lambda: workers.roster.wait_for(EstimateSlotBytes, "a step", [0, 1])) == lost


def test_all_that_were_asked_are_waited_for() -> None:
    workers = Workers(0, 1, 2)
    workers.begin(0, 2)
    assert [len(workers.lines[n].sent) for n in range(3)] == [1, 0, 1]
    workers.answer(2, SlotBytesEstimated(total_bytes=7))
    assert workers.ended() is None and workers.roster.workers_asked(EstimateSlotBytes) == [0]
    workers.answer(0, SlotBytesEstimated(total_bytes=5))
    assert workers.ended() == {0: 5, 2: 7}
    workers.begin(1)
    workers.answer(1, SlotBytesEstimated(total_bytes=1))
    assert workers.ended() == {1: 1}


def test_a_step_is_over_when_its_last_worker_has_answered() -> None:
    workers = Workers(0, 1)
    for number in workers.lines:
        workers.roster.send(number, EstimateSlotBytes(slots=ALL_SLOTS))
    lines: Any = workers.lines
    first, last = (Arrived(line, Frame(TERM, SlotBytesEstimated(total_bytes=7))) for line in lines.values())
    workers._arrived.extend([first, None, last])  # between them is a look at which nothing arrives
    workers.roster.wait_for(EstimateSlotBytes, "a step", [0, 1])
    assert not workers._arrived, "one answer was not waited for"
    assert [workers.roster.take_answer(number, EstimateSlotBytes).total_bytes for number in (0, 1)] == [7, 7]


def test_a_worker_that_has_left_is_not_waited_for() -> None:
    workers = Workers(0, 1)
    workers.begin(0, 1)
    workers.answer(0, SlotBytesEstimated(total_bytes=5))
    workers.roster.remove(1)
    assert workers.lines[1].is_closed
    assert workers.ended() == {0: 5}


def test_a_worker_that_has_joined_since_is_not_waited_for() -> None:
    workers = Workers(0)
    workers.begin(0)
    workers.add(1)
    workers.answer(0, SlotBytesEstimated(total_bytes=5))
    assert workers.ended() == {0: 5}


def test_nobody_is_asked_twice_at_once() -> None:
    workers = Workers(0)
    workers.begin(0)
    with pytest.raises(AssertionError, match="estimate_slot_bytes is under way"):
        workers.begin(0)


def test_a_fault_is_raised_by_whoever_takes_the_answers() -> None:
    workers = Workers(0, 1)
    workers.begin(0, 1)
    workers.answer(1, Failed(doing="estimate_slot_bytes", fault=faults.to_wire(DataError("bad", "mend it"))))
    assert workers.ended() is None
    with pytest.raises(DataError, match="bad"):
        workers.roster.raise_failures(EstimateSlotBytes)


def test_a_message_that_answers_nothing_is_a_loss_of_its_sender() -> None:
    workers = Workers(0, 1)
    with pytest.raises(TaskLost, match=r"worker 1 \(process 1 on h\) has sent holds, which answers nothing"):
        workers.answer(1, Holds(databases=()))


def test_a_second_answer_is_a_loss_of_its_sender() -> None:
    """Whether the first one was taken yet or not."""
    workers = Workers(0, 1)
    workers.begin(1)
    workers.answer(1, SlotBytesEstimated(total_bytes=7))
    with pytest.raises(TaskLost, match=r"worker 1 \(process 1 on h\) has answered estimate_slot_bytes twice"):
        workers.answer(1, SlotBytesEstimated(total_bytes=7))
    assert workers.ended() == {1: 7}
    with pytest.raises(
        TaskLost, match=r"worker 1 \(process 1 on h\) has answered estimate_slot_bytes, which nobody has asked"
    ):
        workers.answer(1, SlotBytesEstimated(total_bytes=7))


def test_what_nobody_has_asked_is_not_kept_for_a_later_order() -> None:
    workers = Workers(0, 1)
    workers.roster.send(0, FenceDatabase())
    for early in (DatabaseFenced(versions=(), number=1), Contents(version=EMPTY, owned=NO_SLOTS)):
        with pytest.raises(TaskLost, match="which nobody has asked"):
            workers.answer(1, early)
    assert not workers.roster.members[1].answers
    with pytest.raises(TaskLost, match="has answered nonsense, which nobody has asked"):
        workers.answer(1, Failed(doing="nonsense", fault=faults.to_wire(DataError("bad", "mend it"))))


def test_a_fault_that_cannot_be_read_is_a_loss_of_its_sender() -> None:
    workers = Workers(0)
    workers.roster.send(0, FreezeLayer(version=EMPTY, in_error=()))
    with pytest.raises(TaskLost, match="worker 0 has failed by DataError, and what it says of it cannot be read"):
        workers.answer(0, Failed(doing="freeze_layer", fault=WireFault(known=True, name="DataError", fields={})))
