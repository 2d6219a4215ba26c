"""The checkpoint store: what a lost disk costs, and what a store costs that is away, late or damaged."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from base.fault import ExitCode
from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import ApplyRequest, TurnTransition
from coordinator.running import recovery
from coordinator.starting.errors import CircuitChanged, DatabaseMissing
from coordinator.status import StatusBoard
from coordinator.storing import storing
from faults.points import STORE, Crash, CrashOrder, Point, arm
from io_kafka.clients.writer_faults import Fenced
from stepwell.cli import app
from stepwell.commands import restore as restoring
from stepwell.inspection.query import query
from stepwell.inspection.query_errors import NoState
from stepwell.project.loading import Project
from storage.database import Database
from storage.description import RECORDS
from storage.environments import open_environment
from storage.errors import CorruptFile, CorruptRecord
from storage.remote.errors import DamagedPack, ObjectMissing
from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore, WrittenObject
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, Running
from tests.end_to_end.test_loading_tables import COUNTRIES, clicks, write_people
from tests.end_to_end.test_loading_tables import project as with_tables
from tests.end_to_end.test_reading_again import wait_until_it_stands_still
from tests.end_to_end.test_transitions import NEW_VIEW, ORDER_SECONDS, apply, orders, project, wait_until_settled
from tests.end_to_end.threads import threads
from tests.sampling import sampled


def store_of(play: Playground) -> Path:
    return play.folder / "store"


def with_store(play: Playground) -> dict[str, str]:
    return {"stepwell.store": f"file://{store_of(play)}"}


def resolve(play: Playground, files: dict[str, str] | None = None, **conf: Any) -> Resolved:
    settings = {**with_store(play), "stepwell.workers": 2, "stepwell.step.rows.max": 40}
    return play.resolve(
        files or project(), {**settings, **{"stepwell." + name.replace("_", "."): each for name, each in conf.items()}}
    )


def lose(play: Playground, *workers: int) -> None:
    """The databases of these workers, or all."""
    Database.close_all()
    if not workers:
        shutil.rmtree(play.folder / "state")
        return
    for each in (play.folder / "state" / "stepwell" / "workers").iterdir():
        if any(each.name.lstrip(".").startswith(f"{worker:04d}") for worker in workers):
            shutil.rmtree(each)


def step_stored(play: Playground, resolved: Resolved) -> int:
    stored = play.log(resolved).stored
    return -1 if stored is None else stored.version.step


@pytest.fixture
def started(play: Playground) -> Resolved:
    """A pipeline with some steps, all of which the store has."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 200))
    resolved = resolve(play)
    play.run(resolved)
    return resolved


def test_a_run_ends_when_its_last_checkpoint_is_stored(play: Playground) -> None:
    """Also one that finds nothing to do, and that the store has lost an object since, or was moved: it stores all of the state again."""
    play.topic("orders", 2)
    resolved = resolve(play)
    for number in range(2):
        play.send("orders", orders(100 * number, 100))
        shown = play.run(resolved)
        assert shown["store"]["version"] == shown["checkpoint_version"] and shown["store"]["lag_s"] == 0.0
        assert step_stored(play, resolved) == play.log(resolved).steps
    next(store_of(play).rglob("packs/0001*/*base*")).unlink()
    shown = play.run(resolved)
    assert (shown["steps_run"], shown["store"]["fault"]) == (0, "")
    lose(play)
    assert play.run(resolved)["store"]["version"] == shown["checkpoint_version"]
    play.check(resolved)


@pytest.mark.parametrize("lost", sampled([(), (1,)], 2), ids=["all disks", "one disk"])
def test_a_start_without_disks_goes_on_from_the_store(
    play: Playground, started: Resolved, lost: tuple[int, ...]
) -> None:
    """With what came since the last checkpoint, and again after that."""
    for number in range(2):
        play.send("orders", orders(1000 * number + 200, 160), number)
        with arm(CrashOrder("output.committed", "raise", visit=2)), pytest.raises(Crash):
            play.run(started)
        lose(play, *lost)
        shown = play.run(started)
        assert shown["steps_replayed"] == 2, "it goes back to the stored version, and its steps are compared"
        play.check(started)
        play.check_steps(started)


@pytest.mark.long
def test_a_lost_disk_beside_a_later_checkpoint_leads_back_to_the_stored_one(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was away since, so the other worker's database is of no use any more."""
    monkeypatch.setattr(storing, "STOP_SECONDS_MAX", 0.0)
    stored = step_stored(play, started)
    with away(play):
        play.send("orders", orders(100, 200))
        shown = play.run(started)
        assert shown["checkpoint_step"] > shown["store"]["step"] == stored
    monkeypatch.undo()
    lose(play, 1)
    steps = play.log(started).steps
    shown = play.run(started)
    assert shown["steps_replayed"] == steps - stored
    play.check(started)
    play.check_steps(started)
    assert step_stored(play, started) == play.log(started).steps, "the store has caught up"


class away:
    """The store cannot be reached within the block: something else is in its place."""

    def __init__(self, play: Playground) -> None:
        self.there, self.aside = store_of(play), store_of(play).with_name("aside")

    def __enter__(self) -> None:
        if self.there.exists():
            self.there.rename(self.aside)
        self.there.write_text("no folder")

    def __exit__(self, *_: object) -> None:
        self.there.unlink()
        if self.aside.exists():
            self.aside.rename(self.there)


@pytest.mark.parametrize("late", ["pause", "continue"])
def test_a_store_that_is_away_costs_no_step_until_it_is_late(play: Playground, late: str) -> None:
    """Then the steps wait, or go on, as the settings say. As soon as it is back, it gets the last checkpoint."""
    play.topic("orders", 2)
    resolved = resolve(play, store_late=late)
    asked = resolved.spec.store
    assert asked is not None
    spec = replace(resolved.spec, store=replace(asked, lag_s_max=0.5), checkpoint_interval_s=0.1)
    resolved = replace(resolved, spec=spec)
    play.send("orders", orders(0, 50))
    with play.running(resolved) as run:
        with away(play):
            run.wait_until(lambda shown: (shown["store"] or {}).get("is_late"))
            assert run.board.show()["store"]["fault"]
            if late == "pause":
                run.wait_until(lambda shown: shown["phase"] == "waiting for the checkpoint store")
                before = run.board.show()["steps_run"]
                play.send("orders", orders(50, 50))
                run.wait_until(lambda shown: shown["store"]["lag_s"] > 1.5)
                assert run.board.show()["steps_run"] == before
            else:
                play.send("orders", orders(50, 50))
                run.wait_until(lambda shown: shown["rows"] == 100)
        run.wait_until(lambda shown: not shown["store"]["is_late"] and shown["rows"] == 100)
        run.wait_until(
            lambda shown: shown["store"]["fault"] == "" and shown["store"]["step"] == shown["checkpoint_step"]
        )
    lose(play)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)


def test_a_hand_over_does_not_wait_for_the_store(play: Playground) -> None:
    """The next run opens the same databases, and stores what they have."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 20))
    gate = threading.Event()
    resolved = resolve(play)
    with capture_logs() as logs, play.running(behind_gate(resolved, gate)) as run:
        run.wait_until(lambda shown: shown["rows"] == 20)
        run.requests.ask("hand-over")
        run.thread.join(WAIT_SECONDS_MAX)
        gate.set()
    assert run.board.show()["checkpoint_step"] > 0 and step_stored(play, resolved) == -1
    assert not any("is not in the store" in each["event"] for each in logs), "that is said after a minute"
    assert play.run(resolved)["steps_replayed"] == 0
    assert step_stored(play, resolved) == play.log(resolved).steps
    play.check(resolved)


@pytest.mark.long
def test_a_first_upload_that_lasts_for_many_checkpoints_is_recorded(play: Playground) -> None:
    """The log keeps the steps since its version, although no recovery but that from the store needs them."""
    play.topic("orders", 2)
    gate = threading.Event()
    resolved = resolve(play)
    slow = behind_gate(resolved, gate).at_pace(snapshot_steps_min=1, truncate_steps_min=1)
    with play.running(slow) as run:
        for number in range(5):
            play.send("orders", orders(10 * number, 10))
            run.wait_until(lambda shown, rows=10 * (number + 1): shown["rows"] == rows)
            run.requests.ask("checkpoint")
            run.wait_until(lambda shown: shown["checkpoint_step"] == shown["step"] + 1)
        assert run.board.show()["store"]["version"] is None
        gate.set()
        run.wait_until(lambda shown: shown["store"]["step"] == shown["step"] + 1)
    lose(play)
    play.run(resolved)
    play.check(resolved)
    play.check_steps(resolved)


def behind_gate(resolved: Resolved, gate: threading.Event) -> Resolved:
    """With a store to which nothing is written before the gate is open."""
    asked = resolved.spec.store
    assert asked is not None
    place = replace(asked.place, opener=lambda uri: gated(open_store(uri), gate))
    return replace(resolved, spec=replace(resolved.spec, store=replace(asked, place=place)))


def gated(store: ObjectStore, gate: threading.Event) -> ObjectStore:
    """Nothing is written before the gate is open."""
    write = store.write

    def write_behind_gate(name: str, pieces: Iterable[bytes]) -> WrittenObject:
        assert gate.wait(WAIT_SECONDS_MAX)
        return write(name, pieces)

    store.write = write_behind_gate  # type: ignore[method-assign]
    return store


@pytest.mark.long
def test_a_start_without_disks_and_without_what_the_store_should_have_names_it(
    play: Playground, started: Resolved
) -> None:
    lose(play)
    packs = sorted(store_of(play).rglob("packs/*/*"))
    content = packs[0].read_bytes()
    packs[0].write_bytes(content[:-40] + bytes(byte ^ 1 for byte in content[-40:]))
    with pytest.raises(DamagedPack, match=packs[0].name):
        play.run(started)
    packs[0].unlink()
    with pytest.raises(ObjectMissing, match=packs[0].name):
        play.run(started)
    packs[0].write_bytes(content)
    with pytest.raises(DatabaseMissing, match="no database"):
        play.run(replace(started, spec=replace(started.spec, store=None)))
    play.run(started)
    play.check(started)


def test_a_change_of_the_layout_that_the_store_does_not_have_is_undone_and_made_again(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "STOP_SECONDS_MAX", 0.0)
    more = replace(started, spec=replace(started.spec, workers_now=3))
    with away(play):
        play.send("orders", orders(100, 200))
        play.run(more)
        assert len(play.log(started).current_layout.placed.births) == 3
    lose(play)
    with play.running(started) as run:
        run.wait_until(lambda shown: shown["phase"] == "run" and shown["lag"] and not any(shown["lag"].values()))
        layout = play.log(started).current_layout
        assert (layout.outcome, len(layout.placed.births)) == ("restored", 2)
    play.run(more)
    assert len(play.log(started).current_layout.placed.births) == 3
    lose(play)
    play.run(started)
    play.check(started)
    play.check_steps(started)


@pytest.mark.long
def test_a_transition_after_the_stored_version_is_replayed_from_the_store(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has ended, and another one after it: a backup leads back to before both."""
    monkeypatch.setattr(storing, "STOP_SECONDS_MAX", 0.0)
    stored = step_stored(play, started)
    command(started.project.project, "backup", "create", "before")
    now = resolve(play, project(where="WHERE amount > 10", more=NEW_VIEW))
    with away(play), play.running(started) as run:
        apply(run, now)
        wait_until_settled(run)
        play.send("orders", orders(100, 100))
        run.wait_until(lambda shown: shown["rows"] == 100 and not any(shown["lag"].values()))
    assert step_stored(play, started) == stored
    monkeypatch.undo()  # the runs that follow end when their last checkpoint is stored
    lose(play)
    play.run(now)
    play.check(now)
    play.check_steps(now)
    third = resolve(play, project(where="WHERE amount > 20", more=NEW_VIEW))
    play.run(third, on_change="apply")
    steps = play.log(third).steps
    assert step_stored(play, third) == steps and play.log(third).revisions.phase is None
    command(third.project.project, "restore", "--backup", "before")
    assert play.run(third)["steps_replayed"] == steps - stored
    play.check(third)
    play.check_steps(third)


@pytest.mark.long
@pytest.mark.parametrize("crash", ["recovery.opened", "replay.compared"])
def test_a_query_of_a_state_from_before_a_transition_has_no_rows_of_another_view(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch, crash: Point
) -> None:
    """The stored version is from before the transition, and the run that goes back to it is broken off before another checkpoint. The databases
    have the views of the former project then, under numbers that are those of others in the next one, or nobody's."""
    monkeypatch.setattr(storing, "STOP_SECONDS_MAX", 0.0)
    now = resolve(play, project(where="WHERE amount > 10", more=NEW_VIEW))
    with away(play), play.running(started) as run:
        apply(run, now)
        wait_until_settled(run)
        play.send("orders", orders(100, 100))
        run.wait_until(lambda shown: shown["rows"] == 100 and not any(shown["lag"].values()))
    monkeypatch.undo()
    lose(play)
    with arm(CrashOrder(crash, "raise")), pytest.raises(Crash):
        play.run(now, threads(one_for_all=True))
    Database.close_all()
    asked = "SELECT * FROM totals"
    if crash == "recovery.opened":  # what the databases have was not told yet
        with pytest.raises(NoState, match=r"(?s)that of a former revision.*`stepwell run` goes on"):
            query(now.project, now.spec.circuit, asked)
    else:
        with pytest.raises(CircuitChanged):
            query(now.project, now.spec.circuit, asked)
        assert query(started.project, started.spec.circuit, asked).rows.count() == 13
    play.run(now)
    assert query(now.project, now.spec.circuit, asked).rows.count() == play.check(now)["totals"]


SALES = """
CREATE STREAMING TABLE sales (customer STRING, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@sales');
CREATE MATERIALIZED VIEW sold TBLPROPERTIES ('topic' = '@sold', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(amount) AS amount FROM sales GROUP BY customer;
"""


@pytest.mark.long
def test_what_a_transition_reads_keeps_a_backup_within_reach(play: Playground, started: Resolved) -> None:
    """New nodes alone have read the topic. After an abort a replay reads none of it, so it may be deleted."""
    command(started.project.project, "backup", "create", "before")
    play.topic("sales")
    play.send("sales", [{"customer": "c1", "amount": 7}] * 50)
    now = resolve(play, project(more=SALES))

    def why_not() -> list[str]:
        return [each["problem"] for each in command(started.project.project, "backup", "list")]

    with play.running(started) as run:
        apply(run, now, hold=True)
        wait_until_it_stands_still(run)
        assert why_not() == [""]
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        wait_until_settled(run)
    play.delete_topic("sales")
    assert any(division.again for division in play.log(started).divisions.values()) and why_not() == [""]
    command(started.project.project, "restore", "--backup", "before")
    lose(play)
    assert play.run(started)["steps_replayed"] > 0
    play.check(started)
    play.check_steps(started)


@pytest.mark.long
def test_loads_that_the_stored_version_reads_stay_until_a_later_one_is_stored(
    play: Playground, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transition has switched, and nothing else is left to do."""
    data = tmp_path_factory.mktemp("data")
    play.topic("clicks", 2)
    write_people(data, "A", "B", "C")
    play.send("clicks", clicks(0, 100))
    resolved = resolve(play, with_tables(data, COUNTRIES))
    play.run(resolved)
    first = play.log(resolved).tables.keys()
    monkeypatch.setattr(storing, "STOP_SECONDS_MAX", 0.0)
    write_people(data, "A", "C", "D")
    with away(play), play.running(resolved) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        version = run.board.show()["checkpoint_version"]
        chosen = Chosen(reload=("people.csv",))
        run.requests.revision.ask(ApplyRequest(resolved.spec, False, chosen), ORDER_SECONDS)
        run.wait_until(
            lambda shown: (
                (shown["transition"] or {}).get("phase") == "clearing" and shown["checkpoint_version"] > version
            )
        )
        play.send("clicks", clicks(100, 50), 1)
        run.wait_until(lambda shown: shown["rows"] == 50 and not any(shown["lag"].values()))
        assert (run.board.show()["transition"] or {}).get("phase") == "clearing"
    assert len(first) == 1 and first < play.log(resolved).tables.keys()
    monkeypatch.undo()
    lose(play)
    play.run(resolved)
    assert first.isdisjoint(play.log(resolved).tables.keys())
    play.check(resolved)
    play.check_steps(resolved)


BREAKS: tuple[Point, ...] = (
    "pack.half",
    "pack.uploaded",
    "manifest.written",
    "stored.recorded",
    "restore.half",
    "restore.done",
)


BREAKS_OF_SUITE = ("manifest.written", "restore.half")
"""Behind them the store has objects that no record names, and a disk half a database. tests/simulator breaks off at every point."""


@pytest.mark.long
@pytest.mark.parametrize(
    "point", [each if each in BREAKS_OF_SUITE else pytest.param(each, marks=pytest.mark.soak) for each in BREAKS]
)
def test_a_run_that_is_broken_off_while_it_stores_or_restores_loses_nothing(
    play: Playground, started: Resolved, point: Point
) -> None:
    """The disks are lost before it, and a second time after it."""
    assert point in STORE
    play.send("orders", orders(100, 100))
    lose(play)
    with arm(CrashOrder(point, "raise")), suppress(Crash):
        broken_off(play, started)
    lose(play)
    play.run(started)
    play.check(started)
    play.check_steps(started)


def broken_off(play: Playground, resolved: Resolved) -> None:
    """Runs until the crash point is reached, in the coordinator or in a worker; a worker that is lost is replaced."""
    play.run(resolved)


@pytest.mark.long
def test_only_what_is_new_is_uploaded_and_what_nobody_needs_goes(play: Playground, started: Resolved) -> None:
    for number in range(8):
        play.send("orders", orders(200 + 10 * number, 10))
        shown = play.run(started)
        assert shown["store"]["uploaded_bytes"] > 0
    manifests = list(store_of(play).rglob("manifests/*"))
    assert len(manifests) == 1, "those of former versions are deleted"
    names = [pack.name for pack in store_of(play).rglob("packs/*/*")]
    assert sum("base" in name for name in names) == 2, "of two workers, which are not written again"
    assert sum("delta" in name for name in names) == 16


@pytest.mark.long
def test_a_running_pipeline_that_loses_a_worker_with_its_disk_goes_on(play: Playground, started: Resolved) -> None:
    with play.running(started) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        play.send("orders", orders(200, 50))
        run.wait_until(lambda shown: shown["rows"] == 50)
        with_lost_disk(play, run)
        play.send("orders", orders(250, 50))
        run.wait_until(
            lambda shown: shown["recoveries"] == 1 and not any(shown["lag"].values()) and shown["phase"] == "run"
        )
    play.check(started)
    play.check_steps(started)


def damage(play: Playground) -> None:
    """One bit of each record of worker 1. What says which versions the database has is whole."""
    Database.close_all()
    folder = play.folder / "state" / "stepwell" / "workers" / "0001" / "committed"
    with open_environment(folder, synced=True) as environment, environment.write(0) as writer:
        stored = [(key, bytes(value)) for key, value in writer.items(RECORDS)]
        for key, value in stored:
            writer.put(key, bytes([value[0] ^ 4]) + value[1:])
    Database.close_all()


def test_a_damaged_database_is_made_again(play: Playground, started: Resolved) -> None:
    play.send("orders", orders(200, 50))
    damage(play)
    shown = play.run(started)
    assert shown["recoveries"] == 1
    play.check(started)
    play.check_steps(started)
    damage(play)
    with pytest.raises((CorruptFile, CorruptRecord)):
        play.run(replace(started, spec=replace(started.spec, store=None)))


def with_lost_disk(play: Playground, run: Running) -> None:
    """The folder of worker 1 goes, and its next write fails."""
    folder = next(
        each for each in (play.folder / "state" / "stepwell" / "workers").iterdir() if each.name.startswith("0001")
    )
    folder.rename(play.folder / "gone")


@pytest.mark.long
def test_a_run_that_is_taken_over_while_it_restores_says_so(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor stores a newer version, and deletes the manifest that it was about to read."""
    play.send("orders", orders(200, 50))
    lose(play)
    restore_missing = recovery.restore_missing

    def restore_after_another(*arguments: Any, **named: Any) -> None:
        monkeypatch.undo()
        play.run(started)
        restore_missing(*arguments, **named)

    monkeypatch.setattr(recovery, "restore_missing", restore_after_another)
    with pytest.raises(Fenced):
        play.run(started)
    play.check(started)
    play.check_steps(started)


# Backups


def test_a_backup_keeps_a_version_to_which_the_pipeline_can_go_back(
    play: Playground, started: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many checkpoints are stored meanwhile. The steps since are replayed and compared, and consumers see nothing of it."""
    project = started.project.project
    made = command(project, "backup", "create", "before")
    early = play.log(started)
    assert made["step"] == early.steps
    for number in range(3):
        play.send("orders", orders(200 + 10 * number, 10))
        play.run(started)
    assert [(each["name"], each["problem"]) for each in command(project, "backup", "list")] == [("before", "")]
    assert command(project, "backup", "verify") == {"backup before": [], "the version that was stored last": []}
    written = len(play.read("totals"))
    assert command(project, "restore", "--backup", "before", "--dry-run")["steps_to_replay"] == 3
    # A service may replace the version that was stored last after a command has read the log, and deletes its manifest then.
    read_log, logs = restoring.read_log, [early]
    monkeypatch.setattr(restoring, "read_log", lambda project: logs.pop() if logs else read_log(project))
    assert command(project, "restore", "--dry-run")["step"] == step_stored(play, started) and not logs
    assert play.log(started).checkpoints[-1].step > made["step"], "a dry run changes nothing"
    command(project, "restore", "--backup", "before")
    going_to = play.log(started).stored
    assert going_to is not None and "/backups/" not in going_to.manifest, "the backup may go before the next run"
    command(project, "backup", "delete", "before")
    lose(play, 0)
    update, left = StatusBoard.update, list[int]()
    monkeypatch.setattr(
        StatusBoard, "update", lambda board, **new: left.append(new.get("steps_to_replay", -1)) or update(board, **new)
    )
    shown = play.run(started)
    assert shown["steps_replayed"] == 3 and len(play.read("totals")) == written
    assert [n for n, _ in groupby(each for each in left if each >= 0)] == [3, 2, 1, 0]
    play.check(started)
    play.check_steps(started)
    assert command(project, "backup", "list") == []


def test_a_backup_with_a_changed_byte_is_named(play: Playground, started: Resolved) -> None:
    """It has the size that it had, so a list of objects shows nothing."""
    project = started.project.project
    command(project, "backup", "create", "before")
    pack = max(store_of(play).rglob("*base*"), key=lambda file: file.stat().st_size)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    assert [each["problem"] for each in command(project, "backup", "list")] == [""]
    found = command(project, "backup", "verify", "before", code=ExitCode.STATE)
    assert list(found) == ["backup before"] and pack.name in found["backup before"][0]


def command(project: Project, *arguments: str, code: int = 0) -> Any:
    """A command of the command line, in this process."""
    with capture_logs():  # which the commands would print before their answer
        ended = CliRunner().invoke(
            app, [*arguments, "--spec", str(project.spec_file), "--json"], catch_exceptions=False
        )
    assert ended.exit_code == code, ended.output
    return json.loads(ended.stdout)
