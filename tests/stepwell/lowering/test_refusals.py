"""What is not supported is refused with view, file, line and a way around; all of it at once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from stepwell.errors import ProjectError, UnsupportedError
from stepwell.lowering.driver import lower, survey
from tests.stepwell.lowering.projects import FILE, Workbench, output

REFUSED = {
    "SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM t": "window functions",
    "SELECT a, x FROM t LATERAL VIEW explode(arr) AS x": "explode",
    "SELECT a, s FROM t EXCEPT ALL SELECT a, s FROM u": "EXCEPT ALL",
    "SELECT a FROM t LIMIT 3": "LIMIT",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a": "LEFT OUTER JOIN",
    "SELECT t.a, u.c FROM t FULL JOIN u ON t.a = u.a": "FULL OUTER JOIN",
    "SELECT a FROM t WHERE b > (SELECT avg(c) FROM u)": "subquery",
    "SELECT a, first(b) FROM t GROUP BY a": "first",
    "SELECT a, collect_list(b) FROM t GROUP BY a": "collect_list",
    "SELECT a, stddev(b) FROM t GROUP BY a": "the aggregate function",
    "SELECT a, try_sum(b) AS x FROM t GROUP BY a": "sum in TRY mode",
    "SELECT a, try_avg(b) AS x FROM t GROUP BY a": "avg in TRY mode",
    "SELECT a, count(DISTINCT b, s), max(b) FROM t GROUP BY a": "count(DISTINCT a, b) beside other aggregates",
    "SELECT id FROM range(2000000)": "2000000 rows",
    "SELECT soundex(s) FROM t": "SoundEx",
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_names_the_construct_the_view_and_its_line(spark: SparkSession, query: str) -> None:
    bench = Workbench(spark).tables("t", "u").view("fine", "SELECT a FROM t").view("v", query)
    with pytest.raises(ProjectError):
        lower(bench.project())
    first = survey(bench.project()).errors[0]
    assert isinstance(first, UnsupportedError)
    assert REFUSED[query] in first.message
    assert first.what_to_do
    assert str(first).startswith(f"{FILE}:2: v: ")


def test_everything_is_found_at_once_in_a_view_and_in_those_that_read_it(spark: SparkSession) -> None:
    bench = Workbench(spark).tables("t")
    bench.view("v", "SELECT a, s, soundex(s) AS x, row_number() OVER (ORDER BY a) AS r FROM t LIMIT 3")
    bench.view("w", "SELECT count(*) AS n FROM v GROUP BY soundex(x)")
    found = [(error.view, error.message.split(" (Spark")[0]) for error in survey(bench.project()).errors]
    assert sorted(found) == [
        ("v", "LIMIT is not supported yet"),
        ("v", "expression SoundEx is not supported"),
        ("v", "window functions (OVER) are not supported yet"),
        ("w", "expression SoundEx is not supported"),
    ]


RETRACTING = {
    "SELECT a, count(*) AS n FROM t GROUP BY a": "an aggregate",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)": "a row without a match",
    "SELECT k FROM keyed": "source keyed has a key",
    "SELECT k FROM log": "source log is a changelog",
}
GROWING = [
    "SELECT a + 1 AS x FROM t WHERE b > 2",
    "SELECT DISTINCT a FROM t",
    "SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
    "SELECT a FROM t UNION ALL SELECT c FROM u",
]


def _bench(spark: SparkSession) -> Workbench:
    bench = Workbench(spark).tables("t", "u").source("keyed", "k bigint, v string", "upsert", ("k",))
    return bench.source("log", "k bigint, v string", "changelog")


@pytest.mark.parametrize("query", RETRACTING)
def test_an_append_output_over_a_view_that_retracts_is_refused_with_the_reason(spark: SparkSession, query: str) -> None:
    bench = _bench(spark).view("v", query, output=output("v", "append"))
    with pytest.raises(UnsupportedError, match=RETRACTING[query]) as caught:
        lower(bench.project())
    assert "'mode' = 'upsert'" in caught.value.what_to_do


@pytest.mark.parametrize("query", GROWING)
def test_an_append_output_over_a_view_that_only_grows_is_right(spark: SparkSession, query: str) -> None:
    lower(_bench(spark).view("v", query, output=output("v", "append")).project())
