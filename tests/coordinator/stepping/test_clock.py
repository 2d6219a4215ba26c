"""The time of a step never goes back, and a step without input comes when a row crosses a border, or at each tick if a view computes with the
clock."""

from __future__ import annotations

from dataclasses import replace

from base.text.timestamps import DAY_US
from coordinator.stepping.clock import ClockReading, StepClock, reading_of
from engine.model.circuit import Circuit, Node
from engine.model.clock import CLOCK_TYPES, ClockBound, ClockValue, TemporalFilter
from engine.model.node import Expression
from engine.model.rows import Constant, ScalarMap
from tests.engine.every_kind import LONG

BY_BORDERS, COMPUTED, NOT_READ = ClockReading(True), ClockReading(True, frozenset({1})), ClockReading(False)
SECOND = 1_000_000

FILTER = TemporalFilter((0, 1), (LONG,), (ClockBound((), "<", 0),))
COMPUTING = ScalarMap((0, 1), (LONG,), 1, None, (Expression("c0", LONG, 0),))


def test_how_a_circuit_reads_the_clock() -> None:
    def found(*above: Node) -> ClockReading:
        return reading_of(Circuit((Constant((), (LONG,), b""), ClockValue((0,), CLOCK_TYPES), *above)))

    assert found(FILTER) == BY_BORDERS
    assert found(FILTER, COMPUTING) == COMPUTED
    days = ClockValue((0,), CLOCK_TYPES, DAY_US)
    assert found(days, replace(COMPUTING, inputs=(0, 2))) == ClockReading(True, frozenset({DAY_US}))
    assert reading_of(Circuit((Constant((), (LONG,), b""),))) == NOT_READ


def test_the_time_is_rounded_down_and_never_goes_back() -> None:
    clock = StepClock(BY_BORDERS, SECOND)
    assert clock.time(10 * SECOND + 7, None) == 10 * SECOND
    assert clock.time(12 * SECOND - 1, 10 * SECOND) == 11 * SECOND
    assert clock.time(3 * SECOND, 11 * SECOND) == 11 * SECOND
    assert clock.time(-5, None) == 0
    assert StepClock(NOT_READ, SECOND).time(10 * SECOND, None) is None


def test_a_run_that_ends_has_one_time() -> None:
    clock = StepClock(COMPUTED, SECOND, until_us=10 * SECOND)
    assert clock.is_due(10 * SECOND, 9 * SECOND)
    assert clock.time(99 * SECOND, 9 * SECOND) == 10 * SECOND
    assert not clock.is_due(99 * SECOND, 10 * SECOND)


def test_a_view_that_computes_with_the_clock_needs_a_step_at_each_tick() -> None:
    clock = StepClock(COMPUTED, SECOND)
    clock.note(SECOND, None, is_whole=True)
    assert clock.is_due(10 * SECOND, None) and clock.is_due(11 * SECOND, 10 * SECOND)
    assert not clock.is_due(11 * SECOND - 1, 10 * SECOND) and not clock.is_due(9 * SECOND, 10 * SECOND)


def test_a_view_that_computes_with_the_date_needs_a_step_a_day() -> None:
    clock = StepClock(ClockReading(True, frozenset({DAY_US})), SECOND)
    clock.note(SECOND, None, is_whole=True)
    assert not clock.is_due(DAY_US - 1, SECOND) and clock.is_due(DAY_US, SECOND)


def test_nothing_is_due_before_the_next_border() -> None:
    clock = StepClock(BY_BORDERS, SECOND)
    assert clock.is_due(11 * SECOND, 10 * SECOND), "nobody knows the border after a start"
    assert clock.asks(11 * SECOND)
    clock.note(11 * SECOND, 60 * SECOND, is_whole=True)
    assert not clock.is_due(59 * SECOND, 11 * SECOND) and not clock.asks(59 * SECOND)
    assert clock.is_due(60 * SECOND, 11 * SECOND) and clock.asks(60 * SECOND)
    clock.note(60 * SECOND, None, is_whole=True)
    assert not clock.is_due(10**6 * SECOND, 60 * SECOND), "there is no border any more"


def test_rows_that_come_may_bring_an_earlier_border() -> None:
    clock = StepClock(BY_BORDERS, SECOND)
    clock.note(SECOND, 60 * SECOND, is_whole=True)
    clock.note(2 * SECOND, 30 * SECOND, is_whole=False)
    assert clock.is_due(30 * SECOND, 2 * SECOND) and not clock.is_due(29 * SECOND, 2 * SECOND)
    clock.note(3 * SECOND, 40 * SECOND, is_whole=False)
    assert clock.is_due(30 * SECOND, 3 * SECOND)


def test_a_border_that_passed_in_a_step_that_was_not_asked_is_unknown_again() -> None:
    """The step was given before the one that told the border was settled."""
    clock = StepClock(BY_BORDERS, SECOND)
    clock.note(SECOND, 5 * SECOND, is_whole=True)
    clock.note(6 * SECOND, None, is_whole=False)
    assert clock.asks(7 * SECOND) and clock.is_due(7 * SECOND, 6 * SECOND)
    clock.note(7 * SECOND, 9 * SECOND, is_whole=False)
    assert clock.asks(8 * SECOND), "the rows of one step say nothing of the others"
