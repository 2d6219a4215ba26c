"""How the last run of a project ended: its last status, in a file beside the state.

A service that is gone answers no question; who asks then should hear why it is gone. A run that was killed leaves the file of the run
before it, so the process is named in it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LAST_RUN_FILE = "last_run.json"


def write_last_run(folder: Path, status: dict[str, Any]) -> None:
    """Replaces the file as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{LAST_RUN_FILE}.{os.getpid()}"
    draft.write_text(json.dumps({**status, "pid": os.getpid()}, indent=1))
    draft.rename(folder / LAST_RUN_FILE)


def read_last_run(folder: Path) -> dict[str, Any] | None:
    """The status, with the process as `pid`; None where no run has ended."""
    try:
        found = json.loads((folder / LAST_RUN_FILE).read_text())
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None
