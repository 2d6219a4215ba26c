"""The machine that chooses the number of workers, over simulated pipelines: it neither oscillates, nor lets a lag grow where the greatest
number of workers is enough; and it says why."""

from __future__ import annotations

import math
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.machine import InvalidTransition
from coordinator.automatic.choice import Surroundings, WorkersLimits
from coordinator.automatic.load import LoadSample
from coordinator.automatic.machine import REFUSED_SECONDS, AutoMachine
from coordinator.automatic.phases import Cooling, Off, RescaleAsked, Watching
from tests.coordinator.automatic.simulated import World, linear, sampled, saturating, steady, sublinear
from tests.examples import examples

HOUR, DAY = 3600.0, 86_400.0


# More workers


def test_a_load_that_one_worker_does_not_manage_gets_more_within_two_minutes_and_then_no_others() -> None:
    world = World(steady(120_000))
    world.run(2 * HOUR)
    assert [kind for *_, kind in world.changes] == ["backlog", "backlog"]
    assert world.changes[0][0] <= 60, "it is noticed within a minute"
    assert world.changes[-1][0] <= 180 and world.workers == 4
    assert world.lag == pytest.approx(0, abs=world.step_rows_max)
    reason = next(choice.reason for *_, choice in world.history if choice.workers is not None)
    assert "rows wait" in reason and "120,000 rows/s arrive" in reason and "5 min are allowed" in reason


def test_a_backlog_that_would_take_too_long_is_drained_in_time_although_the_rate_is_low() -> None:
    world = World(steady(10_000), move_s=10)
    world.lag = world.capacity(1) * 1200
    world.run(HOUR)
    assert world.kinds[0] == "backlog"
    drained_at = next(at for at, _, lag, _ in world.history if lag < world.step_rows_max)
    last = [at for at, *_, kind in world.changes if kind == "backlog"][-1]
    assert last < 150 and drained_at <= last + world.move_s + 1.2 * 300, "what is expected is an estimate"


def test_a_backlog_that_is_drained_in_time_changes_nothing() -> None:
    world = World(steady(10_000))
    world.lag = world.capacity(1) * 150
    world.run(HOUR)
    assert not world.changes
    assert any("would be done with it in" in choice.reason for *_, choice in world.history)


def test_many_small_steps_are_not_held_for_a_full_load() -> None:
    """The workers are busy all the time, because a step is never larger than what has arrived meanwhile. DS2 would see a utilisation of 1."""
    world = World(steady(24_000))
    world.run(HOUR)
    assert not world.changes
    known = world.machine.known
    assert known.busy_share > 0.9 and known.rows_per_s is not None
    assert known.rows_per_s == pytest.approx(world.capacity(1), rel=0.25)


def test_more_workers_come_before_there_is_a_backlog() -> None:
    world = World(sampled([10_000, 46_000], HOUR))
    world.run(2 * HOUR)
    assert world.kinds == ["load"] and world.lag_s() < 5


def test_a_lag_that_grows_while_the_workers_have_time_is_not_theirs() -> None:
    """Something else holds the steps."""
    machine = AutoMachine(1000, WorkersLimits(1, 4))
    world = World(steady(0))
    for minute in range(20):
        sample = world_sample(rows=1000, busy_s=3.0, lag=10_000 + 1000 * minute, workers=1, steps=10)
        choice = machine.take(sample, Surroundings())
        assert choice.workers is None
    assert choice.kind == "elsewhere" and "30 % of the time: more workers would not help" in choice.reason
    assert world.workers == 1


def test_steps_without_rows_say_nothing_of_what_the_workers_manage() -> None:
    """Such as those that only fill what is new."""
    machine = AutoMachine(1000, WorkersLimits(1, 4))
    for _ in range(20):
        choice = machine.take(world_sample(rows=0, busy_s=9.9, lag=10**6, workers=2), Surroundings())
        assert choice.workers is None, choice


def world_sample(*, rows: int, busy_s: float, lag: int, workers: int, steps: int = 1) -> LoadSample:
    from coordinator.automatic.load import StepClass

    size = (rows // steps).bit_length()
    return LoadSample(
        10.0, busy_s, rows, rows, lag, workers, {size: StepClass(steps, rows, 1e3 * busy_s)} if rows else {}
    )


def test_a_load_that_the_most_workers_do_not_manage_is_told() -> None:
    world = World(steady(120_000), limits=WorkersLimits(1, 2))
    world.run(HOUR)
    last = world.history[-1][3]
    assert world.workers == 2 and last.kind == "limit" and "allow no more than 2 workers" in last.reason


# Fewer workers


def test_idle_workers_leave_after_the_window_and_never_below_the_least() -> None:
    world = World(steady(0), workers=6, limits=WorkersLimits(2, 8))
    world.run(2 * HOUR)
    assert [(before, after) for _, before, after, _ in world.changes] == [(6, 2)]
    assert 900 <= world.changes[0][0] <= 960


def test_workers_that_a_light_load_does_not_need_leave() -> None:
    world = World(steady(10_000), workers=8)
    world.run(2 * HOUR)
    assert world.workers == 1 and set(world.kinds) == {"idle"} and world.lag_s() < 5


def test_a_pause_of_the_load_shorter_than_the_window_costs_no_change() -> None:
    world = World(lambda at: 0.0 if at % 900 < 700 else 110_000.0, workers=4, limits=WorkersLimits(1, 4))
    world.run(3 * HOUR)
    assert not world.changes


@pytest.mark.long
def test_a_load_that_comes_back_every_hour_makes_the_machine_patient() -> None:
    world = World(lambda at: 150_000.0 if at % HOUR < 300 else 5_000.0, limits=WorkersLimits(1, 4))
    world.run(8 * HOUR)
    early = [at for at, *_ in world.changes if at < 4 * HOUR]
    late = [at for at, *_ in world.changes if at > 5 * HOUR]
    assert early and not late, world.changes
    assert world.machine.patience > 1


# Patterns


def test_a_day_is_followed_with_few_changes_and_no_lag() -> None:
    def load(at: float) -> float:
        return 60_000 + 50_000 * math.sin(2 * math.pi * at / DAY)

    world = World(load, workers=2, speedup=sublinear)
    world.run(DAY)
    assert len(world.changes) <= 8 and world.lag_s() < 30
    assert world.turns(within_s=HOUR) == 0
    used = {workers for _, workers, _, _ in world.history}
    assert min(used) == 1 and max(used) >= 3, "it follows"


@pytest.mark.long
def test_a_load_that_grows_slowly_is_followed_before_it_is_too_much() -> None:
    world = World(lambda at: 10_000 + 2.5 * at, speedup=sublinear)
    world.run(12 * HOUR)
    assert world.kinds[0] == "load" and set(world.kinds) <= {"load", "backlog"} and world.lag_s() < 5
    assert all(after > before for _, before, after, _ in world.changes) and len(world.changes) <= 5


def test_single_bursts_are_drained_and_not_followed() -> None:
    """Of a burst of ten seconds nothing is left when new workers are there."""
    world = World(lambda at: 400_000.0 if at % 600 < 10 else 5_000.0)
    world.run(4 * HOUR)
    assert not world.changes


# What more workers bring


def test_workers_that_bring_nothing_are_found_out_undone_and_not_tried_again() -> None:
    """Two cores, and a load that is too much for them."""
    world = World(steady(120_000), speedup=saturating(2))
    world.run(4 * HOUR)
    assert [(before, after, kind) for _, before, after, kind in world.changes] == [
        (1, 2, "backlog"),
        (2, 4, "backlog"),
        (4, 2, "barren"),
    ]
    assert world.changes[-1][0] < 600
    last = world.history[-1][3]
    assert last.kind == "no gain" and "4 workers were" in last.reason and "times as fast as 2" in last.reason
    undone = next(choice for *_, choice in world.history if choice.kind == "barren")
    assert "they bring nothing" in undone.reason


def test_after_hours_more_workers_are_tried_once_more() -> None:
    world = World(steady(120_000), speedup=saturating(2))
    world.run(7 * HOUR)
    assert world.kinds.count("barren") == 2


@pytest.mark.long
def test_what_was_learnt_of_the_speed_up_is_used_for_the_next_change() -> None:
    """Four workers were found to be 2.8 times as fast as one, and not four times."""
    world = World(sampled([120_000, 5_000, 120_000], 3 * HOUR), speedup=lambda n: n**0.75)
    world.run(9 * HOUR)
    known = world.machine.known
    tried = sorted({workers for _, workers, _, _ in world.history})
    for fewer in tried:
        for more in tried:
            assert known.capacities.rows_per_s_of(more) is not None
            found = (known.rows_per_s_of(more) or 0) / (known.rows_per_s_of(fewer) or 1)
            assert found == pytest.approx(world.capacity(more) / world.capacity(fewer), rel=0.3)
    second = [change for change in world.changes if change[0] > 6 * HOUR]
    assert len(second) == 1, "what was tried is taken at once"
    assert world.lag_s(since=7 * HOUR) < 1


# Bounds, refusals, and what is in the way


def test_a_number_outside_of_the_bounds_is_brought_inside() -> None:
    for workers, least, most, slots, then in ((1, 3, 5, None, 3), (8, 3, 5, None, 5), (8, 3, 8, 6, 6), (2, 3, 8, 1, 1)):
        world = World(steady(1_000), workers=workers, limits=WorkersLimits(least, most), slots=slots)
        world.run(300)
        assert (world.kinds[0], world.workers) == ("bounds", then)


def test_a_number_of_workers_that_was_refused_is_not_asked_for_again_at_once() -> None:
    asked: list[float] = []

    def refuses(workers: int) -> str:
        if workers < 3:
            return ""
        asked.append(world.now)
        return "Spark has 2 task slots."

    world = World(steady(120_000), refuses=refuses)
    world.run(2 * HOUR)
    assert world.workers == 2
    assert len(asked) <= 8 and asked[0] < 300, asked
    by_number = [at for at in asked if at > asked[0]]
    assert by_number and world.history[-1][3].kind == "refused"
    assert "were refused: Spark has 2 task slots." in world.history[-1][3].reason


def test_a_change_that_could_not_begin_counts_as_refused() -> None:
    """It was accepted, and then no tasks came."""
    machine = AutoMachine(100, WorkersLimits(2, 2))
    assert machine.take(world_sample(rows=100, busy_s=1, lag=0, workers=1), Surroundings()).workers == 2
    moving = LoadSample(10.0, 1.0, 100, 100, 0, 1, {}, is_changing=True)
    machine.take(moving, Surroundings())
    machine.take(world_sample(rows=100, busy_s=1, lag=0, workers=1), Surroundings(fault="no task slots"))
    assert machine.refusals[2].why == "no task slots"
    assert isinstance(machine.phase, Cooling)
    seconds = 0.0
    while (choice := machine.take(world_sample(rows=100, busy_s=1, lag=0, workers=1), Surroundings())).workers is None:
        seconds += 10.0
        assert choice.kind in ("cooling", "refused")
    assert seconds >= REFUSED_SECONDS - 20


def test_nothing_is_asked_for_while_something_is_in_the_way() -> None:
    world = World(steady(200_000))
    for _ in range(60):
        choice = world.sample(Surroundings(blocked="the service is paused."))
        assert (choice.kind, choice.workers, choice.reason) == ("blocked", None, "the service is paused.")
    assert world.sample().workers is not None


def test_the_machine_rests_after_a_change_by_hand_and_takes_its_number() -> None:
    world = World(steady(1_000), workers=1, limits=WorkersLimits(1, 4), move_s=200)
    world.run(100)
    world.change_by_hand(3)
    world.run(210)
    assert world.workers == 3
    kinds = [world.sample().kind for _ in range(60)]
    rest = list(takewhile(lambda kind: kind == "cooling", kinds))
    assert kinds[len(rest)] == "waiting", "what steps of some rows cost says nothing of what the workers bring"
    assert 380 <= 10 * len(rest) <= 440, "twice as long as the change took"
    assert not world.changes
    world.run(HOUR)
    assert world.kinds == ["idle"]


def test_a_change_that_takes_longer_than_the_backlog_is_not_made() -> None:
    world = World(steady(10_000), state_bytes=200_000_000_000)
    world.lag = world.capacity(1) * 400
    world.run(300)
    assert not world.changes
    assert any(choice.kind == "cost" and "But with the change" in choice.reason for *_, choice in world.history)


def test_a_change_that_takes_long_needs_a_long_time_with_a_low_load() -> None:
    small, large = World(steady(1_000), workers=2), World(steady(1_000), workers=2, state_bytes=200_000_000_000)
    for world in (small, large):
        world.run(2 * HOUR)
    assert small.workers == 1 and small.changes[0][0] < 1000
    assert large.changes[0][0] > 2 * small.changes[0][0], "200 GB take eleven minutes"


def test_users_take_over_and_give_back() -> None:
    world = World(steady(120_000), limits=None)
    world.run(300)
    assert isinstance(world.machine.phase, Off) and not world.changes
    world.limits = WorkersLimits(1, 8)
    world.machine.bound(world.limits)
    assert isinstance(world.machine.phase, Watching)
    assert world.sample().workers == 2, "what was sampled before is known"
    world.machine.bound(None)
    assert isinstance(world.machine.phase, Off)
    with pytest.raises(AssertionError):
        world.machine.refused("too late")
    with pytest.raises(InvalidTransition):
        world.machine.withdrawn()


def test_a_change_that_somebody_else_was_before_says_nothing_of_its_number() -> None:
    machine = AutoMachine(100, WorkersLimits(2, 2))
    machine.take(world_sample(rows=100, busy_s=1, lag=0, workers=1), Surroundings())
    assert isinstance(machine.phase, RescaleAsked)
    machine.withdrawn()
    assert not machine.refusals and isinstance(machine.phase, Watching)


def test_an_interruption_empties_the_windows_and_keeps_what_was_learnt() -> None:
    world = World(steady(0), workers=2)
    world.load = steady(20_000)
    world.run(600)
    before = world.machine.known.capacities
    world.machine.interrupt(1000)
    world.machine.check()
    assert world.machine.known.capacities == before
    assert world.sample().kind == "watching"


# Any load


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A load that stays for a while at each of some rates, over a pipeline that manages it with the most workers."""
    speedup = draw(st.sampled_from((linear, sublinear, saturating(2), saturating(3))))
    least = draw(st.integers(1, 3))
    most = draw(st.integers(least, 8))
    world = World(
        steady(0),
        workers=draw(st.integers(least, most)),
        speedup=speedup,
        limits=WorkersLimits(least, most),
        noise=draw(st.sampled_from((0.0, 0.05, 0.1))),
        move_s=draw(st.sampled_from((5.0, 30.0, 120.0))),
        seed=draw(st.integers(0, 1000)),
    )
    can = max(world.capacity(number) for number in range(least, most + 1))
    parts = draw(st.lists(st.floats(0.0, 0.6), min_size=1, max_size=4))
    world.load = sampled([part * can for part in parts], HOUR)
    world.rates = len(parts)
    return world


@pytest.mark.long
@settings(deadline=None, max_examples=examples(20))
@given(worlds())
def test_it_neither_oscillates_nor_lets_the_lag_grow(world: World) -> None:
    world.run(HOUR * (world.rates + 2))
    assert world.limits is not None
    story = str(world.changes)
    numbers = {workers for _, workers, _, _ in world.history}
    assert all(world.limits.least <= number <= world.limits.most for number in numbers), story
    # up to three changes up or down for each rate, one of which may be found out to bring nothing, and undone
    assert len(world.changes) <= 5 * (world.rates + 1), story
    last_change_of_load = HOUR * (world.rates - 1)
    late = [change for change in world.changes if change[0] > last_change_of_load + 1.5 * HOUR]
    assert len(late) <= 1, f"the load has not changed for hours: {story}"
    assert world.lag <= max(3 * world.step_rows_max, 10 * world.load(world.now)), (
        f"a lag of {world.lag:,.0f} is left: {story}"
    )
    assert world.turns(within_s=1800) == 0, story


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.sampled_from((0, 1, 50, 5_000, 1_000_000)),  # rows
            st.sampled_from((0, 10, 10_000, 10**9)),  # lag
            st.sampled_from((0.0, 0.5, 9.9)),  # busy
            st.integers(1, 9),  # workers
            st.sampled_from(("", "", "", "changing", "disturbed")),
            st.sampled_from(("", "", "blocked")),
            st.sampled_from(("accept", "refuse", "withdraw", "off", "on", "gap")),
        ),
        max_size=80,
    )
)
def test_the_invariants_hold_over_any_samples(moments: list[tuple[int, int, float, int, str, str, str]]) -> None:
    """`take` checks them after each one, and that a change is one that may be asked for."""
    machine = AutoMachine(10_000, WorkersLimits(2, 6))
    for rows, lag, busy_s, workers, flag, blocked, event in moments:
        if event == "gap":
            machine.interrupt(500.0)
        if event in ("on", "off"):
            machine.bound(WorkersLimits(1, 4) if event == "on" else None)
        plain = world_sample(rows=rows, busy_s=busy_s, lag=lag, workers=workers)
        flags = {f"is_{flag}": True} if flag else {}
        sample = LoadSample(**{**plain.__dict__, **flags})
        choice = machine.take(sample, Surroundings(blocked, slots=5, state_bytes=lag))
        assert choice.reason
        if choice.workers is not None and event == "refuse":
            machine.refused("no disk")
        elif choice.workers is not None and event == "withdraw":
            machine.withdrawn()
        machine.check()
