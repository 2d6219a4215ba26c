"""Prometheus' own checker, where it is to be had: on the path, or where `make tools` puts it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNPACKED = ROOT / "build" / "tools" / "usr" / "bin"


def promtool(*arguments: str, given: str | None = None) -> None:
    """Runs it, and asserts that it finds nothing. Skips the test where it is missing."""
    found = shutil.which("promtool") or shutil.which("promtool", path=str(UNPACKED))
    if found is None:
        pytest.skip("no promtool here: `make tools`")
    ended = subprocess.run([found, *arguments], input=given, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
