"""What outlives a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def make_folders(folder: Path) -> None:
    """Makes the folder and those above it, like `mkdir -p`, and makes them durable."""
    if not folder.exists():
        make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(place: Path) -> None:
    """Makes the entries of a folder durable, or the content of a file."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
