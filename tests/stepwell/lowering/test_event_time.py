"""A streaming table with a watermark puts out, step by step, what Structured Streaming puts out in append mode."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.model.circuit import Circuit, View
from engine.model.event_time import ClosingAggregate, TimedJoin, Watermark
from engine.model.joins import Join
from engine.model.rows import Source
from engine.operators.findings import TimeReport
from engine.operators.table import operator_of
from engine.state.store import DictStore
from stepwell.inspection.dry_run import describe
from stepwell.lowering.driver import lower, lower_with_errors
from stepwell.planning.resolver import resolve
from stepwell.project.flow_conf import conf_in_force
from tests.engine.contexts import contexts_of
from tests.engine.every_kind import OF_EVENT_TIME
from tests.engine.zsets import to_table
from tests.sampling import sampled
from tests.stepwell.folder import project
from tests.stepwell.lowering.projects import FILE, Workbench, output
from tests.stepwell.lowering.streams import Query, SparkStreams, text_of

DDL = "k string, ts timestamp, v bigint"
START = datetime(2024, 3, 1, 12)
STEPS = 5

TABLES = ("t", "u", "w")

Rows = list[tuple[Any, ...]]


def _t(spark: SparkSession, delay: str = "10 minutes") -> Any:
    return spark.table("t").withWatermark("ts", delay)


def _pairs(
    spark: SparkSession, condition: str, kind: str = "inner", where: str = "true", delay: str | None = None
) -> Any:
    right = spark.table("u").where(where).withWatermark("ts", delay or "20 minutes").alias("b")
    joined = (
        spark.table("t")
        .where(where)
        .withWatermark("ts", delay or "10 minutes")
        .alias("a")
        .join(right, F.expr(condition), kind)
    )
    return joined.selectExpr("a.k AS k", "a.ts AS ts", "a.v AS v", "b.k AS bk", "b.ts AS bts", "b.v AS bv")


NEAR = "a.k = b.k AND b.ts >= a.ts - INTERVAL 5 MINUTES AND b.ts < a.ts + INTERVAL 15 MINUTES"

QUERIES: dict[str, Query] = {
    "tumbling": lambda s: _t(s).groupBy(F.window("ts", "5 minutes"), "k").agg(
        F.count("*"), F.sum("v"), F.min("v"), F.max("k"), F.avg("v")
    ),
    "tumbling in SQL": (
        "SELECT window.start AS start, k, sum(v) AS total FROM STREAM t WATERMARK ts DELAY OF INTERVAL 10 MINUTES "
        "GROUP BY window(ts, '5 minutes'), k"
    ),
    "sliding": lambda s: _t(s).groupBy(F.window("ts", "10 minutes", "5 minutes")).agg(F.sum("v").alias("x")),
    "by the event time": lambda s: _t(s, "1 minute").groupBy("ts").count(),
    "values in order": lambda s: _t(s).groupBy(F.window("ts", "5 minutes")).agg(F.sort_array(F.collect_list("v")).alias("all")),
    "sessions": lambda s: _t(s).groupBy(F.session_window("ts", "3 minutes"), "k").agg(F.count("*"), F.sum("v")),
    "two windows": lambda s: (
        _t(s).groupBy(F.window("ts", "5 minutes"), "k").count().groupBy(F.window(F.window_time("window"), "20 minutes"))
        .agg(F.max("count"), F.count("*"))
    ),
    "union": lambda s: (
        _t(s).union(s.table("u").withWatermark("ts", "25 minutes")).groupBy(F.window("ts", "5 minutes")).count()
    ),
    "duplicates by time": lambda s: _t(s).select("k", "ts").dropDuplicates(["k", "ts"]),
    "distinct": lambda s: _t(s).select("k", F.col("ts").alias("at")).distinct(),
    "duplicates by key": lambda s: _t(s).dropDuplicates(["k"]).select("k"),
    "duplicates within the watermark": lambda s: (
        s.table("w").withWatermark("ts", "10 minutes").dropDuplicatesWithinWatermark(["k"])
    ),
    "no state": lambda s: _t(s).where("v > 2"),
    "join": lambda s: _pairs(s, NEAR),
    "left join": lambda s: _pairs(s, NEAR, "left"),
    "right join": lambda s: _pairs(s, NEAR, "right"),
    "full join": lambda s: _pairs(s, NEAR, "full", "k IS NOT NULL"),
    "join without bounds": lambda s: _pairs(s, "a.k = b.k AND b.v > a.v", delay="2 hours"),
    "join by time": lambda s: _pairs(s, "a.k = b.k AND a.ts = b.ts", "left"),
    "aggregate of a join": lambda s: _pairs(s, NEAR).groupBy(F.window("ts", "10 minutes")).agg(F.count("*"), F.sum("bv")),
}  # fmt: skip


def history(seed: str) -> list[dict[str, Rows]]:
    """Rows of the tables. Their times go on by a quarter of an hour a step, and some rows are late. The last step is a year later. Table `w` has
    a key at most once a step, so that Spark has no choice between rows."""
    chance = random.Random(seed)
    steps = []
    for step in range(STEPS - 1):
        now = START + timedelta(minutes=15 * step)
        rows = {table: [_row(chance, now) for _ in range(12)] for table in ("t", "u")}
        steps.append({**rows, "w": [(key, *_row(chance, now)[1:]) for key in chance.sample("abcdef", 4)]})
    steps.append({table: [("far", START + timedelta(days=365), 0)] for table in TABLES})
    return steps


def _row(chance: random.Random, now: datetime) -> tuple[Any, ...]:
    late = chance.choice([0, 0, 0, 0, 30, 45])
    ts = now + timedelta(minutes=chance.randint(0, 14) - late, microseconds=chance.choice([0, 0, 999, 1_000_000]))
    return (
        chance.choice(["a", "b", "c", None]),
        chance.choice([ts, ts, ts, ts, ts, None]),
        chance.choice([None, 1, 2, 3, 4]),
    )


def run(circuit: Circuit, steps: Sequence[dict[str, Rows]], report: TimeReport | None = None) -> Iterator[Counter[str]]:
    """What the one view puts out in each step, node after node, on one worker."""
    store = DictStore()
    for number, rows in enumerate(steps):
        made: list[pa.Table] = []
        for index, node in enumerate(circuit.nodes):
            if isinstance(node, Source):
                made.append(to_table(rows[node.handle], node.types))
                continue
            context = contexts_of(circuit, store, number)(index)
            context.found.times = report or TimeReport()
            operate = operator_of(node).step
            assert operate is not None
            made.append(operate(node, [made[i] for i in node.inputs], context))
            if isinstance(node, View):
                yield _texts(made[-1])
                break


def _texts(table: pa.Table) -> Counter[str]:
    counted: Counter[str] = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        assert weight > 0, "a table with a watermark takes no row back"
        counted[text_of(tuple(row))] += weight
    return counted


def bench_of(spark: SparkSession, query: Query, *, append: bool = False) -> Workbench:
    bench = Workbench(spark, streaming=True)
    for table in TABLES:
        bench.source(table, DDL)
    return bench.view("v", query, output=output("v", "append") if append else None)


def sparks_answer(spark: SparkSession, folder: Path, names: Sequence[str]) -> dict[str, list[Counter[str]]]:
    """What Structured Streaming puts out in each step, by query."""
    streams = SparkStreams(spark, folder, TABLES, DDL)
    try:
        for number, name in enumerate(names):
            streams.start(f"q{number}", QUERIES[name])
        found = [streams.step(rows) for rows in history("all")]
    finally:
        streams.stop()
    return {name: [step[f"q{number}"] for step in found] for number, name in enumerate(names)}


RECORDED = Path(__file__).with_name("event_time.json")
"""Spark's answers. It takes Spark minutes to give them, so a soak test compares them with Spark. With WRITE_EVENT_TIME=1 it writes them."""


def recorded() -> dict[str, list[Counter[str]]]:
    return {name: list(map(Counter, steps)) for name, steps in json.loads(RECORDED.read_text()).items()}


@pytest.mark.parametrize("name", sampled(QUERIES, 2, ("left join", "tumbling")))
def test_every_step_puts_out_what_spark_does(spark: SparkSession, name: str) -> None:
    circuit = lower(bench_of(spark, QUERIES[name], append=True).project())
    assert list(run(circuit, history("all"))) == recorded()[name]


@pytest.mark.soak
def test_the_recorded_answers_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    found = sparks_answer(spark, tmp_path, list(QUERIES))
    if os.environ.get("WRITE_EVENT_TIME"):
        RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert recorded() == found


def test_such_a_table_only_grows_and_may_have_an_append_output(spark: SparkSession) -> None:
    described = describe(bench_of(spark, QUERIES["tumbling"], append=True).project())
    (view,) = described.views
    assert not described.errors and not view.retracts and view.output.endswith("mode append")
    assert any("the accumulators of the groups that are not closed" in node.trace for node in view.nodes)
    assert any("watermark" in note for note in view.notes)


def test_a_materialized_view_knows_no_watermark(spark: SparkSession) -> None:
    """Spark leaves it out of the plan of a batch. The view holds the answer over all rows and can take rows back."""
    bench = Workbench(spark).source("t", DDL)
    circuit = lower(bench.view("v", lambda s: _t(s).groupBy(F.window("ts", "5 minutes")).count()).project())
    assert not OF_EVENT_TIME & {type(node) for node in circuit.nodes}


def test_a_stream_without_a_watermark_stays_as_it_was(spark: SparkSession) -> None:
    circuit = lower(bench_of(spark, lambda s: s.table("t").groupBy(F.window("ts", "5 minutes")).count()).project())
    assert not OF_EVENT_TIME & {type(node) for node in circuit.nodes}


def test_late_rows_are_counted(spark: SparkSession) -> None:
    """Of the second step, the row that is behind the watermark of the first one."""
    circuit = lower(bench_of(spark, QUERIES["by the event time"]).project())
    first, late = ("a", START, 1), ("a", START - timedelta(minutes=2), 1)
    report = TimeReport()
    nothing: Rows = []
    list(
        run(
            circuit,
            [{"t": [first], "u": nothing, "w": nothing}, {"t": [late, first], "u": nothing, "w": nothing}],
            report,
        )
    )
    assert sum(report.late.values()) == 1
    (at,) = report.watermarks.values()
    assert at == int((START - timedelta(minutes=1)).replace(tzinfo=UTC).timestamp() * 1e6)


def test_the_greatest_watermark_counts_if_the_policy_says_so(spark: SparkSession) -> None:
    bench = Workbench(spark, streaming=True)
    for table in TABLES:
        bench.source(table, DDL)
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    bench.spark.conf.set(policy, "max")
    marks = [node for node in lower(bench.view("v", QUERIES["union"]).project()).nodes if isinstance(node, Watermark)]
    assert [(mark.greatest, sorted(mark.delays_ms)) for mark in marks] == [(True, [600_000, 1_500_000])]
    assert policy in conf_in_force({policy: "max"})


def test_each_flow_of_a_table_has_its_own_watermark(spark: SparkSession) -> None:
    first, second = (
        QUERIES["by the event time"],
        lambda s: s.table("u").withWatermark("ts", "1 hour").groupBy("ts").count(),
    )
    alone = [list(run(lower(bench_of(spark, query).project()), history("all"))) for query in (first, second)]
    bench = Workbench(spark, streaming=True)
    for table in TABLES:
        bench.source(table, DDL)
    circuit = lower(bench.view("v", first, second).project())
    assert sum(isinstance(node, Watermark) for node in circuit.nodes) == 2
    assert list(run(circuit, history("all"))) == [a + b for a, b in zip(*alone, strict=True)]


def test_a_join_with_a_table_that_has_no_watermark_is_a_plain_join(spark: SparkSession) -> None:
    """If the table only grows, groups above it can close."""
    query = (
        "SELECT window(a.ts, '5 minutes') AS w, count(*) AS n "
        "FROM STREAM t WATERMARK ts DELAY OF INTERVAL 1 HOUR AS a JOIN u ON a.k = u.k GROUP BY 1"
    )
    kinds = {type(node) for node in lower(bench_of(spark, query, append=True).project()).nodes}
    assert {Join, ClosingAggregate} <= kinds and TimedJoin not in kinds


REFUSED: dict[str, tuple[Query, str]] = {
    "no event time in the group": (lambda s: _t(s).groupBy("k").count(), "must group by its event time"),
    "no group": (lambda s: _t(s).agg(F.count("*")), "must group by its event time"),
    "a window function": (
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM STREAM t WATERMARK ts DELAY OF INTERVAL 1 HOUR",
        "a function OVER rows above a withWatermark",
    ),
    "a limit": (lambda s: _t(s).limit(3), "LIMIT or OFFSET above a withWatermark"),
    "two on one path": (
        lambda s: _t(s).withColumn("at", F.expr("ts + INTERVAL 1 HOUR")).withWatermark("at", "1 hour").groupBy("at").count(),
        "a withWatermark above another one",
    ),
    "an outer join without bounds": (lambda s: _pairs(s, "a.k = b.k", "left"), "no watermark says when a row can have no match"),
    "a bound on one side": (lambda s: _pairs(s, "a.k = b.k AND b.ts > a.ts", "left"), "no watermark says"),
    "a semi join": (
        lambda s: _t(s).join(s.table("u").withWatermark("ts", "1 hour").select("k"), "k", "left_semi"),
        "a LeftSemi join of two streams",
    ),
    "within a watermark that is not there": (
        lambda s: s.table("t").dropDuplicatesWithinWatermark(["k"]), "dropDuplicatesWithinWatermark needs a watermark"
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_what_spark_cannot_append_is_refused_with_file_and_line(spark: SparkSession, name: str) -> None:
    query, text = REFUSED[name]
    errors = lower_with_errors(bench_of(spark, query).project()).errors
    assert len(errors) == 1 and text in errors[0].message and errors[0].what_to_do
    assert str(errors[0]).startswith(f"{FILE}:1: v: ")


def test_a_watermark_in_a_subquery_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    text = """
    CREATE STREAMING TABLE t (k STRING, ts TIMESTAMP, v BIGINT) USING kafka TBLPROPERTIES ('subscribe' = 't');
    CREATE STREAMING TABLE v AS SELECT k FROM STREAM t WHERE v >
      (SELECT max(n) FROM (SELECT count(*) AS n FROM STREAM t WATERMARK ts DELAY OF INTERVAL 1 HOUR GROUP BY window(ts, '1 day')));
    """
    errors = lower_with_errors(resolve(project(tmp_path, {"views.sql": text}), spark)).errors
    assert any("a watermark in a subquery" in error.message for error in errors)
    assert all("views.sql:2: v: " in str(error) for error in errors)


def test_a_watermark_over_rows_that_can_be_taken_back_is_refused(spark: SparkSession) -> None:
    bench = Workbench(spark, streaming=True).source("t", DDL, "upsert", ("k",))
    bench.view("v", lambda s: _t(s).groupBy(F.window("ts", "5 minutes")).count())
    (error,) = lower_with_errors(bench.project()).errors
    assert "withWatermark over rows that can be taken back" in error.message
    assert str(error).startswith(f"{FILE}:1: v: ")


@pytest.mark.parametrize(("policy", "inputs", "is_noted"), [("min", 2, True), ("max", 2, False), ("min", 1, False)])
def test_dry_run_notes_that_an_idle_input_holds_event_time_back(
    spark: SparkSession, policy: str, inputs: int, is_noted: bool
) -> None:
    bench = Workbench(spark, streaming=True).source("t", DDL).source("u", DDL)
    bench.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
    bench.view("v", QUERIES["tumbling"] if inputs == 1 else lambda s: _pairs(s, NEAR))
    notes = lower_with_errors(bench.project()).notes["v"]
    assert any("holds event time back" in note for note in notes) == is_noted
