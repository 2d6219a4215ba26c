"""Batch tables: files and tables of Spark's catalogs are read once, whole and exactly once, and every view is the batch answer."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.starting.topics import batch_tables
from faults.points import Crash, CrashOrder, arm
from io_kafka.step_log.records import TableRecord
from stepwell.planning.kept_plan import DELAY_SECONDS
from storage.database import Database
from tests.end_to_end.harness import Playground, Resolved, renamed, service, wait_until
from tests.end_to_end.test_placement import contents
from tests.end_to_end.threads import threads

IMPORTS = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
"""

PYTHON = """
@dp.materialized_view(table_properties={"topic": "@trips", "mode": "changelog"})
def trips() -> DataFrame:
    # a message has no maps, and milliseconds
    shown = spark.read.parquet("DATA/trips").withColumn("entries", F.map_entries("entries"))
    return shown.withColumn("at", F.unix_micros("at")).withColumn("local", F.col("local").cast("string"))

@dp.temporary_view
def zones() -> DataFrame:
    return spark.read.format("csv").option("header", True).schema("zone INT, name STRING").load("DATA/zones.csv")

@dp.materialized_view(table_properties={"topic": "@by_zone", "mode": "upsert", "key": "name"})
def by_zone() -> DataFrame:
    of_zone = spark.table("trips").join(spark.table("zones"), "zone", "left")
    return of_zone.groupBy("name").agg(F.count("*").alias("n"), F.sum("fare").alias("fare"))

@dp.materialized_view(table_properties={"topic": "@lines", "mode": "changelog"})
def lines() -> DataFrame:
    found = spark.read.text("DATA/lines").withColumn("from_text", F.lit(True))
    return found.unionByName(spark.read.json("DATA/events").selectExpr("text AS value", "false AS from_text"))
"""

SQL = """
CREATE STREAMING TABLE rides (zone INT, fare DOUBLE) USING kafka TBLPROPERTIES ('subscribe' = '@rides');
CREATE MATERIALIZED VIEW enriched TBLPROPERTIES ('topic' = '@enriched', 'mode' = 'changelog') AS
  SELECT r.zone, r.fare, t.id FROM rides r LEFT JOIN parquet.`DATA/trips` t ON r.zone = t.id
  WHERE r.zone IN (SELECT zone FROM DATABASE.wanted WHERE fare > 0) OR t.id IS NULL;
CREATE MATERIALIZED VIEW twice TBLPROPERTIES ('topic' = '@twice', 'mode' = 'changelog') AS
  SELECT a.zone, b.nested.deep AS deep, (SELECT count(*) FROM DATABASE.wanted) AS n
  FROM DATABASE.wanted a JOIN DATABASE.wanted b ON a.zone < b.zone;
"""

TRIPS = 1100

SECONDS_OF_THE_CHECK = DELAY_SECONDS + 10.0
"""A service compares a kept plan with the definitions some seconds after its start, and then ends if they differ."""


@pytest.fixture
def database(play: Playground) -> Iterator[str]:
    name = play.prefix.strip("_-.").replace("-", "_") + "_db"
    play.spark.sql(f"CREATE DATABASE {name} LOCATION '{play.folder}/warehouse'")
    yield name
    play.spark.sql(f"DROP DATABASE {name} CASCADE")


def make_tables(play: Playground, database: str) -> Path:
    data, spark = play.folder / "data", play.spark
    every_type = """id, CAST(id % 7 AS INT) AS zone, CASE WHEN id % 11 > 0 THEN id / 3 END AS fare, CAST(id AS DECIMAL(20, 3)) AS exact,
        timestamp_micros(id * 1000003) AS at, timestamp_ntz '2024-02-29 12:00:00.123456' AS local,
        date_add(DATE'1969-12-30', CAST(id AS INT)) AS day,
        CAST(concat('t', id) AS BINARY) AS bytes, array(id, NULL) AS list, named_struct('a', id, 'b', array('x')) AS part,
        map('k', id) AS entries, if(id % 3 = 0, FLOAT('NaN'), FLOAT(id)) AS real, id % 2 = 0 AS even"""
    spark.range(TRIPS).selectExpr(*_split(every_type)).repartition(3).write.parquet(str(data / "trips"))
    (data / "zones.csv").write_text("zone,name\n" + "".join(f"{n},zone {n}\n" for n in range(5)) + "6,\n")
    spark.range(20).selectExpr("concat('line ', id % 4)").write.text(str(data / "lines"))
    spark.range(9).selectExpr("concat('event ', id) AS text", "id AS more").write.json(str(data / "events"))
    spark.range(9).selectExpr(
        "CAST(id AS INT) AS zone", "id - 2.0D AS fare", "named_struct('deep', id) AS nested"
    ).write.saveAsTable(f"{database}.wanted")
    return data


def _split(columns: str) -> list[str]:
    """At the commas that are in no brackets."""
    found, depth = [""], 0
    for letter in columns:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def project(play: Playground, data: Path, database: str, python: str = PYTHON, sql: str = SQL, **conf: Any) -> Resolved:
    def filled(text: str) -> str:
        return text.replace("DATABASE", database).replace("DATA", str(data))

    files = {"a.py": filled(IMPORTS + python).replace("@dp.", "@@dp."), **({"b.sql": filled(sql)} if sql else {})}
    return play.resolve(files, {"stepwell.step.rows.max": 2048, **conf})


def table_records(play: Playground, resolved: Resolved) -> list[TableRecord]:
    found = [json.loads(message.value or b"") for message in play.read(resolved.spec.log_topic, prefixed=False)]
    return [TableRecord.model_validate_json(json.dumps(record)) for record in found if record["kind"] == "table"]


@pytest.mark.long
def test_views_over_batch_tables_are_the_batch_answer(
    play: Playground, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One load is broken off between two transactions, and another one before a commit. Then a run crashes and replays the steps of tables."""
    monkeypatch.setattr(batch_tables, "PART_BYTES_MAX", 50_000)
    data = make_tables(play, database)
    play.topic("rides", 2)
    resolved = project(play, data, database)
    one, other = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0, workers=1)), None
    other = renamed(one, "-w3", 3)
    for number, point in enumerate(("output.committed", "output.sent")):
        with arm(CrashOrder(point, "raise", visit=2)), pytest.raises(Crash):  # type: ignore[arg-type]
            play.run(one, threads())
        assert not play.log(one).divisions and len(table_records(play, one)) >= 1 + number
    steps_of_tables = sum(record.is_whole for record in table_records(play, one))
    play.send("rides", [{"zone": n % 9, "fare": n} for n in range(30)])
    for run in (one, other):
        if run is one:
            with arm(CrashOrder("step.complete", "raise", visit=2)), pytest.raises(Crash):
                play.run(run, threads())
            Database.close_all()
        assert play.run(run, threads())["steps_replayed"] == (2 if run is one else 0)
    whole = [record for record in table_records(play, one) if record.is_whole]
    assert len(whole) == len({record.handle for record in whole}) == 5 and steps_of_tables < 5
    assert sorted(record.rows for record in whole) == [6, 9, 9, 20, TRIPS]
    rows = play.check(one)
    assert rows["trips"] == TRIPS and 0 not in rows.values(), rows
    assert contents(play, one) == contents(play, other)
    play.check_steps(one)
    _live_after_tables(play, one)


def _live_after_tables(play: Playground, resolved: Resolved) -> None:
    """Files are read once: they may go. The topic goes on, and a full refresh needs the files again."""
    before = table_records(play, resolved)
    play.send("rides", [{"zone": 3, "fare": -1}, {"zone": 100, "fare": 5}], 1)
    play.run(resolved, threads())
    assert table_records(play, resolved) == before
    play.run(resolved, threads(), full_refresh=True)
    play.check(resolved)
    again = [r for r in table_records(play, resolved)[len(before) :] if r.is_whole]
    assert len(again) == 5 and {r.handle for r in again} == {r.handle for r in before}


HISTORY = """
dp.create_streaming_table("orders", table_properties={"topic": "@orders"})

@dp.append_flow(target="orders")
def before() -> DataFrame:
    return spark.readStream.schema("id BIGINT, city STRING").json("DATA/history")

@dp.append_flow(target="orders")
def since() -> DataFrame:
    messages = spark.readStream.format("kafka").option("subscribe", "@live").option("startingOffsets", '{"@live": {"0": 3}}').load()
    return messages.select(F.from_json(F.col("value").cast("string"), "id BIGINT, city STRING").alias("o")).select("o.*")

@dp.materialized_view(table_properties={"topic": "@cities", "mode": "upsert", "key": "city"})
def cities() -> DataFrame:
    messages = spark.read.format("kafka").option("subscribe", "@live").option("startingOffsets", '{"@live": {"0": 3}}').load()
    live = messages.selectExpr("get_json_object(CAST(value AS STRING), '$.city') AS city")
    return spark.read.json("DATA/history").select("city").unionAll(live).groupBy("city").count()
"""


@pytest.mark.long
def test_history_from_files_goes_on_in_a_topic(play: Playground) -> None:
    """The files have what the topic had before the offset where its reader begins."""
    data = play.folder / "data"
    play.topic("live")
    rows = [{"id": n, "city": "ABC"[n % 3]} for n in range(10)]
    play.spark.createDataFrame([(r["id"], r["city"]) for r in rows[:3]], "id BIGINT, city STRING").write.json(
        str(data / "history")
    )
    play.send("live", rows[:5])
    resolved = project(play, data, "", HISTORY, "")
    play.run(resolved, threads())
    first = play.log(resolved).divisions[0].division
    assert [r.length for r in first.ranges if r.topic.endswith("live")] == [0], "the table is divided before the topic"
    assert play.check(resolved) == {"orders": 5, "cities": 3}
    play.send("live", rows[5:])
    play.run(resolved, threads())
    assert play.check(resolved) == {"orders": 10, "cities": 3}
    found = sorted(json.loads(m.value or b"")["id"] for m in play.read("orders"))
    assert found == list(range(10)), "nothing is there twice"


@pytest.mark.soak
def test_a_service_that_is_killed_while_it_loads_goes_on(
    play: Playground, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The first run is killed before the commit of the second table, the next one loads what is missing. The third one has no files any more."""
    data = tmp_path_factory.mktemp("data")  # files in the project's folder would be part of the project
    for name in ("one", "two", "three"):
        (data / f"{name}.csv").write_text("".join(f"{n},{name}\n" for n in range(3000)))
    text = """
@dp.materialized_view(table_properties={"topic": "@all", "mode": "upsert", "key": "name"})
def whole() -> DataFrame:
    parts = [spark.read.csv(f"DATA/{name}.csv", schema="n INT, name STRING") for name in ("one", "two", "three")]
    return parts[0].unionAll(parts[1]).unionAll(parts[2]).groupBy("name").agg(F.sum("n").alias("total"), F.count("*").alias("rows"))
"""
    resolved = project(play, data, "", text, "", **{"stepwell.workers": 2})
    log = tmp_path_factory.mktemp("log") / "service.log"
    with service(resolved, log, "--available-now", STEPWELL_CRASH="output.sent@2=kill") as process:
        assert process.wait(90) == -signal.SIGKILL, log.read_text()
    assert sum(record.is_whole for record in table_records(play, resolved)) == 1
    with service(resolved, log) as process:
        wait_until(lambda: process.poll() is not None or bool(play.log(resolved).checkpoints))
        assert play.check(resolved) == {"whole": 3}
    records = table_records(play, resolved)
    assert len(records) == 3 and all(record.is_whole and record.rows == 3000 for record in records)
    shutil.rmtree(data)
    with service(resolved, log) as process:
        wait_until(lambda: process.poll() is not None or play.log(resolved).epoch == 2)
        time.sleep(SECONDS_OF_THE_CHECK)
        assert process.poll() is None, log.read_text()
        process.terminate()
        assert process.wait(90) == 0, log.read_text()
    assert table_records(play, resolved) == records
