"""A crash at every named point, one run after another over one pipeline, with the oracle watching.

In the suite the workers are threads, and a run is broken off by an exception that no handler of faults catches: at once with all its workers, or
only the worker that met it. Open transactions and databases are left as they are. The suite has the points within or beside a transaction of
Kafka or LMDB, where the simulator's twins of both could be wrong. The simulator kills at all of them, and `make soak` comes to all of them
here too, and kills the process of a service of its own there, or that of one of its workers.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.requests import Requests
from coordinator.rescale.requests import RescaleRequest
from engine.resident import folds
from engine.resident.crew.checkpoints import CrewCheckpoints
from faults.points import (
    CHECKPOINT,
    COPYING,
    LAYOUT,
    ONCE_VARIABLE,
    RECOVERY,
    REVISION,
    RUN_POINTS,
    START,
    STEP,
    STORE,
    TRANSITION,
    VARIABLE,
    Crash,
    CrashOrder,
    Point,
    arm,
)
from io_kafka.step_log.layout_records import MoveStrategy, RescaleMode
from storage import committed
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service
from tests.end_to_end.threads import threads
from tests.points import points_of

LEAVES_A_STEP: tuple[Point, ...] = ("output.committed",)
"""Written, and in no checkpoint: the recoveries after it have something to compare."""

OF_A_WORKER = ("create", "source", "stages", "freeze", "fold", "compact", "open")
TRUNCATED: Point = "checkpoint.truncated"
SEQUENCE: tuple[Point, ...] = START + STEP + tuple(p for p in CHECKPOINT if p != TRUNCATED) + LEAVES_A_STEP + RECOVERY
IN_WORKERS: tuple[Point, ...] = tuple(p for p in points_of(RUN_POINTS, *OF_A_WORKER) if p not in LAYOUT)
IN_MOVING_WORKERS: tuple[Point, ...] = points_of(LAYOUT, "cut.exported", "absorb", "release")
BURIED: Point = "bury.renamed"
"""In the worker that leaves, after its last slots have gone."""

GROWS: tuple[Point, ...] = tuple(point for point in LAYOUT if point != BURIED)
SHRINKS: tuple[Point, ...] = tuple(point for point in LAYOUT if point not in ("workers.created", "workers.joined"))
"""The points of a change that adds workers, and of one after which some leave."""

OF_KAFKA_AND_LMDB: tuple[Point, ...] = (
    "claim.sent", "claim.committed", "create.done", "log.begun", "log.sent", "log.committed", "stages.inside", "output.begun", "output.half",
    "output.sent", "output.committed", "freeze.inside", "fold.piece", "fold.inside", "fold.synced", "compact.copied", "compact.exchanged",
    "checkpoint.snapshot", "open.undone", "replay.compared", "workers.created", "copies.inside", "absorb.inside", "release.inside", BURIED,
)  # fmt: skip

ONE_AND_THREE: list[Any] = [
    pytest.param(1, RUN_POINTS, marks=pytest.mark.soak),
    pytest.param(3, RUN_POINTS, marks=pytest.mark.soak),
    (3, OF_KAFKA_AND_LMDB),
]
MODES_AND_POINTS: list[Any] = [
    ("live", OF_KAFKA_AND_LMDB),
    *(pytest.param(mode, RUN_POINTS, marks=pytest.mark.soak) for mode in ("cold", "live")),
]
"""A live change comes to every point. The simulator breaks off the others too."""


@pytest.fixture(autouse=True)
def any_database_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the checkpoint before a stop, where it would be given up."""
    monkeypatch.setattr(CrewCheckpoints, "expedite_fold", lambda crew: None)
    monkeypatch.setattr(committed, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(committed, "FREE_SHARE_MIN", 0.0)
    monkeypatch.setattr(folds, "LOOKS_AT_FOLDS", (1, 2, 3))


def project(play: Playground, workers: int, **conf: Any) -> Resolved:
    play.topic("in", 2)
    return play.resolve(sums.files(), {"stepwell.step.rows.max": 3, "stepwell.workers": workers, **conf})


def send(play: Playground, number: int) -> None:
    for partition in (0, 1):
        play.send("in", sums.rows(10 * number + partition, 4), partition)


@pytest.mark.parametrize(("workers", "points"), ONE_AND_THREE)
def test_a_run_broken_off_at_every_point(play: Playground, workers: int, points: tuple[Point, ...]) -> None:
    elsewhere = {
        *REVISION,
        *TRANSITION,
        *STORE,
    }  # test_revisions.py, test_transitions.py and tests/storage/remote try them
    assert {*SEQUENCE, TRUNCATED, *LAYOUT, *elsewhere} == set(RUN_POINTS)
    sequence = [point for point in SEQUENCE if point in points]
    resolved = project(play, workers, **{"stepwell.steps.kept": 1}).at_pace(snapshot_steps_min=1)
    with play.oracle(resolved) as oracle:
        for number, point in enumerate(sequence):
            break_off(play, resolved, number, point)
        play.run(resolved)
        break_off(play, resolved.at_pace(truncate_steps_min=1), len(sequence), TRUNCATED)
        assert play.run(resolved)["epoch"] >= len(sequence) - len(START)
        story = oracle.verify(sums.batch(play))
    assert len(story.steps) > len(sequence)
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


def break_off(play: Playground, resolved: Resolved, number: int, point: Point) -> None:
    send(play, number)
    order = CrashOrder(point, "raise", worker=resolved.spec.workers - 1 if point in IN_WORKERS else None)
    crash(play, {"resolved": resolved}, order)


def crash(play: Playground, run: dict[str, Any], order: CrashOrder) -> None:
    """`run`: the arguments of a run that comes to the order's point."""
    with arm(order), pytest.raises(Crash, match=order.point):
        play.run(**run, cluster=threads(one_for_all=True))
    Database.close_all()


@pytest.mark.parametrize(("workers", "points"), ONE_AND_THREE[:-1])
def test_a_worker_lost_at_every_point(play: Playground, workers: int, points: tuple[Point, ...]) -> None:
    """The same run goes on, with new workers."""
    resolved = project(play, workers)
    with play.oracle(resolved) as oracle:
        for number, point in enumerate(point for point in IN_WORKERS if point in points):
            send(play, number)
            with arm(CrashOrder(point, "raise", worker=workers - 1)):
                assert play.run(resolved, threads())["recoveries"] == 1, point
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


@pytest.mark.long
@pytest.mark.parametrize(("mode", "points"), MODES_AND_POINTS)
def test_a_change_of_the_layout_broken_off_at_every_point(
    play: Playground, mode: RescaleMode, points: tuple[Point, ...]
) -> None:
    """From two workers to three and back, by a run that is asked for it or that is started with the other number. The next run ends what was
    begun."""
    resolved = project(play, 2)
    with play.oracle(resolved) as oracle:
        send(play, 0)
        play.run(resolved, threads())
        for number, (workers, point) in enumerate(changes(mode, points), start=1):
            send(play, number)
            crash(play, changing(resolved, workers, mode), CrashOrder(point, "raise"))
            play.run(resolved, threads())
            assert members(play, resolved) == workers, f"the change that ended at {point} does not go on"
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=1))


IN_A_RECOVERY: tuple[Point, ...] = tuple(point for point in RECOVERY if point != "replay.compared")
"""Every recovery comes to these."""


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["cold", "live"])
def test_a_second_crash_while_a_change_is_recovered(play: Playground, mode: RescaleMode) -> None:
    """A change is broken off at every point, and then the run that goes on with it, at a point of its recovery."""
    resolved = project(play, 2)
    with play.oracle(resolved) as oracle:
        send(play, 0)
        play.run(resolved, threads())
        for number, (workers, point) in enumerate(changes(mode, RUN_POINTS), start=1):
            send(play, number)
            crash(play, changing(resolved, workers, mode), CrashOrder(point, "raise"))
            second = IN_A_RECOVERY[number % len(IN_A_RECOVERY)]
            crash(play, {"resolved": resolved}, CrashOrder(second, "raise"))
            play.run(resolved, threads())
            assert members(play, resolved) == workers, f"the change that ended at {point} and {second} does not go on"
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=1))


@pytest.mark.long
@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("mode", "among"), MODES_AND_POINTS)
def test_a_worker_lost_in_a_change_of_the_layout(
    play: Playground, mode: RescaleMode, among: tuple[Point, ...], both: bool
) -> None:
    """The same run goes back to its checkpoint, and ends the change. A point is met by a change that adds a worker, by one that takes one
    away, or by both."""
    resolved = project(play, 2)
    with play.oracle(resolved) as oracle:
        send(play, 0)
        play.run(resolved, threads())
        points = (*COPYING, *IN_MOVING_WORKERS) if mode == "live" else IN_MOVING_WORKERS
        moves = [
            (workers, point)
            for number, point in enumerate(point for point in points if point in among)
            for workers in ((3, 2) if both else (3 - number % 2,))
        ]
        for number, (workers, point) in enumerate(moves, start=1):
            send(play, number)
            with arm(CrashOrder(point, "raise")):
                assert play.run(**changing(resolved, workers, mode), cluster=threads())["recoveries"] == 1, point
            assert members(play, resolved) == workers
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=1))


def changes(mode: RescaleMode, among: tuple[Point, ...]) -> list[tuple[int, Point]]:
    """To how many workers, and where that is broken off: growing and shrinking in turn."""
    points = [point for point in among if mode == "live" or point not in COPYING]
    grown = [(3, point) for point in GROWS if point in points]
    shrunk = [(2, point) for point in SHRINKS if point in points]
    shrunk += [(2, SHRINKS[0])] * (len(grown) - len(shrunk))
    return [change for pair in zip(grown, shrunk, strict=True) for change in pair]


def changing(resolved: Resolved, workers: int, mode: RescaleMode) -> dict[str, Any]:
    """The arguments of a run that changes the layout."""
    if mode == "cold":
        return {"resolved": replace(resolved, spec=replace(resolved.spec, workers_now=workers))}
    requests = Requests()
    requests.layout.put(RescaleRequest(workers, MoveStrategy(mode, budget_bytes=200 if mode == "live" else None)))
    return {"resolved": resolved, "requests": requests}


def members(play: Playground, resolved: Resolved) -> int:
    log = play.log(resolved)
    assert log.layout is not None and log.rescale is None
    return len(log.layout.placed.members)


_UNPROVOKED: tuple[Point, ...] = (TRUNCATED, *COPYING, *REVISION, *TRANSITION, *STORE)
PROVOKED = [point for point in RUN_POINTS if point not in _UNPROVOKED and not point.startswith("compact")]
"""To the first one a service comes after 10,000 steps, to the second ones in a live change alone, to those of revisions and transitions with
another project (test_revisions.py, test_reading_again.py), to those of the checkpoint store with one, and to the others with a large state."""


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("point", PROVOKED)
def test_a_service_killed_at_every_point(play: Playground, tmp_path: Path, point: Point, workers: int) -> None:
    """Or one of its workers: then the service goes back to its last checkpoint by itself."""
    if workers == 1 and point == BURIED:
        pytest.skip("one worker is the least")
    resolved = project(play, workers, **{"stepwell.checkpoint.interval": "300ms"})
    with play.oracle(resolved) as oracle:
        in_worker = point in (*IN_WORKERS, *IN_MOVING_WORKERS, BURIED)
        kill_there(play, resolved, tmp_path, point, 0 if in_worker else -signal.SIGKILL)
        play.run(resolved)
        story = oracle.verify(sums.batch(play))
    oracle.verify_twin(play.twin(resolved, story, workers=4 - workers))


def kill_there(play: Playground, resolved: Resolved, tmp_path: Path, point: Point, expected: int) -> None:
    """`expected`: what the service ends with, where the kill is obeyed once."""
    send(play, 0)
    if point in RECOVERY:
        with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
            play.run(resolved)
        Database.close_all()
    for number in range(1, 60 if point == "checkpoint.snapshot" else 3):
        send(play, number)
    orders = {VARIABLE: f"{point}=kill", ONCE_VARIABLE: str(tmp_path)}
    # The run before was this process, which lives: without the option the service waits half a minute for a sign of it.
    options = ("--available-now", *(["--take-over"] if point in RECOVERY else []))
    if point in LAYOUT:
        play.run(resolved, threads())
        send(play, 70)
        workers = resolved.spec.workers or 1
        options = (*options, "--take-over", "--workers", str(workers + 1 if point in GROWS else workers - 1))
    with service(resolved, tmp_path / "service.log", *options, **orders) as process:
        killed = process.wait(WAIT_SECONDS_MAX)
    assert killed == expected, (tmp_path / "service.log").read_text()[-2000:]
    assert list(tmp_path.glob(f"{point}-*")), "nobody was killed"
