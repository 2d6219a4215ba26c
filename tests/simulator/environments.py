"""Stands where `storage.database` has `storage.environments`: the same functions, over the simulated disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from storage.environments import Gone
from tests.simulator.disk import Environment, SimPath


@contextmanager
def open_environment(folder: SimPath, *, synced: bool) -> Iterator[Environment]:
    environment = folder.node
    if not isinstance(environment, Environment) or not environment.made:
        raise Gone(folder)  # type: ignore[arg-type]
    assert environment.synced == synced or synced, f"{folder} is opened with sync={synced}"
    environment.synced = synced  # a database that is restored is filled without syncs
    environment.folder = folder  # it may have been renamed
    yield environment


def create(folder: SimPath, *, synced: bool) -> None:
    environment = folder.add_environment(synced=synced)
    folder._point("touch")
    environment.made = True


@contextmanager
def lock_writer(folder: SimPath, epoch: int) -> Iterator[None]:
    environment = folder.node
    if not isinstance(environment, Environment):
        raise Gone(folder)  # type: ignore[arg-type]
    with environment.locked(epoch):
        yield


def remove(folder: SimPath) -> None:
    grave = folder.with_name(f"removed-{folder.name}")
    node = folder.node
    try:
        folder.rename(grave)
    except FileNotFoundError:
        return
    if isinstance(node, Environment):
        node.removed = True  # under its former name, which is how it is found
    grave.rmtree()


def retire_except(database: SimPath, keep: frozenset[SimPath] = frozenset()) -> None:
    """Handles are no cache here."""


def close_all() -> None:
    """As above."""


@contextmanager
def disk_faults(folder: SimPath) -> Iterator[None]:
    yield
