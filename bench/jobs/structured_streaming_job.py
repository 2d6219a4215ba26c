"""Runs in the environment of structured_streaming.SPARK_VERSION: one Structured Streaming query from Kafka to Kafka, until the backlog is read.

Argument: {servers, workload, topic, starting, output, step_rows, folder, jars, live, real_time}.
Last line of output: {batches: [{end, rows, ms, parts}]}.
With `live` it runs until the process is ended (for latency), with the shortest trigger; with `real_time` too, in Real-Time Mode.
"""

import json
import sys
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING"

QUERIES = {
    "W1": """SELECT CAST(NULL AS STRING) AS key, to_json(struct(auction, bidder, price * 89 DIV 100 AS price_eur,
                    upper(channel) AS channel, date_time)) AS value
             FROM bids WHERE price > 5000 AND auction % 3 = 0""",
    "W2": """SELECT to_json(struct(auction)) AS key, to_json(struct(*)) AS value FROM (
               SELECT auction, count(*) AS bids, sum(price) AS total, max(price) AS top FROM bids GROUP BY auction)""",
    "W3": """SELECT to_json(struct(category, seller)) AS key, to_json(struct(*)) AS value FROM (
               SELECT category, seller, count(*) AS bids, avg(price) AS mean_price
               FROM bids JOIN auctions USING (auction) GROUP BY category, seller)""",
}


def session(job: dict[str, Any]) -> SparkSession:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(job["jars"]),
        "spark.sql.session.timeZone": "UTC",
        # As many as there are cores, with one store each. The default of 200 is for a cluster.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    builder = SparkSession.builder.appName("bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(job: dict[str, Any]) -> None:
    spark = session(job)
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job["servers"])
        .option("subscribe", job["topic"])
    )
    reader = reader.option("startingOffsets", json.dumps(job["starting"])).option("failOnDataLoss", "true")
    if job["step_rows"]:
        reader = reader.option("maxOffsetsPerTrigger", job["step_rows"])
    stream = reader.load().selectExpr(f"from_json(CAST(value AS STRING), '{BID}') AS row").selectExpr("row.*")
    stream.createOrReplaceTempView("bids")
    if job["workload"] == "W3":
        auctions(spark, job)
    writer = spark.sql(QUERIES[job["workload"]]).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", job["servers"]).option("topic", job["output"])
    writer = writer.option("checkpointLocation", job["folder"] + "/checkpoint")
    # Real-Time Mode knows the update mode alone. Without an aggregate it writes the same rows.
    writer = writer.outputMode("append" if job["workload"] == "W1" and not job["real_time"] else "update")
    if job["real_time"]:
        writer = writer.trigger(realTime="5 minutes")
    elif not job["live"]:
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    batches = []
    for progress in query.recentProgress:
        took = dict(progress["durationMs"])
        began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
        ms = took.pop("triggerExecution")
        if progress["numInputRows"]:
            batches.append({"end": began + ms / 1e3, "rows": progress["numInputRows"], "ms": ms, "parts": took})
    print(json.dumps({"batches": batches}), flush=True)
    spark.stop()


def auctions(spark: SparkSession, job: dict[str, Any]) -> None:
    """The table as it is now, which is the last message of each key. It is broadcast to every batch and does not follow later changes:
    Structured Streaming refuses, in update mode, a stream that joins a changing table and then aggregates."""
    reader = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", job["servers"]).option("subscribe", "auctions")
    )
    rows = reader.load().selectExpr(
        "offset", "from_json(CAST(value AS STRING), 'auction BIGINT, category BIGINT, seller BIGINT') AS row"
    )
    rows.selectExpr("offset", "row.*").createOrReplaceTempView("messages")
    latest = spark.sql(
        "SELECT auction, max_by(category, offset) AS category, max_by(seller, offset) AS seller FROM messages GROUP BY auction"
    ).cache()
    latest.count()
    latest.createOrReplaceTempView("auctions")


main(json.loads(sys.argv[1]))
