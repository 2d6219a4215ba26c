"""Who counts as dead, frozen or stuck, as a function of what arrived and when."""

from __future__ import annotations

from engine.resident.liveness import Limits, Liveness
from engine.resident.messages import Beat

LIMITS = Limits(silence_s=5, progress_s=30)


def beat(done: int, *, waiting: bool = False) -> Beat:
    return Beat(step=1, stage=1, done=done, waiting=waiting)


def test_a_silent_worker_is_dead() -> None:
    lives = Liveness(LIMITS)
    lives.heard(0, 0.0)
    lives.heard(1, 4.0)
    assert lives.verdict(5.0, 0.0) is None
    verdict = lives.verdict(5.1, 0.0)
    assert verdict is not None and verdict.worker == 0 and "silent for 5.1 s" in verdict.reason
    lives.heard(0, 5.2)
    assert lives.verdict(8.0, 0.0) is None


def frozen(at: float, *, slowest_step_s: float = 0.0, others_wait: bool = True, progress: bool = False) -> bool:
    """Whether worker 0, which last made progress at 0, is given up at `at`. Both send heartbeats until then."""
    lives = Liveness(LIMITS)
    for second in range(int(at) + 1):
        lives.beat(0, beat(second if progress else 0), float(second))
        lives.beat(1, beat(0, waiting=others_wait), float(second))
    verdict = lives.verdict(at, slowest_step_s)
    return verdict is not None and verdict.worker == 0 and "no progress" in verdict.reason


def test_a_worker_that_lives_and_makes_no_progress_while_all_others_wait_is_frozen() -> None:
    assert not frozen(30.0)
    assert frozen(30.5)
    assert not frozen(60.5, progress=True)
    assert not frozen(60.5, others_wait=False)


def test_slow_steps_give_more_time() -> None:
    assert not frozen(60.5, slowest_step_s=7.0)
    assert frozen(70.5, slowest_step_s=7.0)


def test_a_worker_that_waits_for_orders_is_not_frozen() -> None:
    lives = Liveness(LIMITS)
    for second in range(100):
        lives.beat(0, beat(0, waiting=True), float(second))
    assert lives.verdict(99.5, 0.0) is None


def test_workers_that_all_wait_and_have_not_answered_are_stuck() -> None:
    lives = Liveness(LIMITS)
    for second in range(41):
        lives.beat(0, beat(0, waiting=True), float(second))
        lives.beat(1, beat(0, waiting=second >= 10), float(second))
    assert lives.stuck([0, 1], asked_at=0.0, now=40.0) is None  # worker 1 worked until 10
    assert lives.stuck([0, 1], asked_at=0.0, now=40.1) is not None
    assert lives.stuck([0], asked_at=20.0, now=40.1) is None  # it waits for longer, but was asked only then
    lives.beat(1, beat(0, waiting=False), 41.0)
    assert lives.stuck([0, 1], asked_at=0.0, now=90.0) is None
