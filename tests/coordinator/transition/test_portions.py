"""How large the portions of a transition are."""

from __future__ import annotations

from math import inf

import pytest

from coordinator.transition.draining import FIRST_PARTS
from coordinator.transition.portion_cost import Cost
from coordinator.transition.portions import IDLE_MS, MESSAGES_FIRST, PARTS_MAX, Portions
from engine.model.filling import HASHES


@pytest.mark.parametrize("rows", [0, 10, 1_000])
@pytest.mark.parametrize("range_ms", [1.0, 5.0, 250.0])
def test_portions_come_to_an_end_whatever_a_range_costs(rows: int, range_ms: float) -> None:
    """A range has a fixed cost beside that of its rows."""
    portions, position, whole = Portions(HASHES), 0, 2 * HASHES
    portions.note(0, 0, 5.0 + rows * 0.01, rows)
    for step in range(4 * PARTS_MAX):
        if position == whole:
            break
        after = portions.next(position, rows, whole)
        assert position < after <= whole and (position < HASHES) == (after <= HASHES), f"step {step}"
        portions.note(after - position, 0, range_ms + rows * 0.01 + 1e-15 * (after - position), rows)
        position = after
    assert position == whole


def test_a_portion_without_input_takes_about_its_time() -> None:
    portions, position, took = Portions(HASHES), 0, 0.0
    for _ in range(30):
        after = portions.next(position, 0, 100 * HASHES)
        took = (after - position) / HASHES * 20_000.0
        portions.note(after - position, 0, took, 0)
        position = after
    assert IDLE_MS / 2 < took < 2 * IDLE_MS


def test_the_first_portion_is_small_and_the_next_grow() -> None:
    portions = Portions(HASHES)
    first = portions.next(0, 0, HASHES)
    assert first == HASHES // FIRST_PARTS
    portions.note(first, 0, 1.0, 0)
    assert first < portions.next(first, 0, HASHES) - first <= 4 * first


def test_portions_of_messages_grow_to_about_their_time() -> None:
    portions, took = Portions(HASHES), 0.0
    assert portions.next_messages(0, 10**6) == MESSAGES_FIRST
    portions.note(0, MESSAGES_FIRST, 0.002 * MESSAGES_FIRST, 0)
    assert MESSAGES_FIRST < portions.next_messages(0, 10**6) <= 4 * MESSAGES_FIRST
    for _ in range(30):
        count = portions.next_messages(0, 10**6)
        took = 0.002 * count
        portions.note(0, count, took, 0)
    assert IDLE_MS / 2 < took < 2 * IDLE_MS


@pytest.mark.parametrize("rows", [1, 1_000, 200_000])
def test_messages_catch_up_with_input_whatever_they_cost(rows: int) -> None:
    """Also if the new nodes cost a hundred times what the others do. No step has more than it may."""
    portions, left, most = Portions(HASHES), 10 * rows, 320_000
    portions.note(0, 0, 0.001 * rows, rows)
    for _ in range(100):
        count = portions.next_messages(rows, most)
        assert 0 < count <= most
        left = max(0, left + rows - count)
        portions.note(0, count, 0.001 * rows + 0.1 * count, rows)
    assert left == 0


def test_another_transition_begins_with_small_portions() -> None:
    portions = Portions(HASHES)
    for _ in range(9):
        portions.note(portions.next(0, 0, HASHES), 0, 1.0, 0)
        portions.note(0, portions.next_messages(0, 10**6), 1.0, 0)
    portions.begin(frozenset((0,)))
    assert portions.next(0, 0, HASHES) == HASHES // FIRST_PARTS
    assert portions.next_messages(0, 10**6) == MESSAGES_FIRST


@pytest.mark.parametrize("rows", [0, 20])
def test_portions_of_messages_do_not_shrink_where_a_step_costs_more_than_a_portion_may(rows: int) -> None:
    """A machine that is busy: each step takes a second, however much it reads."""
    portions, left, steps = Portions(HASHES), 300_000, 0
    while left > 0:
        count = portions.next_messages(rows, 320_000)
        portions.note(0, count, 1_000.0 + 0.01 * count, rows)
        left, steps = left - count, steps + 1
    assert steps <= (60 if not rows else 300)


def test_portions_are_as_large_as_their_fixed_cost_asks_for() -> None:
    """Beside small steps the fixed cost alone is more than a portion may take. Small portions would never get on."""
    portions, left, steps = Portions(HASHES), 400_000, 0
    for rows in (300, 500, 700):
        portions.note(0, 0, 30.0 + 0.01 * rows, rows)
    while left > 0:
        rows = 500
        count = portions.next_messages(rows, 160_000)
        portions.note(0, count, 30.0 + 0.01 * rows + 25.0 + 0.004 * count, rows)
        left, steps = left - count + rows, steps + 1
    assert steps < 140, "most of a portion's time goes to its messages"
    assert count < 20_000, "and a step with one does not take many times as long"


@pytest.mark.parametrize("fixed", [0.0, 25.0, 1_000.0])
def test_a_cost_is_told_apart(fixed: float) -> None:
    cost = Cost()
    for size in (750, 1_250, 800, 1_300, 600):
        cost.note(size, fixed + 0.01 * size)
    assert cost.fixed == pytest.approx(fixed) and cost.at(2_000) == pytest.approx(fixed + 20)
    assert cost.size_within(fixed + 30) == pytest.approx(3_000)


def test_a_cost_that_nothing_tells_apart_is_proportional() -> None:
    cost = Cost()
    for _ in range(3):
        cost.note(1_000, 10.0)
    assert (cost.fixed, cost.at(2_000), cost.size_within(5.0)) == (0.0, 20.0, 500.0)


def test_a_cost_that_does_not_grow_is_fixed() -> None:
    cost = Cost()
    for size, took in ((1_000, 10.0), (2_000, 9.5), (4_000, 9.0)):
        cost.note(size, took)
    assert cost.size_within(1.0) == inf and cost.fixed == cost.at(9_000) == pytest.approx(9.5)


@pytest.mark.parametrize("fed", [frozenset[int](), frozenset((0,)), frozenset((1,)), frozenset((0, 1))])
def test_a_level_without_feeds_is_passed_in_one_portion(fed: frozenset[int]) -> None:
    """However busy the machine is: each step takes a second here. Such a portion tells nothing about what feeds cost."""
    portions, position, steps = Portions(HASHES), 0, [0, 0]
    portions.begin(fed)
    while position < 2 * HASHES:
        level = position // HASHES
        after = portions.next(position, 10, 2 * HASHES)
        assert position < after <= (level + 1) * HASHES, "a portion lies within its level"
        steps[level] += 1
        given = portions.fed_positions_between(position, after)
        assert given == (after - position if level in fed else 0)
        portions.note(given, 0, 1000.0, 10)
        position = after
    assert all((steps[level] == 1) == (level not in fed) for level in (0, 1))


def test_after_a_restart_every_level_may_have_feeds() -> None:
    assert Portions(HASHES).next(HASHES, 0, 2 * HASHES) - HASHES == HASHES // FIRST_PARTS
