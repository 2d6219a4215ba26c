"""A table with a watermark over real topics: what a replay after a restart puts out is what was written, and late rows are counted."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

from tests.end_to_end.harness import Playground, Value

FILES = {
    "visits.sql": """
CREATE STREAMING TABLE events (k STRING, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE STREAMING TABLE visits TBLPROPERTIES ('topic' = '@out', 'mode' = 'append') AS
  SELECT window.start AS start, k, count(*) AS n FROM STREAM events WATERMARK ts DELAY OF INTERVAL 1 MINUTE
  GROUP BY window(ts, '1 minute'), k;
"""
}


def _row(k: str, minute: int) -> Value:
    return {"k": k, "ts": f"2024-03-01T12:{minute:02}:30.000Z"}


def test_a_replay_closes_the_same_groups_in_the_same_steps(play: Playground) -> None:
    play.topic("in", 2)
    play.topic("out", 2)
    first = [("a", 0), ("b", 0), ("a", 0), ("a", 1), ("b", 3), ("a", 3), ("a", 3), ("a", 9)]
    second = [("b", 9), ("a", 9), ("b", 0), ("a", 20)]
    _send(play, first)
    resolved = play.resolve(FILES, {"stepwell.step.rows.max": 4, "stepwell.workers": 2})
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["steps_run"] == 2)
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert play.log(resolved).checkpoints == ()  # left at a boundary, with no checkpoint, as after a kill
        _send(play, second)
        status = play.run(resolved, expect_epoch=0)
    assert (status["steps_replayed"], status["steps_run"]) == (2, 1)
    found: dict[int, Counter[tuple[str, str, int]]] = {}
    for message in play.read("out"):
        assert message.value is not None
        row = json.loads(message.value)
        found.setdefault(message.step, Counter())[row["start"][11:16], row["k"], row["n"]] += 1
    closed = {("12:00", "a", 2), ("12:00", "b", 1), ("12:01", "a", 1), ("12:03", "a", 2), ("12:03", "b", 1)}
    assert found == {1: Counter(closed), 2: Counter([("12:09", "a", 2), ("12:09", "b", 1)])}
    assert status["late"] == {"view visits": 1}
    assert status["watermarks"] == {"view visits": datetime(2024, 3, 1, 12, 19, 30, tzinfo=UTC).timestamp()}
    assert play.check_steps(resolved) == 3


def _send(play: Playground, rows: list[tuple[str, int]]) -> None:
    for partition in (0, 1):
        play.send("in", [_row(*row) for row in rows[partition::2]], partition=partition)
