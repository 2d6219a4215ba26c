"""A view has an error over the rows up to the end of a step, and none over more rows: the end is moved, for Spark has no answer there either."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import DataError
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.test_placement import contents
from tests.end_to_end.threads import threads

FILES = {
    "ratios.sql": """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW ratios TBLPROPERTIES ('topic' = '@out', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, 120 / sum(n) AS ratio, count(*) AS rows FROM numbers GROUP BY k;
CREATE MATERIALIZED VIEW largest TBLPROPERTIES ('topic' = '@largest', 'mode' = 'changelog') AS
  SELECT k, n FROM numbers WHERE n = (SELECT max(n) FROM numbers);
"""
}


def project(play: Playground, **conf: Any) -> Resolved:
    return play.resolve(FILES, {"stepwell.step.rows.max": 2, "stepwell.workers": 1, **conf})


def test_a_step_ends_where_the_view_has_an_answer(play: Playground) -> None:
    """The sums of `a` are 0 after two rows, after four, and after six. Two divisions are ahead when the first of them fails."""
    play.topic("in")
    one = project(play)
    play.send("in", [sums.row("b", 1), sums.row("b", 2)])
    play.run(one, threads())
    play.send("in", [sums.row("a", n) for n in (1, -1, 2, -2, 3, -3, 4, 5, 6)])
    play.run(one, threads())
    assert play.check(one) == {"ratios": 2, "largest": 1}
    play.check_steps(one)
    steps = play.log(one).step_records
    assert set(steps) == {0, 1, 2} and all(n < 3 for n in steps), (
        "rows 3 to 10 are one step, and the last one is the next"
    )
    other = renamed(one, "-w3", 3)
    play.run(other, threads())
    assert play.check(other) == {"ratios": 2, "largest": 1}
    assert contents(play, one) == contents(play, other)


def test_an_error_that_nothing_ends_stops_the_run_and_a_row_that_ends_it_lets_the_next_run_go_on(
    play: Playground,
) -> None:
    play.topic("in")
    resolved = project(play)
    play.send("in", [sums.row("b", 5), sums.row("a", 1), sums.row("a", 2), sums.row("a", -3)])
    for _ in range(2):
        with pytest.raises(DataError, match=r"view ratios, step 1: \[DIVIDE_BY_ZERO\]"):
            play.run(resolved, threads())
        assert {m.step for m in play.read("out")} == {0}
    play.send("in", [sums.row("a", 7)])
    play.run(resolved, threads())
    assert play.check(resolved) == {"ratios": 2, "largest": 1}
    play.check_steps(resolved)
    assert {m.step for m in play.read("out")} == {0, 1}


def test_an_error_of_a_row_itself_is_not_sought_for_ever(play: Playground) -> None:
    """A text that is no number stays one, however many rows follow."""
    play.topic("in")
    resolved = play.resolve({
        "texts.sql": """
CREATE STREAMING TABLE texts (t STRING) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW numbers TBLPROPERTIES ('topic' = '@out', 'mode' = 'changelog') AS SELECT CAST(t AS INT) AS n FROM texts;
"""}, {"stepwell.step.rows.max": 1, "stepwell.workers": 1})  # fmt: skip
    play.send("in", [{"t": "1"}, {"t": "one"}, *({"t": str(n)} for n in range(40))])
    with pytest.raises(DataError, match=r"view numbers, step 1"):
        play.run(resolved, threads())
    assert {m.step for m in play.read("out")} == {0}
    assert play.log(resolved).pending[0].division.rows == 16, "1 row, and four times twice as many as before"


def test_a_partition_that_was_added_since_waits_for_the_next_step(play: Playground) -> None:
    """The division of the step names the partitions that there were."""
    play.topic("in")
    resolved = project(play)
    play.send("in", [sums.row("a", 1), sums.row("a", -1)])
    with pytest.raises(DataError, match="DIVIDE_BY_ZERO"):
        play.run(resolved, threads())
    play.grow("in", 2)
    play.send("in", [sums.row("b", 2)], 1)
    play.send("in", [sums.row("a", 7)], 0)
    play.run(resolved, threads())
    assert play.check(resolved) == {"ratios": 2, "largest": 1}
    assert set(play.log(resolved).step_records) == {0, 1}
