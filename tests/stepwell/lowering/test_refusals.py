"""What is not supported is refused with view, file, line and a way around; all of it at once."""

from __future__ import annotations

import re
from typing import NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from base.fault import ExitCode, exit_code_of
from engine.model.aggregates import Aggregate
from engine.model.circuit import Recursion
from engine.model.rows import Deduplicate
from stepwell.errors import OwnMistake, ProjectError, ProjectErrors, UnsupportedError
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower, lower_with_errors
from stepwell.lowering.expressions.alternatives import ALTERNATIVES
from stepwell.lowering.rules import aggregate
from tests.stepwell.lowering.projects import FILE, Workbench, output

REFUSED = {
    "SELECT a, histogram_numeric(b, 3) OVER (PARTITION BY a ORDER BY b) AS x FROM t": "the aggregate function histogram_numeric",
    "SELECT a, collect_set(struct(d)) OVER (PARTITION BY a ORDER BY b) AS x FROM t": "has floating-point values inside",
    "SELECT a, sum(b) OVER (ORDER BY CAST(b AS DECIMAL(20, 1)) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM t": "a RANGE frame",
    "SELECT a, sum(b) OVER (ORDER BY CAST(1 AS INT) RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING) AS x FROM t": "a distance from a constant",
    "SELECT a FROM t WHERE b > (SELECT max(to_number(s, '999')) FROM u)": "ToNumber",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE to_number(s, '999') = 1)": "ToNumber",
    "SELECT quote(s) AS x FROM t": "the function quote",
    "SELECT a, map_zip_with(map(a, s), map(a, s), (k, x, y) -> x) AS m FROM t": "MapZipWith",
    "SELECT quote(s) AS x, is_valid_utf8(s) AS y FROM t": "one of the functions is_valid_utf8, quote",
    "SELECT a, histogram_numeric(b, 3) AS h FROM t GROUP BY a": "the aggregate function histogram_numeric",
    "SELECT a, hll_sketch_agg(b) AS h, count(DISTINCT s), count(DISTINCT ts) FROM t GROUP BY a": "the aggregate function hll_sketch_agg",
    "SELECT a, percentile(b, 0.5, a) AS p FROM t GROUP BY a": "percentile with a frequency",
    "SELECT a, median(make_dt_interval(b)) AS p FROM t GROUP BY a": "a percentile of an interval",
    "SELECT a, collect_set(struct(d)) AS p FROM t GROUP BY a": "has floating-point values inside",
    "SELECT map(a, s) AS m, count(*) AS n FROM t GROUP BY map(a, s)": "MapSort",
    "SELECT a, NULL AS m FROM t": "column m has the type void",
    "SELECT a, array(NULL) AS m FROM t": "column m has the type array<void>",
    "SELECT a, struct() AS m FROM t": "struct<>",
    "SELECT a, array(named_struct()) AS m FROM t": "struct<>",
    "SELECT a, from_json(s, 'struct<>') AS m FROM t": "struct<>",
    "SELECT id FROM range(2000000)": "2000000 rows",
    "SELECT to_number(s, '999') FROM t": "ToNumber",
    "SELECT a, count(DISTINCT parse_json(s)) AS n FROM t GROUP BY a": "values of type VARIANT are compared here",
    "SELECT count(DISTINCT parse_json(s)) AS n, count(DISTINCT a) AS m FROM t": "values of type VARIANT are compared here",
    "SELECT a, collect_set(parse_json(s)) AS n FROM t GROUP BY a": "values of type VARIANT are compared here",
    "SELECT mode(struct(parse_json(s) AS v)) AS n FROM t": "values of type STRUCT<v: VARIANT> are compared here",
    "SELECT approx_count_distinct(parse_json(s)) AS n FROM t": "values of type VARIANT are compared here",
    "SELECT a, collect_set(parse_json(s)) OVER (PARTITION BY a) AS n FROM t": "values of type VARIANT are compared here",
    "SELECT schema_of_variant_agg(parse_json(s)) AS n FROM t": "the aggregate function schema_of_variant_agg",
    "SELECT variant_insert(parse_json(s), '$.a', 1) AS v FROM t": "VariantInsert",
    "SELECT CAST(ts AS VARIANT) AS v FROM t": "TIMESTAMP to VARIANT",
    "SELECT to_variant_object(struct(a, ts)) AS v FROM t": "TIMESTAMP to VARIANT",
    "SELECT max_by(a, to_number(s, '999')) AS x, min_by(a, struct(b, b)) AS y FROM t": "ToNumber",
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_names_the_construct_the_view_and_its_line(spark: SparkSession, query: str) -> None:
    bench = Workbench(spark).tables("t", "u").source("g", "gid bigint, s string")
    bench.view("fine", "SELECT a FROM t").view("v", query)
    with pytest.raises(ProjectError):
        lower(bench.project())
    first = lower_with_errors(bench.project()).errors[0]
    assert isinstance(first, UnsupportedError)
    assert REFUSED[query] in first.message
    assert first.what_to_do
    assert not any(isinstance(error, OwnMistake) for error in lower_with_errors(bench.project()).errors)
    assert str(first).startswith(f"{FILE}:2: v: ")


@pytest.mark.parametrize(
    ("value", "named"),
    [("array(parse_json('{}'))", r"ARRAY<VARIANT>"), ("CAST(date'2020-01-01' AS VARIANT)", "VARIANT of a date")],
)
def test_rows_of_a_definition_have_no_such_variants(spark: SparkSession, value: str, named: str) -> None:
    query = f"SELECT y, k FROM VALUES ({value}, 1) AS p(y, k)"
    with pytest.raises(UnsupportedError, match=rf"views\.sql:1: v: rows .* have a column of the type {named}"):
        Workbench(spark).view("v", query)


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_what_is_advised_is_supported(spark: SparkSession, name: str) -> None:
    lower(Workbench(spark).tables("t").view("v", f"SELECT {ALTERNATIVES[name].query} AS x FROM t").project())


def test_a_map_is_grouped_by_its_entries(spark: SparkSession) -> None:
    """docs/sql.md says so."""
    query = "SELECT array_sort(map_entries(map(a, s))) AS m, count(*) AS n FROM t GROUP BY array_sort(map_entries(map(a, s)))"
    lower(Workbench(spark).tables("t").view("v", query).project())


ADVISED = {
    "SELECT time_bucket(INTERVAL '1' HOUR, ts) AS x FROM t": "TimeBucket",
    "SELECT ts + make_interval(0, 0, 0, a) AS x FROM t": "MakeInterval",
    "SELECT map_zip_with(map(a, s), map(a, s), (k, x, y) -> x) AS x FROM t": "MapZipWith",
    "SELECT to_number(s, '999') AS x FROM t": "ToNumber",
    "SELECT try_to_number(s, '999') AS x FROM t": "TryToNumber",
    "SELECT to_char(a, '999') AS x FROM t": "ToCharacter",
    "SELECT from_csv(s, 'a int') AS x FROM t": "CsvToStructs",
    "SELECT to_csv(struct(a, b)) AS x FROM t": "StructsToCsv",
    "SELECT schema_of_variant(parse_json(s)) AS x FROM t": "schema_of_variant",
    "SELECT sentences(s) AS x FROM t": "sentences",
    "SELECT quote(s) AS x FROM t": "quote",
}


def test_every_piece_of_advice_has_a_query_that_gets_it() -> None:
    assert sorted(ADVISED.values()) == sorted(ALTERNATIVES)


@pytest.mark.parametrize("query", ADVISED)
def test_a_refusal_says_what_to_write_instead(spark: SparkSession, query: str) -> None:
    advice = ALTERNATIVES[ADVISED[query]].advice
    errors = lower_with_errors(Workbench(spark).tables("t").view("v", query).project()).errors
    assert any(isinstance(error, UnsupportedError) and advice in error.what_to_do for error in errors), errors


SESSIONS = (
    "SELECT session_window(ts, '10 seconds') AS w FROM t",
    "SELECT session_window.start AS x, count(DISTINCT a) AS m, count(DISTINCT b) AS n FROM t GROUP BY session_window(ts, '1 hour')",
)
"""Forms in which no one Aggregate of the optimised plan groups by the window."""


@pytest.mark.parametrize("query", SESSIONS)
def test_session_windows_are_refused_where_their_placeholder_would_run(spark: SparkSession, query: str) -> None:
    with pytest.raises(UnsupportedError, match=r"views\.sql:1: v: session_window\(\) in this form is not supported"):
        Workbench(spark).tables("t").view("v", query)


def test_a_column_that_is_only_called_session_window_is_none(spark: SparkSession) -> None:
    query = "SELECT named_struct('start', ts, 'end', ts) AS session_window, window(ts, '1 hour') AS w FROM t"
    lower(Workbench(spark).tables("t").view("v", query).project())


def test_all_that_cannot_be_replayed_in_a_view_is_found_at_once(spark: SparkSession) -> None:
    with pytest.raises(ProjectErrors) as raised:
        Workbench(spark).tables("t").view("v", "SELECT rand() AS x, uuid() AS y FROM t")
    assert [error.message.split("()")[0] for error in raised.value.errors] == ["rand", "uuid"]


RECURSIVE = {
    "SELECT a, b FROM t UNION ALL SELECT p.x, q.y FROM r AS p JOIN r AS q ON p.y = q.x": "the recursive name on both sides",
    "SELECT a, b FROM t UNION ALL SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.y = t.a)": "on this side of a LeftSemi join",
    "SELECT a, b FROM t UNION ALL (SELECT x, y + 1 FROM r WHERE y < 3 UNION ALL SELECT a, c FROM u)": "would never end",
    "SELECT a, b FROM t UNION ALL SELECT x, y + 1 FROM r JOIN t ON x = t.a JOIN u ON y = u.a JOIN g ON x = gid "
    "JOIN u AS v ON y = v.c": "more than three tables",
}  # fmt: skip


@pytest.mark.parametrize("query", RECURSIVE)
def test_a_recursion_of_another_form_is_refused(spark: SparkSession, query: str) -> None:
    bench = Workbench(spark).tables("t", "u").source("g", "gid bigint, s string")
    bench.view("v", f"WITH RECURSIVE r(x, y) AS ({query}) SELECT x, y FROM r")
    with pytest.raises(UnsupportedError, match=RECURSIVE[query]):
        lower(bench.project())


def test_below_a_refused_recursion_its_columns_have_their_types(spark: SparkSession) -> None:
    """All else that is refused there is looked for."""
    recursion = "WITH RECURSIVE r(n) MAX RECURSION LEVEL 10001 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r"
    bench = Workbench(spark).view("v", recursion)
    assert [error.message.split(" (")[0] for error in lower_with_errors(bench.project()).errors] == [
        "a recursion of up to 10001 levels is not supported"
    ]


def test_a_recursion_is_on_one_worker_and_says_so(spark: SparkSession) -> None:
    bench = Workbench(spark).tables("t")
    bench.view(
        "v",
        "WITH RECURSIVE r(n) MAX RECURSION LEVEL 7 AS (SELECT a FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    )
    lowered = lower_with_errors(bench.project())
    assert any("WITH RECURSIVE: all rows" in note for note in lowered.notes["v"])
    assert [node.levels_max for node in lowered.circuit.nodes if isinstance(node, Recursion)] == [7]


@pytest.mark.parametrize("distincts", [(), ("a", "b")])
def test_a_users_first_beside_a_drop_duplicates_is_an_aggregate(
    spark: SparkSession, distincts: tuple[str, ...]
) -> None:
    def query(session: SparkSession) -> DataFrame:
        kept = session.table("t").dropDuplicates(["a"])
        return kept.groupBy("s").agg(F.first("b").alias("b"), *map(F.count_distinct, distincts))

    circuit = lower(Workbench(spark).tables("t").view("v", query).project())
    calls = {call.function for node in circuit.nodes if isinstance(node, Aggregate) for call in node.calls}
    assert "min" in calls
    assert sum(isinstance(node, Deduplicate) for node in circuit.nodes) == 1


def test_a_column_that_sparks_optimiser_has_lost_is_a_refusal_and_a_materialized_view_is_the_way_out(
    spark: SparkSession,
) -> None:
    def distinct(session: SparkSession) -> DataFrame:
        return session.table("t").select("a", "s").dropDuplicates(["s"])

    def read_directly(session: SparkSession) -> DataFrame:
        distinct(session).createOrReplaceTempView("distinct_rows")
        return session.sql(query.format("distinct_rows"))

    query = "SELECT CAST(NULL AS BOOLEAN) AS x FROM u, LATERAL (SELECT e.a FROM {} e WHERE u.a = e.a) l"
    bench = Workbench(spark).tables("t", "u").view("before", distinct).view("v", read_directly)
    (error,) = lower_with_errors(bench.project()).errors
    assert isinstance(error, UnsupportedError) and "leaves out the column a" in str(error)
    lower(bench.beside().view("before", distinct).view("v", query.format("before")).project())
    session = spark.newSession()
    session.sql("SELECT 1L AS a, 'x' AS s").createOrReplaceTempView("t")
    session.sql("SELECT 1L AS a, 'x' AS s").createOrReplaceTempView("u")
    with pytest.raises(Exception, match="INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND"):
        read_directly(session).collect()


def test_a_mistake_of_ours_has_its_exit_code_also_among_other_errors() -> None:
    refused, mistake = UnsupportedError("refused"), OwnMistake.of(IndexError("nobody foresaw this"), "v", None)
    assert exit_code_of(mistake) == exit_code_of(ProjectErrors([refused, mistake])) == ExitCode.INTERNAL
    assert exit_code_of(refused) == exit_code_of(ProjectErrors([refused, refused])) == ExitCode.PROJECT


@pytest.mark.parametrize(
    ("query", "says"),
    [],
)
def test_the_advice_loses_no_rows(spark: SparkSession, query: str, says: str) -> None:
    (error,) = lower_with_errors(Workbench(spark).tables("t", "u").view("v", query).project()).errors
    assert says in error.what_to_do


def test_an_exception_that_nobody_foresaw_is_an_error_of_its_view_and_hides_no_other(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench(spark).tables("t")
    bench.view("a", "SELECT to_number(s, '999') AS a FROM t").view("b", "SELECT DISTINCT a FROM t").view(
        "c", "SELECT to_number(s, '999') AS x FROM t"
    )
    bench.view("d", "SELECT a FROM b")

    def fail(*_: object) -> NoReturn:
        raise IndexError("nobody foresaw this")

    monkeypatch.setattr(aggregate, "_results", fail)
    lowered = lower_with_errors(bench.project())
    assert [(type(error), error.view) for error in lowered.errors] == [
        (UnsupportedError, "a"),
        (OwnMistake, "b"),
        (UnsupportedError, "c"),
    ]
    mistake = lowered.errors[1]
    assert str(mistake).startswith(f"{FILE}:2: b: ")
    assert re.search(
        r"a bug in Stepwell: IndexError: nobody foresaw this at \w+/test_refusals\.py:\d+\n.*report", str(mistake)
    )
    assert "nobody foresaw this" in describe(bench.project(), lowered).text()
    with pytest.raises(ProjectErrors):
        lower(bench.project())


def test_everything_is_found_at_once_in_a_view_and_in_those_that_read_it(spark: SparkSession) -> None:
    bench = Workbench(spark).tables("t")
    window = "collect_set(struct(d)) OVER (PARTITION BY a ORDER BY b)"
    bench.view("v", f"SELECT a, to_number(s, '999') AS x, {window} AS r FROM t ORDER BY a LIMIT 3")
    bench.view("w", "SELECT count(*) AS n FROM v GROUP BY to_number(CAST(x AS STRING), '999')")
    found = [(error.view, error.message.split(" (Spark")[0]) for error in lower_with_errors(bench.project()).errors]
    assert sorted(found) == [
        (
            "v",
            "a value of type STRUCT<d: DOUBLE> that an aggregate function compares has floating-point values inside, which is not supported yet",
        ),
        ("v", "expression ToNumber is not supported"),
        ("w", "expression ToNumber is not supported"),
    ]


RETRACTING = {
    "SELECT a, count(*) AS n FROM t GROUP BY a": "an aggregate",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)": "a row without a match",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a": "a row without a match",
    "SELECT a, (SELECT c FROM u WHERE u.a = t.a) AS m FROM t": "a row without a match",
    "SELECT a FROM t WHERE b > (SELECT 1 FROM u WHERE c = 1)": "a row is computed again when the value of a subquery changes",
    "SELECT k FROM keyed": "source keyed has a key",
    "SELECT k FROM log": "source log is a changelog",
    "SELECT a FROM t ORDER BY a LIMIT 3": "LIMIT",
}
GROWING = [
    "SELECT a + 1 AS x FROM t WHERE b > 2",
    "SELECT DISTINCT a FROM t",
    "SELECT t.a FROM t JOIN u ON t.a = u.a",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
    "SELECT a FROM t UNION ALL SELECT c FROM u",
    "SELECT a FROM t ORDER BY a OFFSET 3",
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


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, counted(b) AS x, count(*) AS n FROM t GROUP BY a",
        "SELECT a, counted(b) AS x FROM t GROUP BY a HAVING count(*) > 1",
    ],
)
def test_a_python_function_of_groups_is_refused_beside_another_function(spark: SparkSession, query: str) -> None:
    """With one text, although nodes above read what it does not give. Spark fails too."""

    def frame(session: SparkSession) -> DataFrame:
        session.udf.register("counted", F.pandas_udf(len, "bigint", F.PandasUDFType.GROUPED_AGG))
        return session.sql(query)

    (error,) = lower_with_errors(Workbench(spark).tables("t").view("v", frame).project()).errors
    assert "counted in Python beside another one (Count)" in str(error) and "a view of its own" in str(error)
    session = spark.newSession()
    session.sql("SELECT 1 AS a, 2 AS b").createOrReplaceTempView("t")
    with pytest.raises(AnalysisException, match="INVALID_PANDAS_UDF_PLACEMENT"):
        frame(session).collect()


@pytest.mark.parametrize("query", GROWING)
def test_an_append_output_over_a_view_that_only_grows_is_right(spark: SparkSession, query: str) -> None:
    lower(_bench(spark).view("v", query, output=output("v", "append")).project())
