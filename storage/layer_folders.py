"""The folders of layers, beside the committed environment. They count only while the description names them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from storage import environments
from storage.description import Description

COMPACT = "compact-"
"""How the name of a copy of the committed environment begins that is not finished."""


def with_working(path: Path, old: Description) -> Description:
    """Creates an empty working layer, before a description names it. Its name is never used twice."""
    number = old.layers_made + 1
    base = old.freezing or old.last
    name = f"layer-{number}-v{base.version}-e{old.epoch}-{old.boot}"
    environments.remove(path / name)  # left by a freeze that was killed here; it held the lock that we hold now
    environments.create(path / name, synced=False)
    return replace(old, working=name, layers_made=number)


def remove_layers(path: Path) -> None:
    """Removes every layer, and a copy that was not finished. The caller holds the committed environment's lock, so that
    a fenced process cannot remove a layer that a later `open` has made."""
    for folder in path.iterdir():
        if folder.name.startswith(("layer-", COMPACT)):
            environments.remove(folder)
    for folder in path.glob("removed-*"):
        shutil.rmtree(folder, ignore_errors=True)


def disk_bytes(folder: Path) -> int:
    try:
        return sum(file.stat().st_blocks * 512 for file in folder.iterdir())
    except FileNotFoundError:
        return 0  # the layer has been folded in the meantime
