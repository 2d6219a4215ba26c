"""Which worker counts as silent, frozen or stuck, as a function of what arrived and when."""

from __future__ import annotations

from engine.resident.liveness import Liveness, LivenessLimits, LivenessVerdict
from engine.resident.messages import Beat

LIMITS = LivenessLimits(silence_s=5, progress_s=30)


class Told(Liveness):
    """Every call of `beats` is a heartbeat of each worker: (cpu_ms, waiting) by worker."""

    def __init__(self) -> None:
        super().__init__(LIMITS)
        self.bytes = 0

    def beats(self, at: float, told: dict[int, tuple[int, bool]], moved: int = 0) -> None:
        self.bytes += 100
        for worker, (cpu_ms, waiting) in told.items():
            self.heard(worker, at, self.bytes)
            self.beat(worker, Beat(step=1, stage=1, cpu_ms=cpu_ms, bytes_moved=moved, waiting=waiting), at)


def test_a_silent_worker_is_given_up_however_much_the_others_say() -> None:
    lives = Told()
    for worker in range(5):
        lives.heard(worker, 0.0, 10)
    for tenth in range(51):
        for worker in (0, 1, 3, 4):
            lives.heard(worker, tenth / 10, 20 + tenth)
    assert lives.find_silent(5.0) is None
    verdict = lives.find_silent(5.1)
    assert verdict is not None and verdict.worker == 2 and "silent for 5.1 s" in verdict.reason


def test_a_worker_that_sends_a_large_frame_is_not_silent() -> None:
    """Its heartbeats wait behind the frame."""
    lives = Told()
    for second in range(60):
        lives.heard(0, float(second), second << 20)
    assert lives.find_silent(59.0) is None
    lives.heard(0, 64.5, 59 << 20)  # nothing new
    assert lives.find_silent(64.5) is not None


def verdict(
    seconds: int,
    told: dict[int, tuple[int, bool]],
    *,
    unanswered: tuple[int, ...] = (0, 1),
    grows: bool = False,
    moves: bool = False,
    asked_at: float = 0.0,
    slowest_step_s: float = 0.0,
) -> LivenessVerdict | None:
    """After `seconds` of heartbeats that tell the same. `grows`: worker 0 uses CPU. `moves`: bytes move."""
    lives = Told()
    for second in range(seconds + 1):
        each = {w: (cpu + (second if grows and w == 0 else 0), waiting) for w, (cpu, waiting) in told.items()}
        lives.beats(float(second), each, moved=second if moves else 0)
    return lives.find_stopped(unanswered, asked_at, slowest_step_s, float(seconds))


WORKS, WAITS = (7, False), (7, True)


def test_a_worker_that_makes_no_progress_while_all_others_wait_is_frozen() -> None:
    assert verdict(30, {0: WORKS, 1: WAITS}) is None
    found = verdict(31, {0: WORKS, 1: WAITS})
    assert found is not None and found.worker == 0 and "no progress in step 1, stage 1 for 31.0 s" in found.reason
    alone = verdict(31, {0: WORKS}, unanswered=(0,))
    assert alone is not None and alone.worker == 0


def test_a_worker_that_waits_makes_no_progress_by_taking_pings() -> None:
    """Each ping costs CPU. It must not excuse the worker for which all others wait."""
    found = verdict(31, {0: WAITS, 1: WORKS}, grows=True)
    assert found is not None and found.worker == 1 and "no progress" in found.reason
    assert verdict(31, {0: WAITS, 1: WAITS}, grows=True) is not None


def test_a_worker_that_uses_cpu_or_moves_bytes_makes_progress() -> None:
    assert verdict(600, {0: WORKS, 1: WAITS}, grows=True) is None
    assert verdict(600, {0: WORKS, 1: WAITS}, moves=True) is None


def test_slow_steps_give_more_time() -> None:
    assert verdict(60, {0: WORKS, 1: WAITS}, slowest_step_s=7.0) is None
    assert verdict(71, {0: WORKS, 1: WAITS}, slowest_step_s=7.0) is not None


def test_two_that_hang_together_are_frozen_and_two_that_work_are_not() -> None:
    found = verdict(31, {0: WORKS, 1: WORKS})
    assert found is not None and found.worker == 0
    assert verdict(600, {0: WORKS, 1: WORKS}, grows=True) is None  # worker 1 may wait for worker 0


def test_workers_that_all_wait_and_have_not_answered_are_stuck() -> None:
    assert verdict(30, {0: WAITS, 1: WAITS}) is None
    found = verdict(31, {0: WAITS, 1: WAITS})
    assert found is not None and "it waits, as all others do" in found.reason
    assert verdict(600, {0: WAITS, 1: WAITS}, moves=True) is None  # they wait for many rows, which come
    assert verdict(60, {0: WAITS, 1: WAITS}, asked_at=40.0) is None  # they have waited for longer, but not for this
    assert verdict(60, {0: WAITS, 1: WAITS}, unanswered=()) is None
