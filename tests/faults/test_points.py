"""Crash points: what an order says, when it is due, and that each point is somewhere in the code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.points import ONCE_VARIABLE, POINTS, VARIABLE, Crash, Order, arm, parse, reached

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("coordinator", "engine", "storage", "io_kafka")
CALL = re.compile(r'reached\(([^,)]*?"[^)]*?)[,)]')
KINDS = ("log", "output")


def test_an_order_is_obeyed_once_at_its_visit_and_worker() -> None:
    order = Order("fold.inside", "raise", visit=2, worker=1)
    with arm(order):
        reached("fold.inside", 0)
        reached("fold.done", 1)
        reached("fold.inside", 1)
        with pytest.raises(Crash, match=r"fold\.inside \(worker 1, visit 2\)"):
            reached("fold.inside", 1)
        reached("fold.inside", 1)
    assert order.visits == 3
    reached("fold.inside", 1)
    assert order.visits == 3


def test_no_handler_of_faults_takes_a_crash_for_one() -> None:
    assert not issubclass(Crash, Exception)


def test_the_environments_orders() -> None:
    first, second = parse("output.half@3=kill, fold.inside/1=stop")
    assert (first.point, first.visit, first.worker, first.action) == ("output.half", 3, None, "kill")
    assert (second.point, second.visit, second.worker, second.action) == ("fold.inside", 1, 1, "stop")
    assert parse("") == []
    for text in ("nowhere=kill", "fold.inside=weep", "fold.inside", "fold.inside@=kill"):
        with pytest.raises(ValueError, match=f"{VARIABLE}: '{re.escape(text)}' is no"):
            parse(text)


def test_a_process_dies_where_the_environment_says() -> None:
    script = "from faults.points import reached\nfor _ in range(3): reached('step.begun'); print('on', flush=True)"
    died = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: "step.begun@2=kill"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "on\n")


def test_an_order_can_be_obeyed_once_by_all_processes(tmp_path: Path) -> None:
    script = "from faults.points import reached\nreached('step.begun')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: "step.begun=kill", ONCE_VARIABLE: str(tmp_path)}
    codes = [subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode for _ in range(2)]
    assert codes == [-signal.SIGKILL, 0]


def test_every_point_is_in_the_code_and_nothing_else_is() -> None:
    named: set[str] = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for call in CALL.findall(path.read_text()):
            names = re.findall(r'"([a-z_.{}]+)"', call)
            named |= {name.replace("{kind}", kind) for name in names for kind in KINDS}
    assert named == set(POINTS)
