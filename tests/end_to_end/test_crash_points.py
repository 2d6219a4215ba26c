"""A crash at every named point, one run after another over one pipeline, with the oracle watching.

In the suite a run is broken off by an exception that no handler of faults catches, and its open transaction and its databases are left as
they are; in `make soak` a service of its own is killed there. Where a fault is armed in this process, what Spark would do in workers of its
own is done here.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.run import database_jobs
from faults.points import CHECKPOINT, ONCE_VARIABLE, POINTS, RECOVERY, START, STEP, VARIABLE, Crash, Order, arm
from stepwell.project.settings import EVERY_STEP
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service

LEAVES_A_STEP = ("output.committed",)
"""Written, and in no checkpoint: the recoveries after it have something to compare."""

OF_A_TASK = ("source", "region", "freeze", "fold", "open")
TRUNCATED = "checkpoint.truncated"
SEQUENCE = START + STEP + tuple(p for p in CHECKPOINT if p != TRUNCATED) + LEAVES_A_STEP + RECOVERY
Result = TypeVar("Result")


def here(_: Any, workers: int, work: Callable[[int], Result]) -> dict[int, Result]:
    return {worker: work(worker) for worker in range(workers)}


def project(play: Playground, workers: int, **conf: Any) -> Resolved:
    play.topic("in", 2)
    return play.resolve(sums.files(), {"stepwell.step.rows.max": 3, "stepwell.workers": workers, **conf})


def send(play: Playground, number: int) -> None:
    for partition in (0, 1):
        play.send("in", sums.rows(10 * number + partition, 4), partition)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_broken_off_at_every_point(play: Playground, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(database_jobs, "_on_workers", here)
    assert {*SEQUENCE, TRUNCATED} == set(POINTS)
    resolved = project(play, workers, **{"stepwell.steps.kept": 1}).at_pace(snapshot_steps_min=1)
    with play.oracle(resolved) as oracle:
        for number, point in enumerate(SEQUENCE):
            break_off(play, resolved, number, point)
        play.run(resolved)
        break_off(play, resolved.at_pace(truncate_steps_min=1), len(SEQUENCE), TRUNCATED)
        assert play.run(resolved)["epoch"] >= len(SEQUENCE) - len(START)
        story = oracle.verify(sums.batch(play))
    assert len(story.steps) > len(SEQUENCE)
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


def break_off(play: Playground, resolved: Resolved, number: int, point: str) -> None:
    send(play, number)
    order = Order(point, "raise", worker=resolved.spec.workers - 1 if point.startswith(OF_A_TASK) else None)
    with arm(order), pytest.raises(Crash, match=point):
        play.run(resolved)
    Database.close_all()


PROVOKED = [point for point in POINTS if point != TRUNCATED]  # which takes 10,000 steps
IN_DRIVER, IN_SPARK = EVERY_STEP, 0


@pytest.mark.soak
@pytest.mark.parametrize(
    ("point", "workers", "place"),
    [(point, workers, IN_DRIVER) for point in PROVOKED for workers in (1, 3)]
    + [(point, 3, IN_SPARK) for point in PROVOKED if point.startswith(OF_A_TASK)],
)
def test_a_service_killed_at_every_point(
    play: Playground, tmp_path: Path, point: str, workers: int, place: int
) -> None:
    """Or a Python worker of Spark: then the service goes back to its last checkpoint by itself."""
    conf = {"stepwell.checkpoint.interval": "300ms", "spark.master": "local[2]", "stepwell.step.driver.rows.max": place}
    resolved = project(play, workers, **conf)
    with play.oracle(resolved) as oracle:
        in_a_task = point.startswith(OF_A_TASK if place == IN_SPARK else "open")
        kill_there(play, resolved, tmp_path, point, 0 if in_a_task else -signal.SIGKILL)
        play.run(resolved)
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


def kill_there(play: Playground, resolved: Resolved, tmp_path: Path, point: str, expected: int) -> None:
    """`expected`: what the service ends with, where the kill is obeyed once."""
    send(play, 0)
    if point in RECOVERY:
        with arm(Order("output.committed", "raise", visit=2)), pytest.raises(Crash):
            play.run(resolved)
        Database.close_all()
    for number in range(1, 60 if point == "checkpoint.snapshot" else 3):
        send(play, number)
    orders = {VARIABLE: f"{point}=kill", ONCE_VARIABLE: str(tmp_path)}
    # The run before was this process, which lives: without the option the service waits half a minute for a sign of it.
    options = ("--available-now", *(["--take-over"] if point in RECOVERY else []))
    with service(resolved, tmp_path / "service.log", *options, **orders) as process:
        killed = process.wait(WAIT_SECONDS_MAX)
    assert killed == expected, (tmp_path / "service.log").read_text()[-2000:]
