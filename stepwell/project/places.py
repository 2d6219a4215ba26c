"""Folders in which Stepwell is to write, before it writes there."""

from __future__ import annotations

import os
from pathlib import Path


def nearest_folder(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def unwritable_part(folder: Path) -> Path | None:
    """The folder, or the nearest one above it, in which this user can make nothing; None if it can."""
    place = nearest_folder(folder)
    return None if place.is_dir() and os.access(place, os.W_OK) else place
