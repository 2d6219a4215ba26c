"""Each rule of the source document that is mended, and each part of the mended rules, is found by the simulator if it is left out."""

from __future__ import annotations

import pytest

from coordinator.migration.icadd import Region
from tests.simulator.protocols_icadd import unmended
from tests.simulator.protocols_icadd.world import first_failure

SEEDS, RARE_SEEDS = 500, 10_000

REGIONS: dict[str, tuple[type[Region], str]] = {
    "I1": (unmended.WithoutEcho, "order"),
    "I2": (unmended.WithoutListing, "owner"),
    "I3": (unmended.WithoutMarker, "order"),
    "only returns wait for markers": (unmended.OnlyReturnsWait, "order"),
    "done before the markers": (unmended.DoneBeforeMarkers, "order"),
    "the version rule for anybody": (unmended.TakesFromAnybody, "state"),
    "the forwarder's own version": (unmended.ForwardsWithItsOwnVersion, "order"),
    "add_keys of one lane": (unmended.AsksOneLane, "state"),
    "add_state keeps the first": (unmended.DoesNotOverwrite, "state"),
}
"""By name: the rule, and the word with which the assertion begins (see `oracle.py`)."""


@pytest.mark.parametrize("name", REGIONS)
def test_an_unmended_rule_is_found(name: str) -> None:
    region, word = REGIONS[name]
    assert first_failure(range(SEEDS), word, region), f"{name}: no seed fails with an assertion about {word}"


def test_a_take_that_gives_twice_is_found() -> None:
    assert first_failure(range(SEEDS), "state", operator=unmended.TakesOnEveryLane)


@pytest.mark.soak
def test_a_done_before_the_drops_is_found() -> None:
    """The state of a key must come back while a lane still has the word to forget it, which few seeds bring about."""
    assert first_failure(range(RARE_SEEDS), "owner", unmended.DoneBeforeDrops)
