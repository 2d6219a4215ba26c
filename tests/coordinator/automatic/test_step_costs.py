"""The costs of steps, from samples."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.automatic.load import NO_STEPS, LoadSample, StepClass
from coordinator.automatic.step_costs import EXTRAPOLATION_MAX, StepCosts, costs_of
from tests.examples import examples


def sample(*steps: tuple[int, float]) -> LoadSample:
    """(rows, milliseconds) of each step."""
    classes: dict[int, StepClass] = {}
    for rows, ms in steps:
        classes[rows.bit_length()] = classes.get(rows.bit_length(), NO_STEPS).with_step(rows, ms)
    return LoadSample(10.0, sum(ms for _, ms in steps) / 1e3, sum(r for r, _ in steps), 0, 0, 1, classes)


def line(rows: int) -> float:
    """50 ms, and 10 us a row."""
    return 50 + 0.01 * rows


def test_costs_are_a_line_over_the_rows() -> None:
    costs = costs_of([sample(*[(rows, line(rows)) for rows in (100, 1_000, 10_000) for _ in range(10)])])
    assert costs is not None and costs.rows_max == 10_000
    assert costs.ms_per_row == pytest.approx(0.01)
    assert costs.ms_at(20_000) == pytest.approx(line(20_000))
    assert costs.rows_part(10_000) == pytest.approx(100 / 150)


def test_a_capacity_is_that_of_the_largest_steps_and_not_extrapolated_far() -> None:
    costs = costs_of([sample(*[(rows, line(rows)) for rows in (100, 400) for _ in range(10)])])
    assert costs is not None
    far = EXTRAPOLATION_MAX * 400
    assert costs.rows_per_s(1_000_000) == pytest.approx(1e3 * far / line(int(far)))
    assert costs.rows_per_s(500) == pytest.approx(1e3 * 500 / line(500))
    assert costs.rows_per_s(50) == pytest.approx(1e3 * 400 / line(400)), "what was done can be done"


def test_steps_of_one_size_say_what_they_did_and_no_more() -> None:
    costs = costs_of([sample((100, 5.0), (110, 5.1), (105, 5.0))])
    assert costs is not None and costs.ms_per_row is None and costs.rows_part(105) == 0
    assert costs.rows_per_s(1_000_000) == pytest.approx(1e3 * 105 / (15.1 / 3))


def test_rare_and_slow_steps_do_not_count() -> None:
    usual = [sample(*[(rows, line(rows)) for rows in (100, 1_000, 10_000) for _ in range(10)]) for _ in range(9)]
    costs = costs_of([*usual, sample((1_000, 9_000.0)), sample((10_000, 9_000.0))])
    assert costs == costs_of(usual)
    assert costs_of([*usual, sample((500_000, 60_000.0))]) == costs, "a single step of a size is too few"
    assert costs_of([sample((7, 3.0))]) == StepCosts(((7.0, 3.0),)), "if there are no others, they count"


def test_without_rows_nothing_is_known() -> None:
    assert costs_of([]) is None
    assert costs_of([sample(), sample((0, 4.0))]) is None


@settings(deadline=None, max_examples=examples(200))
@given(
    st.floats(1, 500),
    st.floats(0.0005, 0.5),
    st.lists(st.integers(1, 500_000), min_size=1, max_size=8),
    st.integers(0, 999),
    st.floats(0, 0.2),
)
def test_the_estimate_is_near_whatever_the_sizes(
    fixed_ms: float, row_ms: float, sizes: list[int], seed: int, noise: float
) -> None:
    chance = random.Random(seed)
    steps = [
        (rows, (fixed_ms + row_ms * rows) * chance.uniform(1 - noise, 1 + noise)) for rows in sizes for _ in range(9)
    ]
    costs = costs_of([sample(*steps)])
    assert costs is not None and costs.rows_max <= max(sizes)
    most = max(sizes)
    # the sizes of a class differ by up to a factor of two, whose mean stands for all of them
    assert 1e3 / (fixed_ms + row_ms) / 3 <= costs.rows_per_s(most) <= 1e3 * most / (fixed_ms + row_ms * most) * 3
    per_row = costs.ms_per_row
    assert per_row is None or 0 <= per_row <= costs.points[-1][1] / costs.points[-1][0]
    at = [costs.ms_at(rows) for rows in range(1, 2 * most, max(1, most // 10))]
    assert at == sorted(at) and at[0] > 0, "more rows never cost less"
