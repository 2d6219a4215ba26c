"""Damion's protocol in worlds of dice: 100 seeds here, 10,000 in `make soak`."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.simulator.protocols.world import World, failure_of

SUITE_SEEDS, SOAK_SEEDS, CHUNK_SEEDS = 100, 10_000, 50

HAPPENS = {
    "out": 50,
    "in": 50,
    "turn": 133,
    "explicit": 133,
    "interval": 133,
    "several old owners": 116,
    "a new key during a change": 500,
    "Shutdown": 1000,
    "Named": 333,
    "Sets": 1000,
    "Final": 1166,
    "Packing": 333,
    "Redistribute": 1166,
    "State": 833,
    "Installed": 1333,
}
"""What the seeds of the suite must bring, at least."""


@cache
def run(first: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(first, first + CHUNK_SEEDS):
        world = World(seed)
        failure = failure_of(world)
        assert failure is None, f"{failure.text}\n{world.told()}"
        seen += world.seen
    return seen


@pytest.mark.parametrize("first", range(0, SUITE_SEEDS, CHUNK_SEEDS))
def test_records_and_states_are_whole_in_every_world(first: int) -> None:
    assert run(first)["Record"] > CHUNK_SEEDS


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SUITE_SEEDS, SUITE_SEEDS + SOAK_SEEDS, CHUNK_SEEDS))
def test_records_and_states_are_whole_in_many_worlds(first: int) -> None:
    assert run(first)["Record"] > CHUNK_SEEDS


def test_the_worlds_are_not_dull() -> None:
    seen = sum((run(first) for first in range(0, SUITE_SEEDS, CHUNK_SEEDS)), Counter[str]())
    dull = {what: seen[what] for what, least in HAPPENS.items() if seen[what] < least}
    assert not dull, f"of {dict(seen)}"


def test_a_seed_gives_the_same_world_again() -> None:
    one, two, other = World(7), World(7), World(8)
    for world in (one, two, other):
        world.run()
    assert one.story == two.story != other.story
