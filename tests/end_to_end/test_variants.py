"""A pipeline over JSON of any form: a VARIANT in sources, in views, between them and in outputs, whose messages are those of Spark's to_json."""

from __future__ import annotations

import json
from collections import Counter

from pyspark.sql import SparkSession

from tests.end_to_end.harness import Playground
from tests.end_to_end.threads import threads

SQL = """
CREATE STREAMING TABLE events (id BIGINT, payload VARIANT, texts ARRAY<VARIANT>)
  USING kafka TBLPROPERTIES ('subscribe' = '@events', 'on.error' = 'skip');
CREATE STREAMING TABLE users (id BIGINT, more VARIANT) USING kafka TBLPROPERTIES ('subscribe' = '@users', 'mode' = 'upsert', 'key' = 'id');

CREATE MATERIALIZED VIEW parsed AS SELECT id, payload, payload:user::BIGINT AS user, payload:items AS items FROM events;
CREATE MATERIALIZED VIEW passed TBLPROPERTIES ('topic' = '@passed') AS
  SELECT id, payload, struct(items AS inside, array(payload, NULL) AS list) AS nested FROM parsed;
CREATE MATERIALIZED VIEW joined TBLPROPERTIES ('topic' = '@joined', 'mode' = 'changelog') AS
  SELECT p.id, p.items, u.more FROM parsed p LEFT JOIN users u ON p.user = u.id;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'user') AS
  SELECT user, sum(try_variant_get(e, '$.price', 'decimal(12,2)')) AS total, count(e) AS n, max_by(payload, id) AS last
  FROM (SELECT user, id, payload, explode_outer(try_cast(items AS ARRAY<VARIANT>)) AS e FROM parsed) GROUP BY user;
CREATE MATERIALIZED VIEW texts TBLPROPERTIES ('topic' = '@texts') AS
  SELECT id, to_json(payload) AS j, t::STRING AS t FROM (SELECT id, payload, explode_outer(texts) AS t FROM events);
"""
PAYLOADS = [
    '{"user": 1, "items": [{"price": 1.50, "sku": "a"}, {"price": "2", "sku": null}, 5], '
    '"z": {"y": [1e3, 1.0, 12345678901234567890], "x": "é\\n"}}',
    '{"user": "2", "items": []}',
    '{"user": 1.0, "items": null}',
    "null",
    "[1, 2.0, true]",
    '"text"',
    "{'user': 3, 'items': [{'price': 7e0}, NaN]}",
]
MORE = '{"name": "Ada", "tags": [1, 1.0, 1e0]}'


def _messages() -> list[bytes]:
    rows = [f'{{"id":{i},"payload":{payload},"texts":[{payload},"x",null]}}' for i, payload in enumerate(PAYLOADS)]
    return [row.encode() for row in [*rows, '{"id":99}', '{"id":100,"payload":{"a":1,"a":2}}']]


def _expected(spark: SparkSession) -> dict[str, Counter[str]]:
    """What Spark answers: its own from_json of the messages, its own queries, and its own to_json of their rows."""
    session = spark.newSession()
    texts = [(message.decode(),) for message in _messages()[:-1]]
    read = session.createDataFrame(texts, "s string").selectExpr(
        "from_json(s, 'id BIGINT, payload VARIANT, texts ARRAY<VARIANT>', map('mode', 'FAILFAST')) AS r"
    )
    read.select("r.*").createOrReplaceTempView("events")
    users = session.createDataFrame([(f'{{"id":1,"more":{MORE}}}',)], "s string")
    users.selectExpr("from_json(s, 'id BIGINT, more VARIANT') AS r").select("r.*").createOrReplaceTempView("users")
    found: dict[str, Counter[str]] = {}
    for part in SQL.split("CREATE MATERIALIZED VIEW ")[1:]:
        name, query = part.split(" ", 1)[0], part.split(" AS\n", 1)[-1] if " AS\n" in part else part.split(" AS ", 1)[1]
        frame = session.sql(query.strip().rstrip(";"))
        frame.createOrReplaceTempView(name)
        rows = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS j").collect()
        found[name] = Counter(row.j for row in rows)
    return found


def _written(play: Playground, topic: str, mode: str) -> Counter[str]:
    messages = play.read(topic)
    if mode == "upsert":
        last = {message.key: message.value for message in messages}
        return Counter(value.decode() for value in last.values() if value is not None)
    if mode == "append":
        return Counter(message.value.decode() for message in messages if message.value is not None)
    counted: Counter[str] = Counter()
    for message in messages:
        text = (message.value or b"").decode()
        before, after = text.split('"before":', 1)[1].split(',"after":', 1)
        after = after.rsplit(',"op":', 1)[0]
        counted[before] -= before != "null"
        counted[after] += after != "null"
    return Counter({text: count for text, count in counted.items() if count})


def test_any_json_goes_through_a_pipeline_as_through_spark(play: Playground) -> None:
    for topic in ("events", "users"):
        play.topic(topic, 2)
    resolved = play.resolve({"views.sql": SQL})
    messages = _messages()
    play.send("events", messages[:3])
    play.run(resolved, threads())
    play.send("users", [(json.dumps({"id": 1}).encode(), f'{{"id":1,"more":{MORE}}}'.encode())])
    play.send("events", messages[3:])
    play.run(resolved, threads())
    expected = _expected(play.spark)
    modes = {"passed": "append", "joined": "changelog", "totals": "upsert", "texts": "append"}
    for name, mode in modes.items():
        assert _written(play, name, mode) == expected[name], name
    assert play.log(resolved).steps
