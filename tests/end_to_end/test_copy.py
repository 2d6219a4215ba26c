"""A copy of a pipeline under another name: it begins with a stored version, fills topics of its own, and leaves the original alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from base.fault import ExitCode
from coordinator.cloning import tables
from coordinator.cloning.source import CopySource
from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import TransitionRefused
from coordinator.starting.workers.circuit_file import read_owner
from coordinator.stepping.views_in_error import ViewsInError
from faults.points import CLONE, VARIABLE, Crash, CrashOrder, Point, arm
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import StepRecord, decode
from stepwell.cli import app
from stepwell.commands import copying
from stepwell.planning.kept_definitions import KeptDefinitions
from stepwell.project.loading import Project
from storage.database import Database
from tests.end_to_end.harness import ROOT, Playground, Resolved
from tests.end_to_end.test_loading_tables import COUNTRIES, NUMBERS, clicks, loads, topics_of_tables, write_people
from tests.end_to_end.test_loading_tables import project as with_tables
from tests.end_to_end.test_store import command, orders, project, resolve, store_of
from tests.end_to_end.test_transitions import NEW_VIEW, apply

FLOW = """
CREATE STREAMING TABLE flow TBLPROPERTIES ('topic' = '@flow', 'mode' = 'append') AS
  SELECT id, amount FROM STREAM plain WHERE amount > 5;
CREATE STREAMING TABLE plain (id BIGINT, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@plain');
"""


def files(**changes: object) -> dict[str, str]:
    return project(more=NEW_VIEW + FLOW, **changes)


def of_copy(files: dict[str, str], name: str = "copy") -> dict[str, str]:
    """The same definitions, whose outputs have topics of their own."""
    return {file: text.replace("'topic' = '@", f"'topic' = '@{name}-") for file, text in files.items()}


@dataclass
class Pair:
    """A pipeline, and the project of a copy of it, whose folder is another one."""

    play: Playground
    original: Resolved
    twin: Playground
    copy: Resolved

    def restore(self, *arguments: str) -> Any:
        """`stepwell restore --from ORIGINAL` in the project of the copy."""
        return command(self.copy.project.project, "restore", "--from", self.original.spec.name, *arguments)

    def refused(self, *arguments: str) -> tuple[int, str]:
        return refused_in(self.copy.project.project, *arguments)

    def untouched(self) -> dict[str, Any]:
        """All that the original has: its topics, its objects, its folder."""
        spec = self.original.spec
        topics = [spec.log_topic, spec.plan_topic, *(output.topic for output in spec.outputs)]
        topics += sorted(name for name in self.play.topics.names() if name.startswith(f"stepwell.{spec.name}.table."))
        folder, objects = self.play.folder / "state", store_of(self.play) / spec.name
        return {
            "topics": self.play.read_all(topics),
            "ends": self.play.topics.high_watermarks(topics),
            "files": {
                str(path): path.read_bytes()
                for place in (folder, objects)
                for path in place.rglob("*")
                if path.is_file()
            },
        }

    def fill(self, **options: Any) -> dict[str, Any]:
        return self.twin.run(self.copy, on_change="apply", **options)

    def check(self) -> None:
        self.play.check(self.original)
        self.play.check_steps(self.original)
        self.twin.check(self.copy)
        self.each_row_once()

    def each_row_once(self) -> None:
        """The topics of the copy have as many messages of each step as its log says, and the log has each step once."""
        recorded: Counter[tuple[str, int, int]] = Counter()
        numbers = []
        for message in self.play.read(self.copy.spec.log_topic, prefixed=False):
            record = decode(message.value, "log", message.offset)
            if isinstance(record, StepRecord):
                numbers.append(record.step)
                recorded.update({(p.topic, p.partition, record.step): p.messages for p in record.outputs if p.messages})
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        there = self.play.read_all({output.topic for output in self.copy.spec.outputs})
        assert Counter((topic, m.partition, m.step) for topic, those in there.items() for m in those) == recorded


@pytest.fixture
def pair(
    play: Playground,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Pair:
    """Of two workers each, or as many as the test says."""
    workers = getattr(request, "param", 2)
    play.topic("orders", 2)
    play.topic("plain", 2)
    play.send("orders", orders(0, 200))
    play.send("plain", plain(0, 50))
    original = resolve(play, files(), workers=workers)
    play.run(original)
    twin = Playground(play.spark, play.servers, tmp_path_factory.mktemp("copy"), play.prefix)
    monkeypatch.setattr(
        copying, "planning_session", lambda project: nullcontext((play.spark, KeptDefinitions.nothing()))
    )
    return Pair(play, original, twin, resolve_copy(play, twin, of_copy(files()), workers=workers))


def plain(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": i, "amount": i * 7 % 20} for i in range(first, first + count)]


def resolve_copy(
    play: Playground, twin: Playground, files: dict[str, str], name: str = "copy", **conf: Any
) -> Resolved:
    settings = {
        "stepwell.store": f"file://{store_of(play)}",
        "stepwell.workers": 2,
        "stepwell.step.rows.max": 40,
        "stepwell.takeover.silence": "1s",
        **{"stepwell." + name.replace("_", "."): each for name, each in conf.items()},
    }
    settings = {name: each for name, each in settings.items() if each is not None}
    written = twin.write(files, settings)
    text = written.read_text()
    written.write_text(text.replace(f"name: {play.prefix}pipeline", f"name: {play.prefix}{name}"))
    return twin.resolve_written(written)


@pytest.mark.long
@pytest.mark.parametrize("pair", [pytest.param(1, marks=pytest.mark.soak), 2], indirect=True)
def test_a_copy_begins_with_the_stored_version_and_fills_its_own_topics(pair: Pair) -> None:
    """And uploads what has changed alone: what was copied is the base of its own versions."""
    play = pair.play
    before = pair.untouched()
    told = pair.restore("--dry-run")
    assert told["step"] == play.log(pair.original).steps and told["objects"] == told["workers"]
    assert pair.restore() == told
    pair.fill()
    assert pair.untouched() == before
    pair.check()
    packs = [each.name for each in (store_of(play) / pair.copy.spec.name).rglob("packs/*/*")]
    assert (
        len([name for name in packs if "base" in name]) == len([name for name in packs if "-0.0-u0-base" in name]) > 0
    )
    assert any("delta" in name for name in packs)
    for number in range(2):
        play.send("orders", orders(150 + 50 * number, 100))
        play.send("plain", plain(50 + 10 * number, 10), number)
        play.run(pair.original)
        pair.twin.run(pair.copy)
        pair.check()


@pytest.mark.soak
def test_a_copy_of_a_copy(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also of one that has not run yet, whose log has nothing but where it is from."""
    play = pair.play
    pair.restore()
    folder = Playground(play.spark, play.servers, tmp_path_factory.mktemp("third"), play.prefix)
    third = Pair(play, pair.copy, folder, resolve_copy(play, folder, of_copy(files(), "third"), "third"))
    first = third.restore("--dry-run")
    assert first["step"] == play.log(pair.copy).steps
    play.send("orders", orders(200, 40))
    pair.fill()
    assert third.restore()["step"] > first["step"]
    third.fill()
    play.run(pair.original)
    pair.check()
    folder.check(third.copy)
    third.each_row_once()
    origin = play.log(third.copy).origin
    assert origin is not None and origin.pipeline == pair.copy.spec.name
    third.twin.run(third.copy, full_refresh=True)
    folder.check(third.copy)
    assert play.log(third.copy).origin is None


def test_a_copy_of_a_backup_while_the_original_goes_on(pair: Pair) -> None:
    """Under a layout whose owners have changed, with more workers than the original has now, and with a member that has left."""
    play = pair.play
    grown = replace(pair.original, spec=replace(pair.original.spec, workers_now=3))
    play.send("orders", orders(200, 40))
    play.run(grown)
    command(pair.original.project.project, "backup", "create", "grown")
    play.run(replace(grown, spec=replace(grown.spec, workers_now=1)))
    play.send("plain", plain(50, 20), 1)
    with play.running(pair.original) as run:
        run.wait_until(lambda shown: shown["phase"] == "run" and shown["lag"] and not any(shown["lag"].values()))
        told = pair.restore("--backup", "grown")
        assert told["workers"] == 3 and told["step"] < play.log(pair.original).steps
        with pair.twin.running(pair.copy, on_change="apply") as other:
            other.wait_until(lambda shown: shown["transition_last"] is not None and shown["transition"] is None)
            play.send("orders", orders(100, 30), 0)
            for each in (run, other):
                each.wait_until(lambda shown: shown["rows"] >= 30 and not any(shown["lag"].values()))
    pair.check()
    pair.twin.run(replace(pair.copy, spec=replace(pair.copy.spec, workers_now=1)))
    pair.check()


BREAKS_OF_SUITE = ("clone.loaded",)
"""Behind it the copy has topics that no record names, and the store has objects that no record names."""


@pytest.mark.long
@pytest.mark.parametrize(
    "point", [each if each in BREAKS_OF_SUITE else pytest.param(each, marks=pytest.mark.soak) for each in CLONE]
)
def test_a_copy_that_is_broken_off_is_made_again(pair: Pair, point: Point) -> None:
    """Between any two of its parts. Only after the last one it is there, and the command says so."""
    before = pair.untouched()
    with arm(CrashOrder(point, "raise")), pytest.raises(Crash):
        pair.restore()
    if point == "clone.recorded":
        code, said = pair.refused("--from", pair.original.spec.name)
        assert code == ExitCode.STATE and f"copied from {pair.original.spec.name} at step" in said, said
    else:
        pair.restore()
    pair.fill()
    assert pair.untouched() == before
    pair.check()


@pytest.mark.long
def test_batch_tables_are_copied_into_topics_of_the_copy(
    pair: Pair, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original loads the table again meanwhile, and deletes the topic that the copy was made of. The copy is as it was, until it does the
    same."""
    monkeypatch.setattr(tables, "MESSAGES_AT_ONCE", 2)
    play, twin, data = pair.play, pair.twin, tmp_path_factory.mktemp("data")
    play.topic("clicks", 2)
    write_people(data, "A", "B", "C")
    play.spark.range(5000).selectExpr("id", "id * 3 AS value").repartition(2).write.parquet(str(data / "numbers"))
    play.send("clicks", clicks(0, 200))
    definitions = with_tables(data, COUNTRIES, NUMBERS)
    original = play.resolve(
        {"project.sql": "", **definitions},
        {"stepwell.store": f"file://{store_of(play)}", "stepwell.workers": 2, "stepwell.step.rows.max": 1024},
    )
    play_of_tables = replace(pair, original=original, copy=resolve_copy(play, twin, of_copy(definitions)))
    play.run(original, full_refresh=True)
    before = play_of_tables.untouched()
    with arm(CrashOrder("clone.loaded", "raise")), pytest.raises(Crash):
        play_of_tables.restore()
    play_of_tables.restore()
    assert play_of_tables.untouched() == before
    copied = loads(play, play_of_tables.copy)
    assert sorted(load.rows for load in copied.values()) == [13, 5000]
    assert copied.keys() == topics_of_tables(play, play_of_tables.copy)
    assert copied.keys().isdisjoint(loads(play, original))

    write_people(data, "A", "C", "D")
    play.run(original, on_change="apply", chosen=Chosen(reload=("people.csv",)))
    play.check(original)
    write_people(data, "A", "B", "C")
    play_of_tables.fill()
    play.send("clicks", clicks(200, 50), 1)
    twin.run(play_of_tables.copy)
    twin.check(play_of_tables.copy)
    play_of_tables.each_row_once()
    write_people(data, "A", "C", "D")
    twin.run(play_of_tables.copy, on_change="apply", chosen=Chosen(reload=("people.csv",)))
    twin.check(play_of_tables.copy)
    assert loads(play, play_of_tables.copy).keys() == topics_of_tables(play, play_of_tables.copy)


# What is refused


def test_what_a_copy_may_not_be_is_refused_by_name(pair: Pair, tmp_path: Path) -> None:
    play, name, before = pair.play, pair.original.spec.name, pair.untouched()
    original, own = pair.original.project.project, pair.copy.project.project

    def refused(words: str, *arguments: str, code: ExitCode = ExitCode.STATE) -> None:
        found, said = pair.refused("--from", name, *arguments)
        assert found == code and words in said, said

    found, said = refused_in(original, "--from", name)
    assert found == ExitCode.STATE and f"the project is that of {name} itself" in said, said
    found, said = pair.refused("--from", "nobody")
    assert found == ExitCode.PROJECT and "pipeline nobody has never run on this broker" in said, said
    refused("There is no backup none.", "--backup", "none")
    refused("the store has no version 77 of", "--version", "77", code=ExitCode.PROJECT)
    elsewhere = f"file://{tmp_path}/elsewhere"
    refused("has no object", "--from-store", elsewhere)

    resolve_copy(play, pair.twin, {"project.sql": of_copy(files())["project.sql"].replace("@copy-large", "@large")})
    refused(f"output large would go to topic {play.prefix}large")
    resolve_copy(play, pair.twin, of_copy(files()), store=None)
    refused(f"pipeline {own.name} has no checkpoint store", code=ExitCode.PROJECT)
    resolve_copy(play, pair.twin, of_copy(files()))
    play.topic("copy-totals")
    play.send("copy-totals", [{"someone": "else"}])
    refused(f"topic {play.prefix}copy-totals has messages already")
    play.delete_topic("copy-totals")
    shutil.copytree(play.folder / "state", pair.twin.folder / "state")
    refused("there are databases in")
    shutil.rmtree(pair.twin.folder / "state")
    assert own.name not in {each.parts[-1] for each in store_of(play).iterdir()}
    assert pair.copy.spec.log_topic not in play.topics.names(), "something was made, and refused then"
    assert pair.untouched() == before

    twin_log = replace(pair.copy, spec=replace(pair.copy.spec, store=None))
    pair.twin.run(twin_log)
    refused(f"pipeline {own.name} is not new: it has a state")


def refused_in(project: Project, *arguments: str) -> tuple[int, str]:
    with capture_logs():
        ended = CliRunner().invoke(
            app, ["restore", *arguments, "--spec", str(project.spec_file), "--json"], catch_exceptions=False
        )
    assert ended.exit_code, ended.output
    return ended.exit_code, json.loads(ended.stdout)["error"]


@pytest.mark.long
def test_a_version_whose_input_or_log_is_gone_is_refused(pair: Pair) -> None:
    play, name = pair.play, pair.original.spec.name
    command(pair.original.project.project, "backup", "create", "old")
    short = replace(pair.original, spec=replace(pair.original.spec, steps_kept=1)).at_pace(
        snapshot_steps_min=1, truncate_steps_min=1
    )
    for number in range(4):
        play.send("orders", orders(200 + 10 * number, 10))
        play.run(short)
    found, said = pair.refused("--from", name, "--backup", "old")
    assert (
        found == ExitCode.STATE and "the step log has no record of that moment any more: it begins at step" in said
    ), said
    command(pair.original.project.project, "backup", "create", "expired")
    play.send("orders", orders(240, 10))
    play.topics.delete_below({TopicPartition(play.prefix + "orders", 0): 245})
    found, said = pair.refused("--from", name)
    assert found == ExitCode.STATE and "and the topic begins with offset" in said, said


@pytest.mark.long
def test_a_filling_that_input_does_not_allow_is_refused_until_it_is_chosen(pair: Pair) -> None:
    """The append output needs all messages again, of which some have expired."""
    play, name = pair.play, pair.original.spec.name
    play.topics.delete_below({TopicPartition(play.prefix + "plain", 0): 10})
    found, said = pair.refused("--from", name)
    assert found == ExitCode.STATE and "output flow" in said and "10 " in said, said
    pair.restore("--append", "flow=from-now")
    with pytest.raises(TransitionRefused):
        pair.fill()
    pair.fill(chosen=Chosen(append_from_now=("flow",)))
    play.send("plain", plain(50, 30), 1)
    pair.twin.run(pair.copy)
    pair.twin.check(pair.copy, ["totals", "large", "best"])
    ids = {json.loads(message.value or b"")["id"] for message in play.read("copy-flow")}
    assert ids and min(ids) >= 50


@pytest.mark.long
def test_a_state_within_a_transition_is_refused(pair: Pair) -> None:
    play, name = pair.play, pair.original.spec.name
    changed = resolve(play, files(where="WHERE amount > 10"))
    with play.running(pair.original) as run:
        apply(run, changed, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        run.requests.ask("checkpoint")
        run.wait_until(lambda shown: shown["store"]["step"] == shown["step"] + 1 == shown["checkpoint_step"])
        command(changed.project.project, "backup", "create", "held")
    found, said = pair.refused("--from", name, "--backup", "held")
    assert found == ExitCode.STATE and "the transition to revision 2 was under way" in said, said


@pytest.mark.long
def test_a_state_with_rows_in_error_is_refused_until_they_are_corrected(pair: Pair) -> None:
    """Outputs withhold rows in it, which the copy would have to know of."""
    play, name = pair.play, pair.original.spec.name
    failing = resolve(play, files(where="WHERE 100 / (amount - 777) < 1000"))
    play.run(failing, on_change="apply")
    twin = resolve_copy(play, pair.twin, of_copy(files(where="WHERE 100 / (amount - 777) < 1000")))
    play.send("orders", [('{"id": 900}', '{"id": 900, "customer": "c1", "amount": 777}')])
    with pytest.raises(ViewsInError, match="totals"):
        play.run(failing)
    found, said = pair.refused("--from", name)
    assert found == ExitCode.STATE and "views were in error, and outputs were withheld" in said, said
    play.send("orders", [('{"id": 900}', '{"id": 900, "customer": "c1", "amount": 4}')])
    play.run(failing)
    pair.restore()
    again = replace(pair, original=failing, copy=twin)
    again.fill()
    again.check()


# Another folder, another version


@pytest.mark.long
def test_databases_of_a_version_in_another_folder(pair: Pair, tmp_path: Path) -> None:
    """They are whole, and a project whose storage they are in goes on with them. A service may run meanwhile."""
    play, project = pair.play, pair.original.project.project
    first = command(project, "backup", "create", "first")
    play.send("orders", orders(200, 40))
    play.run(pair.original)
    before, folder = pair.untouched(), tmp_path / "other"
    told = command(project, "restore", "--version", str(first["version"]), "--to", str(folder))
    assert told["step"] == first["step"] and len(told["databases"]) == 2
    assert command(project, "restore", "--backup", "first", "--to", str(folder)) == told, "nothing is made twice"
    found, said = refused_in(project, "--to", str(folder))
    assert found == ExitCode.STATE and "there is another database in" in said, said
    found, said = refused_in(project, "--to", str(play.folder / "state"))
    assert found == ExitCode.STATE and "is the storage folder of the project itself" in said, said
    assert pair.untouched() == before
    owner = read_owner(folder / "stepwell")
    assert owner is not None and owner.fingerprint == pair.original.spec.circuit.fingerprint
    steps = {Database.facts(Path(path)).versions for path in told["databases"]}
    assert {version.step for (version,) in steps} == {first["step"]}

    last = tmp_path / "last"
    command(project, "restore", "--to", str(last))
    moved = replace(pair.original, spec=replace(pair.original.spec, storage=last / "stepwell", store=None))
    shown = play.run(moved)
    assert shown["steps_replayed"] == 0
    play.check(moved)


@pytest.mark.long
def test_a_version_is_chosen_by_its_number(pair: Pair) -> None:
    play, project = pair.play, pair.original.project.project
    first = command(project, "backup", "create", "first")
    play.send("orders", orders(200, 40))
    play.run(pair.original)
    last = play.log(pair.original).stored
    assert last is not None and last.version.version > first["version"]
    for number, step in ((first["version"], first["step"]), (last.version.version, last.version.step)):
        assert command(project, "restore", "--version", str(number), "--dry-run")["step"] == step
    found, said = refused_in(project, "--version", "999")
    assert found == ExitCode.PROJECT
    assert f"It has: {first['version']} (backup first), {last.version.version} (stored last)." in said, said


@pytest.mark.long
def test_a_version_that_is_replaced_while_it_is_copied(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its newer one is copied then. A backup that is deleted meanwhile is missed by name."""
    play, make = pair.play, copying.make_copy
    replaced: list[int] = []

    def make_after_another(source: CopySource, *others: Any) -> None:
        if not replaced:
            replaced.append(source.step)
            play.send("orders", orders(200, 200))
            play.run(replace(pair.original, spec=replace(pair.original.spec, workers_now=1)))
            for each in store_of(play).rglob("packs/0001-*/*"):
                each.unlink(missing_ok=True)  # what the last run deletes, now or a moment later
        make(source, *others)

    monkeypatch.setattr(copying, "make_copy", make_after_another)
    assert pair.restore()["step"] > replaced[0]


@pytest.mark.soak
@pytest.mark.parametrize("point", CLONE)
def test_a_command_that_is_killed_is_repeated(pair: Pair, point: Point) -> None:
    """In a process of its own, with Spark."""
    before, project = pair.untouched(), pair.copy.project.project
    command = [sys.executable, "-m", "stepwell.cli", "restore", "--from", pair.original.spec.name, "--json"]
    for crash, codes in (({VARIABLE: f"{point}=kill"}, {-signal.SIGKILL}), ({}, {0, int(ExitCode.STATE)})):
        ended = subprocess.run(
            [*command, "--spec", str(project.spec_file)],
            cwd=ROOT,
            env={**os.environ, **crash},
            capture_output=True,
            check=False,
        )
        assert ended.returncode in codes, ended
    assert (ended.returncode == 0) == (point != "clone.recorded"), ended
    pair.fill()
    assert pair.untouched() == before
    pair.check()
