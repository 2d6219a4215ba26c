"""What a run counts and measures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from base.fault import Fault
from coordinator import measures
from coordinator.measures import (
    EVENTS_MAX,
    LAG_WINDOW_SECONDS,
    MINUTES,
    Histogram,
    Measures,
    PartitionRead,
    ProjectShown,
    StepMeasured,
    TopicWritten,
    lag_seconds,
)
from engine.model.circuit import Circuit
from engine.operators.findings import Work

START = 1_700_000_000.0


class Clock:
    """Seconds since 1970, which are also those of the monotonic clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = START
        monkeypatch.setattr(measures, "time", SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def read(oldest_s: float | None, newest_s: float | None, messages: int = 3, partition: int = 0) -> PartitionRead:
    stamps = (None if at is None else int(1000 * at) for at in (oldest_s, newest_s))
    return PartitionRead("in", partition, messages, 10 * messages, *stamps)


def test_a_histogram_counts_up_to_and_with_its_bounds() -> None:
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        found.observe(value)
    assert (found.counts, found.sum, found.count) == ([2, 1, 1], 10.0, 4)
    assert [found.quantile(part) for part in (0.5, 0.75, 1.0)] == [1.0, 2.0, 2.0]
    assert Histogram((1.0,)).quantile(0.5) is None


def test_a_step_is_counted_by_partition_topic_and_view(clock: Clock) -> None:
    board = Measures()
    for replayed in (True, False, False):
        board.note_step(
            StepMeasured(
                took_ms=30.0,
                parts_ms={"read": 10.0, "write": 20.0},
                reads=[read(START - 2, START - 1), read(None, None, 4, partition=1)],
                written=[TopicWritten("out", 5, 50), TopicWritten("letters", 1, 9, is_dead_letter=True)],
                work={"view totals": Work(7.0, 2)},
                replayed=replayed,
            )
        )
    found = board.show()
    assert found.read_messages == {("in", 0): 9, ("in", 1): 12} and found.read_bytes == {("in", 0): 90, ("in", 1): 120}
    assert found.written_messages == {"out": 10, "letters": 2}, "a replay writes nothing"
    assert found.written_bytes == {"out": 100, "letters": 18} and found.dead_letters == {"letters": 2}
    assert found.work == {"view totals": Work(21.0, 6)}
    assert found.step.count == 3 and found.step.sum == pytest.approx(0.09)
    assert {part: each.sum for part, each in found.parts.items()} == pytest.approx({"read": 0.03, "write": 0.06})


def test_latency_is_from_the_oldest_message_to_the_commit_and_a_replay_has_none(clock: Clock) -> None:
    board = Measures()
    board.note_step(StepMeasured(took_ms=1, parts_ms={}, reads=[read(START - 9, START)], replayed=True))
    assert not board.show().latency
    board.note_step(StepMeasured(took_ms=1, parts_ms={}, reads=[read(START - 3, START - 1), read(START + 5, None)]))
    latency = board.show().latency["in"]
    assert (latency.count, latency.sum) == (2, 3.0), "a timestamp of a producer whose clock is ahead counts as now"


def test_lag_in_seconds_is_the_age_of_the_newest_message_that_was_read(clock: Clock) -> None:
    board = Measures()
    board.note_step(StepMeasured(took_ms=1, parts_ms={}, reads=[read(START - 60, START - 40)]))
    lag = {"in/0": 5, "in/1": 0, "in/2": 7}
    assert lag_seconds(lag, board.newest_ms, START) == {"in/0": 40.0, "in/1": 0.0}
    assert lag_seconds({"in/0": 0}, board.newest_ms, START) == {"in/0": 0.0}, (
        "what is read is not late, however old it is"
    )


def test_what_the_project_does_not_read_any_more_is_forgotten(clock: Clock) -> None:
    board = Measures()
    board.note_step(StepMeasured(took_ms=1, parts_ms={}, reads=[read(START - 60, START - 40)]))
    circuit = Circuit(())
    board.show_project(ProjectShown(circuit, {"source s": ("in",)}))
    assert board.newest_ms and board.show().latency
    board.show_project(ProjectShown(circuit, {"source s": ("other",)}))
    found = board.show()
    assert not (found.newest_ms or found.latency or found.read_messages or found.read_bytes)


def test_the_lag_falls_if_it_is_less_than_it_was(clock: Clock) -> None:
    board = Measures()
    assert not board.is_lag_falling
    for rows in (100, 90, 95):
        board.note_lag(rows)
        clock.now += 2.0
    assert board.is_lag_falling, "one step back is no rise"
    board.note_lag(101)
    assert not board.is_lag_falling
    board.note_lag(0)
    assert not board.is_lag_falling, "a sample a second is kept"
    clock.now += 3 * LAG_WINDOW_SECONDS
    board.note_lag(5)
    assert not board.is_lag_falling, "what was long ago does not count"


def test_the_history_is_bounded(clock: Clock) -> None:
    board = Measures()
    for _ in range(MINUTES + 5):
        board.note_step(StepMeasured(took_ms=5, parts_ms={}, reads=[read(None, None)]))
        clock.now += 60
    minutes = board.show().minutes
    assert len(minutes) < MINUTES and all(minute.steps == 1 and minute.rows == 3 for minute in minutes)
    for number in range(EVENTS_MAX + 3):
        board.note_recovery("worker_lost", Fault(f"worker {number}" + "x" * 5000, "look at its log"))
    found = board.show()
    assert found.recoveries == {"worker_lost": EVENTS_MAX + 3} and len(found.events) == EVENTS_MAX
    last = found.events[-1]
    assert last.text.startswith(f"worker {EVENTS_MAX + 2}x") and last.what_to_do == "look at its log"
    assert len(last.text) < 2000


def test_what_is_shown_is_a_copy(clock: Clock) -> None:
    board = Measures()
    board.note_checkpoint(5.0)
    before = board.show()
    board.note_checkpoint(5.0)
    assert (before.checkpoint.count, board.show().checkpoint.count) == (1, 2)
