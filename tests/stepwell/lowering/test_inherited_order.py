"""The order of an ORDER BY reaches what stands some plan nodes above it: the answer is Spark's while the tables change.

Every query orders by so much that rows which tie give the same answer. Spark runs with one partition, because it reads the rows of
several ones in any order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from engine.model.ordered import TopK, Window
from engine.state.store import DictStore
from stepwell.lowering.driver import lower, lower_with_errors
from tests.engine.zsets import Rows, plus
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.lowering.projects import Query, Workbench
from tests.stepwell.lowering.test_against_spark import STEPS, TABLES, history, show_batch, steps_of

UNUSED, ARBITRARY = "ORDER BY without LIMIT", "LIMIT or OFFSET without ORDER BY"
SORTED = "(SELECT * FROM t WHERE a IS NOT NULL ORDER BY b DESC, s, d NULLS LAST)"
LATEST = "SELECT s FROM u WHERE u.a = t.a ORDER BY c DESC, s"

CORRELATED: dict[str, Query] = {
    "the latest row": f"SELECT t.a, ({LATEST} LIMIT 1) AS x FROM t",
    "the latest row but one": f"SELECT t.a, ({LATEST} LIMIT 1 OFFSET 1) AS x FROM t",
    "LATERAL": f"SELECT t.a, x.s FROM t, LATERAL ({LATEST} LIMIT 2) x",
    "LATERAL with OFFSET": f"SELECT t.a, x.s FROM t, LATERAL ({LATEST} OFFSET 1) x",
    "LEFT JOIN LATERAL": f"SELECT t.a, x.s FROM t LEFT JOIN LATERAL ({LATEST} LIMIT 2) x ON true",
    "LEFT JOIN LATERAL with a condition": f"SELECT t.a, x.s FROM t LEFT JOIN LATERAL ({LATEST} LIMIT 2) x ON x.s > t.s",
    "LEFT JOIN LATERAL of no row": f"SELECT t.a, x.s FROM t LEFT JOIN LATERAL ({LATEST} LIMIT 0) x",
    "more rows than there are": f"SELECT t.a, x.s FROM t, LATERAL ({LATEST} LIMIT 100000) x",
    "an alias": "SELECT t.a, (SELECT s AS z FROM u WHERE u.a = t.a ORDER BY c + 1 DESC, z LIMIT 1) AS x FROM t",
    "an expression": "SELECT t.a, (SELECT concat(s, 'x') AS z FROM u WHERE u.a = t.a ORDER BY c * 2 DESC, z LIMIT 1) AS x FROM t",
    "CASE": (
        "SELECT t.a, (SELECT s FROM u WHERE u.a = t.a ORDER BY CASE WHEN c > 1 THEN 0 ELSE c END DESC, s LIMIT 1) AS x FROM t"
    ),
    "places of nulls": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT s FROM u WHERE u.a = t.a ORDER BY c DESC NULLS FIRST, d NULLS LAST, s LIMIT 2) x"
    ),
    "ORDER BY one query below": (
        "SELECT t.a, (SELECT s FROM (SELECT * FROM u ORDER BY c DESC, s) q WHERE q.a = t.a LIMIT 1) AS x FROM t"
    ),
    "ORDER BY one query below, with the condition": (
        "SELECT t.a, (SELECT s FROM (SELECT s, a FROM u WHERE u.a = t.a ORDER BY c DESC, s) q LIMIT 1) AS x FROM t"
    ),
    "ORDER BY in WITH": (
        "WITH q AS (SELECT * FROM u ORDER BY c DESC, s) SELECT t.a, (SELECT s FROM q WHERE q.a = t.a LIMIT 1) AS x FROM t"
    ),
    "the outer row in SELECT": (
        "SELECT t.a, (SELECT concat(s, t.s) FROM u WHERE u.a = t.a ORDER BY c DESC, s LIMIT 1) AS x FROM t"
    ),
    "as of": "SELECT t.a, t.b, (SELECT s FROM u WHERE u.a = t.a AND u.c <= t.b ORDER BY c DESC, s LIMIT 1) AS x FROM t",
    "as of, without a key": "SELECT t.b, (SELECT s FROM u WHERE u.c <= t.b ORDER BY c DESC, s, u.a LIMIT 1) AS x FROM t",
    "OR": "SELECT t.a, (SELECT s FROM u WHERE u.a = t.a OR u.c = t.b ORDER BY d DESC NULLS FIRST, c, s LIMIT 1) AS x FROM t",
    "two keys, one of them computed": (
        "SELECT t.a, (SELECT s FROM u WHERE u.a = t.a + 1 AND u.s = t.s ORDER BY d DESC NULLS FIRST, c LIMIT 1) AS x FROM t"
    ),
    "WHERE": f"SELECT t.a FROM t WHERE t.s = ({LATEST} LIMIT 1)",
    "IN": "SELECT t.a FROM t WHERE t.s IN (SELECT s FROM u WHERE u.a = t.a AND u.a >= 0 ORDER BY c DESC, s LIMIT 2)",
    "EXISTS with OFFSET": f"SELECT t.a FROM t WHERE EXISTS ({LATEST} LIMIT 2 OFFSET 1)",
    "two values": (
        f"SELECT t.a, ({LATEST} LIMIT 1) AS x, (SELECT c FROM u WHERE u.a = t.a ORDER BY s DESC, c LIMIT 1) AS y FROM t"
    ),
    "a struct": "SELECT t.a, (SELECT struct(s, c) FROM u WHERE u.a = t.a ORDER BY d DESC, c, s LIMIT 1) AS x FROM t",
    "an aggregate of the first rows": f"SELECT t.a, (SELECT max(q.s) FROM ({LATEST} LIMIT 2) q) AS x FROM t",
    "the first of the first rows": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT s FROM (SELECT * FROM u WHERE u.a = t.a ORDER BY c DESC, s LIMIT 3) q LIMIT 1) x"
    ),
    "the last of the first rows": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT s FROM (SELECT * FROM u WHERE u.a = t.a ORDER BY c DESC, s LIMIT 3) q ORDER BY c, s LIMIT 1) x"
    ),
    "the first of the first rows of all": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT s FROM (SELECT * FROM u ORDER BY c DESC, s, a LIMIT 9) q WHERE q.a = t.a LIMIT 1) x"
    ),
    "over a join": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT u.s FROM u JOIN t t2 ON u.s = t2.s WHERE u.a = t.a ORDER BY u.c DESC, t2.b, u.s LIMIT 2) x"
    ),
    "over UNION ALL": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT s FROM (SELECT s, c FROM u WHERE u.a = t.a UNION ALL "
        "SELECT s, b FROM t t3 WHERE t3.a = t.a) ORDER BY c DESC, s LIMIT 2) x"
    ),
    "over a window": (
        "SELECT t.a, x.r FROM t, LATERAL (SELECT r FROM (SELECT s, c, rank() OVER (ORDER BY c DESC, s) AS r FROM u WHERE u.a = t.a) "
        "ORDER BY c, s LIMIT 2) x"
    ),
    "LATERAL in LATERAL": (
        "SELECT t.a, x.s FROM t, LATERAL (SELECT y.s FROM u, LATERAL (SELECT s FROM t t2 WHERE t2.a = u.a ORDER BY b DESC, s LIMIT 1) y "
        "WHERE u.a = t.a ORDER BY u.c DESC, y.s LIMIT 2) x"
    ),
}  # fmt: skip
"""LIMIT and OFFSET in subqueries that refer to the query around them."""

READERS: dict[str, Query] = {
    "first and last over the first rows": "SELECT first(s) AS x, collect_list(s) AS l FROM (SELECT s FROM t ORDER BY b DESC, s LIMIT 5)",
    "lists over the first rows": "SELECT a, collect_list(s) AS l FROM (SELECT a, s FROM t ORDER BY b DESC, s, a LIMIT 12) GROUP BY a",
    "listagg over the first rows": "SELECT listagg(s, '-') AS l FROM (SELECT s FROM t ORDER BY b DESC, s LIMIT 5)",
    "first_value and last_value": (
        f"SELECT a, first_value(s) OVER (PARTITION BY a) AS x, last_value(s) OVER (PARTITION BY a) AS y FROM {SORTED}"
    ),
    "a window at the top": (
        "SELECT s, first_value(s) OVER (PARTITION BY a) AS x, a FROM (SELECT s, a FROM t WHERE a >= 0 ORDER BY b DESC, s)"
    ),
    "UNION ALL of windows": (
        "SELECT s, a, first_value(s) OVER (PARTITION BY a) AS x FROM (SELECT s, a FROM t WHERE a >= 0 ORDER BY b DESC, s) "
        "UNION ALL SELECT s, c, s FROM u"
    ),
    "frames of rows": f"SELECT a, sum(b) OVER (PARTITION BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM {SORTED}",
    "rows that tie": (
        f"SELECT a, s, row_number() OVER w AS n, rank() OVER w AS r, first_value(s) OVER w AS x, last_value(s) OVER w AS y FROM {SORTED} "
        "WINDOW w AS (PARTITION BY a ORDER BY b)"
    ),
    "the first rows that tie": f"SELECT a, s FROM (SELECT a, s, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM {SORTED}) WHERE n <= 2",
    "lists over a partition": f"SELECT a, collect_list(s) OVER (PARTITION BY a) AS l, listagg(s) OVER (PARTITION BY a) AS m FROM {SORTED}",
    "lists over an ordered partition": (
        "SELECT a, collect_list(s) OVER (PARTITION BY a ORDER BY b DESC, s ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t"
    ),
    "lists of the first rows": (
        "SELECT a, collect_list(s) AS l FROM (SELECT a, s, row_number() OVER (PARTITION BY a ORDER BY b DESC, s) AS n FROM t) WHERE n <= 3 "
        "GROUP BY a"
    ),
    "lists of the first ranks": (
        "SELECT a, collect_list(s) AS l, first(b) AS x FROM (SELECT a, s, b, rank() OVER (PARTITION BY a ORDER BY b DESC, s) AS n FROM t) "
        "WHERE n <= 3 GROUP BY a"
    ),
    "lists above a window": (
        f"SELECT a, collect_list(s) AS l FROM (SELECT a, s, count(*) OVER (PARTITION BY a) AS n FROM {SORTED}) WHERE n > 1 GROUP BY a"
    ),
    "LIMIT above a window in order": "SELECT a, s, n FROM (SELECT a, s, sum(b) OVER (ORDER BY b DESC, s, a) AS n FROM t) LIMIT 4",
    "LIMIT above a window": "SELECT a, s, n FROM (SELECT a, s, count(*) OVER () AS n FROM (SELECT * FROM t ORDER BY b DESC, s, a)) LIMIT 4",
    "first of ROLLUP": f"SELECT a, first(s) AS x, collect_list(s) AS l FROM {SORTED} GROUP BY ROLLUP (a)",
    "first beside several DISTINCT": (
        f"SELECT a, first(s) AS x, count(DISTINCT b) AS n, count(DISTINCT s) AS m FROM {SORTED} GROUP BY a"
    ),
    "first of a pivot": f"SELECT * FROM (SELECT a, b, s, d FROM {SORTED}) PIVOT (first(b) FOR s IN ('x', 'y'))",
    "SORT BY": "SELECT a, first(s) AS x, collect_list(s) AS l FROM (SELECT * FROM t DISTRIBUTE BY a SORT BY b DESC, s) GROUP BY a",
    "json_tuple": (
        "SELECT collect_list(x) AS l FROM (SELECT x FROM (SELECT * FROM t WHERE b IS NOT NULL ORDER BY b DESC, a) "
        "LATERAL VIEW json_tuple(concat('{\"a\":', b, '}'), 'a') e AS x)"
    ),
    "dropDuplicates": lambda spark: (
        spark.table("t").where("a >= 0").orderBy(F.desc("b"), "s", "d").select("a", "b", "s").dropDuplicates(["a"])
    ),
    "dropDuplicates, without the columns of the order": lambda spark: (
        spark.table("t").sort("b", "s", "a").filter("a > 0").dropDuplicates(["a"]).select("a", "s")
    ),
    "dropDuplicates of the first rows": lambda spark: (
        # Spark's sort by a key puts the first row last if another row's key is null.
        spark.table("t").where("a >= 0").orderBy(F.desc("b"), "s", "a").limit(9).dropDuplicates(["a"]).select("a", "s")
    ),
    "repartition": lambda spark: (
        spark.sql(f"SELECT * FROM {SORTED}").repartition(1, "a").groupBy("a").agg(F.collect_list("s").alias("l"))
    ),
}  # fmt: skip
"""Other readers of an order, and nodes that hand it on."""

QUERIES = CORRELATED | READERS


ROUNDS = 3
"""A query gets one of a few histories, because to make its tables costs as much as to ask it."""


@pytest.fixture(scope="module")
def sources(spark: SparkSession) -> Workbench:
    """Its sources are TABLES."""
    bench = Workbench(spark)
    bench.spark.conf.set("spark.sql.shuffle.partitions", "1")
    for table, ddl in TABLES.items():
        bench.source(table, ddl, "changelog")
    return bench


@dataclass(frozen=True)
class Round:
    """Changes of the tables, and sessions in which the tables are those after a step."""

    histories: dict[str, list[Rows]]
    after: Callable[[int], SparkSession]


@pytest.fixture(scope="module")
def rounds(spark: SparkSession) -> Callable[[str], Round]:
    @cache
    def made(number: int) -> Round:
        histories = {table: list(history(random.Random(f"{number} {table}"))) for table in TABLES}

        @cache
        def after(step: int) -> SparkSession:
            session = small(spark)
            show_batch(session, {table: changes[:step] for table, changes in histories.items()})
            return session

        return Round(histories, after)

    return lambda name: made(crc32(name.encode()) % ROUNDS)


def _texts(rows: Rows) -> Counter[str]:
    """Rows by their texts, in which NaN equals itself."""
    counted: Counter[str] = Counter()
    for row, weight in rows.items():
        counted[repr(tuple(row))] += weight
    return counted


def _plain(value: object) -> object:
    return value.asDict(recursive=True) if isinstance(value, Row) else value


@pytest.mark.parametrize(
    "name", sampled(QUERIES, 4, ("dropDuplicates of the first rows", "rows that tie", "the latest row"))
)
def test_the_order_of_a_subquery_decides_as_in_spark(
    sources: Workbench, rounds: Callable[[str], Round], name: str
) -> None:
    """After the last step, and after one before it, which another query has elsewhere."""
    query, of_name = QUERIES[name], rounds(name)
    lowered = lower_with_errors(sources.beside().view("v", query).project())
    assert not lowered.errors
    assert not [note for note in lowered.notes["v"] if UNUSED in note or ARBITRARY in note]
    content: Rows = Counter()
    for step, change in enumerate(steps_of(lowered.circuit, DictStore(), of_name.histories), 1):
        content = plus(content, change)
        if step in (STEPS, 1 + crc32(name.encode()) % (STEPS - 1)):
            session = of_name.after(step)
            frame = session.sql(query) if isinstance(query, str) else query(session)
            answer = Counter(repr(tuple(_plain(value) for value in row)) for row in frame.collect())
            assert _texts(content) == answer, f"step {step}"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            f"SELECT a, n FROM (SELECT a, s, count(*) OVER (PARTITION BY a) AS n FROM {SORTED}) LIMIT 4",
            "a Window stands between an ORDER BY and the LIMIT",
        ),
        (
            "SELECT s FROM ((SELECT s FROM t ORDER BY b) UNION ALL SELECT s FROM u) LIMIT 3",
            "a Union stands between an ORDER BY and the LIMIT",
        ),
        (
            "SELECT collect_list(x) AS l FROM (SELECT explode(array(b, a)) AS x FROM (SELECT * FROM t ORDER BY b, s))",
            "a Generate stands between an ORDER BY and the aggregate function",
        ),
        (
            "SELECT t.a, x.e FROM t, LATERAL (SELECT e FROM (SELECT * FROM u ORDER BY c) q LATERAL VIEW explode(array(c, d)) AS e "
            "WHERE q.a = t.a LIMIT 1) x",
            "a Generate stands between an ORDER BY and the LIMIT",
        ),
        (
            "SELECT first_value(s) OVER (PARTITION BY s) AS x FROM ((SELECT s FROM t ORDER BY b) UNION ALL SELECT s FROM u)",
            "a Union stands between an ORDER BY and the function OVER",
        ),
    ],
)
def test_an_order_that_cannot_reach_its_reader_is_refused(sources: Workbench, query: str, text: str) -> None:
    errors = list(map(str, lower_with_errors(sources.beside().view("v", query).project()).errors))
    assert len(errors) == 1, errors
    assert text in errors[0] and "transformations/views.sql:1: v:" in errors[0]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a FROM t ORDER BY b", UNUSED),
        ("SELECT a, sum(b) OVER (PARTITION BY a) AS n FROM (SELECT * FROM t ORDER BY b)", UNUSED),
        ("SELECT t.a, (SELECT s FROM u WHERE u.a = t.a LIMIT 1) AS x FROM t", ARBITRARY),
        ("SELECT t.a, (SELECT s FROM u WHERE u.a = t.a ORDER BY c LIMIT 1) AS x FROM t", "of a LIMIT or OFFSET in a subquery"),
        (
            "SELECT row_number() OVER (ORDER BY s) AS n FROM ((SELECT s FROM t ORDER BY b) UNION ALL SELECT s FROM u)",
            "an ORDER BY below a Union does not decide between rows that tie",
        ),
    ],
)  # fmt: skip
def test_dry_run_says_what_the_order_does_not_decide(sources: Workbench, query: str, said: str) -> None:
    notes = lower_with_errors(sources.beside().view("v", query).project()).notes["v"]
    assert any(said in note for note in notes), notes


def test_a_step_of_the_latest_row_does_not_read_whole_partitions(sources: Workbench) -> None:
    one = lower(sources.beside().view("v", f"SELECT t.a, ({LATEST} LIMIT 1) AS x FROM t").project()).nodes
    assert [node.count for node in one if isinstance(node, TopK)] == [1]
    assert not any(isinstance(node, Window) for node in one)
    two = lower(
        sources.beside().view("v", f"SELECT t.a, x.s FROM t, LATERAL ({LATEST} LIMIT 1 OFFSET 1) x").project()
    ).nodes
    assert [node.count for node in two if isinstance(node, TopK)] == [2]
