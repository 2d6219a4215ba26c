"""An output whose columns change writes all rows once more, which it cannot while it is withheld."""

from __future__ import annotations

from typing import Any

from coordinator.revisions.requests import TurnTransition
from tests.end_to_end.harness import Playground
from tests.end_to_end.test_transitions import ORDER_SECONDS, apply, wait_until_settled

PROJECT = """
CREATE STREAMING TABLE items (id BIGINT, v BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@items', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW shares TBLPROPERTIES ('topic' = '@shares', 'mode' = 'upsert', 'key' = 'id') AS SELECT id, {share} AS share FROM items;
CREATE MATERIALIZED VIEW below AS SELECT id, v FROM items WHERE v > {least};
CREATE MATERIALIZED VIEW kept TBLPROPERTIES ('topic' = '@kept', 'mode' = 'upsert', 'key' = 'id') AS SELECT id, 100 % (v - 3) AS r FROM below;
"""


def item(number: int, v: int | None) -> tuple[str, dict[str, Any] | None]:
    return f'{{"id": {number}}}', None if v is None else {"id": number, "v": v}


def test_rows_in_error_hold_the_switch_whatever_the_user_accepts(play: Playground) -> None:
    """A row is gone before it would be released. No message would say that, if the switch came."""
    play.topic("items")
    play.send("items", [item(1, 5), item(2, 4), item(3, 0)])
    before = play.resolve({"project.sql": PROJECT.format(share="v", least=3)})
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        now = play.resolve({"project.sql": PROJECT.format(share="100 / v", least=3)})
        apply(run, now, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("held_because"))
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        why = "output shares has other columns and so writes all rows once more"
        run.wait_until(lambda shown: why in (shown["transition"] or {}).get("held_because", ""))
        play.send("items", [item(1, None), item(3, None)])
        run.wait_until(lambda shown: shown["transition"]["in_error"] == [])
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
    play.run(now)
    play.check(now)


def test_a_row_in_error_because_of_the_difference_takes_the_switch_back(play: Playground) -> None:
    """The row comes to the kept view in the step of the switch, which then cannot count it: that step would withhold all outputs."""
    play.topic("items")
    play.send("items", [item(1, 5), item(2, 4), item(3, 3)])
    before = play.resolve({"project.sql": PROJECT.format(share="v", least=3)})
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        now = play.resolve({"project.sql": PROJECT.format(share="100 / v", least=2)})
        apply(run, now)
        run.wait_until(
            lambda shown: "the step of the switch has failed" in (shown["transition"] or {}).get("held_because", "")
        )
        play.send("items", [item(1, None), item(3, 9)])
        run.wait_until(lambda shown: shown["rows"] >= 5)
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
    play.run(now)
    play.check(now)
