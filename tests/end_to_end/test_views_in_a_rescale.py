"""What `query` and `doctor` say of the databases when a run has ended in the middle of a change of the layout, and went back to a checkpoint.

The run that goes on with the change removes the databases of workers that own nothing in that checkpoint. `circuit.json` names them until the
change is settled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from base.version import VersionId
from coordinator.goal import Goal
from coordinator.requests import Requests
from coordinator.rescale.requests import PauseRequest, RescaleRequest, TurnRequest
from coordinator.starting.workers.circuit_file import read_owner
from engine.model.circuit import View
from engine.resident.crew.checkpoints import CrewCheckpoints
from engine.resident.crew.slots import CrewSlots
from faults.points import Crash, CrashOrder, arm
from io_kafka.step_log.layout_records import MoveStrategy, RescaleMode
from stepwell.doctor.kafka import log_checks
from stepwell.doctor.state import state_checks
from stepwell.inspection import view_contents
from storage.database import Database
from storage.errors import NoDatabase
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads

ROWS = 40


def project(play: Playground, workers: int) -> Resolved:
    play.topic("in")
    resolved = sums.project(play, rows=20, workers=workers)
    play.send("in", [sums.row(f"k{n}", n) for n in range(ROWS)])
    play.run(resolved, threads())
    return resolved


def rows_of(resolved: Resolved) -> int:
    """As `stepwell query` counts them."""
    loaded = resolved.project.project
    (view,) = [node.name for node in resolved.spec.circuit.nodes if isinstance(node, View) and node.kept]
    owner = read_owner(loaded.state_folder)
    assert owner is not None
    _, (rows,) = view_contents.read_contents(
        loaded.state_folder, loaded.databases, resolved.spec.circuit, owner.numbers, [view]
    )
    return int(rows.num_rows)


def told(resolved: Resolved) -> tuple[str, str]:
    """The doctor's check of the state: its level, and what it has found."""
    check = state_checks(resolved.project.project)[0]
    return check.level, check.found


def change_told(play: Playground, resolved: Resolved) -> str:
    _, check = log_checks(resolved.project.project.settings.kafka, play.topics, resolved.spec.name, [], ())
    return check.found


def folders(resolved: Resolved) -> list[str]:
    return resolved.project.project.databases.names()


def broken_off(play: Playground, resolved: Resolved, order: CrashOrder, requests: Requests | None = None) -> None:
    with arm(order), pytest.raises(Crash):
        play.run(resolved, threads(one_for_all=True), requests=requests, goal=Goal.SERVE)
    Database.close_all()


def on_call(monkeypatch: pytest.MonkeyPatch, orders: type, name: str, number: int, do: Callable[[], None]) -> None:
    """Calls `do` in the loop's thread after the crew was given so many of `orders` of this name."""
    real, calls = getattr(orders, name), [0]

    def counted(crew: Any, *arguments: Any, **named: Any) -> Any:
        found = real(crew, *arguments, **named)
        calls[0] += 1
        if calls[0] == number:
            do()
        return found

    monkeypatch.setattr(orders, name, counted)


def asked(workers: int, mode: RescaleMode = "live") -> Requests:
    requests = Requests()
    requests.layout.put(RescaleRequest(workers, MoveStrategy(mode)))
    return requests


def test_a_worker_that_was_empty_in_the_checkpoint_is_not_missed(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From four workers to two: after the first cut worker 2 or 3 has given away all, and the other one has not. There the run stops."""
    resolved = project(play, 4)
    requests = asked(2)

    def stop() -> None:
        requests.layout.put(PauseRequest(is_paused=True))
        requests.ask("stop")

    with monkeypatch.context() as patched:
        on_call(patched, CrewSlots, "cut", 1, stop)
        play.run(resolved, threads(), requests=requests, goal=Goal.SERVE)
    assert rows_of(resolved) == ROWS and told(resolved)[0] == "OK"
    broken_off(play, resolved, CrashOrder("cut.exported", "raise"))
    assert folders(resolved) in (["0000", "0001", "0002"], ["0000", "0001", "0003"])
    named = json.loads((resolved.project.project.state_folder / "circuit.json").read_text())["databases"]
    assert named == ["0000", "0001", "0002", "0003"]
    assert rows_of(resolved) == ROWS
    level, found = told(resolved)
    assert (
        level == "OK" and "3 of 3 databases at checkpoint" in found and "a change of the layout is under way" in found
    )
    assert change_told(play, resolved).startswith("4 workers; a live change to 2 is under way")
    play.run(resolved, threads())
    assert rows_of(resolved) == ROWS and folders(resolved) == ["0000", "0001"]
    level, found = told(resolved)
    assert level == "OK" and "under way" not in found and change_told(play, resolved) == "2 workers"
    lose_one(resolved, monkeypatch)


def lose_one(resolved: Resolved, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that owns slots and is gone is told at once, by both."""
    databases = resolved.project.project.databases.databases
    (databases / "0001").rename(databases / ".0001")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        assert len(waits) < 3, "it looks for a database that nobody will bring back"

    # The clock of the query alone, for other threads of the process sleep too.
    monkeypatch.setattr(view_contents, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    with pytest.raises(NoDatabase, match="0001"):
        rows_of(resolved)
    level, found = told(resolved)
    assert level == "FAIL" and "0001" in found


@pytest.mark.long
def test_a_change_that_was_reversed_after_a_checkpoint_with_the_owners_of_its_target(
    play: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From three workers to two: worker 2 has given away all when the checkpoint is frozen, and is to get it back."""
    resolved = project(play, 3)
    requests = asked(2)
    with monkeypatch.context() as patched:
        on_call(patched, CrewCheckpoints, "freeze", 1, lambda: requests.layout.put(TurnRequest("reverse")) and None)
        broken_off(play, resolved, CrashOrder("checkpoint.completed", "raise"), requests)
    assert play.log(resolved).rescale is not None and rows_of(resolved) == ROWS
    broken_off(play, resolved, CrashOrder("workers.joined", "raise"))
    assert "0002" not in folders(resolved) and len(folders(resolved)) == 3, "the worker is made anew"
    assert rows_of(resolved) == ROWS and told(resolved)[0] == "OK"
    broken_off(play, resolved, CrashOrder("absorb.done", "raise"))
    assert rows_of(resolved) == ROWS and told(resolved)[0] == "OK"
    play.run(resolved, threads())
    assert rows_of(resolved) == ROWS
    level, found = told(resolved)
    assert level == "OK" and "3 of 3 databases" in found and "under way" not in found


def test_two_versions_of_a_database_have_their_own_slots(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one worker to two: when only the source has folded the checkpoint, the version before has all slots."""
    resolved = project(play, 1)
    broken_off(play, resolved, CrashOrder("fold.done", "raise", worker=0), asked(2, "cold"))
    before, after = (held for held in owned_in(resolved, "0000").items())
    assert before[0].version < after[0].version and len(before[1]) == 1 << 16 and len(after[1]) == 1 << 15
    assert told(resolved)[0] == "OK"
    play.run(replace(resolved, spec=replace(resolved.spec, workers_now=None)), threads())
    assert rows_of(resolved) == ROWS


def owned_in(resolved: Resolved, name: str) -> dict[VersionId, Any]:
    return Database.owned_by_version(resolved.project.project.databases.databases / name)
