"""A view that reads the clock holds in every step what Spark answers with the time of the step in the place of the clock."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from base.text.timestamps import DAY_US
from engine.analysis.content import content_of
from engine.model.circuit import View
from engine.model.clock import ClockValue, TemporalFilter
from engine.model.rows import ScalarMap
from engine.rows import zset
from stepwell.errors import ProjectError, ProjectErrors
from stepwell.lowering.driver import lower, lower_with_errors
from stepwell.planning.clock import has_clock, with_clock_as_subquery
from tests.engine.contexts import contexts_of
from tests.engine.in_process import InProcess
from tests.engine.zsets import Rows, plus, to_rows
from tests.sampling import sampled
from tests.small_jobs import small
from tests.stepwell.lowering.projects import Query, Workbench, output

DDL = "id bigint, ts timestamp, n timestamp_ntz, d date, s bigint"
TYPES = (pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.int64())
WORKERS = 3

BY_BORDERS = {
    "a_window": "SELECT id, s FROM e WHERE ts > current_timestamp() - INTERVAL 7 DAYS",
    "both_ends": "SELECT id FROM e WHERE ts BETWEEN now() - INTERVAL 36 HOURS AND now() + INTERVAL '12' HOUR",
    "an_order_of_dates": "SELECT id FROM e WHERE d <= current_date() AND current_date() < date_add(d, 3)",
    "the_same_hour": "SELECT id, s FROM e WHERE date_trunc('hour', now()) = date_trunc('hour', ts)",
    "the_same_week": "SELECT id FROM e WHERE date_trunc('week', now()) = date_trunc('WEEK', ts)",
    "the_same_month": "SELECT id FROM e WHERE trunc(current_date(), 'MM') = trunc(d, 'MM')",
    "the_same_quarter_and_the_year_before": (
        "SELECT id FROM e WHERE date_trunc('quarter', n) >= date_trunc('quarter', localtimestamp()) "
        "AND date_trunc('YEAR', now()) <= ts"
    ),
    "months_of_days": "SELECT id FROM e WHERE d > add_months(current_date(), -1) AND d < current_date() + INTERVAL '1' MONTH",
    "days_less": "SELECT id FROM e WHERE d >= current_date() - INTERVAL 3 DAYS AND d < date_sub(current_date(), 1)",
    "differences": (
        "SELECT id FROM e WHERE datediff(current_date(), d) < 4 AND now() - ts < INTERVAL 7 DAYS AND ts - now() < INTERVAL 2 DAYS "
        "AND d - current_date() <= INTERVAL '1' DAY"
    ),
    "seconds": "SELECT id FROM e WHERE unix_timestamp() - 86400 < s AND s < unix_millis(now()) AND unix_seconds(now()) > s",
    "a_unit_that_is_added": "SELECT id FROM e WHERE ts > timestampadd(HOUR, -30, now()) AND n < now()",
    "a_life": (
        "SELECT id FROM e WHERE ts + INTERVAL 1 DAY > now() AND timestampadd(HOUR, -2, ts) < now() AND s + 90000 > unix_timestamp() + 3600"
    ),
    "days_of_times": (
        "SELECT id FROM e WHERE to_date(ts) >= current_date() - 7 AND date_diff(now(), ts) < 30 "
        "AND now() BETWEEN ts - INTERVAL 2 DAYS AND ts + INTERVAL 1 DAY"
    ),
    "a_day_as_a_time": "SELECT id FROM e WHERE ts >= current_date()",
    "without_zone": "SELECT id, n > TIMESTAMP_NTZ'2024-02-01' AS x FROM e WHERE n > localtimestamp() - INTERVAL 1 DAY",
    "not_before": "SELECT id FROM e WHERE NOT (ts < now() OR ts IS NULL)",
    "a_constant": "SELECT id FROM e WHERE now() > TIMESTAMP'2024-02-01 00:00:00'",
    "how_many": "SELECT count(*) AS c FROM e WHERE ts > now() - INTERVAL 2 DAYS",
    "of_groups": "SELECT s, count(*) AS c FROM e GROUP BY s HAVING max(ts) > now() - INTERVAL 5 DAYS",
    "of_what_raises": "SELECT id, 1000 DIV (id - 100) AS x FROM e WHERE ts > now() - INTERVAL 7 DAYS AND id < 100",
    "below_a_join": "SELECT e.id, f.id AS o FROM e JOIN e AS f ON e.id = f.id WHERE e.ts > now() AND f.ts <= now() + INTERVAL 9 DAYS",
    "in_a_subquery": "SELECT id FROM e WHERE s <= (SELECT max(s) FROM e WHERE ts <= now())",
    "not_exists": "SELECT id FROM e WHERE NOT EXISTS (SELECT 1 FROM e AS f WHERE f.id = e.id + 1 AND f.ts > current_timestamp())",
}  # fmt: skip
COMPUTED = {
    "an_age": "SELECT id, unix_micros(now()) - unix_micros(ts) AS age, datediff(current_date(), d) AS days FROM e",
    "a_month_of_times": "SELECT id FROM e WHERE ts > now() - INTERVAL 1 MONTH",
    "one_or_the_other": "SELECT id FROM e WHERE ts > now() OR d > current_date()",
    "an_order_of_two_functions": "SELECT id FROM e WHERE year(ts) = year(now()) AND now() > ts",
    "by_days": "SELECT id, datediff(current_date(), d) AS days, current_date() AS today FROM e WHERE d < current_date() OR ts > current_date()",
    "alone": "SELECT cast(current_date() AS STRING) AS d, unix_seconds(now()) AS s",
    "of_the_row_and_the_clock": "SELECT id FROM e WHERE least(now(), ts) < n",
    "in_an_aggregate": "SELECT s, count_if(ts > now()) AS later FROM e GROUP BY s",
    "a_filter_of_values_and_the_clock": (
        "SELECT id FROM e WHERE s > (SELECT avg(s) FROM e) AND ts > now() - INTERVAL 3 DAYS AND id + unix_seconds(now()) > 0"
    ),
}  # fmt: skip
QUERIES = {**BY_BORDERS, **COMPUTED}

START = datetime(2024, 1, 29, 22, 30, tzinfo=UTC)
STEPS = (0, 1, 1, 3600, 26 * 3600, 3 * 86400, 40 * 86400)
"""The seconds by which the clock moves before each step. The last day of a February of 29 days is among the times."""


def history() -> Iterator[tuple[datetime, Rows]]:
    chance, present, now = random.Random(7), Counter[Any](), START
    for seconds in STEPS:
        now += timedelta(seconds=seconds)
        change: Rows = Counter()
        for row in chance.sample(sorted(present, key=repr), len(present) // 4):
            change[row] -= 1
        for _ in range(16):
            near_s = chance.choice((3600, 86400, 9 * 86400))
            at = now + timedelta(seconds=chance.randrange(-near_s, near_s), microseconds=chance.choice((0, 500_000)))
            on_border = at.replace(minute=30, second=0, microsecond=0)
            time = None if chance.random() < 0.1 else chance.choice((at, on_border))
            day = (now + timedelta(days=chance.randrange(-35, 35))).date()
            naive = None if time is None else time.replace(tzinfo=None)
            change[(chance.randrange(20), time, naive, day, int(at.timestamp()))] += 1
        present = plus(present, change)
        yield now, change


def test_views_hold_what_spark_answers_with_the_time_of_the_step(spark: SparkSession) -> None:
    bench = Workbench(spark).source("e", DDL, "changelog")
    for name, query in QUERIES.items():
        bench.view(name, query)
    circuit = lower(bench.project())
    views = {node.name: index for index, node in enumerate(circuit.nodes) if isinstance(node, View)}
    assert views.keys() == QUERIES.keys()
    runs = [InProcess(circuit, workers) for workers in (1, WORKERS)]
    batch, present = small(spark), Counter[Any]()
    found: dict[str, list[Rows]] = {name: [] for name in QUERIES}
    asked: dict[str, list[str]] = {name: [] for name in QUERIES}
    for step, (now, change) in enumerate(history()):
        present = plus(present, change)
        rows = [row for row, weight in present.items() for _ in range(weight)]
        frame = batch.createDataFrame(
            [_shown(row) for row in rows], "id bigint, ts string, n string, d string, s bigint"
        )
        frame = frame.selectExpr(
            "id", "cast(ts AS timestamp) ts", "cast(n AS timestamp_ntz) n", "cast(d AS date) d", "s"
        )
        frame.coalesce(1).createOrReplaceTempView(f"e{step}")
        for run in runs:
            run.step({"e": _table_of(change)}, time_us=int(now.timestamp() * 1_000_000))
        for name, query in QUERIES.items():
            contents = [_content(run, views[name]) for run in runs]
            assert contents[0] == contents[1], f"{name}: {WORKERS} workers"
            found[name].append(contents[0])
            asked[name].append(f"SELECT {step} AS step, struct(*) AS row FROM ({_at(query, now, step)})")
    for name in QUERIES:
        answers = [Counter[Any]() for _ in STEPS]
        for step, row in batch.sql(" UNION ALL ".join(asked[name])).collect():
            answers[step][tuple(row)] += 1
        assert found[name] == answers, name
    assert not [name for name, answers in found.items() if not any(answers)], "a query without an answer shows nothing"


def _shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if value is None else value if isinstance(value, int) else str(value) for value in row)


def _table_of(rows: Rows) -> pa.Table:
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(TYPES)]
    return zset.build(columns, np.array(list(rows.values()), np.int64))


def _content(run: InProcess, view: int) -> Rows:
    found: Rows = Counter()
    for number, store in enumerate(run.stores):
        contexts = contexts_of(run.plan.circuit, store, run.steps, owns_keyless=number == 0)
        found = plus(found, to_rows(content_of(run.plan.circuit, view, contexts)))
    return found


def _at(query: str, now: datetime, step: int) -> str:
    """The query with the time in the place of the clock, over the tables of the step."""
    text = now.strftime("%Y-%m-%d %H:%M:%S")
    for function, literal in (
        ("unix_timestamp()", f"unix_timestamp(TIMESTAMP'{text}')"),
        ("current_timestamp()", f"TIMESTAMP'{text}'"),
        ("localtimestamp()", f"TIMESTAMP_NTZ'{text}'"),
        ("current_date()", f"DATE'{text[:10]}'"),
        ("now()", f"TIMESTAMP'{text}'"),
    ):
        query = query.replace(function, literal)
    return f"WITH e AS (SELECT * FROM e{step}) {query}"


@pytest.mark.parametrize(
    ("query", "roundings"),
    [
        ("SELECT id, datediff(current_date(), d) AS days FROM e WHERE d > current_date() OR id = 1", {DAY_US}),
        ("SELECT id, current_date() AS d, now() AS at FROM e", {1}),
        ("SELECT id, datediff(current_date(), d) AS days FROM e WHERE ts > now()", {1, DAY_US}),
        (
            "SELECT id, current_date() AS d FROM e WHERE s > (SELECT max(s) FROM e WHERE year(ts) = unix_seconds(now()))",
            {1, DAY_US},
        ),
    ],
)
def test_a_view_that_reads_the_date_alone_is_computed_again_each_day(
    spark: SparkSession, query: str, roundings: set[int]
) -> None:
    nodes = lower(Workbench(spark).source("e", DDL, "changelog").view("v", query).project()).nodes
    assert {node.rounding_us for node in nodes if isinstance(node, ClockValue)} == roundings
    of_filters = {nodes[node.inputs[1]] for node in nodes if isinstance(node, TemporalFilter)}
    assert all(isinstance(clock, ClockValue) and clock.rounding_us == 1 for clock in of_filters)


def test_a_frame_reads_the_clock_as_sql_does(spark: SparkSession) -> None:
    def circuit(query: Query) -> str:
        return lower(Workbench(spark).source("e", DDL).view("v", query).project()).to_json()

    assert circuit(
        lambda session: (
            session.table("e")
            .where(F.col("ts") > F.now() - F.expr("INTERVAL 7 DAYS"))
            .select("id", F.curdate().alias("d"))
        )
    ) == circuit("SELECT id, current_date() AS d FROM e WHERE ts > current_timestamp() - INTERVAL 7 DAYS")


def test_the_clock_is_found_in_the_plan_wherever_it_is(spark: SparkSession) -> None:
    """Where it were left, Spark would put a constant in its place."""
    for query in ("SELECT now()", "SELECT 1 WHERE EXISTS (SELECT 1 WHERE now() > current_date())"):
        plan = spark.sql(query)._jdf.queryExecution().analyzed()
        assert has_clock(plan, spark) and not has_clock(with_clock_as_subquery(plan, spark), spark)
    assert not has_clock(spark.sql("SELECT 1")._jdf.queryExecution().analyzed(), spark)


REFUSED = {
    "SELECT * FROM VALUES (now()) AS t(x)": "VALUES",
    "SELECT id, rand() AS x FROM e WHERE ts > now()": r"rand\(\) is not supported",
    "SELECT current_time() AS x FROM e": r"current_time\(\) is not supported",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_refused_beside_the_clock(spark: SparkSession, query: str) -> None:
    with pytest.raises((ProjectError, ProjectErrors), match=REFUSED[query]):
        Workbench(spark).source("e", DDL, "changelog").view("v", query)


def test_a_stream_does_not_read_the_clock(spark: SparkSession) -> None:
    with pytest.raises(ProjectError, match=r"now\(\) in a streaming table .*\n.*materialized view"):
        Workbench(spark, streaming=True).source("e", DDL).view("v", "SELECT id, now() AS at FROM e")


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("SELECT id FROM e WHERE ts > now()", "the others leave it"),
        ("SELECT id FROM e WHERE ts < now()", "will match later"),
        ("SELECT id, now() AS at FROM e", "stepwell.clock.resolution"),
    ],
)
def test_dry_run_says_what_the_clock_costs(spark: SparkSession, query: str, note: str) -> None:
    (found,) = lower_with_errors(Workbench(spark).source("e", DDL).view("v", query).project()).notes["v"]
    assert note in found


@pytest.mark.parametrize(("condition", "may"), [("ts <= now()", True), ("ts > now()", False)])
def test_an_append_output_may_have_rows_that_enter_and_none_that_leave(
    spark: SparkSession, condition: str, may: bool
) -> None:
    bench = Workbench(spark).source("e", DDL)
    bench.view("v", f"SELECT id FROM e WHERE {condition}", output=output("v", "append"))
    errors = lower_with_errors(bench.project()).errors
    assert (not errors) == may
    assert may or "rows leave the view as time passes" in str(errors[0])


@pytest.mark.parametrize("name", sampled(QUERIES, 3, ("a_window",)))
def test_a_comparison_of_the_clock_with_a_row_has_borders(spark: SparkSession, name: str) -> None:
    circuit = lower(Workbench(spark).source("e", DDL, "changelog").view("v", QUERIES[name]).project())
    computes = [node for node in circuit.nodes if isinstance(node, ScalarMap) and name != "in_a_subquery"]
    filters = [node for node in circuit.nodes if isinstance(node, TemporalFilter)]
    assert (bool(filters), bool(computes)) == ((True, False) if name in BY_BORDERS else (bool(filters), True))
