"""Whether a transition has room: what it needs is that of the nodes that fill it, shared as the workers share the state."""

from __future__ import annotations

import pytest

from coordinator.checkpoints.checkpointing import bytes_of_nodes
from coordinator.revisions.requests import TransitionRefused
from coordinator.transition.disk_space import DiskSpace
from engine.model.numbers import table_of
from engine.resident.crew import DiskUse
from engine.resident.messages import LayerFolded

FOLDERS = {0: "/a/workers", 1: "/a/workers", 2: "/b/workers"}


def disk_space(*free_bytes: int, **node_bytes: int) -> DiskSpace:
    """Workers 0 and 1 are on one host, with a half and a quarter of the state."""
    hosts, state = ("a", "a", "b"), (200, 100, 100)
    use = {i: DiskUse(hosts[i], state[i], free) for i, free in enumerate(free_bytes)}
    return DiskSpace({int(name[1:]): size for name, size in node_bytes.items()}, use, FOLDERS)


@pytest.mark.parametrize(
    ("free", "fed", "folder"),
    [
        ((75, 75, 25), (1,), None),
        ((74, 80, 25), (1,), "/a/workers"),
        ((80, 74, 25), (1,), "/a/workers"),
        ((75, 75, 24), (1,), "/b/workers"),
        ((75, 75, 25), (1, 2), "/a/workers"),
        ((0, 0, 0), (), None),
        ((0, 0, 0), (3,), None),  # of which nothing is known
    ],
)
def test_what_fills_has_to_fit_on_each_host(free: tuple[int, ...], fed: tuple[int, ...], folder: str | None) -> None:
    found = disk_space(*free, n1=100, n2=300)
    if folder is None:
        found.check(fed)
        return
    with pytest.raises(TransitionRefused, match=f"bytes are free on the disk of {folder}. Nothing was changed. Free"):
        found.check(fed)


def test_a_pipeline_without_state_has_room() -> None:
    DiskSpace({1: 100}, {0: DiskUse("a", 0, 0)}, FOLDERS).check((1,))


def test_the_bytes_of_a_node_are_those_of_its_tables_on_all_workers() -> None:
    folded = [
        LayerFolded(
            versions=(), table_bytes={table_of(4): 1, table_of(4) + 1: 10, 3: 1000}, disk_bytes={}, free_bytes=0
        ),
        LayerFolded(versions=(), table_bytes={table_of(4): 100, table_of(5): 7}, disk_bytes={}, free_bytes=0),
    ]
    assert bytes_of_nodes(folded) == {4: 111, 5: 7}
