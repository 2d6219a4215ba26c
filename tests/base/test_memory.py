"""Processes that run steps keep freed memory, and give it back when they rest."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from base.memory import ARROW_VARIABLE, FREE_BYTES_MAX, REST_SECONDS, Rest

ROOT = Path(__file__).parent.parent.parent
ARRAY_BYTES, ARRAYS, TIMES = 8 << 20, 10, 20

STEPS = f"""
import json, os, resource, sys
from base.memory import give_back_freed_memory, keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
import numpy, psutil, pyarrow

def step():
    arrays = [numpy.ones({ARRAY_BYTES // 8}) for _ in range({ARRAYS})]
    buffers = [pyarrow.array(array + 1) for array in arrays]

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TIMES}):
    step()
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
kept = psutil.Process().memory_info().rss
give_back_freed_memory()
print(json.dumps({{"faults": faults, "returned": kept - psutil.Process().memory_info().rss, "arrow": os.environ.get("{ARROW_VARIABLE}")}}))
"""

NEEDS_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such settings")


def outcome(how: str, **variables: str) -> dict[str, Any]:
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "MIMALLOC_", "GLIBC_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", STEPS, how],
        cwd=ROOT,
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@NEEDS_GLIBC
def test_steps_get_the_memory_that_those_before_them_have_freed() -> None:
    plain, keeping = outcome("plain"), outcome("keep")
    assert keeping["faults"] * 5 < plain["faults"], (plain, keeping)
    assert keeping["arrow"] == "1000"


@NEEDS_GLIBC
def test_what_is_kept_is_given_back() -> None:
    assert outcome("keep")["returned"] > ARRAYS * ARRAY_BYTES // 2
    assert ARRAYS * ARRAY_BYTES < FREE_BYTES_MAX, "the steps of this test free more than is kept"


@NEEDS_GLIBC
def test_what_a_user_has_set_is_obeyed() -> None:
    plain, asked = outcome("plain"), outcome("keep", MALLOC_TRIM_THRESHOLD_="131072", MIMALLOC_PURGE_DELAY="7")
    assert asked["faults"] * 5 > plain["faults"], (plain, asked)
    assert asked["arrow"] == "7"


def test_memory_is_given_back_once_in_each_rest() -> None:
    given: list[float] = []
    at = 0.0
    rest = Rest(lambda: given.append(at))

    def wait(until: float) -> None:
        nonlocal at
        while at < until:
            rest.wait(at)
            at += 1.0

    wait(REST_SECONDS)
    assert not given, "it has not rested yet"
    wait(4 * REST_SECONDS)
    assert given == [REST_SECONDS]
    rest.work()
    began = at
    wait(began + 4 * REST_SECONDS)
    assert given == [REST_SECONDS, began + REST_SECONDS]


STARTS = """
import sys, typer
from base import memory
calls = []
memory.keep_freed_memory = lambda: calls.append("pyarrow" in sys.modules)
from engine.resident import daemon
daemon.FIRST_IMPORTED = ()
daemon.load()
from stepwell.commands.run import run
try:
    run("a view")
except typer.BadParameter:
    print(calls)
"""


def test_workers_and_the_service_keep_memory_before_arrow_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[False, False]"
