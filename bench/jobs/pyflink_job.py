"""Runs in the environment of PyFlink: one SQL job from Kafka to Kafka, until the backlog is read.

Argument: {servers, workload, topic, starting, output, folder, jars, partitions, live}. Last line of output: {began, ended}.
"""

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3), extra STRING"

SINKS = {
    "W1": ("auction BIGINT, bidder BIGINT, price_eur BIGINT, channel STRING, date_time TIMESTAMP(3)", ""),
    "W2": ("auction BIGINT, bids BIGINT, total BIGINT, top BIGINT", "auction"),
    "W3": ("category BIGINT, seller BIGINT, bids BIGINT, mean_price DOUBLE", "category, seller"),
    "W4": ("auction BIGINT, bids BIGINT, total BIGINT, top BIGINT", "auction"),
}
PER_AUCTION = "SELECT auction, COUNT(*) AS bids, SUM(price) AS total, MAX(price) AS top FROM bids GROUP BY auction"
QUERIES = {
    "W1": "SELECT auction, bidder, price * 89 / 100 AS price_eur, UPPER(channel) AS channel, date_time FROM bids "
    "WHERE price > 5000 AND MOD(auction, 3) = 0",
    "W2": PER_AUCTION,
    "W3": "SELECT category, seller, COUNT(*) AS bids, AVG(CAST(price AS DOUBLE)) AS mean_price "
    "FROM bids JOIN auctions ON bids.auction = auctions.auction GROUP BY category, seller",
    "W4": PER_AUCTION,
}


def table_environment(job: dict[str, Any]) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in job["jars"]),
        "parallelism.default": "2",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{job['folder']}/checkpoint",
        "state.backend.type": "hashmap",
        "pipeline.object-reuse": "true",
        "taskmanager.memory.process.size": "2g",
    }
    if job["workload"] != "W1" and not job["live"]:
        settings |= {
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "200 ms",
            "table.exec.mini-batch.size": "5000",
        }
    for key, value in settings.items():
        tables.get_config().set(key, value)
    return tables


def source(job: dict[str, Any], name: str, columns: str, topic: str, form: str, *, starting: dict[str, int]) -> str:
    offsets = ";".join(f"partition:{p},offset:{o}" for p, o in starting.items())
    start = f"'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = '{offsets}'"
    bounded = "" if job["live"] else ", 'scan.bounded.mode' = 'latest-offset'"
    return (
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', {start}{bounded}, {form}, "
        f"'properties.bootstrap.servers' = '{job['servers']}', 'properties.group.id' = 'bench')"
    )


def main(job: dict[str, Any]) -> None:
    tables = table_environment(job)
    json_format = "'format' = 'json', 'json.timestamp-format.standard' = 'SQL'"
    if job["topic"] == "changes":
        json_format = "'format' = 'debezium-json', 'debezium-json.timestamp-format.standard' = 'SQL'"
    tables.execute_sql(source(job, "bids", BID, job["topic"], json_format, starting=job["starting"]))
    if job["workload"] == "W3":
        bounded = "" if job["live"] else ", 'scan.bounded.mode' = 'latest-offset'"
        tables.execute_sql(
            "CREATE TABLE auctions (auction BIGINT, category BIGINT, seller BIGINT, PRIMARY KEY (auction) NOT ENFORCED) WITH ("
            f"'connector' = 'upsert-kafka', 'topic' = 'auctions', 'properties.bootstrap.servers' = '{job['servers']}', "
            f"'key.format' = 'json', 'value.format' = 'json'{bounded})"
        )
    columns, key = SINKS[job["workload"]]
    kind = "'connector' = 'kafka', 'format' = 'json'"
    if key:
        columns += f", PRIMARY KEY ({key}) NOT ENFORCED"
        kind = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
    tables.execute_sql(
        f"CREATE TABLE answers ({columns}) WITH ({kind}, 'topic' = '{job['output']}', "
        f"'properties.bootstrap.servers' = '{job['servers']}', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{job['output']}', 'properties.transaction.timeout.ms' = '600000')"
    )
    began = time.time()
    tables.execute_sql(f"INSERT INTO answers {QUERIES[job['workload']]}").wait()
    print(json.dumps({"began": began, "ended": time.time()}), flush=True)


main(json.loads(sys.argv[1]))
