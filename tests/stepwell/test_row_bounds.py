"""How many rows an output gets at most, as `stepwell plan` says it: a number that the data can exceed is not told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from base.options import Mode
from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.planned import Planned, plan_change
from tests.stepwell.lowering.projects import Workbench, output
from tests.stepwell.test_planned import PER_PARTITION, READ, facts_of
from tests.stepwell.test_planned import output as output_of
from tests.stepwell.test_planned import view as view_of
from tests.stepwell.test_transition import document_of_bench

SUM = "SELECT c, sum(x) AS t, collect_set(x) AS xs FROM s GROUP BY c"
MOST = "SELECT c, max(CAST(x AS BIGINT)) AS t, collect_set(x) AS xs FROM s GROUP BY c"
TOTAL = "SELECT c, sum(x) AS t FROM s GROUP BY c"
OVER = "SELECT c, t FROM {} WHERE t > {}"
EXPLODED = f"SELECT c, x FROM (SELECT c, explode(xs) AS x FROM ({SUM})) WHERE x > {{}}"
JOINED = "SELECT s.c, u.x FROM s JOIN u ON s.c = u.c"
STATE = 100
"""The rows that each node with state has in `facts_of`."""

Views = Mapping[str, str]


def document(
    spark: SparkSession, views: Views, mode: Mode = "changelog", topics: Mapping[str, str] | None = None
) -> PlanDocument:
    """`topics`: of the outputs that are not called like their view."""
    bench = Workbench(spark).source("s", "id bigint, c string, x int").source("u", "id bigint, c string, x int")
    for name, query in views.items():
        bench.view(name, query, output=output(name, mode))
    return document_of_bench(bench, topics or {})


def planned(spark: SparkSession, before: Views, now: Views, chosen: Chosen | None = None) -> Planned:
    was = document(spark, before)
    return plan_change(was, document(spark, now), facts_of(was), chosen or Chosen())


def chain(least: int, of_b: int) -> Views:
    return {"z": f"{SUM} HAVING sum(x) > {least}", "a": OVER.format("z", 0), "b": OVER.format("a", of_b)}


DIFFERENCES: dict[str, tuple[Views, Views, int | None]] = {
    "another filter over an aggregate": ({"b": OVER.format(f"({SUM})", 10)}, {"b": OVER.format(f"({SUM})", 20)}, STATE),
    "another filter over messages": (
        {"b": "SELECT c, x FROM s WHERE x > 1"},
        {"b": "SELECT c, x FROM s WHERE x > 2"},
        PER_PARTITION * READ,
    ),
    "the view below is new": ({"b": OVER.format(f"({TOTAL})", 10)}, {"a": TOTAL, "b": OVER.format("a", 330)}, None),
    "the view below gets changes": (chain(360, 10), chain(1, 12), None),
    "the view below is kept": (chain(1, 10), chain(1, 12), STATE),
    "another view is read": (
        {"a": SUM, "z": MOST, "b": OVER.format("a", 10)},
        {"a": SUM, "z": MOST, "b": OVER.format("z", 10)},
        None,
    ),
    "a row of the state is several rows": ({"b": EXPLODED.format(1)}, {"b": EXPLODED.format(2)}, None),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_the_bound_of_what_differs_is_told_only_if_it_holds(spark: SparkSession, case: str) -> None:
    before, now, most = DIFFERENCES[case]
    found = output_of(planned(spark, before, now), "b")
    assert (found.kind, found.rows_max) == ("difference", most)
    assert ("at most" in found.receives) == (most is not None), found.receives


CONTENTS: dict[str, tuple[str, int | None]] = {
    "an aggregate": (SUM, STATE),
    "rows that may be equal": ("SELECT c, x FROM s WHERE x > 1", None),
    "a join": (JOINED, None),
    "a row of the state is several rows": (EXPLODED.format(1), None),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_the_bound_of_what_is_taken_back_is_told_only_if_it_holds(spark: SparkSession, case: str) -> None:
    query, most = CONTENTS[case]
    found = output_of(planned(spark, {"a": SUM, "b": query}, {"a": SUM}, Chosen(retract=("b",))), "b")
    assert (found.kind, found.rows_max) == ("taken_back", most)
    assert ("at most" in found.receives) == (most is not None), found.receives


PART, JOIN = {"b": "SELECT c, x FROM s WHERE x > 1"}, {"b": JOINED}
PARTS = {"b": f"{PART['b']} UNION ALL SELECT c, x FROM s WHERE x > 2"}
NEW_TOPICS: dict[str, tuple[Views, Views, Mode, int | None]] = {
    "a view that is kept": (chain(1, 10), chain(1, 10), "changelog", STATE),
    "a view that gets changes": (chain(360, 10), chain(1, 10), "changelog", None),
    "messages": (PART, PART, "append", PER_PARTITION * READ),
    "messages twice": (PARTS, PARTS, "append", 2 * PER_PARTITION * READ),
    "a join": (JOIN, JOIN, "append", None),
}


@pytest.mark.parametrize("case", NEW_TOPICS)
def test_the_bound_of_a_new_topic_is_told_only_if_it_holds(spark: SparkSession, case: str) -> None:
    before, now, mode, most = NEW_TOPICS[case]
    was = document(spark, before, mode)
    found = plan_change(was, document(spark, now, mode, {"b": "other"}), facts_of(was))
    assert (output_of(found, "other").kind, output_of(found, "other").rows_max) == ("new_topic", most)


def test_what_no_checkpoint_has_counted_is_unknown(spark: SparkSession) -> None:
    before, now, _ = DIFFERENCES["another filter over an aggregate"]
    was = document(spark, before)
    found = plan_change(was, document(spark, now), facts_of(was, rows={}, bytes={}))
    assert (found.rows, view_of(found, "b").rows, output_of(found, "b").rows_max) == (None, None, None)
    assert "at most" not in output_of(found, "b").receives
