"""A step that fills and does not end is given up for an abort, and for nothing else."""

from __future__ import annotations

import pytest

from coordinator.requests import Requests
from coordinator.revisions.requests import TurnTransition
from coordinator.stepping.stuck_filling import ABORT_SECONDS, StuckFilling
from engine.errors import TaskLost


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_step_is_given_up_as_soon_as_an_abort_has_waited_long_enough() -> None:
    requests, clock = Requests(), Clock()
    step = StuckFilling(7, lambda: requests.abort_waits, clock)
    step.look()
    clock.now += 10 * ABORT_SECONDS  # a slow step alone is no reason
    step.look()
    requests.revision.put(TurnTransition("abort"))
    step.look()
    clock.now += ABORT_SECONDS
    step.look()
    clock.now += 0.1
    with pytest.raises(TaskLost, match=r"step 7: it fills new nodes and has not ended for 20 s"):
        step.look()


@pytest.mark.parametrize("what", ["pause", "resume", "switch"])
def test_another_request_gives_up_no_step(what: str) -> None:
    requests, clock = Requests(), Clock()
    step = StuckFilling(7, lambda: requests.abort_waits, clock)
    requests.revision.put(TurnTransition(what))  # type: ignore[arg-type]
    for _ in range(3):
        step.look()
        clock.now += 10 * ABORT_SECONDS


def test_an_abort_that_was_taken_waits_no_more() -> None:
    requests, clock = Requests(), Clock()
    step = StuckFilling(7, lambda: requests.abort_waits, clock)
    requests.revision.put(TurnTransition("abort"))
    step.look()
    requests.revision.take()
    clock.now += 10 * ABORT_SECONDS
    step.look()
