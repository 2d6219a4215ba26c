"""A process that has used DuckDB ends without a word of its binding's about leaks, which users would read as a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = Path(__file__).resolve().parents[2]
END_SECONDS_MAX = 120
"""Imports take a second or two, and on a full machine much longer."""

SCRIPT = """
import gc, sys
import pyarrow as pa
from engine.expressions import evaluate as expressions
from engine.model.circuit import Expression

if "evaluated" in sys.argv:
    expressions.evaluate(Expression("(c0 > 1)", pa.bool_()), (Expression("c0", pa.int64(), 0),), pa.table({"c0": [1, 2]}))
if "frozen" in sys.argv:
    gc.collect()
    gc.freeze()
sys.exit(9)
"""


@pytest.mark.long
@pytest.mark.parametrize("what", ["evaluated", "frozen", "evaluated frozen"])
def test_a_process_ends_without_a_list_of_leaks(what: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *what.split()],
        cwd=ROOMS, capture_output=True, text=True, timeout=END_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (9, "")
