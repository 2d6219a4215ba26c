"""A copy of a pipeline under another name: it begins with a stored version, fills topics of its own, and leaves the original alone."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from base.fault import ExitCode
from faults.points import TWIN, Crash, Order, Point, arm
from io_kafka.step_log.records import StepRecord, decode
from stepwell.cli import app
from stepwell.commands import copying
from stepwell.planning.kept_definitions import KeptDefinitions
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.test_store import command, orders, project, resolve, store_of
from tests.end_to_end.test_transitions import NEW_VIEW

OUTPUTS = ("totals", "large", "best", "flow")
FLOW = """
CREATE STREAMING TABLE flow TBLPROPERTIES ('topic' = '@flow', 'mode' = 'append') AS
  SELECT id, amount FROM STREAM plain WHERE amount > 5;
CREATE STREAMING TABLE plain (id BIGINT, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@plain');
"""


def files(**changes: object) -> dict[str, str]:
    return project(more=NEW_VIEW + FLOW, **changes)


def of_copy(files: dict[str, str]) -> dict[str, str]:
    """The same definitions, whose outputs have topics of their own."""
    return {name: text.replace("'topic' = '@", "'topic' = '@copy-") for name, text in files.items()}


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
        spec = str(self.copy.project.project.spec_file)
        with capture_logs():
            ended = CliRunner().invoke(app, ["restore", *arguments, "--spec", spec, "--json"], catch_exceptions=False)
        assert ended.exit_code, ended.output
        return ended.exit_code, json.loads(ended.stdout)["error"]

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
def pair(play: Playground, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Pair:
    play.topic("orders", 2)
    play.topic("plain", 2)
    play.send("orders", orders(0, 200))
    play.send("plain", plain(0, 50))
    original = resolve(play, files())
    play.run(original)
    twin = Playground(play.spark, play.servers, tmp_path_factory.mktemp("copy"), play.prefix)
    monkeypatch.setattr(
        copying, "planning_session", lambda project: nullcontext((play.spark, KeptDefinitions.nothing()))
    )
    return Pair(play, original, twin, resolve_copy(play, twin, of_copy(files())))


def plain(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": i, "amount": i * 7 % 20} for i in range(first, first + count)]


def resolve_copy(play: Playground, twin: Playground, files: dict[str, str], **conf: Any) -> Resolved:
    settings = {
        "stepwell.store": f"file://{store_of(play)}",
        "stepwell.workers": 2,
        "stepwell.step.rows.max": 40,
        "stepwell.takeover.silence": "1s",
        **{"stepwell." + name.replace("_", "."): each for name, each in conf.items()},
    }
    written = twin.write(files, settings)
    text = written.read_text()
    written.write_text(text.replace(f"name: {play.prefix}pipeline", f"name: {play.prefix}copy"))
    return twin.resolve_written(written)


def test_a_copy_begins_with_the_stored_version_and_fills_its_own_topics(pair: Pair) -> None:
    play = pair.play
    before = pair.untouched()
    told = pair.restore("--dry-run")
    assert told["step"] == play.log(pair.original).steps and told["objects"] == 2
    assert pair.restore() == told
    pair.fill()
    assert pair.untouched() == before
    pair.check()
    for number in range(2):
        play.send("orders", orders(150 + 50 * number, 100))
        play.send("plain", plain(50 + 10 * number, 10), number)
        play.run(pair.original)
        pair.twin.run(pair.copy)
        pair.check()


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


@pytest.mark.parametrize("point", TWIN)
def test_a_copy_that_is_broken_off_is_made_again(pair: Pair, point: Point) -> None:
    """Between any two of its parts. Only after the last one it is there, and the command says so."""
    before = pair.untouched()
    with arm(Order(point, "raise")), pytest.raises(Crash):
        pair.restore()
    if point == "twin.recorded":
        code, said = pair.refused("--from", pair.original.spec.name)
        assert code == ExitCode.STATE and f"copied from {pair.original.spec.name} at step" in said, said
    else:
        pair.restore()
    pair.fill()
    assert pair.untouched() == before
    pair.check()
