"""A new database is made beside its place and then renamed, so that after a crash it exists completely or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage import durable, environments
from storage.committed import COMMITTED
from storage.environments import DATA_FILE, Gone
from storage.errors import DatabaseExists, NotOpen

REMOVED_SUFFIX = ".old"
"""The suffix of a folder that is being removed. What a process that was killed has left of one is deleted later (host_folder.py)."""


@contextmanager
def new_database(path: Path, epoch: int, *, synced: bool = True) -> Iterator[Path]:
    """The committed environment of the database that is to be at `path`, which the body fills. When the body ends, the database is durable and
    at its place; if the body raises a fault, nothing is left. `synced`: whether the body opens the environment so; if not, its file is synced in
    the end. Raises DatabaseExists, StorageFull, and NotOpen if a run of a later epoch makes it meanwhile."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DatabaseExists(path)
    draft = path.with_name(f".{path.name}.new-e{epoch}")
    try:
        with environments.disk_faults(path.parent):
            durable.make_folders(path.parent)
            _remove_drafts(path, epoch)
            draft.mkdir()
            environments.create(draft / COMMITTED, synced=synced)
        yield draft / COMMITTED
        environments.retire_except(draft)
        with environments.disk_faults(path.parent):
            if not synced:
                durable.sync(draft / COMMITTED / DATA_FILE)
            durable.sync(draft / COMMITTED)
            durable.sync(draft)
            _rename(draft, path)
            durable.sync(path.parent)
    except Exception as fault:
        environments.retire_except(draft)
        if isinstance(fault, FileNotFoundError | Gone) and not draft.exists():
            raise NotOpen(path, epoch, "a newer run has removed the draft of it") from fault
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _rename(draft: Path, path: Path) -> None:
    try:
        draft.rename(path)
    except OSError as fault:
        if path.exists():
            raise DatabaseExists(path) from fault
        raise


def _remove_drafts(path: Path, epoch: int) -> None:
    """Removes the drafts of this epoch and of earlier ones. Their makers were killed, or may not go on. Each draft gets another name first: a
    maker that does go on would otherwise put what is left of its draft at the place."""
    form = re.compile(rf"\.{re.escape(path.name)}\.new-e(\d+)", re.ASCII)
    for folder in path.parent.iterdir():
        named = form.fullmatch(folder.name)
        if named is not None and int(named[1]) <= epoch:
            removed = set_aside(folder)
            if removed is not None:
                shutil.rmtree(removed, ignore_errors=True)


def set_aside(folder: Path) -> Path | None:
    """Gives a folder that is to be removed another name, so that nobody uses a part of it, and returns that. None if another process was
    faster."""
    removed = folder.with_name(f".{folder.name.removeprefix('.')}{REMOVED_SUFFIX}")
    shutil.rmtree(removed, ignore_errors=True)
    try:
        folder.rename(removed)
    except FileNotFoundError:
        return None
    return removed
