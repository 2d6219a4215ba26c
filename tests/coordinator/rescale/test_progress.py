"""What users see of a change that is under way."""

from __future__ import annotations

from coordinator.rescale.cut_budget import CutMeasured
from coordinator.rescale.progress import RescaleProgress


def cut(slots: int, moved_bytes: int, took_ms: float) -> CutMeasured:
    return CutMeasured(slots=slots, moved_bytes=moved_bytes, took_ms=took_ms, copied_bytes=None, version=1)


def test_the_time_left_is_that_of_the_bytes_left_at_the_rate_so_far() -> None:
    progress = RescaleProgress(9.0)
    assert progress.seconds_left is None
    progress.note_weights(1000, now=10.0)
    assert progress.seconds_left is None
    progress.note_cut(cut(3, 250, 4.0), now=12.0)
    progress.note_cut(cut(2, 250, 9.0), now=15.0)
    assert progress.left_numbers() == {"bytes_left": 500, "seconds_left": 5.0}
    assert progress.done_numbers(now=16.0) == {
        "cuts": 2,
        "slots_moved": 5,
        "bytes_moved": 500,
        "bytes_per_s": 100,
        "seconds": 5.0,
        "elapsed_s": 7.0,
        "longest_cut_ms": 9.0,
        "cuts_ms": 13.0,
        "longest_pause_ms": 0.0,
        "longest_step_ms": 0.0,
    }
    progress.note_cut(cut(1, 600, 1.0), now=16.0)  # the estimate was too low
    assert progress.left_bytes == 0 and progress.seconds_left == 0.0


def test_a_turn_counts_again_and_the_time_goes_on() -> None:
    progress = RescaleProgress(9.0)
    progress.note_weights(1000, now=10.0)
    progress.note_cut(cut(1, 100, 1.0), now=11.0)
    progress.left_bytes = None
    assert progress.seconds_left is None
    progress.note_weights(300, now=20.0)
    progress.note_cut(cut(1, 100, 1.0), now=22.0)
    assert progress.left_bytes == 200 and progress.seconds == 12.0


def test_the_rate_is_that_of_the_time_in_which_the_change_was_not_paused() -> None:
    progress = RescaleProgress(0.0)
    progress.note_pause(True, now=1.0)
    progress.note_pause(False, now=9.0)  # before it moved anything
    progress.note_weights(1000, now=10.0)
    progress.note_cut(cut(1, 250, 1.0), now=12.0)
    progress.note_pause(True, now=12.0)
    progress.note_pause(True, now=15.0)
    progress.note_cut(cut(1, 250, 1.0), now=17.0)  # the rest of a round
    assert progress.seconds == 2.0
    progress.note_pause(False, now=112.0)
    progress.note_pause(False, now=113.0)
    assert progress.left_numbers() == {"bytes_left": 500, "seconds_left": 2.0}
    progress.note_cut(cut(1, 100, 1.0), now=114.0)
    assert progress.seconds == 4.0 and progress.bytes_per_s == 150.0


def test_the_longest_pause_and_step_are_told() -> None:
    progress = RescaleProgress(0.0)
    for took_ms in (3.0, 40.0, 5.0):
        progress.note_block(took_ms)
        progress.note_step(2 * took_ms)
    done = progress.done_numbers(now=1.0)
    assert (done["longest_pause_ms"], done["longest_step_ms"], done["bytes_per_s"]) == (40.0, 80.0, None)
