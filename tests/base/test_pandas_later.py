"""Arrow imports pandas on its own unless it is left out, and knows its objects as soon as somebody imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROCESSES = {
    "the service and its commands": "import stepwell.commands.serve, stepwell.commands.query_here, stepwell.planning.pipeline",
    "a worker": "import engine.resident.daemon as daemon; daemon.load()",
    "what reads and writes messages": "import io_kafka.formats, coordinator.pipeline",
}


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("what", PROCESSES)
def test_nothing_of_ours_imports_pandas(what: str) -> None:
    program = (
        f"{PROCESSES[what]}; import sys, pyarrow as pa; pa.array([1]); pa.scalar(1); print('pandas' in sys.modules)"
    )
    assert run(program) == "False"


IMPORTED = """
import numpy as np, pyarrow as pa
import engine.rows
import pandas as pd
assert pa.array(pd.Series([1.0, np.nan])).null_count == 1, "a NaN of pandas is a null"
assert pa.array(pd.Series(["a", "b"], dtype="category")).type == pa.dictionary(pa.int8(), pa.string())
assert pa.table({"x": [1]}).to_pandas().equals(pd.DataFrame({"x": [1]}))
print(pd.__spec__.loader.__class__.__name__, pd.__loader__ is pd.__spec__.loader)
"""

WANTED_BY_ARROW = """
import engine.rows, pyarrow as pa
frame = pa.table({"x": [1.0, None]}).to_pandas()
print(pa.array(frame["x"]).null_count)
"""


def test_who_imports_pandas_has_it_as_usual_and_arrow_knows_it() -> None:
    assert run(IMPORTED) == "SourceFileLoader True"
    assert run(WANTED_BY_ARROW) == "1"
