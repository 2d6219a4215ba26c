"""What numbers of workers manage: what was learnt, and what is expected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.automatic.capacities import LEARNT_SECONDS, NUMBERS_MAX, UNTRIED_PART, Capacities
from tests.examples import examples


def learnt(**rates: float) -> Capacities:
    """By number of workers, as in `w2=100`."""
    made = {int(name[1:]): rate for name, rate in rates.items()}
    return Capacities(made, dict.fromkeys(made, 0.0))


def test_nothing_is_expected_of_nothing() -> None:
    assert Capacities().rows_per_s_of(3) is None


def test_more_workers_are_expected_to_bring_less_than_a_share_each() -> None:
    found = learnt(w2=100.0)
    assert found.rows_per_s_of(2) == 100
    assert found.rows_per_s_of(4) == pytest.approx(100 + 2 * UNTRIED_PART * 50)
    assert found.rows_per_s_of(1) == 50, "a share of what two manage"


def test_what_the_last_workers_brought_counts_for_the_next_ones() -> None:
    linear, little, less = learnt(w2=100.0, w4=200.0), learnt(w2=100.0, w4=110.0), learnt(w2=100.0, w4=80.0)
    assert linear.rows_per_s_of(6) == pytest.approx(200 + 2 * UNTRIED_PART * 50)
    assert little.rows_per_s_of(6) == pytest.approx(110 + 2 * (UNTRIED_PART * 27.5 + 5) / 2)
    assert less.rows_per_s_of(6) == pytest.approx(80 + 2 * UNTRIED_PART * 20 / 2)
    assert little.rows_per_s_of(3) == 105


def test_a_new_measurement_moves_all_numbers_in_proportion() -> None:
    found = learnt(w1=100.0, w2=160.0).with_measured(2, 320.0, 10.0)
    assert found.rows_per_s == {1: 200.0, 2: 320.0}
    assert found.with_relation(2, 4, 1.5, 20.0).rows_per_s_of(4) == 480


def test_what_was_not_used_for_a_day_is_forgotten() -> None:
    found = learnt(w1=100.0, w2=160.0).with_measured(2, 160.0, LEARNT_SECONDS + 1)
    assert found.rows_per_s.keys() == {2}
    assert found.without_above(1).rows_per_s == {}


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(1, 200), st.floats(1, 1e7), st.floats(0.1, 10)), max_size=150))
def test_expectations_are_bounded_by_linear_growth(said: list[tuple[int, float, float]]) -> None:
    found = Capacities()
    for now, (workers, rate, gain) in enumerate(said):
        found = found.with_measured(workers, rate, float(now)).with_relation(workers, workers + 1, gain, float(now))
        found.check()
        assert len(found.rows_per_s) <= NUMBERS_MAX
    if found.tried_max:
        most = found.rows_per_s_of(found.tried_max)
        assert most is not None
        for more in range(found.tried_max + 1, found.tried_max + 20):
            expected = found.rows_per_s_of(more)
            assert expected is not None and most <= expected < most * more / found.tried_max
