"""Topics that definitions read by themselves, as in Spark's guides: the batch answer, for any number of workers and after crashes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.test_placement import contents, crash_and_replay
from tests.end_to_end.threads import threads

WORKERS = (1, 3)

IMPORTS = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructField, StructType
"""

# The idiom of Spark's guide to Kafka within that of its guide to declarative pipelines.
GUIDE = """
schema = StructType([
    StructField("customer_id", IntegerType()),
    StructField("state", StringType()),
    StructField("price", DoubleType()),
])

@dp.table
def orders() -> DataFrame:
    return (
        spark.readStream
        .format("kafka")
        .option("kafka.bootstrap.servers", "SERVERS")
        .option("subscribe", "@orders")
        .option("startingOffsets", "earliest")
        .load()
    )

@dp.materialized_view
def parsed_orders() -> DataFrame:
    return (
        spark.table("orders")
        .select(from_json(col("value").cast("string"), schema).alias("data"), "timestamp")
        .select("data.*", "timestamp")
    )

@dp.materialized_view(table_properties={"topic": "@by_state", "mode": "upsert", "key": "state"})
def orders_by_state() -> DataFrame:
    return (
        spark.table("parsed_orders")
        .where("state IS NOT NULL")
        .groupBy("state")
        .count()
        .withColumnRenamed("count", "order_count")
    )
"""

OTHERS = """
@dp.table(table_properties={"topic": "@texts"})
def texts() -> DataFrame:
    df = spark \\
      .readStream \\
      .format("kafka") \\
      .option("kafka.bootstrap.servers", "SERVERS") \\
      .option("subscribe", "@orders") \\
      .option("startingOffsets", "earliest") \\
      .load()
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "offset", "timestamp", "timestampType")

@dp.materialized_view(table_properties={"topic": "@several", "mode": "changelog"})
def several() -> DataFrame:
    df = spark.read.format("kafka").option("subscribe", "@returns,@refunds").option("includeHeaders", "true").load()
    return df.select("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

@dp.temporary_view
def behind() -> DataFrame:
    df = spark.read.format("kafka").option("subscribe", "@late")
    return df.option("startingOffsets", '{"@late": {"0": 2, "1": -2}}').load()

@dp.materialized_view(table_properties={"topic": "@offsets", "mode": "upsert", "key": "partition"})
def offsets() -> DataFrame:
    of_partition = spark.table("behind").groupBy("partition")
    return of_partition.agg(F.min("offset").alias("first"), F.count("value").alias("known"), F.max("timestamp").alias("latest"))
"""

CHOSEN = """
@dp.materialized_view(table_properties={"topic": "@assigned", "mode": "changelog"})
def assigned() -> DataFrame:
    df = spark.read.format("kafka").option("assign", '{"@returns": [1], "@late": [0]}')
    return df.option("startingOffsets", '{"@returns": {"1": -2}, "@late": {"0": 2, "1": -2}}').load()

@dp.materialized_view(table_properties={"topic": "@matching", "mode": "changelog"})
def matching() -> DataFrame:
    return spark.read.format("kafka").option("subscribePattern", "@(refunds|retur[a-z]s)").load().select("topic", "value")
"""

TABLES = """
CREATE STREAMING TABLE sent (customer_id INT, at TIMESTAMP, state STRING, price DOUBLE, part INT, place BIGINT, k BINARY) USING kafka
  TBLPROPERTIES ('subscribe' = '@sent', 'on.error' = 'skip', 'metadata.timestamp' = 'at', 'metadata.partition' = 'part',
    'metadata.offset' = 'place', 'metadata.key' = 'k');
CREATE STREAMING TABLE latest (id INT, n INT, at TIMESTAMP NOT NULL, headers ARRAY<STRUCT<key STRING, value BINARY>>, kind INT, topic STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@customers', 'mode' = 'upsert', 'key' = 'id', 'metadata.timestamp' = 'AT',
    'metadata.headers' = 'headers', 'metadata.timestampType' = 'kind', 'metadata.topic' = 'topic');
CREATE MATERIALIZED VIEW whole_sent TBLPROPERTIES ('topic' = '@whole_sent') AS SELECT * FROM sent;
CREATE MATERIALIZED VIEW whole_latest TBLPROPERTIES ('topic' = '@whole_latest', 'mode' = 'upsert', 'key' = 'id') AS SELECT * FROM latest;
"""

VALUES: list[Any] = [
    ("a", {"customer_id": 1, "state": "CA", "price": 1.5}),
    (None, {"customer_id": 2, "state": "NY"}),
    ("a", None),
    ("b", "no JSON"),
    ("", '{"customer_id": "x", "state": "CA", "price": 2}'),
    (b"\xff\xfe", b'{"state": "\xff\xc3(", "customer_id": 5}'),
    ("é", '{"customer_id": 3, "state": "CA"} and more'),
    ("a", {"customer_id": 1, "state": "CA", "price": 1.5}),
]
HEADERS: list[Any] = [
    None,
    [("trace", b"1")],
    [("trace", b"1"), ("trace", None), ("é", b"\x00\xff"), ("trace", b"")],
]
MOMENT = round(1e3 * time.time()) - 3_600_000
"""An hour ago: the broker soon deletes messages whose timestamps are older than its retention."""


def project(play: Playground, text: str, sql: str = "", **conf: Any) -> Resolved:
    text = (IMPORTS + text).replace("SERVERS", play.servers).replace("@dp.", "@@dp.")  # an @ stands for the prefix
    return play.resolve({"a.py": text, **({"b.sql": sql} if sql else {})}, conf)


def send(play: Playground, first: int) -> None:
    """Messages for all topics, in several partitions. A null key, a tombstone, what is no JSON and no UTF-8, headers of every kind."""
    play.send("orders", VALUES[first : first + 4], 0)
    play.send("orders", VALUES[first + 2 :], 1, timestamp=MOMENT + first)
    for number, headers in enumerate(HEADERS):
        play.send("returns", [("k", f"r{first}"), (None, None)], number % 2, headers=headers)
        play.send("refunds", [(None, f"f{number}")], headers=headers, timestamp=MOMENT + number)
    play.send("late", [("k", str(n)) for n in range(4)], 0)
    play.send("late", [None, "x"], 1)
    play.send(
        "sent",
        [("k", {"price": 1.5, "state": "CA", "customer_id": first, "part": 99}), (None, "no JSON"), (b"\xff", {})],
    )
    for number in range(2):
        send_customers(play, first, number)


def send_customers(play: Playground, first: int, number: int) -> None:
    """Two customers in the partition `number`, one of them without a value the second time."""
    one, other = ({"id": 2 * n + number, "n": first} for n in range(2))
    play.send("customers", [(str(one["id"]), one)], number, headers=HEADERS[number + 1], timestamp=MOMENT + first)
    play.send("customers", [(str(other["id"]), None if first else other)], number, timestamp=MOMENT - 1)


@pytest.mark.long
def test_the_idioms_of_sparks_guides_are_the_batch_answer(play: Playground) -> None:
    for name, partitions in (("orders", 2), ("returns", 2), ("refunds", 1), ("late", 2), ("customers", 2), ("sent", 1)):
        play.topic(name, partitions)
    conf: dict[str, Any] = {"stepwell.step.rows.max": 9, "stepwell.workers": WORKERS[0]}
    resolved = project(play, GUIDE + OTHERS + CHOSEN, TABLES, **conf)
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, *(renamed(resolved, f"-w{workers}", workers) for workers in WORKERS[1:])]
    send(play, 0)
    for run in runs:
        crash_and_replay(play, run, in_threads=True)
    send(play, 1)  # for a run that begins with a checkpoint
    for run in runs:
        play.run(run, threads())
    rows = play.check(resolved)
    assert rows.pop("orders_by_state") >= 3 and min(rows.values()) > 1, rows
    steps = play.check_steps(resolved)
    for other in runs[1:]:
        assert play.check_steps(other) == steps
        assert contents(play, other) == contents(play, resolved), f"{other.spec.workers} workers"


def test_a_stream_begins_at_the_end_of_the_first_start(play: Playground) -> None:
    """Also if nothing came before the pipeline was started again."""
    play.topic("in", 2)
    text = """
@dp.table(table_properties={"topic": "@out"})
def v() -> DataFrame:
    return spark.readStream.format("kafka").option("subscribe", "@in").load().selectExpr("CAST(value AS STRING) AS text")
"""
    play.send("in", ["before"])
    resolved = project(play, text)
    play.run(resolved, threads())
    play.send("in", ["after"])
    play.send("in", ["after that"], 1)
    for _ in range(2):
        play.run(resolved, threads())
    found = [json.loads(message.value or b"")["text"] for message in play.read("out")]
    assert sorted(found) == ["after", "after that"]


def test_no_message_at_all(play: Playground) -> None:
    play.topic("in")
    text = """
@dp.materialized_view(table_properties={"topic": "@out", "mode": "upsert", "key": "n"})
def v() -> DataFrame:
    return spark.read.format("kafka").option("subscribe", "@in").load().selectExpr("count(*) AS n", "max(timestamp) AS last")
"""
    resolved = project(play, text)
    play.run(resolved, threads())
    assert play.check(resolved) == {"v": 1}
