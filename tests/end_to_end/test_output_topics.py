"""Output topics: how they are made, and that one whose keys would change their partition is not written."""

from __future__ import annotations

import pytest

from coordinator.starting.errors import TopicChanged
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground


def test_topics_are_made_as_their_mode_needs_them(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = play.resolve({
        "views.sql": """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in');
CREATE MATERIALIZED VIEW rows TBLPROPERTIES ('topic' = '@rows') AS SELECT k, n FROM numbers;
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@sums', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS total FROM numbers GROUP BY k;
"""}, {"stepwell.topics.partitions": 3})  # fmt: skip
    play.run(resolved)
    facts = play.topics.describe([play.prefix + "rows", play.prefix + "sums"])
    made = {name.removeprefix(play.prefix): (fact.partitions, fact.compacted) for name, fact in facts.items()}
    assert made == {"rows": (3, False), "sums": (3, True)}


def test_an_output_topic_that_has_grown_is_told(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 2))
    resolved = sums.project(play)
    play.run(resolved)
    play.grow("out", 5)
    play.send("in", sums.rows(2, 2))
    with pytest.raises(TopicChanged, match=f"{play.prefix}out had 2 partitions and has 5 now"):
        play.run(resolved)
    assert {m.step for m in play.read("out")} == {0}
