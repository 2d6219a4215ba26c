"""A crash at every named point, one run after another over one pipeline, with the oracle watching.

In the suite the workers are threads, and a run is broken off by an exception that no handler of faults catches: at once with all its workers, or
only the worker that met it. Open transactions and databases are left as they are. In `make soak` the process of a service of its own is killed
there, or that of one of its workers.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from faults.points import CHECKPOINT, ONCE_VARIABLE, POINTS, RECOVERY, START, STEP, VARIABLE, Crash, Order, Point, arm
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service
from tests.end_to_end.threads import threads

LEAVES_A_STEP: tuple[Point, ...] = ("output.committed",)
"""Written, and in no checkpoint: the recoveries after it have something to compare."""

OF_A_WORKER = ("create", "source", "region", "freeze", "fold", "open")
TRUNCATED: Point = "checkpoint.truncated"
SEQUENCE: tuple[Point, ...] = START + STEP + tuple(p for p in CHECKPOINT if p != TRUNCATED) + LEAVES_A_STEP + RECOVERY
IN_WORKERS: tuple[Point, ...] = tuple(point for point in POINTS if point.startswith(OF_A_WORKER))


def project(play: Playground, workers: int, **conf: Any) -> Resolved:
    play.topic("in", 2)
    return play.resolve(sums.files(), {"stepwell.step.rows.max": 3, "stepwell.workers": workers, **conf})


def send(play: Playground, number: int) -> None:
    for partition in (0, 1):
        play.send("in", sums.rows(10 * number + partition, 4), partition)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_broken_off_at_every_point(play: Playground, workers: int) -> None:
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


def break_off(play: Playground, resolved: Resolved, number: int, point: Point) -> None:
    send(play, number)
    order = Order(point, "raise", worker=resolved.spec.workers - 1 if point in IN_WORKERS else None)
    with arm(order), pytest.raises(Crash, match=point):
        play.run(resolved, threads(one_for_all=True))
    Database.close_all()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_lost_at_every_point(play: Playground, workers: int) -> None:
    """The same run goes on, with new workers."""
    resolved = project(play, workers)
    with play.oracle(resolved) as oracle:
        for number, point in enumerate(IN_WORKERS):
            send(play, number)
            with arm(Order(point, "raise", worker=workers - 1)):
                assert play.run(resolved, threads())["recoveries"] == 1, point
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


PROVOKED = [point for point in POINTS if point != TRUNCATED]  # which takes 10,000 steps


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("point", PROVOKED)
def test_a_service_killed_at_every_point(play: Playground, tmp_path: Path, point: Point, workers: int) -> None:
    """Or one of its workers: then the service goes back to its last checkpoint by itself."""
    resolved = project(play, workers, **{"stepwell.checkpoint.interval": "300ms"})
    with play.oracle(resolved) as oracle:
        kill_there(play, resolved, tmp_path, point, 0 if point in IN_WORKERS else -signal.SIGKILL)
        play.run(resolved)
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


def kill_there(play: Playground, resolved: Resolved, tmp_path: Path, point: Point, expected: int) -> None:
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
    assert list(tmp_path.glob(f"{point}-*")), "nobody was killed"
