# ruff: noqa: E501 (tables of queries read better in long lines)
"""What a refusal advises is supported: each refused query, a part of its advice, and the query as the advice has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stepwell.errors import UnsupportedError
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower_with_errors
from stepwell.planning.resolver import resolve
from stepwell.project.refusals import _NULL_UPDATES, _SESSION_TODAY, EXPECTATIONS_TODAY
from tests.stepwell.folder import project
from tests.stepwell.lowering.projects import Workbench

ADVICE: dict[str, tuple[str, list[str]]] = {
    "SELECT to_binary(s, 'base64') AS x FROM t": ("unbase64", ["SELECT unbase64(s) AS x FROM t"]),
    "SELECT array_sort(arr, (x, y) -> y - x) AS x FROM t": (
        "put it first in a struct",
        ["SELECT array_sort(transform(arr, x -> struct(-x AS k, x AS v))).v AS x FROM t"],
    ),
    "SELECT map(d, a) AS x FROM t": ("such as decimals or strings", ["SELECT map(CAST(d AS DECIMAL(20, 5)), a) AS x, map(CAST(d AS STRING), a) AS y FROM t"]),
    "SELECT a, map() AS x FROM t": ("CAST(x AS a supported type)", ["SELECT a, CAST(map() AS MAP<STRING, INT>) AS x FROM t"]),
    "SELECT a, NULL AS x FROM t": ("CAST(x AS a supported type)", ["SELECT a, CAST(NULL AS STRING) AS x FROM t"]),
    "SELECT format_number(d, '#.##') AS x FROM t": ("the number of digits after the point", ["SELECT format_number(d, 2) AS x FROM t"]),
    "SELECT format_string('%s', ts) AS x FROM t": ("use %s and a STRING", ["SELECT format_string('%s', CAST(ts AS STRING)) AS x FROM t"]),
    "SELECT try_add(ts + INTERVAL 1 DAY, INTERVAL 1 DAY) AS x FROM t": (
        "use CASE to guard", ["SELECT CASE WHEN ts < TIMESTAMP'9999-01-01' THEN ts + INTERVAL 1 DAY + INTERVAL 1 DAY END AS x FROM t"],
    ),
    "SELECT try_cast(arr AS ARRAY<TINYINT>) AS x FROM t": ("use transform", ["SELECT transform(arr, x -> try_cast(x AS TINYINT)) AS x FROM t"]),
    "SELECT to_json(map(a, s)) AS x FROM t": ("cast the keys with transform_keys", ["SELECT to_json(transform_keys(map(a, s), (k, v) -> CAST(k AS STRING))) AS x FROM t"]),
    "SELECT get_json_object(s, '$.a[*].b') AS x FROM t": ("from_json into an array of structs x, and take x.name", ["SELECT from_json(s, 'a ARRAY<STRUCT<b: INT>>').a.b AS x FROM t"]),
    "SELECT from_json(s, 'a DATE', map('dateFormat', 'ww')) AS x FROM t": ("convert the value in the view", ["SELECT to_date(from_json(s, 'a STRING').a, 'dd.MM.yyyy') AS x FROM t"]),
    "SELECT ts + make_interval(0, 1) AS x FROM t": ("make_ym_interval", ["SELECT ts + make_ym_interval(0, 1) AS x, ts + INTERVAL '1 02' DAY TO HOUR AS y FROM t"]),
    "SELECT arrays_zip(arr, arr) AS x FROM t": ("a name of its own", ["SELECT arrays_zip(x, y) AS x FROM (SELECT arr AS x, arr AS y FROM t)"]),
    "SELECT CAST(arr AS STRING) AS x FROM t": ("use to_json", ["SELECT to_json(arr) AS x, to_json(struct(a)) AS y, to_json(map(s, a)) AS z FROM t"]),
    "SELECT CAST(CAST(make_dt_interval(a) AS INTERVAL HOUR) AS INT) AS x FROM t": (
        "timestampdiff(SECOND, ", ["SELECT timestampdiff(SECOND, TIMESTAMP'1970-01-01', TIMESTAMP'1970-01-01' + make_dt_interval(a)) AS x FROM t"],
    ),
    "SELECT CAST(CAST(make_dt_interval(a) AS INTERVAL HOUR) AS STRING) AS x FROM t": (
        "AS INTERVAL DAY TO SECOND first", ["SELECT CAST(make_dt_interval(a) AS STRING) AS x FROM t"],
    ),
    "SELECT CAST(p AS INTERVAL MONTH) AS x FROM m": ("cast it to INT first", ["SELECT CAST(CAST(p AS INT) AS INTERVAL MONTH) AS x FROM m"]),
    "SELECT CAST(i AS INTERVAL DAY) AS x FROM m": ("use make_dt_interval", ["SELECT make_dt_interval(i) AS x FROM m"]),
    "SELECT CAST(q AS TIMESTAMP) AS x FROM m": ("use timestamp_micros", ["SELECT timestamp_micros(CAST(q * 1000000 AS BIGINT)) AS x FROM m"]),
    "SELECT CAST(ts AS DECIMAL(20, 6)) AS x FROM t": ("use unix_micros", ["SELECT unix_micros(ts) AS x FROM t"]),
    "SELECT a, histogram_numeric(b, 3) AS x FROM t GROUP BY a": ("Group by the value, or by its range", ["SELECT a, b div 10 AS x, count(*) AS n FROM t GROUP BY a, b div 10"]),
    "SELECT a, hll_sketch_agg(b) AS x FROM t GROUP BY a": ("approx_count_distinct, percentile_approx", ["SELECT a, approx_count_distinct(b) AS x, percentile_approx(b, 0.5) AS y FROM t GROUP BY a"]),
    "SELECT a, percentile(b, 0.5, a) AS x FROM t GROUP BY a": ("Repeat the rows", ["SELECT a, percentile(b, 0.5) AS x FROM (SELECT a, explode(array_repeat(b, CAST(a AS INT))) AS b FROM t) GROUP BY a"]),
    "SELECT a, median(make_dt_interval(b)) AS x FROM t GROUP BY a": ("percentile_approx", ["SELECT a, percentile_approx(make_dt_interval(b), 0.5) AS x FROM t GROUP BY a"]),
    "SELECT collect_set(struct(d)) AS x FROM t": ("values of their own", ["SELECT collect_set(d) AS x FROM t", "SELECT collect_set(struct(CAST(d AS DECIMAL(20, 5)))) AS x FROM t"]),
    "SELECT sum(b) OVER (ORDER BY CAST(b AS DECIMAL(20, 1)) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t": (
        "a number, a date or a timestamp in ORDER BY",
        ["SELECT sum(b) OVER (ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t", "SELECT sum(b) OVER (ORDER BY CAST(b AS DECIMAL(20, 1)) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t"],
    ),
    "SELECT count(*) AS x FROM t GROUP BY map(s, a)": (
        "array_sort(transform(map_keys(m), k -> concat_ws('=', k, m[k])))",
        ["SELECT e, count(*) AS x FROM (SELECT array_sort(transform(map_keys(m), k -> concat_ws('=', k, m[k]))) AS e FROM (SELECT map(s, a) AS m FROM t)) GROUP BY e"],
    ),
    "SELECT s, first(b) AS x FROM (SELECT * FROM (SELECT s, b, a FROM t ORDER BY a) UNION ALL SELECT s, c, a FROM u) GROUP BY s": (
        "Write the ORDER BY in the subquery from which the aggregate reads",
        ["SELECT s, first(b) AS x FROM (SELECT * FROM (SELECT s, b, a FROM t UNION ALL SELECT s, c, a FROM u) ORDER BY a) GROUP BY s"],
    ),
    "WITH RECURSIVE r(x, y) AS (SELECT a, b FROM t UNION ALL SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.y = t.a)) SELECT x, y FROM r": (
        "Write it as an inner join", ["WITH RECURSIVE r(x, y) AS (SELECT a, b FROM t UNION ALL SELECT t.a, t.b FROM r JOIN t ON r.y = t.a) SELECT DISTINCT x, y FROM r"],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def bench(spark: SparkSession) -> Workbench:
    return Workbench(spark).tables("t", "u", "m")


def test_each_query_is_refused_with_this_advice(bench: Workbench) -> None:
    refused = bench.beside()
    for number, query in enumerate(ADVICE):
        refused.view(f"v{number}", query)
    found: dict[str, str] = {}
    for error in lower_with_errors(refused.project()).errors:
        assert isinstance(error, UnsupportedError) and error.view is not None
        found[error.view] = f"{found.get(error.view, '')}{error.what_to_do}."
    for number, (query, (advice, _)) in enumerate(ADVICE.items()):
        assert advice in found.get(f"v{number}", "not refused"), query


@pytest.mark.long
def test_what_is_advised_is_supported(bench: Workbench) -> None:
    advised = bench.beside()
    for number, query in enumerate(query for _, queries in ADVICE.values() for query in queries):
        advised.view(f"v{number}", query)
    assert lower_with_errors(advised.project()).errors == []


OTHERS = [
    (EXPECTATIONS_TODAY, "raise_error('...')", "SELECT CASE WHEN a > 0 THEN a ELSE raise_error('below') END AS x FROM t"),
    (_NULL_UPDATES, "max_by(x, seq) FILTER (WHERE x IS NOT NULL)", "SELECT a, max_by(b, ts) FILTER (WHERE b IS NOT NULL) AS b FROM t GROUP BY a"),
    (
        _SESSION_TODAY, "size(x) of collect_set(a) AS x",
        "SELECT start, size(x) AS m, size(y) AS n FROM (SELECT session_window.start AS start, collect_set(a) AS x, collect_set(b) AS y FROM t GROUP BY session_window(ts, '1 hour'))",
    ),
    (
        _SESSION_TODAY, "a join by ts >= start AND ts < end",
        "SELECT t.a, t.ts, w.start FROM t JOIN (SELECT a, session_window.start AS start, session_window.end AS end FROM t GROUP BY a, session_window(ts, '10 seconds')) w ON t.a = w.a AND ts >= start AND ts < end",
    ),
    ("", "", "SELECT try_cast(s AS INT) AS x, try_divide(a, b) AS y, a div nullif(b, 0) AS z, CASE WHEN b <> 0 THEN a div b END AS q FROM t"),
    ("", "", "SELECT timestamp_millis(a) AS x, array_compact(arr) AS y, map_filter(map(s, a), (k, v) -> v IS NOT NULL) AS z, coalesce(s, '') AS q FROM t"),
    ("", "", "SELECT to_json(struct(a, s)) AS x, concat_ws(' ', a, s) AS y, base64(CAST(s AS BINARY)) AS z FROM t WHERE xxhash64(a) % 10 = 0"),
    ("", "", "SELECT lower(s) AS x, rtrim(s) AS y, count(*) AS n FROM t GROUP BY lower(s), rtrim(s)"),
    ("", "", "SELECT exp(sum(ln(b))) AS x FROM t WHERE b > 0"),
    ("", "", "SELECT t.a, n FROM t JOIN (SELECT a, count(*) AS n FROM u GROUP BY a) g ON t.a = g.a UNION ALL SELECT a, 0 FROM t LEFT ANTI JOIN u ON t.a = u.a"),
    ("", "", "SELECT a FROM t CROSS JOIN (SELECT max(c) AS value FROM u) WHERE b > value"),
    ("", "", "SELECT a FROM (SELECT a, b, lag(b) OVER w AS p, lead(b) OVER w AS n FROM t WINDOW w AS (PARTITION BY a ORDER BY ts)) WHERE p > b AND n > b"),
]  # fmt: skip
"""What documents and errors advise that belongs to no query of ADVICE."""


def test_other_ways_out_are_supported(bench: Workbench) -> None:
    advised = bench.beside()
    for number, (text, part, query) in enumerate(OTHERS):
        assert part in text
        advised.view(f"v{number}", query)
    assert lower_with_errors(advised.project()).errors == []


SOURCE = "CREATE STREAMING TABLE t (a BIGINT, b BIGINT, s STRING, d DOUBLE, ts TIMESTAMP) USING kafka TBLPROPERTIES ('subscribe' = 't');"
IN_PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.temporary_view
def shared():
    return spark.read.table("t").where("a > 0")


def view(query, **more):
    dp.materialized_view(query, name=query.__name__, **more)


def of_count():  # in place of count()
    return spark.read.table("t").crossJoin(spark.read.table("shared").agg(F.count("*").alias("n"))).where("a < n")


def of_is_empty():
    t = spark.read.table("t")
    return t.join(spark.read.table("shared"), "a", "left_semi").union(t.join(spark.read.table("shared"), "a", "left_anti"))


def of_first():  # and of head, take and tail
    t = spark.read.table("t")
    one, last = t.orderBy("a").limit(1).select(F.col("b").alias("x")), t.orderBy(F.desc("a")).limit(3).select(F.col("b").alias("y"))
    return t.crossJoin(one).join(last, F.col("b") == F.col("y"))


def of_quantile():
    return spark.read.table("t").agg(F.percentile_approx("d", 0.5).alias("p"), F.corr("d", "b").alias("c"), F.covar_samp("d", "b").alias("v"))


def of_crosstab():
    return spark.read.table("t").groupBy("a", "s").count()


def of_pivot():
    return spark.read.table("t").groupBy("a").pivot("s", ["x", "y"]).agg(F.sum("b"))


def of_transpose():
    return spark.read.table("t").unpivot(["s"], ["a", "b"], "name", "value")


def of_collect():
    return spark.read.table("t").where(F.col("a").isin(1, 2)).join(spark.read.table("shared").select("a").distinct(), "a")


def of_rows():
    return spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name)")


for query in (of_count, of_is_empty, of_first, of_quantile, of_crosstab, of_pivot, of_transpose, of_collect, of_rows):
    view(query, spark_conf={"spark.sql.shuffle.partitions": "4"})

dp.create_sink("published", "kafka", {"topic": "published"})


@dp.append_flow(target="published")
def rows():
    return spark.readStream.table("t").select("a", "b")


@dp.append_flow(target="published")
def others():  # a subquery over a stream as a join
    t = spark.readStream.table("t")
    return t.join(spark.read.table("shared"), "a", "left_semi").select("a", "b")
"""


def test_what_is_advised_in_python_is_supported(spark: SparkSession, tmp_path: Path) -> None:
    """What errors about actions and writes say to write instead."""
    description = describe(resolve(project(tmp_path, {"a.sql": SOURCE, "b.py": IN_PYTHON}), spark))
    assert [str(error) for error in description.errors] == [] and len(description.views) >= 10
