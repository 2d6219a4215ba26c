"""The files of the starter project. `$name` stands for the project's name, and `$$` for a dollar sign."""

from __future__ import annotations

_SPEC = """\
name: $name
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafka.bootstrap.servers: 127.0.0.1:9092   # of `stepwell dev up`
  stepwell.checkpoint.interval: 10s
"""

_SQL = """\
-- A source: every message of the topic is a row.
CREATE STREAMING TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(10, 2), placed TIMESTAMP)
  USING kafka TBLPROPERTIES ('subscribe' = '$name.orders', 'format' = 'json');

-- A source with a key: the last message of a key is its row, a message without a value deletes it.
CREATE STREAMING TABLE customers (id BIGINT, name STRING, country STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '$name.customers', 'format' = 'json', 'mode' = 'upsert', 'key' = 'id');

-- A view that is published, one message per country, and can be queried: stepwell query "SELECT * FROM sales_by_country"
CREATE MATERIALIZED VIEW sales_by_country
  TBLPROPERTIES ('topic' = '$name.sales_by_country', 'key' = 'country', 'mode' = 'upsert')
AS SELECT country, count(*) AS orders, sum(amount) AS total
FROM orders JOIN customers ON orders.customer = customers.id
GROUP BY country;
"""

_PYTHON = '''\
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.materialized_view
def large_countries() -> DataFrame:
    """A view over a view. It has no topic: it is kept, and can be queried."""
    return spark.table("sales_by_country").where("total > 1000")
'''

CONNECT = '''\
def broker_of_project():
    """The broker that `stepwell run` takes: of the environment, or else of spark-pipeline.yml, or else the local one."""
    spec = yaml.safe_load(Path(__file__).with_name("spark-pipeline.yml").read_text(encoding="utf-8"))
    written = (spec.get("configuration") or {}).get("kafka.bootstrap.servers")
    return os.environ.get("STEPWELL_KAFKA_BOOTSTRAP_SERVERS") or written or "127.0.0.1:9092"


def make_topics(servers, names, partitions):
    """Those that are missing. If no broker answers, the program ends."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        there = admin.list_topics(timeout=5).topics
    except KafkaException as fault:
        raise SystemExit(
            f"no Kafka broker answers at {servers}: {fault.args[0].str()}\\n"
            "Start one with `stepwell dev up`, or name another one, kafka.bootstrap.servers in spark-pipeline.yml "
            "or in the environment: export STEPWELL_KAFKA_BOOTSTRAP_SERVERS=HOST:PORT"
        ) from None
    missing = [NewTopic(name, partitions) for name in names if name not in there]
    for created in admin.create_topics(missing).values() if missing else ():
        created.result()
'''
"""The functions of a program that sends messages: it finds the broker and makes the topics."""

_SEND = (
    '''\
"""Sends customers and orders to the project's topics: python send.py [ORDERS [BROKER]]"""

import json
import os
import random
import sys
import time
from pathlib import Path

import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic


'''
    + CONNECT
    + """

SERVERS = broker_of_project() if len(sys.argv) < 3 else sys.argv[2]
COUNTRIES = ("Chile", "France", "India", "Kenya", "Norway")

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
make_topics(SERVERS, ("$name.orders", "$name.customers"), partitions=1)
producer = Producer({"bootstrap.servers": SERVERS})
for customer in range(20):
    row = {"id": customer, "name": f"Customer {customer}", "country": random.choice(COUNTRIES)}
    producer.produce("$name.customers", json.dumps(row), json.dumps({"id": customer}))
for _ in range(count):
    order = {
        "id": random.getrandbits(40),
        "customer": random.randrange(20),
        "amount": f"{random.uniform(1, 100):.2f}",
        "placed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    producer.produce("$name.orders", json.dumps(order))
    producer.poll(0)
producer.flush()
print(f"{count} orders and 20 customers sent to {SERVERS}")
"""
)

_README = """\
# $name

A pipeline for Stepwell: `spark-pipeline.yml` names it, `transformations/` defines it.

    stepwell dev up              # a local Kafka broker
    stepwell dry-run             # what will run
    stepwell run                 # keeps the views up to date, until Ctrl-C
    python send.py 1000          # in another terminal: customers and orders
    stepwell status
    stepwell checkpoint
    stepwell query "SELECT * FROM sales_by_country ORDER BY total DESC"

`send.py` gives some customers another country each time: watch the totals move.
`stepwell run --available-now` takes what is there and ends; `stepwell doctor` says what is wrong.
"""

COMMON = {
    "spark-pipeline.yml": _SPEC,
    ".gitignore": "storage/\nspark-warehouse/\nstepwell-bundle-*.tar.gz\n__pycache__/\n",
}
"""What the examples have too."""

FILES = {
    **COMMON,
    "transformations/sales.sql": _SQL,
    "transformations/large_countries.py": _PYTHON,
    "send.py": _SEND,
    "README.md": _README,
}
