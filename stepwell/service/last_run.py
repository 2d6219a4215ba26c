"""How the last run of a project ended: its last status, in a file beside the state.

A service that has ended cannot answer, but a command can read from this file why it ended. A run that was killed does not write the file,
which is then that of an earlier run. So the file also names the process.

A full disk may be the reason why a run ended, and then no file can be replaced. So a run begins with a file of blanks, the reserve, and writes
the status over them if it must. That takes no new room on most file systems.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from base.logger import Logger
from base.secrets import hidden_in
from base.whole_file import write_whole
from stepwell.service.compared import COMPARED

_log = Logger("stepwell.last_run")

LAST_RUN_FILE = "last_run.json"
RESERVE_FILE = "last_run.reserve"

RESERVE_BYTES = 32 << 10
"""The status of a pipeline with some hundred partitions has less. Of a larger one the largest parts are left out."""

ERROR_CHARACTERS_MAX = 4000
"""An error is never left out. The longest texts list what Spark found wrong, and begin with the place."""


def reserve_last_run(folder: Path) -> None:
    """Makes room for the status with which this run will end, and forgets what a former run has written there. On a full disk a reserve that is
    there is cleared all the same."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fill_reserve(folder, b"")
    except OSError as fault:
        _log.warning("no room could be reserved for the last status", folder=str(folder), fault=str(fault))


def write_last_run(folder: Path, status: dict[str, Any]) -> None:
    """Replaces the whole file; if that is not possible, as on a full disk, it writes into the reserve. If that is not possible either, the file
    stays as it was, a warning is logged, and the reason why the run ended is still reported."""
    kept = hidden_in({**status, "pid": os.getpid()}, COMPARED)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / LAST_RUN_FILE, json.dumps(kept, indent=1))
    except OSError as fault:
        try:
            _fill_reserve(folder, _short_enough(kept))
        except OSError:
            _log.warning("the last status could not be kept", folder=str(folder), fault=str(fault))


def read_last_run(folder: Path) -> dict[str, Any] | None:
    """The status, with the process id as `pid`; None if no run has ended yet. What is in the reserve is newer than the file."""
    whole, reserved = _read(folder / LAST_RUN_FILE), _read(folder / RESERVE_FILE)
    return whole if reserved is None else {**(whole or {}), **reserved}


def _fill_reserve(folder: Path, content: bytes) -> None:
    """Writes over the blocks that the file has."""
    descriptor = os.open(folder / RESERVE_FILE, os.O_WRONLY | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.ljust(RESERVE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _short_enough(status: dict[str, Any]) -> bytes:
    """The status without the largest of its parts, until the rest fits."""
    kept = dict(status)
    if isinstance(error := kept.get("error"), str):
        kept["error"] = error[:ERROR_CHARACTERS_MAX]
    while len(text := json.dumps(kept).encode()) > RESERVE_BYTES:
        del kept[max(kept.keys() - {"pid", "error"}, key=lambda name: len(json.dumps(kept[name])))]
    return text


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text())
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None
