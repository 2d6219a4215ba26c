"""The bound of a cut follows what steps and cuts take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.rescale.cut_budget import (
    BYTES_PER_MS_FIRST,
    COLD_CUT_BYTES,
    LIVE_CUT_BYTES_MIN,
    LIVE_CUT_SHARE,
    LIVE_SHARE,
    PORTION_BYTES_FIRST,
    PORTION_BYTES_MAX,
    PORTION_BYTES_MIN,
    RATE_WEIGHT,
    STEPS_BETWEEN_MAX,
    STEPS_REMEMBERED,
    CutBudget,
    CutMeasured,
)
from io_kafka.step_log.layout_records import MoveStrategy, RescaleMode


def change(
    mode: RescaleMode = "live", *, budget_bytes: int | None = None, budget_ms: float | None = None
) -> MoveStrategy:
    return MoveStrategy(mode, "batches", budget_bytes, budget_ms)


def cut(moved_bytes: int, took_ms: float, *, copied_bytes: int | None = None) -> CutMeasured:
    return CutMeasured(slots=1, moved_bytes=moved_bytes, took_ms=took_ms, copied_bytes=copied_bytes, version=1)


def portion(copied_bytes: int, new_bytes: int) -> CutMeasured:
    """The cut of a portion, at the rate that is expected before any was measured."""
    return cut(new_bytes, new_bytes / BYTES_PER_MS_FIRST, copied_bytes=copied_bytes)


def test_a_cut_takes_a_part_of_a_step_at_the_rate_of_the_cuts_before() -> None:
    budget = CutBudget()
    budget.note_step(200.0, 50.0)
    assert budget.bytes_max(change()) == int(BYTES_PER_MS_FIRST * LIVE_CUT_SHARE * 200)
    for _ in range(60):
        budget.note_cut(cut(10 << 20, took_ms=100.0))
    assert budget.bytes_max(change()) == pytest.approx((10 << 20) / 100.0 * LIVE_CUT_SHARE * 200, rel=1e-3)
    for _ in range(STEPS_REMEMBERED):
        budget.note_step(20.0, 5.0)
    assert budget.bytes_max(change()) == pytest.approx((10 << 20) / 100.0 * LIVE_CUT_SHARE * 20, rel=1e-3)


def test_a_slow_cut_makes_the_next_one_smaller_at_once_and_a_fast_one_bit_by_bit() -> None:
    budget = CutBudget()
    budget.note_step(200.0, 50.0)
    first = budget.bytes_max(change())
    budget.note_cut(cut(first, took_ms=4 * LIVE_CUT_SHARE * 200))
    assert budget.bytes_max(change()) == pytest.approx(first / 4, rel=1e-3)
    budget.note_cut(cut(first, took_ms=LIVE_CUT_SHARE * 200))
    assert budget.bytes_max(change()) == pytest.approx(first * (1 + 3 * RATE_WEIGHT) / 4, rel=1e-3)


def test_a_small_cut_says_nothing_of_the_rate() -> None:
    budget = CutBudget()
    budget.note_step(200.0, 50.0)
    before = budget.bytes_max(change())
    budget.note_cut(cut(LIVE_CUT_BYTES_MIN - 1, took_ms=1000.0))
    assert budget.bytes_max(change()) == before


def test_the_users_bounds_hold_where_they_are_lower() -> None:
    budget = CutBudget()
    budget.note_step(1000.0, 0.0)
    assert budget.bytes_max(change(budget_ms=10.0)) == int(BYTES_PER_MS_FIRST * 10)
    assert budget.bytes_max(change(budget_ms=10.0, budget_bytes=1 << 30)) == int(BYTES_PER_MS_FIRST * 10)
    assert budget.bytes_max(change(budget_bytes=3000)) == 3000
    assert budget.bytes_max(change("cold", budget_bytes=3000)) == COLD_CUT_BYTES


def test_a_change_goes_on_however_short_the_steps_are() -> None:
    budget = CutBudget()
    budget.note_step(0.01, 0.01)
    assert budget.bytes_max(change()) == LIVE_CUT_BYTES_MIN


@pytest.mark.parametrize("step_ms,write_ms", [(100.0, 0.0), (100.0, 40.0), (500.0, 250.0), (10.0, 6.0)])
@pytest.mark.parametrize("cuts_ms", [1.0, 30.0, 150.0])
def test_cuts_take_their_share_of_the_time(step_ms: float, write_ms: float, cuts_ms: float) -> None:
    budget = CutBudget()
    budget.note_step(step_ms, write_ms)
    steps = budget.note_cut(cut(0, cuts_ms))
    if not steps:
        assert 2 * cuts_ms / (2 * cuts_ms + step_ms - write_ms) <= LIVE_SHARE + 1e-9, "there is no time for one more"
        return
    busy_ms = steps * (step_ms - write_ms)  # the write of a step overlaps the one after it
    assert cuts_ms / (cuts_ms + busy_ms) <= LIVE_SHARE + 1e-9
    fewer_ms = (steps - 1) * (step_ms - write_ms)
    assert steps == 1 or cuts_ms / (cuts_ms + fewer_ms) > LIVE_SHARE - 1e-9, "more steps than have to be"


def test_several_cuts_are_made_between_two_steps_if_there_is_time_for_them() -> None:
    budget = CutBudget()
    budget.note_step(440.0, 0.0)  # of which cuts get 60 ms
    assert [budget.note_cut(cut(0, took_ms)) for took_ms in (20.0, 20.0, 60.0)] == [0, 0, 2]
    assert budget.note_cut(cut(0, 20.0)) == 0, "no step has come, so there was nothing to read"
    assert [budget.note_cut(cut(0, took_ms)) for took_ms in (20.0, 20.0)] == [0, 1]
    budget.note_step(440.0, 0.0)
    assert budget.note_cut(cut(0, 20.0)) == 0


def test_what_cuts_have_moved_counts_since_the_last_version() -> None:
    budget = CutBudget()
    assert budget.moved_bytes_since(1) == 0
    for _ in range(2):
        budget.note_cut(cut(500, 1.0))
    assert budget.moved_bytes_since(1) == 1000 and budget.moved_bytes_since(2) == 0
    budget.note_cut(replace(cut(500, 1.0), version=2))
    assert budget.moved_bytes_since(2) == 500


def test_a_portion_has_so_many_bytes_that_what_is_new_at_its_cut_is_within_the_bound() -> None:
    budget = CutBudget()
    budget.note_step(10.0, 0.0)
    assert budget.portion_bytes(change()) == PORTION_BYTES_FIRST
    bound = budget.bytes_max(change())
    budget.note_cut(portion(16 << 20, int(bound * (16 << 20) / (12 << 20))))
    assert budget.portion_bytes(change()) == pytest.approx(12 << 20, rel=1e-3)
    budget.note_cut(portion(16 << 20, 16 << 20))
    assert budget.portion_bytes(change()) == PORTION_BYTES_MIN, "more is new than before"
    for _ in range(60):
        budget.note_cut(portion(16 << 20, 0))
    assert budget.portion_bytes(change()) == PORTION_BYTES_MAX
    assert budget.portion_bytes(change(budget_bytes=3000)) == 3000


def test_a_slow_cut_does_not_stop_the_change() -> None:
    budget = CutBudget()
    budget.note_step(100.0, 0.0)
    assert budget.note_cut(cut(0, 1e9)) == STEPS_BETWEEN_MAX
