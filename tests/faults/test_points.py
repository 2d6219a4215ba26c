"""Crash points: what an order says, when it is due, and that each point is somewhere in the code."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_type_hints

import pytest

from faults.points import (
    CHECKPOINT,
    CLONE,
    LAYOUT,
    ONCE_VARIABLE,
    POINTS,
    RECOVERY,
    REVISION,
    START,
    STEP,
    STORE,
    TRANSITION,
    VARIABLE,
    Crash,
    CrashOrder,
    Point,
    arm,
    is_armed,
    parse,
    reached,
)
from io_kafka.clients.transactions import TransactionPoints

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("coordinator", "engine", "storage", "io_kafka")


def test_an_order_is_obeyed_once_at_its_visit_and_worker() -> None:
    order = CrashOrder("fold.inside", "raise", visit=2, worker=1)
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


def test_visits_before_another_point_do_not_count() -> None:
    order = CrashOrder("output.committed", "raise", visit=2, after="switch.recorded")
    with arm(order):
        reached("output.committed")
        reached("output.committed")
        reached("switch.recorded")
        reached("output.committed")
        with pytest.raises(Crash, match=r"output\.committed \(worker None, visit 2\)"):
            reached("output.committed")


def test_no_handler_of_faults_takes_a_crash_for_one() -> None:
    assert not issubclass(Crash, Exception)


def test_the_environments_orders() -> None:
    first, second = parse("output.half@3=kill, fold.inside/1=stop")
    assert (first.point, first.visit, first.worker, first.action) == ("output.half", 3, None, "kill")
    assert (second.point, second.visit, second.worker, second.action) == ("fold.inside", 1, 1, "stop")
    (third,) = parse("switch.recorded>stages.inside/1@2=kill")
    assert (third.after, third.point, third.visit, third.worker) == ("switch.recorded", "stages.inside", 2, 1)
    assert parse("") == []
    for text in ("nowhere>fold.inside=kill", "nowhere=kill", "fold.inside=weep", "fold.inside", "fold.inside@=kill"):
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


def points_in(path: Path) -> list[str]:
    """The points that a module's calls of `reached` name, as literals in the call or in the TransactionPoints that it is given. Every call
    must name its point in one of these two ways, so that a search for the name finds the code."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "TransactionPoints":
            found += [str(ast.literal_eval(word.value)) for word in node.keywords]
        elif node.func.id == "reached":
            point = node.args[0]
            if isinstance(point, ast.Attribute):  # of a TransactionPoints
                assert point.attr in TransactionPoints.__dataclass_fields__
                continue
            choices = [point.body, point.orelse] if isinstance(point, ast.IfExp) else [point]
            found += [str(ast.literal_eval(choice)) for choice in choices]
    return found


def test_every_point_is_reached_by_exactly_one_place() -> None:
    named = Counter(name for room in ROOMS for path in (ROOT / room).rglob("*.py") for name in points_in(path))
    assert named == Counter(POINTS)


def test_an_unknown_point_is_a_type_error() -> None:
    """mypy judges every call by these annotations; the points that can be armed are the same ones."""
    for function in (reached, is_armed):
        assert get_type_hints(function)["point"] == Point
    assert get_type_hints(CrashOrder)["point"] == Point
    assert (
        len(set(POINTS)) == len(POINTS)
        and START + REVISION + TRANSITION + RECOVERY + STEP + CHECKPOINT + STORE + LAYOUT + CLONE == POINTS
    )
