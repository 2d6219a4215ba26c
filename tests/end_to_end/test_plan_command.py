"""`stepwell plan` against the step log, the topics and the state of a pipeline that has run."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from base.fault import ExitCode
from io_kafka.offsets import TopicPartition
from stepwell.cli import app
from stepwell.commands import plan as command
from stepwell.planning.kept_definitions import KeptDefinitions
from tests.end_to_end.harness import Playground, Resolved

PROJECT = """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE names (k STRING, name STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@names', 'mode' = 'upsert', 'key' = 'k');
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@sums', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS total FROM numbers WHERE n > {least} GROUP BY k;
CREATE MATERIALIZED VIEW named TBLPROPERTIES ('topic' = '@named', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, upper(name) AS name FROM names;
{more}
"""
MORE = "CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('topic' = '@{name}', 'mode' = 'changelog') AS {query};"


def project(play: Playground, least: int = 0, more: str = "") -> Resolved:
    return play.resolve({"project.sql": PROJECT.format(least=least, more=more)}, {"stepwell.workers": 2})


def plan(play: Playground, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    """Of the files that were written last."""
    monkeypatch.setattr(
        command, "planning_session", lambda project: nullcontext((play.spark, KeptDefinitions.nothing()))
    )
    return CliRunner().invoke(app, ["plan", "--spec", str(play.folder / "spark-pipeline.yml"), *options])


def begun(play: Playground) -> Resolved:
    play.topic("in", 2)
    play.topic("names")
    for partition in (0, 1):
        play.send("in", [{"k": f"{n % 5}", "n": n} for n in range(10)], partition)
    play.send("names", [({"k": str(n)}, {"k": str(n), "name": f"n{n}"}) for n in range(7)])
    resolved = project(play)
    play.run(resolved)
    return resolved


def views(result: Result) -> dict[str, Any]:
    return {view["view"]: view for view in json.loads(result.stdout)["views"]}


def test_without_a_state_there_is_nothing_to_compare_with(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    project(play)
    result = plan(play, monkeypatch)
    assert result.exit_code == ExitCode.STATE
    assert (
        f"{play.prefix}pipeline has no state, so there is nothing with which its files could be compared"
        in result.stderr
    )


def test_a_plan_counts_what_is_there_and_changes_nothing(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = begun(play)
    log = len(play.read(resolved.spec.log_topic, prefixed=False))
    project(play)
    assert "Nothing would be filled, written or lost." in plan(play, monkeypatch).stdout
    added = MORE.format(name="often", query="SELECT name, count(*) AS n FROM names GROUP BY name")
    project(play, least=3, more=added)
    result = plan(play, monkeypatch, "--json")
    assert result.exit_code == 0, result.stderr
    found, plain = views(result), json.loads(result.stdout)
    assert (plain["revision"], plain["next"]) == (1, 2)
    assert {name: view["kind"] for name, view in found.items()} == {"sums": "rebuilt", "often": "new", "named": "kept"}
    assert found["sums"]["rows"] == 20, "all messages of numbers"
    assert found["often"]["rows"] == 7, "the table of names is in the state"
    assert len(play.read(resolved.spec.log_topic, prefixed=False)) == log
    shown = plan(play, monkeypatch).stdout
    assert "numbers: read again from offset 0" in shown and "revision 1 -> 2" in shown


def test_only_the_same_lines_are_the_project_in_force(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_in_force() -> tuple[bool, bool]:
        found = json.loads(plan(play, monkeypatch, "--json").stdout)
        return found["is_nothing"], found["is_in_force"]

    begun(play)
    project(play)
    assert is_in_force() == (True, True)
    play.resolve({"project.sql": "\n" + PROJECT.format(least=0, more="")}, {"stepwell.workers": 2})
    assert is_in_force() == (True, False), "errors name lines, so a revision has them"
    skips = PROJECT.replace("'subscribe' = '@in'", "'subscribe' = '@in', 'on.error' = 'skip'")
    play.resolve({"project.sql": skips.format(least=0, more="")}, {"stepwell.workers": 2})
    assert is_in_force() == (True, False), "the next messages are read otherwise"
    play.resolve({"project.sql": PROJECT.format(least=3, more="")}, {"stepwell.workers": 2})
    assert is_in_force() == (False, False)


def test_messages_that_have_expired_are_named_by_partition(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(play)
    play.topics.delete_below({TopicPartition(f"{play.prefix}in", 1): 6})
    project(play, least=3)
    result = plan(play, monkeypatch)
    assert result.exit_code == ExitCode.PROJECT
    text = " ".join(result.stdout.split())
    assert f"{play.prefix}in/1 begins at offset 6, and the pipeline began at 0" in text, text
    assert "project.sql:5" in text and "sums" in text
    added = MORE.format(name="often", query="SELECT name, count(*) AS n FROM names GROUP BY name")
    project(play, more=added)
    assert plan(play, monkeypatch).exit_code == 0, "nothing of it is read again"
