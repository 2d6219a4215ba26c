"""What the board says while nothing arrives, and while no broker answers."""

from __future__ import annotations

from typing import get_type_hints

import pyarrow as pa
import pytest

from coordinator.measures import ProjectShown
from coordinator.shown_status import WAITING_FOR_KAFKA, WAITING_FOR_STORE, ServicePhase, next_step_of
from coordinator.status import Status, StatusBoard, StatusChanges, StepTimes
from engine.model.circuit import Circuit, View
from engine.model.rows import Source


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def board_and_clock() -> tuple[StatusBoard, Clock]:
    clock = Clock()
    board = StatusBoard("p", clock)
    board.update(phase="run")
    return board, clock


def step(board: StatusBoard, number: int, rows: int = 100, took_ms: float = 100.0) -> None:
    board.note_step(number, rows, StepTimes(compute=took_ms), replayed=False, skipped={})


def test_every_field_that_is_updated_is_one_of_the_status() -> None:
    """mypy looks at the calls. So a name that only `update` has would be set, and nobody would see it."""
    of_status = get_type_hints(Status)
    for name, kind in get_type_hints(StatusChanges).items():
        assert of_status.get(name) == kind, name


def test_the_rate_is_zero_as_soon_as_a_pipeline_is_idle_and_does_not_remember_the_pause() -> None:
    board, clock = board_and_clock()
    for number in range(4):
        clock.now = 0.5 * number
        step(board, number)
    assert board.show()["rows_per_s"] == 200.0
    clock.now = 6.0
    assert board.show()["rows_per_s"] == 200.0  # a step may take so long
    clock.now = 7.0
    assert board.show()["rows_per_s"] == 0.0
    for number in range(4, 6):
        clock.now = 1000.0 + number
        step(board, number)
    assert board.show()["rows_per_s"] == 100.0


def test_steps_that_take_long_are_not_idle() -> None:
    board, clock = board_and_clock()
    for number in range(3):
        clock.now = 30.0 * number
        step(board, number, rows=3000, took_ms=29_000.0)
    clock.now += 55.0
    assert board.show()["rows_per_s"] == 100.0


def test_the_age_of_a_checkpoint_grows_only_while_it_lacks_something() -> None:
    board, clock = board_and_clock()
    clock.now = 100.0
    assert board.show()["checkpoint_age_s"] == 0.0
    step(board, 0)
    clock.now = 110.0
    assert board.show()["checkpoint_age_s"] == 10.0
    step(board, 1)
    board.note_checkpoint(1, 1, 5.0)  # step 1 came while it was made
    clock.now = 112.0
    assert board.show()["checkpoint_age_s"] == 2.0
    board.note_checkpoint(2, 2, 5.0)
    clock.now = 5000.0
    assert board.show()["checkpoint_age_s"] == 0.0
    step(board, 2)
    clock.now = 5001.0
    assert board.show()["checkpoint_age_s"] == 1.0


def test_a_view_that_was_removed_has_no_watermark() -> None:
    """Its lag would grow for ever."""
    board = StatusBoard("p")
    board.note_event_time({}, {"stays": 5_000_000, "goes": 7_000_000})
    columns = (pa.int64(),)
    nodes = Source((), columns, "s"), View((0,), columns, "stays", ("n",), (False,))
    board.show_project(ProjectShown(Circuit(nodes), {}))
    assert board.show()["watermarks"] == {"stays": 5.0}


def test_without_a_broker_the_pipeline_waits_and_its_numbers_are_old() -> None:
    board, clock = board_and_clock()
    for number in range(2):
        clock.now = 0.5 * number
        step(board, number)
    board.update(lag={"orders/0": 500})
    board.kafka_is_away(1000.0, "Connection refused")
    shown = board.show()
    found = {name: shown[name] for name in ("phase", "rows_per_s", "lag_is_stale", "kafka_up", "kafka_away_since")}
    assert found == {
        "phase": WAITING_FOR_KAFKA,
        "rows_per_s": 0.0,
        "lag_is_stale": True,
        "kafka_up": False,
        "kafka_away_since": 1000.0,
    }
    board.update(phase="failed")
    assert board.show()["phase"] == "failed"
    board.update(phase="run")
    board.kafka_is_back()
    shown = board.show()
    assert (shown["phase"], shown["rows_per_s"], shown["lag_is_stale"], shown["kafka_fault"]) == (
        "run",
        200.0,
        False,
        None,
    )


@pytest.mark.parametrize(
    ("phase", "is_stale"),
    [("run", False), ("paused", True), (WAITING_FOR_STORE, True), ("recovering", True), ("changing", False)],
)
def test_a_lag_is_old_while_no_step_is_divided(phase: ServicePhase, is_stale: bool) -> None:
    board, _ = board_and_clock()
    board.update(phase=phase, lag={"orders/0": 0})
    assert board.show()["lag_is_stale"] == is_stale


def test_the_next_step_follows_the_last_one_or_the_checkpoint_of_a_run_without_steps() -> None:
    board, _ = board_and_clock()
    assert next_step_of(board.show()) == 0
    step(board, 0)
    assert next_step_of(board.show()) == 1
    board, _ = board_and_clock()
    board.update(step=6, checkpoint_step=7)
    assert next_step_of(board.show()) == 7
