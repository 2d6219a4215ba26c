"""A process goes on, and ends with its own exit code, where nobody can take what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from base.fault import ExitCode

FULL = Path("/dev/full")
WRITES = """
import sys
from base.standard_streams import forgive_standard_error, forgive_standard_output
forgive_standard_error()
forgive_standard_output()
forgive_standard_error()
for _ in range(3):
    print("x" * 100_000, file=sys.stderr, flush=True)
    print("x" * 100_000, flush=True)
sys.exit(5)
"""
ENDS = "from engine.resident.entry import end_process; end_process('for a test')"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")


def exit_code(*arguments: str, closed: bool) -> int:
    """`closed`: nobody reads what it writes. Otherwise the disk is full."""
    reading, writing = os.pipe()
    if closed:
        os.close(reading)
    else:
        os.close(writing)
        writing = os.open(FULL, os.O_WRONLY)
    try:
        ended = subprocess.run([sys.executable, *arguments], stdout=writing, stderr=writing, timeout=60, check=False)
    finally:
        os.close(writing)
        if not closed:
            os.close(reading)
    return ended.returncode


@pytest.mark.parametrize("closed", [False, True])
def test_a_process_that_may_lose_lines_ends_with_its_own_code(closed: bool) -> None:
    assert exit_code("-c", WRITES, closed=closed) == 5


@pytest.mark.parametrize("closed", [False, True])
def test_a_command_whose_error_nobody_can_take_ends_with_the_code_of_the_error(closed: bool, tmp_path: Path) -> None:
    missing = str(tmp_path / "spark-pipeline.yml")
    assert exit_code("-m", "stepwell", "run", "--json", "--spec", missing, closed=closed) == ExitCode.PROJECT
    assert exit_code("-m", "stepwell", "status", "--spec", missing, closed=closed) == ExitCode.PROJECT


@pytest.mark.parametrize("closed", [False, True])
def test_a_worker_ends_although_nobody_can_take_its_last_line(closed: bool) -> None:
    from engine.resident.entry import GONE_EXIT_CODE

    assert exit_code("-c", ENDS, closed=closed) == GONE_EXIT_CODE


def test_what_can_be_written_is_written() -> None:
    ended = subprocess.run([sys.executable, "-c", WRITES], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, len(ended.stdout), len(ended.stderr)) == (5, 300_003, 300_003)
