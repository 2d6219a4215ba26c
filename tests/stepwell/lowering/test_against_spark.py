"""A lowered circuit, run step by step over inserts and deletes, holds what Spark answers over the same tables in
batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.analysis.content import content_of
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan
from engine.model.circuit import Circuit, FinalAggregate, LastByKey, Node, Output, Source, View
from engine.operators.base import StepContext
from engine.operators.table import operator_of
from engine.rows import zset
from engine.state.store import DictStore
from stepwell.lowering.driver import lower
from tests.engine.zsets import Rows, plus, to_rows, to_table
from tests.stepwell.lowering.projects import Query, Workbench

TABLES = {
    "t": "a bigint, b bigint, s string, d double",
    "u": "a bigint, c bigint, s string, d double",
}
STEPS = 4
QUERIES: dict[str, Query] = {
    "project": "SELECT a, b + 1 AS x, a AS again FROM t WHERE b > 0",
    "having": "SELECT a, count(*) AS n, sum(b) AS total FROM t GROUP BY a HAVING count(*) > 1 AND sum(b) > 0",
    "expression over calls": "SELECT s, sum(b) / count(*) + max(a) AS x, a + 1 AS g FROM t GROUP BY a + 1, s",
    "no groups": "SELECT count(*) AS n, sum(b) AS total, min(s) AS low FROM t WHERE a > 1000",
    "filtered calls": (
        "SELECT a, count(*) FILTER (WHERE b > 1) AS n, sum(b) FILTER (WHERE s = 'x') AS total, count(a, b) AS both "
        "FROM t GROUP BY a"
    ),
    "extremes by nested keys": (
        "SELECT max(b) AS top, min(s) AS low, count(*) AS n FROM t GROUP BY array(a, b % 2), named_struct('x', s, 'y', array(s))"
    ),
    "one count distinct": "SELECT a, count(DISTINCT b) AS n, sum(DISTINCT b) AS total, max(b) AS top FROM t GROUP BY a",
    "count distinct of two columns": "SELECT a, count(DISTINCT b, s) AS n FROM t GROUP BY a",
    "several count distinct": (
        "SELECT a, count(DISTINCT b) AS m, count(DISTINCT s) AS n, count(*) AS k, max(d) AS top FROM t GROUP BY a"
    ),
    "filtered count distinct": (
        "SELECT s, count(DISTINCT b) FILTER (WHERE a > 1) AS m, count(DISTINCT a) AS n, avg(b) AS mean FROM t GROUP BY s"
    ),
    "rollup": "SELECT a, s, count(*) AS n FROM t GROUP BY ROLLUP (a, s)",
    "two count distinct, by an expression": (
        "SELECT a + 1 AS g, count(DISTINCT b) AS m, count(DISTINCT s) AS n, sum(b) AS total FROM t GROUP BY a + 1"
    ),
    "rollup over a union": (
        "SELECT a, s, count(*) AS n FROM (SELECT a, s FROM t UNION ALL SELECT c, s FROM u) GROUP BY ROLLUP (a, s)"
    ),
    "cube over a union, with distincts": (
        "SELECT a, s, count(DISTINCT b) AS m, count(DISTINCT d) AS n "
        "FROM (SELECT a, s, b, d FROM t UNION ALL SELECT a, s, c, d FROM u) GROUP BY CUBE (a, s)"
    ),
    "several count distinct, of columns called gid": lambda spark: (
        spark.table("t")
        .select(F.col("a").alias("gid"), "b", "s")
        .groupBy("s")
        .agg(F.count_distinct("gid").alias("x"), F.count_distinct("b").alias("y"), F.max("gid").alias("z"))
    ),
    "group by a column called gid, over a rollup": (
        "SELECT gid, count(DISTINCT s) AS x, count(DISTINCT n) AS y, max(n) AS z "
        "FROM (SELECT a AS gid, s, count(*) AS n FROM t GROUP BY ROLLUP (a, s)) GROUP BY gid"
    ),
    "distinct": "SELECT DISTINCT a, s FROM t",
    "distinct doubles": "SELECT DISTINCT d FROM t",
    "group by doubles": "SELECT d, count(*) AS n FROM t GROUP BY d",
    "aggregate without calls": "SELECT count(*) AS n FROM (SELECT DISTINCT a FROM t)",
    "union all": "SELECT a, s FROM t UNION ALL SELECT c, s FROM u UNION ALL SELECT 7L, 'seven'",
    "union": "SELECT a, d FROM t UNION SELECT c, 1.0D FROM u",
    "union of all columns, renamed": (
        "SELECT k, v, count(*) AS n FROM (SELECT a AS k, c AS v, s, d FROM u UNION ALL SELECT * FROM t) GROUP BY k, v"
    ),
    "drop duplicates of all columns, renamed": lambda spark: spark.table("u").toDF("k", "v", "w", "x").dropDuplicates(),
    "drop duplicates, with a constant key": lambda spark: (
        spark.table("t").groupBy("a").count().selectExpr("a", "count", "1 AS one").dropDuplicates(["a", "one"])
    ),
    "except": "SELECT a, s FROM t EXCEPT SELECT a, s FROM u",
    "except doubles": "SELECT d FROM t EXCEPT SELECT d FROM u",
    "intersect": "SELECT a, d FROM t INTERSECT SELECT a, d FROM u",
    "join": "SELECT t.b, u.c FROM t JOIN u ON t.a + 1 = u.a AND t.b > u.c",
    "join on doubles": "SELECT t.a, u.c FROM t JOIN u ON t.d = u.d",
    "join on two keys": "SELECT t.b, u.c, t.d FROM t JOIN u ON t.a = u.a AND t.s = u.s",
    "join of one column with two": "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a AND t.a = u.c",
    "null-safe join": "SELECT t.b, u.c FROM t JOIN u ON t.a <=> u.a",
    "cross join": "SELECT t.a, u.c FROM t CROSS JOIN u WHERE t.b < u.c",
    "self-join": "SELECT x.a, y.s FROM t x JOIN t y ON x.a = y.b",
    "sums over a join": (
        "SELECT u.c, count(*) AS n, sum(t.b) AS total, avg(t.b) AS mean, count(t.s) AS named "
        "FROM t JOIN u ON t.a = u.a GROUP BY u.c"
    ),
    "sums over a join, of its right side": "SELECT t.b, sum(u.c) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.b",
    "sums over a join, by columns of both": (
        "SELECT t.s, u.s AS r, u.a, sum(t.b) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.s, u.s, u.a"
    ),
    "sums over a join, without groups": "SELECT count(*) AS n, sum(t.b) AS total FROM t JOIN u ON t.a = u.a",
    "sums over a join of nothing": "SELECT count(*) AS n, sum(t.b) AS total FROM t JOIN u ON t.a = u.a AND u.a > 99",
    "sums over a null-safe join": "SELECT u.c, sum(t.b) AS total FROM t JOIN u ON t.a <=> u.a GROUP BY u.c",
    "sums over a join on doubles": "SELECT t.d, u.c, count(*) AS n FROM t JOIN u ON t.d = u.d GROUP BY t.d, u.c",
    "sums over a self-join": "SELECT y.s, count(*) AS n, sum(x.b) AS total FROM t x JOIN t y ON x.a = y.b GROUP BY y.s",
    "sums over two joins": (
        "SELECT y.c, sum(t.b) AS total FROM t JOIN u x ON t.a = x.a JOIN u y ON t.s = y.s GROUP BY y.c"
    ),
    "sums of doubles over a join": "SELECT u.c, sum(t.d) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "sums of both sides of a join": (
        "SELECT u.s, sum(t.b) AS x, sum(u.c) AS y FROM t JOIN u ON t.a = u.a GROUP BY u.s"
    ),
    "extremes over a join": "SELECT u.c, max(t.b) AS top, count(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "distinct over a join": "SELECT u.c, count(DISTINCT t.b) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "sums over a join with a condition": (
        "SELECT u.s, sum(t.b) AS total FROM t JOIN u ON t.a = u.a AND t.b < u.c GROUP BY u.s"
    ),
    "sums of an expression over a join": "SELECT u.c, sum(t.b + 1) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c",
    "in": "SELECT * FROM t WHERE a IN (SELECT c FROM u)",
    "in, under or": "SELECT * FROM t WHERE a IN (SELECT c FROM u) OR b = 1",
    "not in": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u)",
    "not in, without nulls": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL AND c > 2)",
    "not in, correlated": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE u.s = t.s)",
    "not in, two columns": "SELECT a, b, s FROM t WHERE (a, s) NOT IN (SELECT c, s FROM u WHERE c > 1)",
    "not in, under or": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u) OR b = 1",
    "a constant in": "SELECT a, b FROM t WHERE 2 IN (SELECT c FROM u)",
    "a constant not in": "SELECT a, b FROM t WHERE 1 NOT IN (SELECT 1 FROM u WHERE c > 7)",
    "lateral": "SELECT t.a, x.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a) x",
    "exists": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)",
    "not exists": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)",
    "correlated scalar subquery": "SELECT a, b FROM t WHERE b >= (SELECT max(c) FROM u WHERE u.a = t.a)",
    "range": "SELECT id, t.s FROM range(1, 4) JOIN t ON id = t.a",
    "values": "SELECT t.b, v.name FROM t JOIN VALUES (1L, 'one'), (2L, 'two'), (2L, NULL) AS v(k, name) ON t.a = v.k",
    "one row": "SELECT 1 AS x, 'a' AS y",
    "nothing": "SELECT a FROM t WHERE false",
    "count of nothing": "SELECT count(*) AS n FROM t WHERE 1 = 0",
    "first rows": "SELECT a, b, s FROM t ORDER BY b DESC NULLS LAST, s, a LIMIT 5",
    "first rows of a total order, which is dropped": (
        "SELECT n FROM (SELECT a, s, count(*) AS n FROM t GROUP BY a, s) ORDER BY s DESC, a LIMIT 4 OFFSET 2"
    ),
    "sums over first rows": "SELECT s, count(*) AS n, sum(b) AS x FROM (SELECT * FROM t ORDER BY b, s, a LIMIT 12) GROUP BY s",
    "in first rows": "SELECT * FROM t WHERE a IN (SELECT c FROM u ORDER BY c DESC LIMIT 6)",
    "join with first rows": (
        "SELECT t.b, x.c FROM t JOIN (SELECT a, c FROM u ORDER BY c NULLS LAST, a DESC LIMIT 7) x ON t.a = x.a"
    ),
    "not in first rows": "SELECT a, b FROM t WHERE a NOT IN (SELECT c FROM u WHERE c IS NOT NULL ORDER BY c LIMIT 3)",
    "first rows of first rows": (
        "SELECT a, s FROM (SELECT a, b, s FROM t ORDER BY b, a, s LIMIT 20) WHERE a > 0 ORDER BY a DESC, s LIMIT 4"
    ),
    "behind the first rows": "SELECT a, s FROM t ORDER BY a, s OFFSET 4",
    "view in a view": lambda spark: (
        spark.table("t").groupBy("a").count().groupBy("count").agg({"a": "max"}).withColumnRenamed("max(a)", "m")
    ),
}


KINDS_OF: dict[str, set[type]] = {}
"""The kinds of nodes of each query that was run."""

NOT_IN_A_VIEW = {LastByKey, Output}
"""They belong to tables and outputs. tests/end_to_end compares them with Spark."""


@pytest.mark.parametrize("name", QUERIES)
def test_a_lowered_query_holds_what_spark_answers(spark: SparkSession, name: str) -> None:
    bench = Workbench(spark)
    for table, ddl in TABLES.items():
        bench.source(table, ddl, "changelog")
    circuit = lower(bench.view("v", QUERIES[name]).project())
    KINDS_OF[name] = {type(node) for node in circuit.nodes}
    histories = {table: list(history(random.Random(f"{name}{table}"))) for table in TABLES}
    content: Rows = Counter()
    store = DictStore()
    for change in steps_of(circuit, store, histories):
        content = plus(content, change)
    answer = _comparable(_batch(bench, name, histories))
    assert _comparable(content) == answer
    assert _comparable(_asked_for(circuit, store)) == answer


def test_every_kind_of_node_is_in_a_query() -> None:
    """A kind of node without a query would never be compared with Spark."""
    if KINDS_OF.keys() != QUERIES.keys():
        pytest.skip("only some of the queries have run")
    missing = set(get_args(Node)).difference(*KINDS_OF.values()) - NOT_IN_A_VIEW
    assert not missing, f"no query in QUERIES has {', '.join(sorted(kind.__name__ for kind in missing))}"


@pytest.mark.parametrize(
    ("query", "key", "derived"),
    [
        ("SELECT a, count(*) AS n FROM t GROUP BY a", ("a",), True),
        ("SELECT a, count(*) AS n FROM t GROUP BY a", (), True),
        ("SELECT count(*) AS n FROM t", ("n",), True),
        ("SELECT a, count(*) AS n FROM t GROUP BY a, s", ("a",), False),  # the key must be watched
        ("SELECT a, count(*) AS n FROM t GROUP BY a, s", (), True),
        ("SELECT a + 1 AS g, n FROM (SELECT a, count(*) AS n FROM t GROUP BY a)", ("g",), False),
        ("SELECT DISTINCT a FROM t", ("a",), False),
        ("SELECT a, b FROM t", (), False),
    ],
)
def test_a_view_over_an_aggregate_stores_nothing_unless_its_key_must_be_watched(
    spark: SparkSession, query: str, key: tuple[str, ...], derived: bool
) -> None:
    bench = Workbench(spark).source("t", TABLES["t"], "changelog").view("v", query, key=key)
    view = lower(bench.project()).nodes[-1]
    assert isinstance(view, View)
    assert view.kept
    assert view.derived == derived


LATE = {
    "sums over a join on doubles", "sums of doubles over a join", "sums of both sides of a join", "extremes over a join", "distinct over a join",
    "sums over a join with a condition", "sums of an expression over a join",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in QUERIES if ("over" in name and "join" in name) or "both sides" in name]
)
def test_sums_are_taken_before_a_join_where_they_may_be(spark: SparkSession, name: str) -> None:
    bench = Workbench(spark)
    for table, ddl in TABLES.items():
        bench.source(table, ddl, "changelog")
    circuit = lower(bench.view("v", QUERIES[name]).project())
    assert any(isinstance(node, FinalAggregate) for node in circuit.nodes) == (name not in LATE)


@pytest.mark.parametrize(
    ("query", "early"),
    [
        ("SELECT t.b, sum(u.c) AS total FROM t JOIN u ON t.a = u.a GROUP BY t.b", False),  # a row of u a key
        ("SELECT u.c, sum(t.b) AS total FROM t JOIN u ON t.a = u.a GROUP BY u.c", True),
        ("SELECT u.c, count(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY u.c", True),
        ("SELECT u.c, count(*) AS n FROM u JOIN t ON t.a = u.a GROUP BY u.c", True),
    ],
)
def test_there_is_nothing_to_add_up_on_the_side_that_has_a_row_a_key(
    spark: SparkSession, query: str, early: bool
) -> None:
    bench = Workbench(spark).source("t", TABLES["t"]).source("u", TABLES["u"], "upsert", ("a",))
    circuit = lower(bench.view("v", query).project())
    assert any(isinstance(node, FinalAggregate) for node in circuit.nodes) == early


def history(chance: random.Random) -> Iterator[Rows]:
    """A change a step; later ones take back some of what is there."""
    present: list[tuple[Any, ...]] = []
    for _ in range(STEPS):
        change: Rows = Counter()
        for row in chance.sample(present, len(present) // 3):
            present.remove(row)
            change[row] -= 1
        for _ in range(9):
            row = (
                chance.choice([None, 0, 1, 2, 3]),
                chance.choice([None, 0, 1, 2, 5]),
                chance.choice([None, "", "x", "y"]),
                chance.choice([None, 0.0, -0.0, 1.5, float("inf"), NAN]),
            )
            present.append(row)
            change[row] += 1
        yield Counter({row: weight for row, weight in change.items() if weight})


# One object, so that equal rows are equal to Counter.
NAN = float("nan")


def _asked_for(circuit: Circuit, store: DictStore) -> Rows:
    """The content of the one view, as a query reads it after the last step."""
    grow = append_only_inputs(circuit)
    view = next(index for index, node in enumerate(circuit.nodes) if isinstance(node, View))
    places = plan(circuit).input_places
    return to_rows(
        content_of(circuit, view, lambda index: StepContext(store, STEPS, index, grow[index], places[index]))
    )


def steps_of(circuit: Circuit, store: DictStore, histories: dict[str, list[Rows]]) -> Iterator[Rows]:
    """The change of the one view at every step, node after node, on one worker."""
    grow, places = append_only_inputs(circuit), plan(circuit).input_places
    for step in range(STEPS):
        changes: list[pa.Table] = []
        for index, node in enumerate(circuit.nodes):
            if isinstance(node, Source):
                changes.append(to_table(histories[node.handle][step], node.types))
                continue
            context = StepContext(store, step, index, grow[index], places[index])
            operate = operator_of(node).step
            assert operate is not None
            changes.append(operate(node, [changes[i] for i in node.inputs], context))
            assert changes[-1].schema.types == zset.schema_of(node.types).types, (index, node)
            if isinstance(node, View):
                yield to_rows(changes[-1])


def _batch(bench: Workbench, name: str, histories: dict[str, list[Rows]]) -> Rows:
    """Spark's answer over what is in the tables after the last step."""
    show_batch(bench, histories)
    query = QUERIES[name]
    frame = bench.spark.sql(query) if isinstance(query, str) else query(bench.spark)
    return Counter(tuple(row) for row in frame.collect())


def show_batch(bench: Workbench, histories: dict[str, list[Rows]]) -> None:
    """Makes the tables of the session those after the last step."""
    for table, ddl in TABLES.items():
        whole: Rows = Counter()
        for change in histories[table]:
            whole = plus(whole, change)
        bench.spark.createDataFrame(list(whole.elements()), ddl).createOrReplaceTempView(table)


def _comparable(rows: Rows) -> Counter[str]:
    """Rows by their text: NaN equals itself, -0.0 differs from 0.0."""
    counted: Counter[str] = Counter()
    for row, weight in rows.items():
        counted[repr(row)] += weight
    return counted
