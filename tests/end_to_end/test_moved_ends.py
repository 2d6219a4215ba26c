"""A step ends with an error that cannot be counted by row, and has none over more rows: its end is moved, because where it ends is our choice.

The error is a recursion with too many rows. Errors that are counted are in test_views_in_error.py."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import DataError
from stepwell.lowering.rules import recursion
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.test_placement import contents
from tests.end_to_end.threads import threads

FILES = {
    "beside.sql": """
CREATE STREAMING TABLE numbers (k STRING, n BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW beside TBLPROPERTIES ('topic' = '@out', 'mode' = 'changelog') AS
  WITH RECURSIVE down(k, n) AS (
    SELECT k, sum(n) AS n FROM numbers GROUP BY k UNION ALL SELECT k, n - 1 FROM down WHERE n > 1)
  SELECT k, n FROM down;
CREATE MATERIALIZED VIEW largest TBLPROPERTIES ('topic' = '@largest', 'mode' = 'changelog') AS
  SELECT k, n FROM numbers WHERE n = (SELECT max(n) FROM numbers);
"""
}

BIG, ROWS_MAX = 40, 70
"""A sum of n makes n rows. Two big ones make too many."""


@pytest.fixture(autouse=True)
def few_rows_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion, "ROWS_MAX", ROWS_MAX)


def project(play: Playground, **conf: Any) -> Resolved:
    return play.resolve(FILES, {"stepwell.step.rows.max": 2, "stepwell.workers": 1, **conf})


def test_a_step_ends_where_the_view_has_an_answer(play: Playground) -> None:
    """The sum of `a` is too large after two messages, and after four. Two divisions are ahead when the first of them fails."""
    play.topic("in")
    one = project(play)
    play.send("in", [sums.row("b", 1), sums.row("c", 2)])
    play.run(one, threads())
    play.send("in", [sums.row("a", n) for n in (BIG, BIG, 1, 1, -BIG, 1, 1, 1, 6)])
    play.run(one, threads())
    assert play.check(one) == {"beside": 54, "largest": 2}
    play.check_steps(one)
    steps = play.log(one).step_records
    assert set(steps) == {0, 1, 2} and all(n < 3 for n in steps), (
        "rows 3 to 10 are one step, and the last one is the next"
    )
    other = renamed(one, "-w3", 3)
    play.run(other, threads())
    assert play.check(other) == {"beside": 54, "largest": 2}
    assert contents(play, one) == contents(play, other)


@pytest.mark.long
def test_an_error_that_nothing_ends_stops_the_run_and_a_row_that_ends_it_lets_the_next_run_go_on(
    play: Playground,
) -> None:
    play.topic("in")
    resolved = project(play)
    play.send("in", [sums.row("b", 5), sums.row("a", 1), sums.row("a", BIG), sums.row("a", BIG)])
    for _ in range(2):
        with pytest.raises(DataError, match=r"view beside, step 1: \[RECURSION_ROW_LIMIT_EXCEEDED\]"):
            play.run(resolved, threads())
        assert {m.step for m in play.read("out")} == {0}
    play.send("in", [sums.row("a", -BIG)])
    play.run(resolved, threads())
    assert play.check(resolved) == {"beside": 46, "largest": 2}
    play.check_steps(resolved)
    assert {m.step for m in play.read("out")} == {0, 1}


@pytest.mark.long
def test_an_end_is_not_sought_for_ever(play: Playground) -> None:
    """The sum of `a` stays too large, however many others follow."""
    play.topic("in")
    resolved = project(play, **{"stepwell.step.rows.max": 1})
    play.send("in", [sums.row("a", BIG), sums.row("a", BIG), *(sums.row(f"k{n}", n) for n in range(40))])
    with pytest.raises(DataError, match=r"view beside, step 1"):
        play.run(resolved, threads())
    assert {m.step for m in play.read("out")} == {0}
    assert play.log(resolved).pending[0].division.rows == 16, "1 row, and four times twice as many as before"


@pytest.mark.long
def test_a_partition_that_was_added_since_waits_for_the_next_step(play: Playground) -> None:
    """The division of the step names the partitions that there were."""
    play.topic("in")
    resolved = project(play)
    play.send("in", [sums.row("a", BIG), sums.row("a", BIG)])
    with pytest.raises(DataError, match="RECURSION_ROW_LIMIT_EXCEEDED"):
        play.run(resolved, threads())
    play.grow("in", 2)
    play.send("in", [sums.row("b", 2)], 1)
    play.send("in", [sums.row("a", -BIG)], 0)
    play.run(resolved, threads())
    assert play.check(resolved) == {"beside": 42, "largest": 2}
    assert set(play.log(resolved).step_records) == {0, 1}
