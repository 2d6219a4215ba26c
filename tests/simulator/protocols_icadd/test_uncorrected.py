"""Each rule of the source document that is corrected, and each part of the corrected rules, is found by the simulator if it is left out."""

from __future__ import annotations

import pytest

from protocols.icadd import Region
from tests.simulator.protocols_icadd import uncorrected
from tests.simulator.protocols_icadd.world import first_failure

SEEDS, RARE_SEEDS = 500, 10_000

REGIONS: dict[str, tuple[type[Region], str]] = {
    "I1": (uncorrected.WithoutEcho, "order"),
    "I2": (uncorrected.WithoutListing, "owner"),
    "I3": (uncorrected.WithoutMarker, "order"),
    "only returns wait for markers": (uncorrected.OnlyReturnsWait, "order"),
    "done before the markers": (uncorrected.DoneBeforeMarkers, "order"),
    "the version rule for anybody": (uncorrected.TakesFromAnybody, "state"),
    "the forwarder's own version": (uncorrected.ForwardsWithItsOwnVersion, "order"),
    "add_keys of one lane": (uncorrected.AsksOneLane, "state"),
    "add_state keeps the first": (uncorrected.DoesNotOverwrite, "state"),
}
"""By name: the rule, and the word with which the assertion begins (see `oracle.py`)."""


@pytest.mark.long
@pytest.mark.parametrize("name", REGIONS)
def test_an_uncorrected_rule_is_found(name: str) -> None:
    region, word = REGIONS[name]
    assert first_failure(range(SEEDS), word, region), f"{name}: no seed fails with an assertion about {word}"


def test_a_take_that_gives_twice_is_found() -> None:
    assert first_failure(range(SEEDS), "state", operator=uncorrected.TakesOnEveryLane)


@pytest.mark.soak
def test_a_done_before_the_drops_is_found() -> None:
    """The state of a key must come back while a lane still has the word to forget it, which few seeds bring about."""
    assert first_failure(range(RARE_SEEDS), "owner", uncorrected.DoneBeforeDrops)
