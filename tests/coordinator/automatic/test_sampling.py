"""Steps of a loop become samples."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.automatic.sampling import Sampler
from tests.examples import examples


def test_steps_that_overlap_count_once() -> None:
    """The second step was given before the output of the first one was written."""
    sampler = Sampler(10.0, 100.0)
    sampler.note_step(500, 2.0, 103.0)
    sampler.note_step(700, 2.5, 104.5)
    assert not sampler.is_due(109.9) and sampler.is_due(110.0)
    sampler.take(300, 2, 100.5)
    sampler.note_step(100, 1.0, 105.5)
    sample = sampler.take(500, 3, 112.0)
    assert (sample.rows, sample.arrived, sample.lag, sample.workers) == (100, 300, 500, 3)
    assert sample.busy_s == 1.0 and sample.seconds == 11.5


def test_the_costs_of_steps_are_those_between_their_ends() -> None:
    sampler = Sampler(10.0, 0.0)
    for end, took_s in ((2.0, 1.0), (3.0, 2.0), (4.0, 2.0), (9.0, 1.0)):
        sampler.note_step(1000, took_s, end)
    sample = sampler.take(0, 1, 10.0)
    assert sample.busy_s == 4.0
    assert sum(steps.busy_ms for steps in sample.classes.values()) == 4000
    assert {size: steps.rows for size, steps in sample.classes.items()} == {(1000).bit_length(): 4000}


def test_the_first_sample_and_one_without_a_look_at_the_topics_tell_nothing_of_the_load() -> None:
    """What lay there before the run did not arrive in it."""
    sampler = Sampler(10.0, 0.0)
    first, second, blind, after = (
        sampler.take(lag, 1, at) for lag, at in ((9_000, 10.0), (9_500, 20.0), (None, 30.0), (9_500, 40.0))
    )
    assert (first.arrived, first.is_of_load) == (0, False)
    assert (second.arrived, second.is_of_load) == (500, True)
    assert not blind.is_of_load and not after.is_of_load


def test_a_moment_counts_for_its_sample_alone() -> None:
    sampler = Sampler(10.0, 0.0)
    sampler.take(0, 1, 10.0)
    sampler.note(is_changing=True, is_disturbed=False)
    sampler.note(is_changing=False, is_disturbed=False)
    assert sampler.take(0, 1, 20.0).is_changing
    sampler.note(is_changing=False, is_disturbed=True)
    assert sampler.take(0, 1, 30.0).is_disturbed
    assert sampler.take(0, 1, 40.0).is_of_load


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 20), st.integers(0, 10**6)), max_size=30))
def test_steps_are_never_busy_for_longer_than_there_was_time(steps: list[tuple[float, float, int]]) -> None:
    sampler, now = Sampler(10.0, 0.0), 0.0
    busy_s = rows = 0.0
    for gap_s, took_s, count in steps:
        now += gap_s
        sampler.note_step(count, took_s, now)
        if sampler.is_due(now):
            sample = sampler.take(0, 1, now)
            assert 0 <= sample.busy_s <= sample.seconds and 0 <= sample.busy_share <= 1
            busy_s, rows = busy_s + sample.busy_s, rows + sample.rows
    last = sampler.take(0, 1, now + 1)
    assert busy_s + last.busy_s <= now + 1.0001
    assert rows + last.rows == pytest.approx(sum(count for *_, count in steps))
