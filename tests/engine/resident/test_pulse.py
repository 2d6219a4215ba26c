"""When a worker counts its coordinator as gone, to the second: the clock is the test's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from base.term import Term
from engine.resident.messages import Beat
from engine.resident.pulse import BEAT_SECONDS, FIRST_SIGN_SECONDS_MAX, WorkerPulse

SILENCE_S = 5.0


class Line:
    """The connection to the coordinator, and the time. `at`: what happens when the clock passes a moment."""

    def __init__(self, at: dict[float, Callable[[Line], None]]) -> None:
        self.now, self.bytes, self.gone = 0.0, 0, False
        self.sent: list[float] = []
        self.ends: list[tuple[float, str]] = []
        self._at = dict(at)
        outside: Any = SimpleNamespace(
            monotonic=lambda: self.now, sleep=self._sleep, start_thread=lambda name, work: work()
        )
        control: Any = self
        beat = Beat(step=0, stage=0, cpu_ms=0, bytes_moved=0, waiting=True)
        self.pulse = WorkerPulse(
            control=control,
            term=Term(1, 0),
            beat=lambda: beat,
            silence_s=SILENCE_S,
            end_process=self._end,
            outside=outside,
        )

    def send_sign(self, frame: Any) -> None:
        self.sent.append(self.now)

    def bytes_arrived(self) -> int:
        return self.bytes

    def is_gone(self) -> bool:
        return self.gone

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 1000, "the watch does not end"
        for moment in [moment for moment in self._at if moment <= self.now]:
            self._at.pop(moment)(self)

    def _end(self, reason: str) -> None:
        self.ends.append((self.now, reason))


def hears(line: Line) -> None:
    line.bytes += 1
    line.pulse.has_spoken = True


def shakes_hands(line: Line) -> None:
    line.bytes += 1


def sleeps(line: Line) -> None:
    line.now += 30.0


def loses(line: Line) -> None:
    line.gone = True


def registers(line: Line) -> None:
    line.pulse.is_registered = True


def ends(line: Line) -> None:
    line.pulse.over = True


@pytest.mark.parametrize("heard", [False, True], ids=["before the first sign", "later"])
def test_a_connection_that_has_ended_is_noticed_at_the_next_beat(heard: bool) -> None:
    line = Line({**({1.5: hears} if heard else {}), 3.5: loses})
    line.pulse.start()
    assert line.ends == [(4.0, "the connection to the coordinator has ended")] and line.pulse.over
    assert line.ends[0][0] - 3.5 <= BEAT_SECONDS


def test_a_coordinator_may_be_busy_with_the_broker_before_its_first_sign() -> None:
    """Only so long, and it counts from the connection: a driver that sleeps there is waited for, and then not any more."""
    line = Line({0.5: shakes_hands})
    line.pulse.start()
    ((at, reason),) = line.ends
    assert at == 1 + FIRST_SIGN_SECONDS_MAX + BEAT_SECONDS
    assert reason == "the coordinator has given no sign of life within 60 s"


def test_from_its_first_sign_on_a_coordinator_may_be_silent_for_the_setting_only() -> None:
    line = Line({20.5: hears, 24.5: hears})
    line.pulse.start()
    ((at, reason),) = line.ends
    assert at == 31.0 and reason == "the coordinator has been silent for 6.0 s (limit 5 s)"
    assert at - 24.5 <= SILENCE_S + 2 * BEAT_SECONDS


def test_a_coordinator_was_not_silent_while_the_machine_stood_still() -> None:
    line = Line({0.5: hears, 1.5: sleeps, 33.5: hears})
    line.pulse.start()
    ((at, _),) = line.ends
    assert at - 33.5 > SILENCE_S


def test_nothing_is_sent_before_the_registration_and_nothing_when_all_is_over() -> None:
    """The first frame of a connection must be the registration."""
    line = Line({**{moment + 0.5: hears for moment in range(9)}, 3.5: registers, 7.5: ends})
    line.pulse.start()
    assert line.sent == [4.0, 5.0, 6.0, 7.0] and not line.ends
