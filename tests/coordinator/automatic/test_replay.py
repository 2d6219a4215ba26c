"""What would have been decided over a recorded load."""

from __future__ import annotations

import pytest

from coordinator.automatic.choice import Surroundings, WorkersLimits
from coordinator.automatic.load import LoadSample
from coordinator.automatic.replay import Replayed, replay
from tests.coordinator.automatic.simulated import World, sampled, steady

HOUR = 3600.0


def recorded(world: World, seconds: float) -> list[LoadSample]:
    """The samples of a pipeline whose workers stay as they are."""
    samples: list[LoadSample] = []
    real = world.machine.take

    def take(sample: LoadSample, surroundings: Surroundings) -> object:
        samples.append(sample)
        return real(sample, surroundings)

    world.machine.take = take  # type: ignore[method-assign,assignment]
    world.run(seconds)
    assert not world.changes
    return samples


def replayed(samples: list[LoadSample], limits: WorkersLimits) -> Replayed:
    ends = [10.0 * (number + 1) for number in range(len(samples))]
    return replay(
        samples, ends, [0.0] * len(samples), limits=limits, step_rows_max=100_000, surroundings=Surroundings()
    )


def test_an_overload_would_have_got_more_workers_and_no_lag() -> None:
    samples = recorded(World(steady(80_000), limits=None), HOUR)
    found = replayed(samples, WorkersLimits(1, 8))
    first, *others = found.decisions
    assert (first.workers, first.choice.kind, first.is_computed) == (1, "backlog", False) and first.at <= 60
    assert all(decision.is_computed for decision in others) and len(others) <= 3
    assert found.lag_max < found.lag_max_recorded / 10 and found.workers > 1
    assert found.worker_s > found.worker_s_recorded == HOUR


def test_a_light_load_would_have_had_fewer_workers() -> None:
    samples = recorded(World(sampled([100_000, 5_000], HOUR), workers=6, limits=None), 3 * HOUR)
    found = replayed(samples, WorkersLimits(1, 8))
    assert {decision.choice.kind for decision in found.decisions} == {"idle"} and found.workers < 6
    assert found.worker_s < found.worker_s_recorded == pytest.approx(6 * 3 * HOUR)


def test_where_nothing_is_decided_the_record_is_what_was() -> None:
    samples = recorded(World(steady(20_000), workers=2, limits=None), HOUR)
    found = replayed(samples, WorkersLimits(2, 8))
    assert not found.decisions and found.last.kind == "fits" and found.workers == 2
    assert (found.lag_max, found.worker_s) == (found.lag_max_recorded, found.worker_s_recorded)
    assert found.seconds == HOUR
