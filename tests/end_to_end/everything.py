"""A project with every supported operator, input and output, and input for it that inserts, corrects and deletes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.end_to_end.harness import Playground, Value

CUSTOMERS = "abcdefgh"
SKUS = ("bolt", "nut", "cog", "gear", "höhe")
ORDER_PARTITIONS = 3

FILES = {
    "sources.sql": """
CREATE STREAMING TABLE orders (
  id BIGINT, customer STRING, sku STRING, amount DECIMAL(10,2), weight DOUBLE, placed TIMESTAMP, day DATE,
  tags ARRAY<STRING>, place STRUCT<city: STRING, floor: INT>
) USING kafka TBLPROPERTIES ('subscribe' = '@orders');
CREATE STREAMING TABLE customers (customer STRING, name STRING, level INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@customers', 'mode' = 'upsert', 'key' = 'customer');
CREATE STREAMING TABLE stock (sku STRING, held INT, price DOUBLE)
  USING kafka TBLPROPERTIES ('subscribe' = '@stock', 'mode' = 'changelog', 'key' = 'sku');
CREATE STREAMING TABLE depots (sku STRING, depot CHAR(8))
  USING kafka TBLPROPERTIES ('subscribe' = '@depots', 'mode' = 'changelog', 'key' = 'sku');
CREATE STREAMING TABLE moves (customer STRING, sku STRING, n INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@moves', 'mode' = 'changelog');
CREATE STREAMING TABLE plain_moves (customer STRING, n INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@plain_moves', 'mode' = 'changelog');
""",
    "views.sql": """
CREATE MATERIALIZED VIEW enriched TBLPROPERTIES ('topic' = '@enriched', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, o.customer, name, sku, amount * 2 AS twice, placed, day, tags, place
  FROM orders o JOIN customers c ON o.customer = c.customer AND amount > level;
CREATE MATERIALIZED VIEW pairs TBLPROPERTIES ('topic' = '@pairs', 'mode' = 'append') AS
  SELECT x.id AS one, y.id AS other, x.weight + y.weight AS weight
  FROM orders x JOIN orders y ON x.sku = y.sku AND x.customer = y.customer AND x.id < y.id;
CREATE MATERIALIZED VIEW addressed TBLPROPERTIES ('topic' = '@addressed', 'mode' = 'changelog') AS
  SELECT id, o.customer, name, depot FROM orders o LEFT JOIN customers c ON o.customer = c.customer AND amount > level
  LEFT JOIN depots USING (sku);
CREATE MATERIALIZED VIEW movers TBLPROPERTIES ('topic' = '@movers', 'mode' = 'changelog') AS
  SELECT customer, sku, name, count(n) AS n FROM moves FULL JOIN customers USING (customer) GROUP BY customer, sku, name;
CREATE MATERIALIZED VIEW stocked TBLPROPERTIES ('topic' = '@stocked', 'mode' = 'changelog') AS
  SELECT id, sku FROM orders WHERE sku IN (SELECT sku FROM stock WHERE held > 3);
CREATE MATERIALIZED VIEW not_moved TBLPROPERTIES ('topic' = '@not_moved', 'mode' = 'changelog') AS
  SELECT id, customer FROM orders WHERE customer NOT IN (SELECT customer FROM moves WHERE n < 2);
CREATE MATERIALIZED VIEW not_known TBLPROPERTIES ('topic' = '@not_known', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, customer FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.customer = o.customer);
CREATE MATERIALIZED VIEW only_ordered TBLPROPERTIES ('topic' = '@only_ordered', 'mode' = 'changelog') AS
  SELECT customer, sku FROM orders EXCEPT SELECT customer, sku FROM moves;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'name') AS
  SELECT name, count(*) AS n, count(DISTINCT sku) AS skus, sum(amount) AS amount, avg(amount) AS mean_amount,
    min(amount) AS least, max(amount) AS most, sum(weight) AS weight, avg(weight) AS mean_weight,
    min(weight) AS lightest, max(weight) AS heaviest, min(sku) AS first_sku, max(sku) AS last_sku, max(day) AS last_day
  FROM orders JOIN customers USING (customer) GROUP BY name;
CREATE MATERIALIZED VIEW overall TBLPROPERTIES ('topic' = '@overall', 'mode' = 'changelog') AS
  SELECT count(*) AS n, sum(n) AS total, avg(n) AS mean, max(customer) AS last FROM moves;
CREATE MATERIALIZED VIEW nothing TBLPROPERTIES ('topic' = '@nothing', 'mode' = 'changelog') AS
  SELECT count(*) AS n, sum(held) AS held FROM stock WHERE held > 1000000;
CREATE MATERIALIZED VIEW skus TBLPROPERTIES ('topic' = '@skus', 'mode' = 'append') AS SELECT DISTINCT sku FROM orders;
CREATE MATERIALIZED VIEW everybody TBLPROPERTIES ('topic' = '@everybody', 'mode' = 'changelog') AS
  SELECT customer AS who, 1 AS origin FROM customers UNION ALL SELECT customer, 2 FROM plain_moves
  UNION ALL SELECT * FROM VALUES ('nobody', 3), (NULL, 4);
CREATE MATERIALIZED VIEW big_spenders TBLPROPERTIES ('topic' = '@big_spenders', 'mode' = 'upsert', 'key' = 'name') AS
  SELECT name, n, amount / n AS share FROM totals WHERE n > 2;
CREATE MATERIALIZED VIEW dearest TBLPROPERTIES ('topic' = '@dearest', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, sku, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 9 OFFSET 2;
CREATE MATERIALIZED VIEW levels TBLPROPERTIES ('topic' = '@levels', 'mode' = 'upsert', 'key' = 'skus') AS
  SELECT skus, count(*) AS names, max(most) AS most FROM totals GROUP BY skus;
CREATE MATERIALIZED VIEW placed_last TBLPROPERTIES ('topic' = '@placed_last', 'mode' = 'changelog') AS
  SELECT id, customer, row_number() OVER (PARTITION BY customer ORDER BY placed DESC, id) AS place,
    sum(weight) OVER (PARTITION BY customer ORDER BY placed, id ROWS 2 PRECEDING) AS recent, count(*) OVER (PARTITION BY sku) AS of_sku
  FROM orders;
CREATE MATERIALIZED VIEW followed (first CHAR(3), last VARCHAR(5), age INTERVAL YEAR TO MONTH, depth INT)
  TBLPROPERTIES ('topic' = '@followed', 'mode' = 'changelog') AS
  WITH RECURSIVE chain(first, last, level, depth) AS (
    SELECT customer, customer, level, 0 FROM customers UNION ALL
    SELECT chain.first, c.customer, c.level, depth + 1 FROM chain JOIN customers c ON c.level > chain.level WHERE depth < 2
  ) SELECT first, last, make_ym_interval(level, depth) AS age, depth FROM chain;
CREATE MATERIALIZED VIEW dear TBLPROPERTIES ('topic' = '@dear', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, amount - (SELECT avg(n) FROM moves) AS more FROM orders
  WHERE amount > (SELECT avg(amount) FROM orders) AND NOT EXISTS (SELECT 1 FROM stock WHERE held > 1000000);
CREATE MATERIALIZED VIEW not_moved_as_often TBLPROPERTIES ('topic' = '@not_moved_as_often', 'mode' = 'changelog') AS
  SELECT customer, sku FROM orders EXCEPT ALL SELECT customer, sku FROM moves;
CREATE STREAMING TABLE light TBLPROPERTIES ('topic' = '@light', 'mode' = 'changelog') AS
  SELECT id, weight FROM STREAM(orders) WHERE weight <= (SELECT max(weight) / 2 FROM orders);
""",
    "views.py": """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@@dp.temporary_view
def held():
    return spark.table("stock").join(spark.table("depots"), "sku")


@@dp.materialized_view(table_properties={"topic": "@by_depot", "mode": "upsert", "key": "depot"})
def by_depot():
    return spark.table("held").groupBy("depot").agg(F.sum("held").alias("held"), F.max("price").alias("price"))


@@dp.table(table_properties={"topic": "@seen", "mode": "append"})
def seen():
    return spark.readStream.table("orders").dropDuplicates(["customer"]).select("customer")


@@dp.temporary_view
def known_orders():
    return spark.readStream.table("orders").where("customer IS NOT NULL AND sku IS NOT NULL")


dp.create_streaming_table("latest", table_properties={"topic": "@latest", "mode": "upsert", "key": "customer"})
dp.create_auto_cdc_flow(
    "latest", "known_orders", ["customer"], "struct(placed, id)", apply_as_deletes="amount < 0", except_column_list=["weight"]
)
dp.create_streaming_table("sku_history", table_properties={"topic": "@sku_history", "mode": "changelog"})
dp.create_auto_cdc_flow(
    "sku_history", "known_orders", ["sku"], "id", apply_as_deletes="amount < 0", column_list=["sku", "customer", "amount"],
    stored_as_scd_type=2, track_history_column_list=["customer"],
)


dp.create_sink("heavy", "kafka", {"topic": "@heavy"})


@@dp.append_flow(target="heavy")
def heavy_orders():
    return spark.readStream.table("orders").where("weight > 50").select("id", "weight")
""",
}

TOPICS = {"orders": ORDER_PARTITIONS, "customers": 2, "stock": 1, "depots": 1, "moves": 2, "plain_moves": 1}


ORDERS_SOURCE = "('subscribe' = '@orders')"

RETRACTABLE = {
    "sources.sql": FILES["sources.sql"].replace(ORDERS_SOURCE, "('subscribe' = '@orders', 'mode' = 'changelog')"),
    "views.sql": FILES["views.sql"].replace("'mode' = 'append'", "'mode' = 'changelog'"),
    "views.py": FILES["views.py"]
    .replace('"mode": "append"', '"mode": "changelog"')
    .replace('{"topic": "@heavy"}', '{"topic": "@heavy", "mode": "changelog"}'),
}
"""The same over orders that can be taken back, and so may every view."""

STATELESS = ("orders", "moves", "plain_moves")
"""Changelogs without a key in RETRACTABLE: what is in them is the sum of their images."""


def make_topics(play: Playground) -> None:
    for name, partitions in TOPICS.items():
        play.topic(name, partitions)


def send(play: Playground, seed: int, orders: int = 60, *, retractable: bool = False) -> None:
    """One more round of input; another seed gives another one, over the same keys."""
    r = random.Random(seed)
    for partition in range(ORDER_PARTITIONS):
        rows = [_order(r, seed) for _ in range(orders // ORDER_PARTITIONS)]
        changes = [{"before": None, "after": row, "op": "c"} for row in rows]
        play.send("orders", changes if retractable else rows, partition)
    for partition in (0, 1):  # one key, one partition
        mine = [c for i, c in enumerate(CUSTOMERS) if i % 2 == partition]
        play.send("customers", [_customer(r, r.choice(mine)) for _ in range(12)], partition)
        play.send("moves", _wrapped(_moves(r, 10)), partition)
    play.send("plain_moves", [{"before": b, "after": a, "op": op} for b, a, op in _plain_moves(r, 8)])
    play.send("stock", _keyed_changes(r, lambda s: {"sku": s, "held": r.randint(0, 9), "price": r.random() * 10}))
    play.send("depots", _wrapped(_keyed_changes(r, lambda s: {"sku": s, "depot": r.choice("NS")})))


def take_back(play: Playground) -> None:
    """Everything that was sent for RETRACTABLE: then there is no row in any table."""
    for name in STATELESS:
        for partition in range(TOPICS[name]):
            live: Counter[str] = Counter()
            for message in play.read(name):
                if message.partition == partition and message.value is not None:
                    change = json.loads(message.value)
                    change = change.get("payload", change)
                    live.update([json.dumps(change["after"])] if change["after"] else [])
                    live.subtract([json.dumps(change["before"])] if change["before"] else [])
            # Another partition may have taken the row away: then it is added here.
            gone = [(None, {"before": json.loads(row), "after": None, "op": "d"}) for row in (+live).elements()]
            back = [(None, {"before": None, "after": json.loads(row), "op": "c"}) for row in (-live).elements()]
            play.send(name, _wrapped([*back, *gone]) if name == "moves" else [*back, *gone], partition)
    for partition in (0, 1):
        play.send("customers", [({"customer": c}, None) for c in CUSTOMERS[partition::2]], partition)
    deleted = [({"sku": sku}, {"before": None, "after": None, "op": "d"}) for sku in SKUS]
    play.send("stock", deleted)
    play.send("depots", [({"sku": sku}, None) for sku in SKUS])


def _order(r: random.Random, seed: int) -> Value:
    return {
        "id": seed * 1_000_000 + r.randrange(10**6),
        "customer": r.choice([*CUSTOMERS, "x", None]),
        "sku": r.choice([*SKUS, None]),
        "amount": r.choice([None, round(r.random() * 100, 2), -1.5, 10]),
        "weight": r.choice([None, r.random() * 100, -0.0, 1e300 * r.random(), 0.1]),
        "placed": f"2026-03-{r.randint(1, 28):02d}T0{r.randint(0, 9)}:15:00.{r.randint(0, 999):03d}Z",
        "day": f"2026-0{r.randint(1, 9)}-11",
        "tags": r.choice([None, [], ["a", None, 'q"ö']]),
        "place": r.choice([None, {"city": "Ulm", "floor": None}, {"city": "Köln", "floor": 2}]),
    }


def _customer(r: random.Random, customer: str) -> tuple[Value, Value]:
    row = {"customer": customer, "name": f"{r.choice(['Ann', 'Bo', 'Cy'])} {customer}", "level": r.randint(0, 60)}
    return {"customer": customer}, r.choice([row, row, row, None])


def _moves(r: random.Random, count: int) -> list[tuple[Value, Value]]:
    """Inserts, updates and deletes of rows without a key, each with its `before`. A null, which empties every NOT IN, comes and goes."""
    live: list[dict[str, Any]] = []
    unnamed = {"customer": None, "sku": "nut", "n": 1}
    changes: list[tuple[Value, Value]] = [(None, {"before": None, "after": unnamed, "op": "c"})]
    for _ in range(count):
        row = {"customer": r.choice(CUSTOMERS), "sku": r.choice(SKUS), "n": r.choice([None, r.randint(0, 9)])}
        if live and r.random() < 0.5:
            before = live.pop(r.randrange(len(live)))
            if r.random() < 0.5:
                changes += [(None, {"before": before, "after": None, "op": "d"}), (None, None)]
                continue
            changes.append((None, {"before": before, "after": row, "op": "u"}))
        else:
            changes.append((None, {"before": None, "after": row, "op": r.choice("cr")}))
        live.append(row)
    return [*changes, (None, {"before": unnamed, "after": None, "op": "d"}), (None, None)]


def _plain_moves(r: random.Random, count: int) -> list[tuple[Value, Value, str]]:
    rows = [{"customer": r.choice(CUSTOMERS), "n": r.randint(0, 9)} for _ in range(count)]
    changes: list[tuple[Value, Value, str]] = [(None, row, "c") for row in rows]
    return [*changes, (rows[0], None, "d"), (rows[1], {"customer": "a", "n": 1}, "u")]


def _keyed_changes(r: random.Random, row: Any) -> list[tuple[Value, Value]]:
    """Debezium's usual way: a delete is followed by a tombstone; `before` may be missing; snapshots repeat."""
    changes: list[tuple[Value, Value]] = []
    for _ in range(12):
        sku = r.choice(SKUS)
        new = row(sku)
        match r.choice("crud"):
            case "d":
                changes += [({"sku": sku}, {"before": new, "after": None, "op": "d"}), ({"sku": sku}, None)]
            case "u":
                changes.append(({"sku": sku}, {"before": r.choice([None, row(sku)]), "after": new, "op": "u"}))
            case op:
                changes += [({"sku": sku}, {"before": None, "after": new, "op": op})] * 2
    return changes


_KINDS = {"n": "int32"}


def _wrapped(changes: Sequence[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """With the schema beside the payload, in value and key."""
    return [(_envelope_key(key), _envelope(value)) for key, value in changes]


def _envelope(value: Value) -> Value:
    if value is None:
        return None
    assert isinstance(value, dict)
    image = value["after"] or value["before"]
    fields = [{"field": name, "type": _KINDS.get(name, "string"), "optional": True} for name in image]
    images = [{"field": f, "type": "struct", "optional": True, "fields": fields} for f in ("before", "after")]
    op = {"field": "op", "type": "string", "optional": False}
    return {"schema": {"type": "struct", "optional": False, "fields": [*images, op]}, "payload": value}


def _envelope_key(key: Value) -> Value:
    if key is None:
        return None
    assert isinstance(key, dict)
    fields = [{"field": name, "type": "string", "optional": False} for name in key]
    return {"schema": {"type": "struct", "optional": False, "fields": fields}, "payload": key}
