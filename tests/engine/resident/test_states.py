"""The states of a worker: every short sequence of orders against the diagram, and the orders that do not fit."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator

import pytest

from engine.resident.states import State, StepState

FIRST_STEP, LENGTH_MAX = 5, 6

ORDERS = ("step", "pause", "resume", "stop here", "stop later")


def begun() -> StepState:
    life = StepState()
    life.start(FIRST_STEP)
    return life


def obey(life: StepState, order: str) -> None:
    match order:
        case "step":
            life.begin_step(life.step)
            life.end_step()
        case "pause":
            assert life.pause() == life.step
        case "resume":
            assert life.resume() == life.step
        case "stop here":
            life.stop(life.step)
        case "stop later":
            life.stop(life.step + 2)


ALLOWED = {
    State.CLOSED: set[str](),
    State.RUN: {"step", "pause", "resume", "stop here", "stop later"},
    State.PAUSED: {"pause", "resume", "stop here", "stop later"},
    State.STOPPING: {"step"},
    State.STOPPED: set[str](),
}


def expected(life: StepState, order: str) -> tuple[State, int, int | None]:
    """The state after an order that fits: (state, step, where it stops)."""
    match order:
        case "step":
            step = life.step + 1
            return (State.STOPPED if step == life.stop_at else life.state), step, life.stop_at
        case "pause":
            return State.PAUSED, life.step, None
        case "resume":
            return State.RUN, life.step, None
        case "stop here":
            return State.STOPPED, life.step, life.step
        case _:
            return State.STOPPING, life.step, life.step + 2


def sequences(life: StepState, left: int) -> Iterator[tuple[StepState, str, StepState | None]]:
    """(before, order, after) for every sequence of orders; None after an order that is refused."""
    for order in ORDERS if left else ():
        after = copy.copy(life)
        try:
            obey(after, order)
        except AssertionError:
            yield life, order, None
            continue
        yield life, order, after
        yield from sequences(after, left - 1)


def test_every_short_sequence_of_orders_follows_the_diagram() -> None:
    seen: Counter[State] = Counter()
    for before, order, after in sequences(begun(), LENGTH_MAX):
        assert (after is not None) == (order in ALLOWED[before.state]), f"{order} in {before}"
        if after is not None:
            after.check()
            assert (after.state, after.step, after.stop_at) == expected(before, order)
            assert after.at_boundary == (after.state is not State.STOPPED)
            seen[after.state] += 1
    assert min(seen[state] for state in (State.RUN, State.PAUSED, State.STOPPING, State.STOPPED)) > 10, seen


def test_nothing_is_obeyed_before_the_database_is_open() -> None:
    assert not StepState().at_boundary
    for order in ORDERS:
        with pytest.raises(AssertionError, match="the worker is closed before step -1"):
            obey(StepState(), order)


def test_a_database_is_opened_once() -> None:
    with pytest.raises(AssertionError, match="start: the worker is run before step 5"):
        begun().start(7)


@pytest.mark.parametrize("step", [FIRST_STEP - 1, FIRST_STEP + 1])
def test_a_step_that_is_not_the_next_one_is_not_run(step: int) -> None:
    with pytest.raises(AssertionError, match=f"step {step}: the worker is run before step 5"):
        begun().begin_step(step)


def test_a_step_that_has_failed_may_begin_again() -> None:
    life = begun()
    life.begin_step(FIRST_STEP)
    life.begin_step(FIRST_STEP)
    life.end_step()
    assert life.step == FIRST_STEP + 1


def test_only_the_last_step_is_run_again_after_its_end() -> None:
    life = begun()
    life.begin_step(FIRST_STEP)
    life.end_step()
    for step in (FIRST_STEP - 1, FIRST_STEP + 1):
        with pytest.raises(AssertionError, match=f"step {step} again: the worker is run before step 6"):
            life.repeat_step(step)
    life.repeat_step(FIRST_STEP)
    life.begin_step(FIRST_STEP)
    life.end_step()
    life.pause()
    with pytest.raises(AssertionError, match="step 5 again: the worker is paused"):
        life.repeat_step(FIRST_STEP)


def test_nobody_stops_at_a_step_that_was_run() -> None:
    with pytest.raises(AssertionError, match="stop at 4"):
        begun().stop(FIRST_STEP - 1)


@pytest.mark.parametrize(
    "life",
    [
        StepState(State.CLOSED, 3),
        StepState(State.RUN, -1),
        StepState(State.RUN, 3, stop_at=4),
        StepState(State.STOPPING, 3),
        StepState(State.STOPPING, 3, stop_at=3),
        StepState(State.STOPPED, 3, stop_at=4),
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_noticed(life: StepState) -> None:
    with pytest.raises(AssertionError, match="check"):
        life.check()
