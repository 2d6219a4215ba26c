"""The simulator finds that each rule of the source document fails, and where it does, what the rule is about is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from protocols.assignment import Naming
from tests.simulator.protocols.uncorrected import UNCORRECTED
from tests.simulator.protocols.world import Failure, Region, World, failure_of

SEEDS, COMPARED_SEEDS = 500, 200

TELLS = {
    "D1": r"place: \w+ processes record \d+ for .*, and the state is in [a-e]\d",
    "D2": r"fold: \w+ installs \d+ for .*, and records are lost by it",
    "D3": r"place: \w+ processes record \d+ for .*, and the state is in [a-e]\d",
    "D4": r"place: \w+ processes record \d+ for .*, and the state is in [a-e]\d",
}
"""D1: a new key is made in the old owner after its sets, and the next record of the key goes to the new owner. D2: the second copy of a state is
installed over a record that the new owner has processed. D3: a key that a later operator has is in no set, and its next record goes to the new
owner. D4: a key of one old owner is in no set of another one, and its next record goes to the new owner."""

NEEDS: dict[str, Callable[[Region], bool]] = {
    "D1": lambda region: region.changes[0].naming is Naming.EXPLICIT,
    "D2": lambda region: len(region.distributors) > 1,
    "D3": lambda region: any(len(chain) > 1 for chain in region.instances.values()),
    "D4": lambda region: any(len(change.givers()) > 1 for change in region.changes),
}
"""Without it, the uncorrected rule does no harm: so it is the rule that fails, and not the variant."""


def failures(rule: str, seeds: int) -> Iterator[Failure]:
    for seed in range(seeds):
        failure = failure_of(World(seed, UNCORRECTED[rule]))
        if failure is not None:
            yield failure


def failed_region(failure: Failure) -> Region:
    named = re.search(r"\((\d), \d, \d+\)", failure.text)
    assert named is not None, f"a machine notices it before the oracle: {failure.text}"
    return failure.world.regions[int(named[1])]


@pytest.mark.parametrize("rule", UNCORRECTED)
def test_an_uncorrected_rule_is_found(rule: str) -> None:
    told = next((failure for failure in failures(rule, SEEDS) if re.match(TELLS[rule], failure.text)), None)
    assert told is not None, f"no seed below {SEEDS} shows that the uncorrected {rule} fails"
    assert failure_of(World(told.world.seed)) is None, "the corrected rule passes the same seed"


@pytest.mark.long
@pytest.mark.parametrize("rule", UNCORRECTED)
def test_an_uncorrected_rule_fails_only_where_it_can(rule: str) -> None:
    found = [failed_region(failure) for failure in failures(rule, COMPARED_SEEDS)]
    assert len(found) > 5
    assert all(NEEDS[rule](region) for region in found)
