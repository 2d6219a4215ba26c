"""How large the portions of a transition are."""

from __future__ import annotations

import pytest

from coordinator.transition.portions import FIRST_PARTS, IDLE_MS, MESSAGES_FIRST, PARTS_MAX, Portions
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
    portions.begin()
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
