"""base/logger.py: structlog is loaded by the first line, and writes that line as it has been told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from base.logger import Logger
from stepwell.commands.logs import configure_logs

configure_logs("json", "info")
log = Logger("a.module")
assert "structlog" not in sys.modules
log.debug("left out")
log.info("first", step=7)
configure_logs("json", "warning")
log.info("left out too")
log.warning("second")
"""


def test_the_first_line_is_written_as_configured_before() -> None:
    """In a process of its own: that of the tests has loaded structlog."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert not done.stdout and len(lines) == 2
    assert '"first"' in lines[0] and '"step": 7' in lines[0]
    assert '"second"' in lines[1]
