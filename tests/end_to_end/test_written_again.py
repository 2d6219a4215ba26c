"""An output whose columns change writes all rows once more, also while it is withheld."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.requests import TurnTransition
from tests.end_to_end.harness import Playground
from tests.end_to_end.test_gradual import apply
from tests.end_to_end.test_transitions import ORDER_SECONDS, wait_until_settled

PROJECT = """
CREATE STREAMING TABLE items (id BIGINT, v BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@items', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW shares TBLPROPERTIES ('topic' = '@shares', 'mode' = 'upsert', 'key' = 'id') AS SELECT id, {share} AS share FROM items;
CREATE MATERIALIZED VIEW below AS SELECT id, v FROM items WHERE v > {least};
CREATE MATERIALIZED VIEW kept TBLPROPERTIES ('topic' = '@kept', 'mode' = 'upsert', 'key' = 'id') AS SELECT id, 100 % (v - 3) AS r FROM below;
"""


def item(number: int, v: int | None) -> tuple[str, dict[str, Any] | None]:
    return f'{{"id": {number}}}', None if v is None else {"id": number, "v": v}


@pytest.mark.parametrize(("gradual", "workers"), [(False, 1), (True, 3)])
def test_messages_of_rows_that_go_while_they_are_withheld_are_deleted(
    play: Playground, gradual: bool, workers: int
) -> None:
    """A row is to replace its message, and is gone before it is released."""
    play.topic("items", 2)
    play.send("items", [item(1, 5), item(2, 4), item(3, 0), item(4, 7), item(5, 8)])
    conf = {"stepwell.workers": workers}
    before = play.resolve({"project.sql": PROJECT.format(share="v", least=3)}, conf)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        now = play.resolve({"project.sql": PROJECT.format(share="100 / v", least=3)}, conf)
        apply(run, now, Chosen(gradual=gradual), hold=True)
        run.wait_until(lambda shown: "rows in error" in (shown["transition"] or {}).get("held_because", ""))
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
        assert "shares" in run.board.show()["in_error"]
        play.send("items", [item(1, None), item(4, 10), item(6, 1)])
        run.wait_until(lambda shown: not any(shown["lag"].values()))
        play.send("items", [item(3, None), item(6, None)])
        run.wait_until(lambda shown: not shown["in_error"])
    play.run(now)
    play.check(now)
    play.check_steps(now)


def test_a_row_in_error_because_of_the_difference_is_counted_in_the_step_of_the_switch(play: Playground) -> None:
    """The row comes to the kept view in that step, which withholds all outputs that can have error rows, and all that is to be replaced."""
    play.topic("items")
    play.send("items", [item(1, 5), item(2, 4), item(3, 3)])
    before = play.resolve({"project.sql": PROJECT.format(share="v", least=3)})
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        now = play.resolve({"project.sql": PROJECT.format(share="100 / v", least=2)})
        apply(run, now, NOTHING_CHOSEN)
        wait_until_settled(run)
        assert set(run.board.show()["in_error"]) == {"kept"}
        play.send("items", [item(1, None), item(3, 9)])
        run.wait_until(lambda shown: not shown["in_error"])
    play.run(now)
    play.check(now)
    play.check_steps(now)
