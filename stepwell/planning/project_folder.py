"""The folder of a project, as far as a user has made it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def own_folders(root: Path, storage: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Each folder with the names of its folders and files, in a fixed order, without the storage folder, hidden folders and compiled modules.
    As with os.walk, a folder that is taken out of the names is not entered."""
    for folder, folders, names in os.walk(root):
        kept = (name for name in sorted(folders) if not name.startswith(".") and name != "__pycache__")
        folders[:] = [name for name in kept if Path(folder, name) != storage]
        yield Path(folder), folders, sorted(names)
