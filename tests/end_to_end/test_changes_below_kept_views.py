"""Changes of a view whose readers are kept: each of these pairs once gave rows twice, kept old rows, or failed in the step of the switch.

The views that change have filters of their own, for a node that several views share may be stored by one of them.
"""

from __future__ import annotations

import pytest

from tests.end_to_end.harness import Playground
from tests.end_to_end.test_transitions import apply, wait_until_settled

SOURCES = """
CREATE STREAMING TABLE t (a BIGINT, b BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@t');
CREATE STREAMING TABLE t2 (a BIGINT, b BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@t2');
"""


def view(name: str, query: str, mode: str = "", topic: str = "") -> str:
    written = f" TBLPROPERTIES ('topic' = '@{topic or name}', 'mode' = '{mode}')" if mode else ""
    return f"CREATE MATERIALIZED VIEW {name}{written} AS {query};\n"


KEPT = "SELECT a, b FROM moved_below WHERE b > 1"
COPIED = "SELECT a, b + 1 AS b FROM copied_below WHERE b > 1"
OTHER = view("other", "SELECT a, b FROM t2 WHERE a > 1")

BEFORE = (
    # a kept append view over a changed one gets another topic
    view("moved_below", "SELECT a, b FROM t WHERE a > 3", "append")
    + view("moved", KEPT, "append", "moved_first")
    # a view that is dropped, or is not stored any more, had what a view that is rebuilt is filled with
    + view("copied_below", "SELECT a, b FROM t WHERE a > 4")
    + OTHER
    + view("dropped", COPIED)
    + view("copied", COPIED, "append")
    # a view is rebuilt because of what is below it, and a column has another name
    + view("renamed_below", "SELECT a, b FROM t WHERE a > 4 AND b < 9")
    + view("renamed", "SELECT b, min(a) AS m FROM renamed_below GROUP BY b")
    + view("reader", "SELECT b, m + 1 AS m1 FROM renamed WHERE m < 7", "changelog")
    # two columns exchange their names
    + view("exchanged", "SELECT b, min(a) AS x, max(a) AS y FROM renamed_below GROUP BY b")
    + view("of_exchanged", "SELECT b, x * 10 + y AS z FROM exchanged", "upsert").replace(
        "'mode'", "'key' = 'b', 'mode'"
    )
    # an append output reads no column that changes
    + view("unread_below", "SELECT a, b FROM t")
    + view("unread", "SELECT a FROM unread_below WHERE a > 1", "append")
)
NOW = (
    view("moved_below", "SELECT a, b FROM t WHERE a > 1", "append")
    + view("moved", KEPT, "append", "moved_then")
    + view("copied_below", "SELECT a, b FROM t WHERE a > 2")
    + OTHER
    + view("copied", f"{COPIED} UNION ALL SELECT a, b FROM other", "append")
    + view("renamed_below", "SELECT a, b FROM t WHERE a > 2 AND b < 9")
    + view("renamed", "SELECT b, min(a) AS m2 FROM renamed_below GROUP BY b")
    + view("reader", "SELECT b, m2 + 1 AS m1 FROM renamed WHERE m2 < 7", "changelog")
    + view("exchanged", "SELECT b, min(a) AS y, max(a) AS x FROM renamed_below GROUP BY b")
    + view("of_exchanged", "SELECT b, y * 10 + x AS z FROM exchanged", "upsert").replace(
        "'mode'", "'key' = 'b', 'mode'"
    )
    + view("unread_below", "SELECT a, b + 1 AS b FROM t")
    + view("unread", "SELECT a FROM unread_below WHERE a > 1", "append")
)


def rows(count: int, first: int = 0) -> list[dict[str, int]]:
    return [{"a": (n * 3 + first) % 8, "b": (n * 7 + first) % 5} for n in range(count)]


@pytest.mark.parametrize("workers", [1, 3])
def test_readers_have_the_new_answer_once(play: Playground, workers: int) -> None:
    conf = {"stepwell.workers": workers}
    for topic in ("t", "t2"):
        play.topic(topic, 2)
        play.send(topic, rows(40))
    former = play.resolve({"project.sql": SOURCES + BEFORE}, conf)
    play.run(former)
    now = play.resolve({"project.sql": SOURCES + NOW}, conf)
    with play.running(former) as run:
        apply(run, now)
        wait_until_settled(run)
        for topic in ("t", "t2"):
            play.send(topic, rows(10, 3))
    play.run(now)
    play.check(now)
