"""Views over the clock in a service: a step comes when a row crosses a border and not before, the clock may stand still, jump and go back, and a
replay after a crash has the times that were recorded. The host's clock is the time of a file here."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.harness import Playground, Resolved

QUERY = "SELECT k, count(*) AS n FROM events WHERE ts > now() - INTERVAL 1 HOUR AND ts <= now() GROUP BY k"
FILES = {
    "recent.sql": f"""
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW recent TBLPROPERTIES ('topic' = '@out', 'mode' = 'upsert', 'key' = 'k') AS {QUERY};
"""
}
START_S = 1_709_294_400  # 2024-03-01 12:00 UTC
MINUTE_S = 60


class HostClock:
    """A clock that this process and those of workers read, and the test sets. Times are in minutes since START_S."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._file.touch()
        self.set(0)

    def set(self, minutes: float) -> None:
        seconds = START_S + minutes * MINUTE_S + 0.75  # which is rounded down
        os.utime(self._file, (seconds, seconds))

    def given_to(self, resolved: Resolved) -> Resolved:
        kafka = resolved.spec.kafka
        outside = replace(kafka.outside, wall_clock=partial(os.path.getmtime, str(self._file)))
        return replace(resolved, spec=replace(resolved.spec, kafka=replace(kafka, outside=outside)))


def test_steps_come_with_the_borders_of_rows_and_a_replay_has_their_times(
    play: Playground, spark: SparkSession, tmp_path: Path
) -> None:
    play.topic("in", 2)
    play.topic("out", 2)
    clock, sent = HostClock(tmp_path), list[list[tuple[str, int]]]()

    def send(*rows: tuple[str, int]) -> None:
        sent.append(list(rows))
        for partition in (0, 1):
            play.send("in", [_row(*row) for row in rows[partition::2]], partition=partition)

    send(("a", -30), ("b", -50), ("a", -90), ("c", 20))
    resolved = clock.given_to(play.resolve(FILES, {"stepwell.workers": 2}))
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["steps_run"] == 1)
        clock.set(5)  # nothing happens at that time
        send(("a", 4))
        run.wait_until(lambda status: status["steps_run"] == 2)
        clock.set(10)  # b leaves
        run.wait_until(lambda status: status["steps_run"] == 3)
        sent.append([])
        clock.set(-60)
        send(("b", -49))
        run.wait_until(lambda status: status["steps_run"] == 4)
        clock.set(45)  # the row of b leaves, c enters, and one of a leaves
        run.wait_until(lambda status: status["steps_run"] == 5)
        sent.append([])
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert play.log(resolved).checkpoints == ()  # left at a boundary, with no checkpoint, as after a kill
        clock.set(200)  # all have left
        status = play.run(resolved, expect_epoch=0)
        sent.append([])
    assert (status["steps_replayed"], status["steps_run"]) == (5, 1)
    status = play.run(resolved)
    assert (status["steps_replayed"], status["steps_run"]) == (0, 0)  # at the same time
    times = [0, 5, 10, 10, 45, 200]
    divisions = play.log(resolved).divisions
    assert [divisions[s].clock_us for s in range(6)] == [(START_S + at * MINUTE_S) * 1_000_000 for at in times]
    play.check_steps(resolved)
    rows: list[tuple[str, int]] = []
    content: dict[str, Any] = {}
    messages = play.read("out")
    for step, (at, came) in enumerate(zip(times, sent, strict=True)):
        rows += came
        for message in messages:
            if message.step == step:
                assert message.key is not None
                content[json.loads(message.key)["k"]] = (
                    None if message.value is None else json.loads(message.value)["n"]
                )
        there = {key: n for key, n in content.items() if n is not None}
        assert there == _batch(spark, rows, at), f"step {step}"


BEFORE = {"recent.sql": FILES["recent.sql"].replace(QUERY, "SELECT k, count(*) AS n FROM events GROUP BY k")}


@pytest.mark.long
def test_a_changed_project_begins_to_read_the_clock(play: Playground, spark: SparkSession, tmp_path: Path) -> None:
    """What the topic has got becomes Spark's answer with the time of the switch."""
    play.topic("in", 1)
    play.topic("out", 1)
    clock, rows = HostClock(tmp_path), [("a", -30), ("b", -50), ("a", -90), ("c", 20)]
    play.send("in", [_row(*row) for row in rows])
    play.run(clock.given_to(play.resolve(BEFORE)))
    assert _content(play) == {"a": 2, "b": 1, "c": 1}
    clock.set(5)
    resolved = clock.given_to(play.resolve(FILES))
    play.run(resolved, on_change="apply")
    assert _content(play) == _batch(spark, rows, 5) == {"a": 1, "b": 1}
    clock.set(25)
    play.run(resolved)
    assert _content(play) == _batch(spark, rows, 25) == {"a": 1, "c": 1}
    play.check_steps(resolved)


def _content(play: Playground) -> dict[str, int]:
    found: dict[str, int] = {}
    for message in play.read("out"):
        assert message.key is not None
        key = json.loads(message.key)["k"]
        found.pop(key, None)
        if message.value is not None:
            found[key] = json.loads(message.value)["n"]
    return found


def _row(k: str, minute: int) -> dict[str, Any]:
    return {"k": k, "ts": datetime.fromtimestamp(START_S + minute * MINUTE_S, UTC).isoformat()}


def _batch(spark: SparkSession, rows: Sequence[tuple[str, int]], minute: int) -> dict[str, int]:
    """Spark's answer over the rows at that time."""
    table = ", ".join(f"('{k}', timestamp_seconds({START_S + at * MINUTE_S}))" for k, at in rows)
    query = QUERY.replace("now()", f"timestamp_seconds({START_S + minute * MINUTE_S})")
    return {
        row["k"]: row["n"]
        for row in spark.sql(f"WITH events AS (SELECT * FROM VALUES {table} AS t(k, ts)) {query}").collect()
    }
