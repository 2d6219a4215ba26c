"""How far the filling of a transition is, and how long it still takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.transition.progress import WINDOW_S, MessagesLeft, RereadPace, share_filled
from engine.model.filling import HASHES
from io_kafka.offsets import TopicPartition

IN = TopicPartition("in", 0)


def log_of(filled: int, *, levels: int = 2, again: int | None = None, live: int = 1_000) -> Any:
    """`again`: up to where the only partition, which began at 100, is read again; None if nothing is."""
    ranges = () if again is None else (SimpleNamespace(where=IN, start=100),)
    return SimpleNamespace(
        revisions=SimpleNamespace(phase=SimpleNamespace(intent=SimpleNamespace(whole=levels * HASHES, again=ranges))),
        filled=filled,
        reads_again={} if again is None else {IN: again},
        next_offsets={IN: live},
        has_reread_all=again in (None, live),
    )


def test_levels_and_messages_are_parts_of_equal_weight() -> None:
    assert share_filled(log_of(HASHES)) == 0.5
    assert share_filled(log_of(HASHES, again=100)) == pytest.approx(1 / 3)
    assert share_filled(log_of(HASHES, again=550)) == pytest.approx(1 / 3 + 1 / 6)
    assert share_filled(log_of(2 * HASHES, again=1_000)) == 1.0


def test_nothing_is_whole_before_the_last_message_is_read_again() -> None:
    assert share_filled(log_of(2 * HASHES, again=999_999, live=1_000_000)) < 1.0


def test_the_time_left_is_what_the_messages_that_are_left_have_taken() -> None:
    pace = RereadPace()
    assert pace.seconds_left is None
    for second, again in ((0, 100), (1, 200), (2, 300)):
        pace.note(float(second), log_of(0, again=again))
    assert MessagesLeft.of(log_of(0, again=300)).left == 700 and pace.seconds_left == pytest.approx(7.0)


def test_there_is_no_time_left_to_tell_if_new_messages_come_as_fast() -> None:
    pace = RereadPace()
    for second in range(3):
        pace.note(float(second), log_of(0, again=100 + second, live=1_000 + 2 * second))
    assert pace.seconds_left is None


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = RereadPace()
    for second in range(100):
        pace.note(float(second), log_of(0, again=100 + (second - 80 if second > 80 else 0)))
    assert pace.seconds_left == pytest.approx((900 - 19) / (10 / WINDOW_S))
