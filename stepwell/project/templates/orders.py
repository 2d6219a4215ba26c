"""The files of the example `orders`: a shop whose orders and customers a generator sends. `$name` stands for the project's name."""

from __future__ import annotations

from stepwell.project.templates import starter

_SOURCES = """\
-- Every message of the topic is a row.
CREATE STREAMING TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(10, 2), placed TIMESTAMP)
  USING kafka TBLPROPERTIES ('subscribe' = '$name.orders', 'format' = 'json');

-- The last message of a key is its row, and a message without a value deletes it: customers move, and some leave.
CREATE STREAMING TABLE customers (id BIGINT, name STRING, country STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '$name.customers', 'format' = 'json', 'mode' = 'upsert', 'key' = 'id');
"""

_REVENUE = """\
-- Published, one message for each country that changes. When a customer moves, the orders move too.
CREATE MATERIALIZED VIEW revenue
  TBLPROPERTIES ('topic' = '$name.revenue', 'key' = 'country', 'mode' = 'upsert')
AS SELECT country, count(*) AS orders, sum(amount) AS total
FROM orders JOIN customers ON orders.customer = customers.id
GROUP BY country;
"""

_LARGE = """\
-- Published, one message for each large order. It never takes a row back, so it may append.
CREATE MATERIALIZED VIEW large_orders
  TBLPROPERTIES ('topic' = '$name.large_orders')
AS SELECT id, customer, amount FROM orders WHERE amount >= 95;
"""

_BEST = """\
-- Kept, and asked with: stepwell query "SELECT * FROM best_customers"
CREATE MATERIALIZED VIEW best_customers
AS SELECT customer, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY customer ORDER BY total DESC LIMIT 10;
"""

_MINUTES = '''\
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view
def orders_by_minute() -> DataFrame:
    """A view in Python. It has no topic: it is kept, and can be queried."""
    minute = F.date_trunc("minute", "placed").alias("minute")
    return spark.table("orders").groupBy(minute).agg(F.count("*").alias("orders"), F.sum("amount").alias("total"))
'''

_GENERATE = (
    '''\
"""Sends orders, and customers who move and leave: python generate.py [--count ORDERS] [--rate ORDERS_PER_SECOND]

Without --count it goes on until Ctrl-C.
"""

import argparse
import itertools
import json
import os
import random
import time
from pathlib import Path

import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic


'''
    + starter.CONNECT
    + """

COUNTRIES = ("Chile", "France", "India", "Kenya", "Norway")
CUSTOMERS = 50

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, help="orders; without it, until Ctrl-C")
parser.add_argument("--rate", type=float, default=100.0, help="orders per second without --count")
asked = parser.parse_args()

servers = broker_of_project()
make_topics(servers, ("$name.orders", "$name.customers"), partitions=2)
producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})


def customer(number, leaves=False):
    row = {"id": number, "name": f"Customer {number}", "country": random.choice(COUNTRIES)}
    producer.produce("$name.customers", None if leaves else json.dumps(row), json.dumps({"id": number}))


def order():
    row = {
        "id": random.getrandbits(40),
        "customer": random.randrange(CUSTOMERS),
        "amount": f"{random.uniform(1, 100):.2f}",
        "placed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    producer.produce("$name.orders", json.dumps(row))


for number in range(CUSTOMERS):
    customer(number)
sent = 0
try:
    for sent in itertools.count(1) if asked.count is None else range(1, asked.count + 1):
        order()
        if sent % 100 == 0:  # somebody moves, and now and then somebody leaves
            customer(random.randrange(CUSTOMERS), leaves=sent % 1000 == 0)
        producer.poll(0)
        if asked.count is None:
            time.sleep(1 / asked.rate)
except KeyboardInterrupt:
    pass
producer.flush()
print(f"sent {sent:,} orders to {servers}")
"""
)

_README = """\
# $name

A shop for Stepwell: `spark-pipeline.yml` names the pipeline, `transformations/` defines it, and `generate.py` sends orders and customers.

    stepwell dev up              # a local Kafka broker
    python generate.py           # in another terminal: 100 orders a second, until Ctrl-C
    stepwell run                 # keeps the views up to date, until Ctrl-C
    stepwell page                # what it does, in a browser
    stepwell status
    stepwell dev consume $name.revenue --follow
    stepwell checkpoint
    stepwell query "SELECT * FROM best_customers"

Change a view and run `stepwell plan` and `stepwell apply` while it runs. `stepwell graph --to graph.svg` draws the pipeline.
"""

FILES = {
    **starter.COMMON,
    "transformations/sources.sql": _SOURCES,
    "transformations/revenue.sql": _REVENUE,
    "transformations/large_orders.sql": _LARGE,
    "transformations/best_customers.sql": _BEST,
    "transformations/orders_by_minute.py": _MINUTES,
    "generate.py": _GENERATE,
    "README.md": _README,
}
