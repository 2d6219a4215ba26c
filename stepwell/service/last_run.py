"""How the last run of a project ended: its last status, in a file beside the state.

A service that is gone answers no question; who asks then should hear why it is gone. A run that was killed leaves the file of the run
before it, so the process is named in it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

_log = structlog.get_logger("stepwell.last_run")

LAST_RUN_FILE = "last_run.json"


def write_last_run(folder: Path, status: dict[str, Any]) -> None:
    """Replaces the file as a whole. A disk that is full may be the very reason why the run ended: then the file stays as it was, with a
    warning, and what ended the run is still reported."""
    draft = folder / f".{LAST_RUN_FILE}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({**status, "pid": os.getpid()}, indent=1))
        draft.rename(folder / LAST_RUN_FILE)
    except OSError as fault:
        with suppress(OSError):
            draft.unlink()
        _log.warning("the last status could not be kept", folder=str(folder), fault=str(fault))


def read_last_run(folder: Path) -> dict[str, Any] | None:
    """The status, with the process as `pid`; None where no run has ended."""
    try:
        found = json.loads((folder / LAST_RUN_FILE).read_text())
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None
