"""A run goes back to its last checkpoint a bounded number of times without progress."""

from __future__ import annotations

from coordinator.running.recoveries import RECOVERIES_MAX, Recoveries


def test_losses_in_a_row_end_the_run() -> None:
    recoveries = Recoveries()
    assert [recoveries.count_loss(7, 0) for _ in range(RECOVERIES_MAX)] == [None] * (RECOVERIES_MAX - 1) + ["step 7"]


def test_a_committed_step_is_progress() -> None:
    recoveries = Recoveries()
    assert [recoveries.count_loss(steps, 0) for steps in (7, 7, 8, 8, 8)] == [None, None, None, None, "step 8"]


def test_a_step_is_no_progress_of_a_checkpoint() -> None:
    recoveries = Recoveries()
    assert [recoveries.count_loss(7 + n, n) for n in (1, 2, 3)] == [None, None, "the checkpoint before step 10"]


def test_the_step_is_named_where_both_fail() -> None:
    recoveries = Recoveries()
    assert [recoveries.count_loss(0, n) for n in (1, 2, 3)][-1] == "step 0"
