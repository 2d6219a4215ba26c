"""How the last run of a project ended: its last status, in a file beside the state.

A service that has ended cannot answer, but a command can read from this file why it ended. A run that was killed does not write the file,
which is then that of an earlier run. So the file also names the process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import structlog

from base.secrets import hidden_in
from base.whole_file import write_whole
from stepwell.service.compared import COMPARED

_log = structlog.get_logger("stepwell.last_run")

LAST_RUN_FILE = "last_run.json"


def write_last_run(folder: Path, status: dict[str, Any]) -> None:
    """Replaces the whole file. A full disk may be the reason why the run ended. Then the file stays as it was, a warning is logged, and the
    reason why the run ended is still reported."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = hidden_in({**status, "pid": os.getpid()}, COMPARED)
        write_whole(folder / LAST_RUN_FILE, json.dumps(kept, indent=1))
    except OSError as fault:
        _log.warning("the last status could not be kept", folder=str(folder), fault=str(fault))


def read_last_run(folder: Path) -> dict[str, Any] | None:
    """The status, with the process id as `pid`; None if no run has ended yet."""
    try:
        found = json.loads((folder / LAST_RUN_FILE).read_text())
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None
