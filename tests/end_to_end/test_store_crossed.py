"""The checkpoint store beside what is not about it: views in error, a hand-over, changes of the layout, and a crash in what a crash leads to."""

from __future__ import annotations

import random
import shutil
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from base.fault import ExitCode
from coordinator.automatic.requests import AutoRequest
from coordinator.rescale.requests import RescaleRequest
from coordinator.specification import AutoSettings
from faults.points import Crash, CrashOrder, Point, arm
from io_kafka.step_log.layout_records import AutoBounds, MoveStrategy, RescaleMode
from storage.database import Database
from tests.end_to_end import sums
from tests.end_to_end import test_views_in_error as in_error
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, has_workers, renamed, service, wait_until
from tests.end_to_end.test_automatic import ROWS, STEP_ROWS, small_for, taken  # noqa: F401  a fixture
from tests.end_to_end.test_hand_over import client_of, until
from tests.end_to_end.test_store import (  # noqa: F401  a fixture
    away,
    behind_gate,
    lose,
    resolve,
    started,
    step_stored,
    with_store,
)
from tests.end_to_end.test_transitions import orders
from tests.end_to_end.threads import threads


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_what_is_withheld_is_in_the_store(play: Playground, seed: int) -> None:
    """Rows come, change and go at random, and some are in error. All disks of one of two pipelines are lost in each round, once beside steps
    that no checkpoint has; and it changes its number of workers."""
    dice = random.Random(seed)
    resolved = in_error.project(play, "ratios most above pairs parsed sums", partitions=2, **with_store(play))
    other = renamed(resolved, "-other", 2)
    for at in range(6):
        heals = at in (2, 5)
        keys = range(8) if heals else dice.sample(range(8), 5)
        rows = [
            in_error.number(key, f"k{key}", key + 2)
            if heals
            else in_error.number(key, dice.choice(["a", "one"]), dice.choice([-1, 0, 1, 2]), dice.choice(["1", "x"]))
            for key in keys
        ]
        for partition in (0, 1):
            play.send("in", [row for key, row in zip(keys, rows, strict=True) if key % 2 == partition], partition)
        found = in_error.run(play, resolved)
        if at % 2:
            with arm(CrashOrder("output.committed", "raise")), pytest.raises(Crash):
                play.run(other, threads(one_for_all=True))
        Database.close_all()
        shutil.rmtree(other.spec.storage, ignore_errors=True)
        other = replace(other, spec=replace(other.spec, workers_now=dice.choice([1, 2, 3])))
        assert in_error.run(play, other).keys() == found.keys()
        assert in_error.answered(play, resolved) == found.keys()
        assert not (heals and found)
    in_error.written_alike(play, resolved, other)


@pytest.mark.long
def test_a_hand_over_needs_no_store(play: Playground, tmp_path: Path) -> None:
    """The old service ends without it and does not wait, the new one goes on with the disks, and the store catches up when it is back."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    resolved = resolve(play)
    old_log, new_log = tmp_path / "old.log", tmp_path / "new.log"
    with ExitStack() as services:
        old = services.enter_context(service(resolved, old_log))
        wait_until(lambda: "control at" in old_log.read_text())
        until(resolved, "rows", 100)
        with away(play):
            play.send("orders", orders(100, 50))
            until(resolved, "rows", 150)
            new = services.enter_context(service(resolved, new_log, "--hand-over"))
            assert old.wait(WAIT_SECONDS_MAX) == ExitCode.OK, old_log.read_text()
            assert "its last checkpoint is not in the store" not in old_log.read_text(), "that is said after a minute"
            wait_until(lambda: "control at" in new_log.read_text())
            play.send("orders", orders(150, 50))
            until(resolved, "rows", 50)
            client = client_of(resolved)
            assert client.status()["pid"] == new.pid
            client.wait(lambda shown: bool(shown["store"]["fault"]), WAIT_SECONDS_MAX)
        client.wait(lambda shown: not shown["store"]["fault"], WAIT_SECONDS_MAX)
        client.ask("stop")
        assert new.wait(WAIT_SECONDS_MAX) == ExitCode.OK, new_log.read_text()
    assert step_stored(play, resolved) == play.log(resolved).steps
    lose(play)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["live", "cold"])
def test_a_change_of_the_layout_does_not_wait_for_a_slow_store(
    play: Playground,
    started: Resolved,  # noqa: F811
    mode: RescaleMode,
) -> None:
    """Two changes are made while an upload lasts. The store gets the databases that there are then."""
    gate = threading.Event()
    with play.running(behind_gate(started, gate)) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        for number, workers in enumerate((3, 1)):
            play.send("orders", orders(1000 * number + 200, 60))
            run.requests.layout.ask(RescaleRequest(workers, MoveStrategy(mode)), WAIT_SECONDS_MAX)
            run.wait_until(has_workers(workers))
        run.wait_until(lambda shown: shown["rows"] == 120)
        gate.set()
        run.wait_until(lambda shown: shown["store"]["step"] == shown["step"] + 1)
    lose(play)
    play.send("orders", orders(5000, 60))
    play.run(started)
    assert len(play.log(started).current_layout.placed.births) == 1
    play.check(started)
    play.check_steps(started)


@pytest.mark.long
@pytest.mark.usefixtures("taken")
def test_workers_follow_the_load_beside_a_slow_store(play: Playground) -> None:
    resolved = small_for(play, AutoSettings(drain_s=0.3, lower_after_s=1.0), **with_store(play))
    play.send("in", [sums.row(f"k{n % STEP_ROWS}", n) for n in range(ROWS)])
    gate = threading.Event()
    with play.running(behind_gate(resolved, gate), threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        run.requests.automatic.ask(AutoRequest(AutoBounds(min=1, max=2)), WAIT_SECONDS_MAX)
        run.wait_until(has_workers(2))
        run.wait_until(has_workers(1))
        run.wait_until(lambda status: status["rows"] == ROWS)
        assert run.board.show()["store"]["version"] is None
        run.requests.ask("checkpoint")
        gate.set()
        run.wait_until(lambda status: status["store"]["step"] == status["step"] + 1)
    lose(play)
    play.run(resolved, threads())
    assert 0 not in play.check(resolved).values()
    play.check_steps(resolved)


SECOND: tuple[tuple[Point, Point], ...] = (
    ("pack.half", "restore.half"),
    ("manifest.written", "restore.done"),
    ("stored.recorded", "restore.half"),
    ("restore.half", "restore.half"),
    ("restore.done", "pack.uploaded"),
    ("restore.half", "manifest.written"),
)


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), SECOND)
def test_a_second_crash_in_the_recovery_from_the_first_loses_nothing(
    play: Playground,
    started: Resolved,  # noqa: F811
    first: Point,
    second: Point,
) -> None:
    """The disks are lost before each of them, and after both."""
    play.send("orders", orders(200, 100))
    for point in (first, second):
        lose(play)
        with arm(CrashOrder(point, "raise")) as armed, pytest.raises(Crash):
            play.run(started, threads(one_for_all=True))
        assert armed[0].visits
    lose(play)
    play.send("orders", orders(300, 100))
    play.run(started)
    play.check(started)
    play.check_steps(started)
