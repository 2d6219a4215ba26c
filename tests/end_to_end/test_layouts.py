"""Changes of the layout over every operator: the same bytes as a run that never changes, and the batch answer, whatever the mode.

What concerns how a change is asked for, held and ended, and not the state that moves, has the smallest project with state: to plan every
operator takes longer than such a change."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from coordinator.goal import Goal
from coordinator.rescale import cut_budget
from coordinator.rescale.cut_budget import CutBudget
from coordinator.rescale.requests import PauseRequest, RescaleRefused, RescaleRequest, TurnRequest
from engine.model.circuit import View
from engine.model.layout import DynamicShards
from engine.resident.entry import Assignment
from engine.resident.launcher import Cluster
from engine.resident.sockets import SocketTransport
from faults.points import Crash, CrashOrder, arm
from io_kafka.step_log.layout_records import MoveStrategy
from storage.database import Database
from storage.host_folder import HostFolder
from tests.end_to_end import everything, sums
from tests.end_to_end.harness import ROOT, WAIT_SECONDS_MAX, Playground, Resolved, Running, has_workers, renamed
from tests.end_to_end.test_placement import contents
from tests.end_to_end.threads import LOOPBACK, ThreadLauncher, threads

SIZES = (3, 1, 2)
"""The state begins with two workers."""


def resolved_for(play: Playground, workers: int) -> Resolved:
    everything.make_topics(play)
    resolved = play.resolve(everything.FILES, {"stepwell.step.rows.max": 60, "stepwell.workers": workers})
    return replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))


SMALL_KEYS = 60


def small_for(play: Playground, workers: int) -> Resolved:
    """One view, of SMALL_KEYS sums."""
    play.topic("in", 2)
    resolved = play.resolve(sums.files(), {"stepwell.step.rows.max": SMALL_KEYS, "stepwell.workers": workers})
    return replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))


def send_small(play: Playground, seed: int) -> None:
    play.send("in", [sums.row(f"k{number}", seed) for number in range(SMALL_KEYS)], seed % 2)


def with_workers(resolved: Resolved, workers: int | None) -> Resolved:
    """As `stepwell run --workers N`."""
    return replace(resolved, spec=replace(resolved.spec, workers_now=workers))


def members(play: Playground, resolved: Resolved) -> int:
    layout = play.log(resolved).layout
    assert layout is not None and play.log(resolved).rescale is None
    return len(layout.placed.members)


@pytest.mark.soak
def test_a_run_with_another_number_of_workers_changes_the_layout_before_it_replays(play: Playground) -> None:
    """Also after a crash: the steps since the last checkpoint are computed again by other workers, and compared with what was written. In each
    run of the suite, test_placement.py does so with one change of each kind."""
    resolved = resolved_for(play, 2)
    twin = renamed(resolved, "-twin", 3)
    for seed, workers in enumerate((None, *SIZES), start=1):
        everything.send(play, seed)
        play.run(twin, threads())
        with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
            play.run(resolved, threads())
        Database.close_all()
        status = play.run(with_workers(resolved, workers), threads() if seed % 2 else play.tasks(resolved))
        assert status["steps_replayed"] == 2
        assert members(play, resolved) == (workers or 2)
    assert 0 not in play.check(resolved).values()
    assert play.check_steps(resolved) == play.check_steps(twin)
    assert contents(play, resolved) == contents(play, twin)
    folders = [folder.name for folder in resolved.spec.state_location.here.databases.iterdir()]
    assert len(folders) == SIZES[-1], f"a database of a worker that has left is there: {folders}"


WAYS: dict[str, RescaleRequest] = {
    "cold": RescaleRequest(0, MoveStrategy("cold")),
    "live": RescaleRequest(0, MoveStrategy("live")),
    "live in small portions": RescaleRequest(0, MoveStrategy("live", budget_bytes=500)),
    "damion": RescaleRequest(0, MoveStrategy("live", budget_bytes=30_000, protocol="damion")),
    "icadd": RescaleRequest(0, MoveStrategy("live", budget_bytes=30_000, protocol="icadd")),
}


IN_EACH_RUN = ("live",)
"""The other tests here change the layout live too, and cuts and copies have tests of their own in test_cut.py, test_moves.py and
test_slots.py. The soak tries all ways."""


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way in IN_EACH_RUN else pytest.mark.soak) for way in WAYS]
)
def test_a_running_service_gets_other_workers(play: Playground, way: str) -> None:
    asked = WAYS[way]
    resolved = resolved_for(play, 2)
    everything.send(play, 1)
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        for seed, workers in enumerate(SIZES[:2], start=2):
            run.requests.layout.ask(replace(asked, workers=workers), WAIT_SECONDS_MAX)
            everything.send(play, seed)
            steps = run.board.show()["steps_run"]
            settle(play, resolved, run, workers)
            done = run.board.show()["layout"]["last_change"]
            assert (done["workers"], done["mode"], done["outcome"]) == (workers, asked.strategy.mode, "changed")
            assert done.get("protocol", "batches") == asked.strategy.protocol
            assert done["cuts"] > 0 and done["bytes_moved"] > 0 and done["elapsed_s"] >= done["seconds"]
            assert done["longest_pause_ms"] >= done["longest_cut_ms"] > 0, "no step can begin during a cut"
            run.wait_until(lambda status, steps=steps: status["steps_run"] > steps)  # type: ignore[misc]
    assert play.run(resolved, threads())["error"] is None
    assert 0 not in play.check(resolved).values()
    play.check_steps(resolved)
    assert members(play, resolved) == SIZES[1]


@pytest.mark.long
def test_views_can_be_read_while_workers_come_and_go(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has joined since the question, or has left, is not waited for. Meanwhile the steps say how much a cut may take."""
    bounds: list[int] = []
    real = CutBudget.portion_bytes

    def portion_bytes(budget: CutBudget, strategy: MoveStrategy) -> int:
        bounds.append(budget.bytes_max(strategy))
        return real(budget, strategy)

    monkeypatch.setattr(CutBudget, "portion_bytes", portion_bytes)
    monkeypatch.setattr(cut_budget, "STEP_MS_FIRST", 1e9)
    resolved = small_for(play, 2)
    send_small(play, 1)
    views = [node.name for node in resolved.spec.circuit.nodes if isinstance(node, View) and node.kept]
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(ask_until, over, run, views)
            for seed, workers in enumerate(SIZES, start=2):
                run.requests.layout.ask(RescaleRequest(workers, MoveStrategy("live")), WAIT_SECONDS_MAX)
                send_small(play, seed)
                settle(play, resolved, run, workers)
            over.set()
            assert asking.result() > 0
    assert bounds and max(bounds) < 1e9, "the bound is not that of the steps"


def ask_until(over: threading.Event, run: Running, views: list[str]) -> int:
    """How many questions were answered."""
    answered = 0
    while not over.is_set():
        rows = run.requests.questions.ask(views, WAIT_SECONDS_MAX)
        assert len(rows.parts) == len(views)
        answered += 1
    return answered


def test_a_worker_looks_at_the_size_of_its_file_after_it_was_opened_and_after_slots_have_left(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the second and the third checkpoint. It gives up if something waits for the checkpoint."""
    looks: Counter[int] = Counter()

    def compact(database: Database, is_wanted: Callable[[], bool]) -> bool:
        looks[database.identity.worker] += 1
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while is_slow.is_set() and is_wanted() and time.monotonic() < deadline:
            time.sleep(0.01)
        hurried.append(not is_wanted())
        return False

    is_slow, hurried = threading.Event(), list[bool]()

    monkeypatch.setattr(Database, "compact", compact)
    resolved = small_for(play, 2)
    send_small(play, 1)
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        for seed, count in enumerate((0, 1, 2, 2), start=2):
            checkpoint(play, run, seed)
            assert looks == (Counter({0: count, 1: count}) if count else Counter())
        with monkeypatch.context() as full:
            full.setattr(HostFolder, "free_bytes", lambda folder: 100)
            with pytest.raises(RescaleRefused, match=r"about [\d,]+ bytes of state to host .* 100 bytes are free"):
                run.requests.layout.ask(RescaleRequest(3, MoveStrategy("live")), WAIT_SECONDS_MAX)
        run.requests.layout.ask(RescaleRequest(3, MoveStrategy("live")), WAIT_SECONDS_MAX)
        settle(play, resolved, run, 3)  # with a checkpoint, which does not count because the layout changes
        checkpoint(play, run, 6)  # the first since slots have left
        assert looks == {0: 2, 1: 2}
        checkpoint(play, run, 7)
        assert looks == {0: 3, 1: 3, 2: 1}
        assert not any(hurried)
        is_slow.set()
        steps = run.board.show()["steps_run"]
        send_small(play, 8)
        run.wait_until(lambda status: status["steps_run"] > steps)
        run.requests.ask("checkpoint")
        run.wait_until(lambda status: sum(looks.values()) == 10)
        run.requests.ask("stop")
    assert hurried[-3:] == [True, True, True]


def checkpoint(play: Playground, run: Running, seed: int) -> None:
    """Of a step that has something to read."""
    before = run.board.show()
    send_small(play, seed)
    run.wait_until(lambda status: status["steps_run"] > before["steps_run"])
    run.requests.ask("checkpoint")
    run.wait_until(lambda status: status["checkpoint_version"] > before["checkpoint_version"])


def settle(play: Playground, resolved: Resolved, run: Running, workers: int) -> None:
    run.wait_until(has_workers(workers))


def slots_of(run: Running) -> list[int]:
    return [member["slots"] for member in run.board.show()["layout"]["members"].values()]


@pytest.mark.long
def test_a_change_that_is_held_reversed_or_aborted(play: Playground) -> None:
    resolved = small_for(play, 2)
    send_small(play, 1)
    with play.running(resolved, threads()) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        for reason, seed in (("reverse", 2), ("abort", 3)):
            workers = 3 if reason == "reverse" else 4
            run.requests.layout.ask(RescaleRequest(workers, MoveStrategy("live", budget_bytes=100)), WAIT_SECONDS_MAX)
            run.wait_until(lambda status: status["layout"]["change"]["cuts"] >= 2)
            run.requests.layout.ask(PauseRequest(is_paused=True), WAIT_SECONDS_MAX)
            with pytest.raises(RescaleRefused, match=f"a change of the layout to {workers} workers is under way"):
                run.requests.layout.ask(RescaleRequest(5, MoveStrategy("live")), WAIT_SECONDS_MAX)
            send_small(play, seed)
            run.requests.layout.ask(TurnRequest(reason), WAIT_SECONDS_MAX)  # type: ignore[arg-type]
            run.requests.layout.ask(PauseRequest(is_paused=False), WAIT_SECONDS_MAX)
            run.wait_until(lambda status: "change" not in status["layout"])
            layout = play.log(resolved).layout
            assert layout is not None and layout.outcome == {"reverse": "reversed", "abort": "aborted"}[reason]
        aborted = slots_of(run)
        run.requests.layout.ask(RescaleRequest(len(aborted), MoveStrategy("live")), WAIT_SECONDS_MAX)
        settle(play, resolved, run, len(aborted))
        assert max(slots_of(run)) - min(slots_of(run)) < max(aborted) - min(aborted), (
            "the shares are as uneven as before"
        )
    play.run(resolved, threads())
    assert 0 not in play.check(resolved).values()
    play.check_steps(resolved)


TURNS = 10
TURN_SECONDS_MAX = 1.0
"""After a change was asked for. A live one takes some seconds with the budget that it has here."""


class FullLauncher(ThreadLauncher):
    """Spark with two task slots: a third task waits for ever."""

    def start(self, assignment: Assignment) -> Any:
        return super().start(assignment) if len(self.jobs) < 2 else SimpleNamespace(failure=None, cancel=lambda: None)


def is_over(status: dict[str, Any]) -> bool:
    """Workers that leave are there for a moment longer, and no change can begin before."""
    layout = status["layout"]
    return "change" not in layout and all(member["slots"] for member in layout["members"].values())


@pytest.mark.parametrize("reason", ["abort", pytest.param("reverse", marks=pytest.mark.soak)])
def test_a_change_is_taken_back_while_it_waits_for_its_workers(
    play: Playground, reason: Literal["reverse", "abort"]
) -> None:
    """Its new workers never come. After that, another change can begin."""
    resolved = small_for(play, 2)
    send_small(play, 1)
    with play.running(resolved, Cluster(FullLauncher(), partial(SocketTransport, LOOPBACK))) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        run.requests.layout.ask(RescaleRequest(3, MoveStrategy("live")), WAIT_SECONDS_MAX)
        assert run.board.show()["layout"]["change"]["state"] == "starting"
        run.requests.layout.ask(TurnRequest(reason), WAIT_SECONDS_MAX)
        status = run.board.show()
        assert "change" not in status["layout"] and "taken back before it began" in status["layout_fault"]
        run.requests.layout.ask(RescaleRequest(1, MoveStrategy("live")), WAIT_SECONDS_MAX)
        settle(play, resolved, run, 1)
        assert run.board.show()["layout_fault"] is None
    play.run(resolved, threads())
    assert 0 not in play.check(resolved).values()


@pytest.mark.soak
@pytest.mark.parametrize("reason", ["reverse", "abort"])
def test_changes_that_are_ended_at_random_moments(play: Playground, reason: Literal["reverse", "abort"]) -> None:
    """Of any mode, while rows come. The outputs are the bytes of a run that has never changed, over the same divisions."""
    dice, resolved, outcomes = random.Random(len(reason)), resolved_for(play, 2), Counter[str]()
    with play.oracle(resolved) as oracle:
        everything.send(play, 1)
        with play.running(resolved, threads()) as run:
            run.wait_until(lambda status: status["steps_run"] > 0)
            for seed in range(2, 2 + TURNS):
                mode: Any = dice.choice(("live", "live", "cold"))
                workers = dice.choice([n for n in (1, 2, 3, 4) if n != len(slots_of(run))])
                budget_bytes = 3000 if mode == "live" else None
                run.requests.layout.ask(
                    RescaleRequest(workers, MoveStrategy(mode, budget_bytes=budget_bytes)), WAIT_SECONDS_MAX
                )
                everything.send(play, seed)
                time.sleep(dice.uniform(0.0, TURN_SECONDS_MAX))
                with suppress(RescaleRefused):  # it is settled
                    run.requests.layout.ask(TurnRequest(reason), WAIT_SECONDS_MAX)
                run.wait_until(is_over)
                layout = play.log(resolved).layout
                assert layout is not None
                outcomes[layout.outcome] += 1
        play.run(resolved, threads())
        assert outcomes["reversed"] + outcomes["aborted"] > TURNS // 4, outcomes
        story = oracle.verify(play.batch(resolved), sample=3, seed=len(reason))
    assert 0 not in play.check(resolved).values()
    oracle.verify_twin(play.twin(resolved, story, workers=2))


@pytest.mark.parametrize("mode", ["live", pytest.param("cold", marks=pytest.mark.soak)])
def test_a_service_without_room_for_new_workers_goes_on(play: Playground, mode: Literal["live", "cold"]) -> None:
    resolved = small_for(play, 2)
    resolved = replace(resolved, spec=replace(resolved.spec, register_s=1.0))
    send_small(play, 1)
    with play.running(resolved, Cluster(FullLauncher(), partial(SocketTransport, LOOPBACK))) as run:
        run.wait_until(lambda status: status["steps_run"] > 0)
        run.requests.layout.ask(RescaleRequest(3, MoveStrategy(mode)), WAIT_SECONDS_MAX)
        run.wait_until(lambda status: status["layout_fault"] is not None and "change" not in status["layout"])
        assert "1 workers need 1 task slots" in run.board.show()["layout_fault"]
        send_small(play, 2)
        steps = run.board.show()["steps_run"]
        run.wait_until(lambda status: status["steps_run"] > steps)
        run.requests.layout.ask(RescaleRequest(1, MoveStrategy(mode)), WAIT_SECONDS_MAX)
        settle(play, resolved, run, 1)
        assert run.board.show()["layout_fault"] is None
    assert members(play, resolved) == 1


@pytest.mark.long
@pytest.mark.parametrize("is_stopped", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_the_policy_alone_is_changed_without_a_service(play: Playground, is_stopped: bool) -> None:
    """Also when a change to as many workers, with the former policy, was under way as the service stopped."""
    resolved = small_for(play, 2)
    send_small(play, 1)
    if is_stopped:
        with play.running(resolved, threads()) as run:
            run.wait_until(lambda status: status["steps_run"] > 0)
            run.requests.layout.ask(RescaleRequest(3, MoveStrategy("live", budget_bytes=100)), WAIT_SECONDS_MAX)
            run.wait_until(lambda status: status["layout"]["change"]["cuts"] >= 2)
            run.requests.layout.ask(PauseRequest(is_paused=True), WAIT_SECONDS_MAX)  # until it stops
    else:
        play.run(resolved, threads())
    workers = 3 if is_stopped else 2
    assert (play.log(resolved).rescale is not None) == is_stopped
    send_small(play, 2)
    wanted = replace(resolved, spec=replace(resolved.spec, workers_now=workers, policy_now=DynamicShards()))
    status = play.run(wanted, threads(), goal=Goal.RESCALE)
    assert status["steps_run"] == 0 and members(play, resolved) == workers
    layout = play.log(resolved).layout
    assert layout is not None and layout.policy.kind == "dynamic"
    assert is_stopped or layout.shards == DynamicShards().shards_needed(workers)  # a cut may have ended within a shard
    number = layout.number
    assert play.run(wanted, threads(), goal=Goal.RESCALE)["steps_run"] == 0
    layout = play.log(resolved).layout
    assert layout is not None and layout.number == number, "there was nothing to change"
    play.run(resolved, threads())
    assert 0 not in play.check(resolved).values()
    play.check_steps(resolved)


@pytest.mark.long
def test_a_setting_that_nobody_has_touched_does_not_undo_a_change(play: Playground) -> None:
    resolved = small_for(play, 2)
    send_small(play, 1)
    play.run(resolved, threads())
    play.run(with_workers(resolved, 3), threads())
    assert members(play, resolved) == 3
    play.run(resolved, threads())  # the project still says 2
    assert members(play, resolved) == 3
    play.run(replace(resolved, spec=replace(resolved.spec, workers=1)), threads())
    assert members(play, resolved) == 1
    play.run(replace(resolved, spec=replace(resolved.spec, workers=None)), threads())
    assert members(play, resolved) == 1
    assert 0 not in play.check(resolved).values()


def change_by_command(resolved: Resolved, workers: int) -> subprocess.CompletedProcess[str]:
    """`stepwell layout change`, which starts Spark in a process of its own."""
    spec = str(resolved.project.project.spec_file)
    command = [sys.executable, "-m", "stepwell.cli", "layout", "change", "--workers", str(workers), "--spec", spec]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS_MAX, check=False
    )


def test_a_change_without_a_service_does_not_depend_on_the_files(play: Playground) -> None:
    """They may have a change that is not applied, or be wrong."""
    resolved = small_for(play, 1)
    send_small(play, 1)
    play.run(resolved)
    for workers, wrong in ((3, sums.files().popitem()[1].replace("sum(", "max(")), (2, "SELECT (1;")):
        play.write(dict.fromkeys(sums.files(), wrong), {"stepwell.workers": 1})
        changed = change_by_command(resolved, workers)
        assert changed.returncode == 0, changed.stderr
        assert "the definitions in the files are not read" in changed.stderr, changed.stderr
        assert len(play.log(resolved).current_layout.placed.births) == workers
    play.write(sums.files(), {"stepwell.workers": 1})
    send_small(play, 2)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)
