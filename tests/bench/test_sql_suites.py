"""The benchmark suites: which of their queries lower, and that some of them equal Spark over changes. `make soak` has all."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from bench.sql import comparing, feeds
from bench.sql.lowering import forms, known
from bench.sql.measuring import Options, SuiteRun
from bench.sql.suites import SUITES
from engine.rows import zset

FORMS = {"nexmark": 24, "tpch": 22, "tpcds": 103}

SAMPLE = 5
"""Forms of each suite of which `make test` sees that they still lower. Each takes about 0.1 s. `make soak` sees all."""


@pytest.mark.long
@pytest.mark.parametrize("name", SUITES)
def test_a_form_that_lowered_once_lowers(spark: SparkSession, name: str) -> None:
    suite = SUITES[name]()
    mine = sorted(form for of, form in known() if of == name)
    chosen = sorted(random.Random(18).sample(mine, min(SAMPLE, len(mine))))
    refused = {form.name: form.reasons for form in forms(suite, spark, chosen) if not form.lowers}
    assert len(suite.queries) == FORMS[name]
    assert not refused


@pytest.mark.soak
@pytest.mark.parametrize("name", SUITES)
def test_the_list_has_every_form_that_lowers(spark: SparkSession, name: str) -> None:
    """If it fails because more lower: `python -m bench.sql --lower-only --add`."""
    assert {(name, form.name) for form in forms(SUITES[name](), spark) if form.lowers} == {
        k for k in known() if k[0] == name
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "queries", "scale", "workers"),
    [
        ("tpch", ("q16",), 0.002, 3),
        ("nexmark", ("q04",), 0.004, 2),
    ],
)
def test_a_few_forms_equal_spark(
    spark: SparkSession, tmp_path: Path, *, name: str, queries: tuple[str, ...], scale: float, workers: int
) -> None:
    _all_equal(spark, tmp_path, name, queries, Options(scale, loads=1, changes=1, workers=workers, timed=False))


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("name", "scale"), [("nexmark", 0.02), ("tpch", 0.01), ("tpcds", 0.002)])
def test_every_form_that_lowers_equals_spark(
    spark: SparkSession, tmp_path: Path, name: str, scale: float, workers: int
) -> None:
    _all_equal(spark, tmp_path, name, (), Options(scale, loads=3, changes=4, workers=workers, timed=False))


def _all_equal(spark: SparkSession, folder: Path, name: str, queries: tuple[str, ...], options: Options) -> None:
    suite = SUITES[name]()
    lowering = {query: suite.queries[query] for of, query in sorted(known()) if of == name}
    run = SuiteRun(replace(suite, queries=lowering), spark.newSession(), folder / "rows", folder / "work", options)
    wrong = {row.query: row.problem for row in run.rows(queries) if not row.equal}
    assert not wrong


def test_a_feed_ends_with_what_its_changes_add_up_to(tmp_path: Path) -> None:
    """And its changes have insertions, updates and deletions of rows that are there."""
    whole = feeds.nexmark(5_000)
    feed = feeds.make(whole, tmp_path, loads=2, changes=3)
    for name in ("bid", "auction"):
        held = zset.empty(whole[name].schema.types)
        for number, change in enumerate(feed.changes):
            held = zset.consolidate(zset.add([held, change[name]]))
            assert np.all(zset.weights_of(held) > 0)
            if number >= feed.loads:
                assert {-1, 1} <= set(zset.weights_of(change[name]))
                state = pa.parquet.read_table(feed.states[number] / f"{name}.parquet")
                assert sum(zset.weights_of(held)) == state.num_rows
                expected = zset.consolidate(zset.as_schema(_of_weight_one(state), held.schema))
                assert held.equals(expected)


def _of_weight_one(rows: pa.Table) -> pa.Table:
    return zset.build(rows.columns, np.ones(rows.num_rows, np.int64))


ROWS = pa.table({"k": ["a", "b", "c"], "n": pa.array([3, 2, 2], pa.int64()), "d": [0.1, 0.2, 0.3]})
QUERY = "SELECT k, n, d FROM suite_rows ORDER BY n DESC LIMIT 2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("held", "equal"),
    [
        ([("a", 3, 0.1), ("b", 2, 0.2)], True),
        ([("a", 3, 0.1), ("c", 2, 0.3)], True),  # the tie may go the other way
        ([("a", 3, 0.1), ("c", 2, 0.3000000000001)], True),
        ([("a", 3, 0.1), ("c", 2, 0.31)], False),
        ([("b", 2, 0.2), ("c", 2, 0.3)], False),  # a is not in a tie
        ([("a", 3, 0.1), ("a", 3, 0.1)], False),
        ([("a", 3, 0.1)], False),
    ],
)
def test_only_rows_that_tie_at_a_limit_may_differ(
    spark: SparkSession, held: list[tuple[str, int, float]], equal: bool
) -> None:
    spark.createDataFrame(ROWS).createOrReplaceTempView("suite_rows")
    columns = [pa.array(column, kind) for column, kind in zip(zip(*held, strict=True), ROWS.schema.types, strict=True)]
    ours = zset.consolidate(zset.build(columns, np.ones(len(held), np.int64)))
    found = comparing.difference(ours, comparing.answer(QUERY, spark), QUERY, spark.sql)
    assert (found == "") == equal, found


def test_doubles_are_compared_with_their_error_and_everything_else_exactly() -> None:
    answer = pa.table({"d": [1.0, float("nan"), None], "n": pa.array([1, 2, 3], pa.int32())})

    def found(doubles: list[float | None], numbers: list[int]) -> str:
        ours = zset.build([pa.array(doubles, pa.float64()), pa.array(numbers, pa.int32())], np.ones(3, np.int64))
        return comparing.difference(ours, answer, "SELECT d, n FROM t", lambda _: pytest.fail("there is no LIMIT"))

    assert found([1.0 + 1e-14, float("nan"), None], [1, 2, 3]) == ""
    assert found([None, float("nan"), 1.0], [3, 2, 1]) == ""
    assert found([1.0 + 1e-10, float("nan"), None], [1, 2, 3])
    assert found([1.0, 2.0, None], [1, 2, 3])
    assert found([1.0, float("nan"), None], [1, 2, 4])
    assert found([1.0, float("nan"), 0.0], [1, 2, 3])
