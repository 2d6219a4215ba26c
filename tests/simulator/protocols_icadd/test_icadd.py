"""ICADD at adversarial delays: 100 seeds here, 10,000 in `make soak`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.protocols_icadd.world import World

CHUNK_SEEDS, SUITE_CHUNKS, SOAK_CHUNKS = 25, 4, 400

HAPPENS = ("scale-out", "scale-in", "Routed", "Marker", "Acquire", "Done", "Probe", "Echo", "hold", "release")
"""What every chunk must bring about. Otherwise its seeds would prove less than they say."""


def _run(chunk: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(chunk * CHUNK_SEEDS, (chunk + 1) * CHUNK_SEEDS):
        world = World(seed)
        world.run()
        happened += world.shell.happened
    assert not [what for what in HAPPENS if happened[what] < CHUNK_SEEDS // 5]


@pytest.mark.parametrize("chunk", range(SUITE_CHUNKS))
def test_every_record_is_processed_once_in_order_and_where_its_state_is(chunk: int) -> None:
    _run(chunk)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SUITE_CHUNKS, SOAK_CHUNKS))
def test_many_more_seeds(chunk: int) -> None:
    _run(chunk)


def test_one_seed_is_one_story() -> None:
    one, two = World(7), World(7)
    one.run()
    two.run()
    assert one.shell.story == two.shell.story and one.shell.happened == two.shell.happened
