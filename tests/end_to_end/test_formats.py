"""Pipelines over messages in other formats than JSON: the batch answer, for any number of workers and after crashes."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from coordinator.revisions.planned import plan_change
from coordinator.revisions.requests import TransitionRefused
from engine.errors import DataError
from faults.points import Crash, CrashOrder, arm
from io_kafka.errors import RegistryUnreachable, SchemaGone
from io_kafka.formats.avro import read as read_avro
from io_kafka.registry import client
from io_kafka.step_log.output_progress import DigestMismatch
from stepwell.inspection.recorded_revision import read_recorded
from stepwell.planning.revisions import document_of_project
from storage.database import Database
from tests.end_to_end import formats
from tests.end_to_end.harness import Playground, Resolved, renamed
from tests.end_to_end.test_placement import contents, crash_and_replay
from tests.end_to_end.threads import threads
from tests.io_kafka.formats import avro_messages as a
from tests.io_kafka.formats import connect_table as c
from tests.io_kafka.formats import protobuf_messages as p
from tests.schema_registry import SchemaRegistry, schema_registry

WORKERS = (1, 3)
AUTH = "pipeline:a secret"


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry(AUTH) as found:
        yield found


AVRO = """
CREATE STREAMING TABLE orders (id BIGINT NOT NULL, customer INT, price DECIMAL(9, 2), at TIMESTAMP,
  lines ARRAY<STRUCT<sku: STRING, n: INT>>, part INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'format' = 'avro', 'on.error' = 'skip', 'metadata.partition' = 'part');
CREATE STREAMING TABLE customers (id INT, name STRING, since DATE) USING kafka
  TBLPROPERTIES ('subscribe' = '@customers', 'format' = 'avro', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE stock (sku STRING, n BIGINT) USING kafka
  TBLPROPERTIES ('subscribe' = '@stock', 'format' = 'avro', 'mode' = 'changelog', 'key' = 'sku', 'key.format' = 'string');
CREATE STREAMING TABLE readings (n BIGINT, at DATE, note STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@readings', 'format' = 'csv', 'csv.sep' = ';', 'on.error' = 'skip');
CREATE STREAMING TABLE notes (id BIGINT, text STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@notes', 'format' = 'text', 'mode' = 'upsert', 'key' = 'id', 'key.format' = 'long');
CREATE STREAMING TABLE payments (id BIGINT, cents BIGINT NOT NULL, at TIMESTAMP, parts ARRAY<INT>) USING kafka TBLPROPERTIES
  ('subscribe' = '@payments', 'format' = 'protobuf', 'emit.default.values' = 'true', 'on.error' = 'skip');
CREATE STREAMING TABLE visits (id BIGINT NOT NULL, guest INT, at TIMESTAMP, booked TIMESTAMP, spent DECIMAL(9, 2), days ARRAY<DATE>) USING kafka
  TBLPROPERTIES ('subscribe' = '@visits', 'timestampFormat' = 'dd.MM.yyyy HH:mm', 'on.error' = 'skip');
CREATE STREAMING TABLE guests (id INT, name STRING, born DATE) USING kafka
  TBLPROPERTIES ('subscribe' = '@guests', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE rooms (room INT, price STRING, since TIMESTAMP) USING kafka
  TBLPROPERTIES ('subscribe' = '@rooms', 'mode' = 'changelog', 'key' = 'room');

CREATE MATERIALIZED VIEW stays TBLPROPERTIES ('topic' = '@stays', 'mode' = 'changelog') AS
  SELECT v.id, name, born, unix_micros(at) AS at, booked, spent, days, price, since FROM visits v
  LEFT JOIN guests g ON v.guest = g.id LEFT JOIN rooms r ON v.guest = r.room;
CREATE MATERIALIZED VIEW paid TBLPROPERTIES
  ('topic' = '@paid', 'format' = 'protobuf', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, sum(cents) AS cents, max(at) AS last, sum(size(parts)) AS parts FROM payments GROUP BY id;
CREATE MATERIALIZED VIEW noted TBLPROPERTIES ('topic' = '@noted', 'format' = 'protobuf', 'mode' = 'changelog') AS
  SELECT n, at, note, text FROM readings JOIN notes ON n = id;
CREATE MATERIALIZED VIEW echoed TBLPROPERTIES ('topic' = '@echoed', 'format' = 'csv', 'csv.sep' = ';') AS
  SELECT n + 1 AS n, at, note FROM readings;
CREATE MATERIALIZED VIEW shouted TBLPROPERTIES
  ('topic' = '@shouted', 'format' = 'text', 'mode' = 'upsert', 'key' = 'id', 'key.format' = 'long') AS
  SELECT upper(text) AS text, id FROM notes;
CREATE MATERIALIZED VIEW lines TBLPROPERTIES ('topic' = '@lines', 'format' = 'avro') AS
  SELECT id, at, part, line.sku, line.n FROM (SELECT id, at, part, explode(lines) AS line FROM orders);
CREATE MATERIALIZED VIEW spent TBLPROPERTIES ('topic' = '@spent', 'format' = 'avro', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT c.id, c.name, c.since, sum(o.price) AS total, max(o.at) AS last, collect_set(o.part) AS parts
  FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id, c.name, c.since;
CREATE MATERIALIZED VIEW low TBLPROPERTIES ('topic' = '@low', 'format' = 'avro', 'mode' = 'changelog') AS
  SELECT sku, n, CAST(n AS DOUBLE) / 3 AS third FROM stock WHERE n < 10;
"""

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LINES = {"type": "array", "items": a.record(("sku", "string"), ("n", "int"), name="Line")}
ORDER = a.record(("id", "int"), ("price", MONEY), ("customer", "int"), ("at", MILLIS), ("lines", LINES), name="Order")
LATER_ORDER = a.record(
    ("id", "long"),
    ("note", "string"),
    ("lines", ["null", LINES]),
    ("customer", ["null", "int"]),
    ("price", ["null", MONEY]),
    name="Order",
)
CUSTOMER = a.record(("id", "int"), ("name", "string"), ("since", ["null", {"type": "int", "logicalType": "date"}]))
KEY = a.record(("id", "int"), name="Key")
STOCK = a.record(
    ("before", ["null", a.record(("sku", "string"), ("n", "int"), name="Value")]),
    ("after", ["null", "Value"]),
    ("op", "string"),
)


def send_avro(play: Playground, registry: SchemaRegistry, first: int) -> None:
    at = datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    lines = [{"sku": f"s{n}", "n": n} for n in range(3)]
    orders: list[Any] = [
        {"id": first + n, "price": Decimal(n) / 4, "customer": n % 3, "at": at.replace(minute=n), "lines": lines[:n]} for n in range(4)
    ]  # fmt: skip
    later: list[Any] = [{"id": 10**10 + first, "note": "", "lines": lines, "customer": None, "price": None},
                        {"id": first, "note": "x", "lines": None, "customer": 1, "price": Decimal("-2.50")}]  # fmt: skip
    play.send("orders", a.written(registry, ORDER, orders), 0)
    play.send(
        "orders",
        [
            *a.written(registry, LATER_ORDER, later),
            b"no Avro",
            a.framed(1, b""),
            *a.written(registry, ORDER, orders[:1]),
        ],
        1,
    )
    for number in range(3):
        key = a.written(registry, KEY, [{"id": number}])[0]
        value = a.written(registry, CUSTOMER, [{"id": number, "name": f"c{first}", "since": at.date() if first else None}])[0]  # fmt: skip
        play.send("customers", [(key, None if first and number == 2 else value)], number % 2)
    changes = [
        ("c", None, {"sku": "s1", "n": 5}),
        ("u", {"sku": "s1", "n": 5}, {"sku": "s1", "n": 5 + first}),
        ("r", None, {"sku": "s2", "n": first}),
    ]
    if first:
        changes.append(("d", {"sku": "s2", "n": 0}, None))
    rows = [{"op": op, "before": before, "after": after} for op, before, after in changes]
    keys = [((before or after or {})["sku"]) for _, before, after in changes]
    play.send("stock", list(zip(keys, a.written(registry, STOCK, rows), strict=True)), 0)


def send_texts(play: Playground, first: int) -> None:
    lines: list[bytes | str] = [f"{n};2024-01-{n + 1:02d};a{first}" for n in range(5)]
    play.send("readings", [*lines, '1;2024-01-09;"with ; and \\""', "x;2024-01-01;", b"\xff;;", "2;;"], 0)
    notes = [((n).to_bytes(8, "big"), None if first and n == 1 else f"{n} é {first}") for n in range(3)]
    play.send("notes", notes, 0)


def connected(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True} | ({"name": name} if name else {}) | more


TEXT, INT, DAY = connected("string"), connected("int32"), connected("int32", c.T + "Date")
CENTS = connected("bytes", c.C + "Decimal", parameters={"scale": "2"})
VISIT = c.row_schema(
    id=connected("int64"), guest=INT, at=connected("int64", c.T + "MicroTimestamp"), booked=TEXT, spent=CENTS, days=connected("array", items=DAY)
)  # fmt: skip
GUEST, GUEST_KEY = c.row_schema(id=INT, name=TEXT, born=DAY), c.row_schema(id=INT)
ROOM, ROOM_KEY = (
    c.row_schema(room=INT, price=CENTS, since=connected("int64", c.C + "Timestamp")),
    c.row_schema(room=INT),
)
ROOM_CHANGE = c.row_schema(before=ROOM, after=ROOM, op=TEXT)


def send_connected(play: Playground, first: int) -> None:
    """Rows, upserts and changes in Connect's wrapper, with a schema and without; and plain ones among them."""
    at = 1_704_164_645_123_456
    visits: list[Any] = [
        {"id": first + n, "guest": n, "at": at + n, "booked": f"0{n + 1}.02.2024 03:04", "spent": c.unscaled(n * 125 - 50),
         "days": [n, None, -n]}
        for n in range(4)
    ]  # fmt: skip
    bad = [visits[0] | {"booked": "2024-02-01 03:04"}, visits[0] | {"spent": "*"}]
    plain = {
        "id": first + 9,
        "guest": 1,
        "at": "03.02.2024 04:05",
        "booked": None,
        "spent": 7.5,
        "days": ["2024-01-02"],
    }
    payload_first = json.dumps({"payload": visits[3], "schema": VISIT})
    values = [
        *(c.wrapped(VISIT, each) for each in [*visits[:3], *bad, None]),
        payload_first,
        plain,
        c.wrapped(None, plain | {"id": first + 10}),
    ]
    play.send("visits", values, 0)
    for number in range(3):
        guest = {"id": number, "name": f"g{first}", "born": None if number else 7_000 + first}
        gone = bool(first) and number == 2
        value = c.wrapped(
            GUEST if number else None, None if gone else guest if number else guest | {"born": "1989-03-01"}
        )
        play.send("guests", [(c.wrapped(GUEST_KEY, {"id": number}), value)], number % 2)

    def room(number: int, price: int) -> dict[str, Any]:
        return {"room": number, "price": c.unscaled(price), "since": at // 1000}

    changes = [
        ("c", None, room(1, 500 + first)),
        ("u", room(1, 500 + first), room(1, 600 + first)),
        ("r", None, room(2, -7)),
    ]
    changes += [("d", room(2, 0), None)] if first else []
    messages: list[tuple[Any, Any]] = [
        (c.wrapped(ROOM_KEY, {"room": (before or after or {})["room"]}), c.wrapped(ROOM_CHANGE, {"before": before, "after": after, "op": op}))
        for op, before, after in changes
    ]  # fmt: skip
    messages.append(
        (c.wrapped(INT, 2), c.wrapped(None, None))
        if first
        else (c.wrapped(INT, 3), c.wrapped(None, {"after": {"room": 3}, "op": "c"}))
    )
    play.send("rooms", messages, 0)


PAYMENT = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Head { string s = 1; }
message Payment { int64 id = 1; sint64 cents = 2; google.protobuf.Timestamp at = 3; repeated int32 parts = 4; bool paid = 5; }
"""


def send_payments(play: Playground, registry: SchemaRegistry, first: int) -> None:
    number, payment = registry.add("payments", PAYMENT, "PROTOBUF"), p.classes(PAYMENT)("Payment")
    messages = []
    for n in range(5):
        message = payment(id=n % 3, cents=(n - 2) * 100, parts=range(n))
        message.at.FromMicroseconds(1_700_000_000_123_456 + first + n)
        messages.append(p.framed(number, message.SerializeToString(), 1))
    play.send("payments", [*messages, p.framed(number, b"\x08", 1), b"no Protobuf"], 0)


def of_payment(message: bytes) -> bytes | None:
    try:
        payment = p.classes(PAYMENT)("Payment").FromString(message[7:])
    except DecodeError:
        return None
    row = {"id": payment.id, "cents": payment.cents, "at": payment.at.ToJsonString(), "parts": list(payment.parts)}
    return json.dumps(row).encode() if message[:1] == b"\x00" else None


def of_csv(message: bytes) -> bytes | None:
    """Of the messages of `send_texts`."""
    try:
        reader = csv.reader([message.decode()], delimiter=";", escapechar="\\", doublequote=False, strict=True)
        number, at, note = next(reader)
        return json.dumps({"n": int(number), "at": at or None, "note": note or None}).encode()
    except (ValueError, csv.Error):
        return None


def of_note(message: bytes) -> bytes:
    return json.dumps({"id": int(message.split()[0]), "text": message.decode()}).encode()


def conf(registry: SchemaRegistry, **more: Any) -> dict[str, Any]:
    return {"stepwell.registry.url": registry.url + "/", "stepwell.registry.auth": AUTH} | more


@pytest.mark.long
def test_every_format_from_end_to_end(play: Playground, registry: SchemaRegistry) -> None:
    for name, partitions in (
        ("orders", 2),
        ("customers", 2),
        ("stock", 1),
        ("readings", 1),
        ("notes", 1),
        ("payments", 1),
        ("visits", 1),
        ("guests", 2),
        ("rooms", 1),
    ):
        play.topic(name, partitions)
    resolved = play.resolve({"a.sql": AVRO}, conf(registry, **{"stepwell.step.rows.max": 5, "stepwell.workers": 1}))
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, *(renamed(resolved, f"-w{workers}", workers) for workers in WORKERS[1:])]
    send_avro(play, registry, 0)
    send_texts(play, 0)
    send_payments(play, registry, 0)
    send_connected(play, 0)
    for run in runs:
        crash_and_replay(play, run, in_threads=True)
    send_avro(play, registry, 4)  # for a run that begins with a checkpoint
    send_texts(play, 4)
    send_payments(play, registry, 4)
    send_connected(play, 4)
    for run in runs:
        play.run(run, threads())
    read = formats.of_avro(registry)
    by_topic: dict[str, formats.AsJson] = {
        "orders": read, "customers": read, "stock": read, "readings": of_csv, "notes": of_note, "payments": of_payment,
        **dict.fromkeys(("visits", "guests", "rooms"), formats.of_connect),
    }  # fmt: skip
    keys: dict[str, formats.AsJson] = {
        "customers": read, "stock": lambda key: b'"%s"' % key, "notes": lambda key: b"%d" % int.from_bytes(key, "big"),
        **dict.fromkeys(("guests", "rooms"), formats.of_connect),
    }  # fmt: skip
    of_views: dict[str, formats.AsJson] = {
        "lines": read, "spent": read, "low": read, "paid": formats.of_protobuf(registry), "noted": formats.of_protobuf(registry),
        "echoed": of_csv, "shouted": of_note, "stays": bytes,
    }  # fmt: skip
    rows = formats.check(play, resolved, by_topic, keys, of_views)
    assert {m.key for m in play.read("shouted")} == {n.to_bytes(8, "big") for n in range(3)}
    assert rows == {"stays": 12, "paid": 3, "noted": 6, "echoed": 14, "shouted": 2, "lines": 18, "spent": 2, "low": 1}
    for other in runs[1:]:
        assert contents(play, other) == contents(play, resolved), f"{other.spec.workers} workers"
    subjects = {
        play.prefix + name
        for name in ("lines-value", "spent-value", "spent-key", "low-value", "paid-value", "paid-key")
    }
    assert subjects <= registry.subjects.keys() and f"{play.prefix}low-key" not in registry.subjects
    assert {m.key[:5] for m in play.read("spent") if m.key} == {a.framed(registry.subjects[f"{play.prefix}spent-key"][0], b"")}  # fmt: skip


ONE = """
CREATE STREAMING TABLE t (id BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@in', 'format' = 'avro');
CREATE MATERIALIZED VIEW v TBLPROPERTIES ('topic' = '@out', 'format' = 'FORMAT', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT DISTINCT id FROM t;
"""


def test_a_message_that_is_no_avro_stops_the_pipeline(play: Playground, registry: SchemaRegistry) -> None:
    play.topic("in")
    play.send("in", [*a.written(registry, KEY, [{"id": 1}]), a.framed(4, b"\x02")])
    resolved = play.resolve({"a.sql": ONE.replace("FORMAT", "avro")}, conf(registry))
    message = rf"source t, topic {play.prefix}in, partition 0, offset 1, step 0: malformed message: schema id 4 is not in the registry"
    with pytest.raises(DataError, match=message):
        play.run(resolved, threads())
    assert play.read("out") == []


@pytest.mark.parametrize("status", [503, 404])
def test_a_registry_that_is_gone_stops_the_pipeline_and_a_later_run_goes_on(
    play: Playground, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Also if messages without a schema are left out, and a proxy answers 404 in its place: nothing is lost."""
    monkeypatch.setattr(client, "RETRY_SECONDS_MAX", 0.3)
    play.topic("in")
    play.send("in", a.written(registry, a.record(("id", "int"), name=f"New{status}"), [{"id": 1}]))
    text = ONE.replace("FORMAT", "json").replace("'format' = 'avro'", "'format' = 'avro', 'on.error' = 'skip'")
    resolved = play.resolve({"a.sql": text}, conf(registry))
    registry.instead = status, b"no backend", {}
    place = rf"source t, topic {play.prefix}in, from partition 0, offset 0 on, step 0: the schema registry .* gives no answer"
    with pytest.raises(RegistryUnreachable, match=place):
        play.run(resolved, threads())
    registry.instead = None
    play.run(resolved, threads())
    assert [message.value for message in play.read("out")] == [b'{"id":1}']


def test_another_schema_id_in_a_replay_is_noticed(play: Playground, registry: SchemaRegistry) -> None:
    """As after the loss of a registry, which then gives another id."""
    play.topic("in")
    play.send("in", a.written(registry, KEY, [{"id": 1}]))
    resolved = play.resolve({"a.sql": ONE.replace("FORMAT", "avro")}, conf(registry))
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    with arm(CrashOrder("output.committed", "raise")), pytest.raises(Crash):
        play.run(resolved, threads())
    Database.close_all()
    text = registry.schemas[registry.subjects[f"{play.prefix}out-value"][0]]["schema"]
    registry.ids[f"AVRO {text} ()"] = 7
    client.registry_at.cache_clear()
    with pytest.raises(DigestMismatch, match="output 'v' partition"):
        play.run(resolved, threads())


def another_process() -> None:
    """Forgets what this process knows of registries and their schemas."""
    client.registry_at.cache_clear()
    read_avro._columns.cache_clear()
    Database.close_all()


def rows_of(play: Playground, view: str) -> Counter[bytes | None]:
    return Counter(message.value for message in play.read(view))


LEAVES_OUT = ["'on.error' = 'skip'", "'on.error' = 'dead-letter', 'dead.letter.topic' = '@dead'"]


def leave_out_unknown(
    play: Playground, registry: SchemaRegistry, policy: str, name: str
) -> tuple[Resolved, dict[str, list[bytes]], int]:
    """(a pipeline that leaves messages out, the messages of a known schema and of another one, the id of the other one)."""
    play.topic("in", 3)
    text = ONE.replace("FORMAT", "json").replace("'format' = 'avro'", f"'format' = 'avro', {policy}")
    resolved = play.resolve({"a.sql": text}, conf(registry, **{"stepwell.workers": 1}))
    known, late = (
        a.written(registry, a.record(("id", "int"), name=name + kind), [{"id": first + i} for i in range(4)])
        for kind, first in (("Known", 0), ("Late", 100))
    )
    messages = {"known": known, "late": late}
    return (
        replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0)),
        messages,
        int.from_bytes(late[0][1:5], "big"),
    )


@pytest.mark.parametrize("policy", LEAVES_OUT, ids=["skip", "dead-letter"])
def test_a_replay_leaves_out_what_was_left_out_although_the_registry_knows_its_schema_by_now(
    play: Playground, registry: SchemaRegistry, policy: str
) -> None:
    """With another number of workers, too. What comes later is read."""
    resolved, messages, number = leave_out_unknown(play, registry, policy, f"Learns{len(policy)}")
    schema = registry.schemas.pop(number)
    for partition in range(3):
        play.send("in", [*messages["known"][partition:], b"rubbish", messages["late"][partition]], partition)
    with arm(CrashOrder("output.committed", "raise")), pytest.raises(Crash):
        play.run(resolved, threads())
    there, letters = rows_of(play, "out"), play.read("dead") if "dead" in policy else []
    assert len(there) == 4 and len(letters) in (0, 6)
    registry.schemas[number] = schema
    another_process()
    play.send("in", messages["late"][3:], 0)
    status = play.run(replace(resolved, spec=replace(resolved.spec, workers_now=2)), threads())
    assert (status["steps_replayed"], status["skipped"]) == (1, {"t": 6})
    assert rows_of(play, "out") == there + Counter([b'{"id":103}'])
    assert not letters or play.read("dead") == letters


@pytest.mark.parametrize("policy", LEAVES_OUT, ids=["skip", "dead-letter"])
def test_a_replay_stops_where_the_registry_has_lost_a_schema_and_goes_on_when_it_has_it_again(
    play: Playground, registry: SchemaRegistry, policy: str
) -> None:
    resolved, messages, number = leave_out_unknown(play, registry, policy, f"Loses{len(policy)}")
    play.send("in", [b"rubbish", *messages["known"], *messages["late"]], 1)
    with arm(CrashOrder("output.committed", "raise")), pytest.raises(Crash):
        play.run(resolved, threads())
    there = rows_of(play, "out")
    assert len(there) == 8
    schema = registry.schemas.pop(number)
    another_process()
    place = rf"source t, topic {play.prefix}in, partition 1, offset 5, step 0: the schema registry .* looking up schema id {number}"
    with pytest.raises(SchemaGone, match=place):
        play.run(resolved, threads())
    assert rows_of(play, "out") == there
    registry.schemas[number] = schema
    another_process()
    assert play.run(resolved, threads())["steps_replayed"] == 1
    assert rows_of(play, "out") == there


PRICED = """
CREATE STREAMING TABLE guests (id INT, name STRING, born DATE) USING kafka
  TBLPROPERTIES ('subscribe' = '@guests', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW years TBLPROPERTIES
  ('topic' = '@years', 'mode' = 'upsert', 'key' = 'year', 'format' = 'avro') AS
  SELECT year(born) AS year, {column} FROM guests GROUP BY year(born);
CREATE MATERIALIZED VIEW names TBLPROPERTIES ('topic' = '@names', 'mode' = 'changelog', 'format' = 'avro') AS SELECT name FROM guests;
"""


def test_a_schema_that_the_registry_refuses_is_refused_before_anything_is_recorded(
    play: Playground, registry: SchemaRegistry
) -> None:
    """By the plan, which registers nothing, and by the service. A column may be added where the registry takes it."""
    play.topic("guests", 1)
    play.send(
        "guests", [(f'{{"id": {i}}}', f'{{"id": {i}, "name": "n{i}", "born": "200{i % 4}-01-01"}}') for i in range(9)]
    )
    files, now = ({"a.sql": PRICED.format(column=text)} for text in ("count(*) AS n", "CAST(count(*) AS STRING) AS n"))
    resolved = play.resolve(files, conf(registry))
    play.run(resolved)
    subject = f"{play.prefix}years-value"
    registry.incompatible[subject] = "READER_FIELD_TYPE"
    asked = len(registry.asked)
    changed = play.resolve(now, conf(registry))
    document = document_of_project(changed.project, changed.spec.circuit)
    found = read_recorded(changed.project.project, document)
    refusals = plan_change(found.document, document, found.facts).refusals
    assert [(each.code, each.subject) for each in refusals] == [("refused_schema", "output years")]
    assert f"subject {subject}: READER_FIELD_TYPE" in refusals[0].reason
    with pytest.raises(TransitionRefused, match="READER_FIELD_TYPE"):
        play.run(changed, on_change="apply")
    assert {
        path.split("/versions")[0] for path in registry.asked[asked:] if path.startswith("POST /compatibility")
    } == {f"POST /compatibility/subjects/{subject}"}, "only what differs is asked for"
    assert len(registry.subjects[subject]) == 1
    del registry.incompatible[subject]
    written = len(play.read("years"))
    shown = play.run(changed, on_change="apply")
    assert shown["revision"] == 2 and len(play.read("years")) == written + 4, "each year has another type now"
    assert len(registry.subjects[subject]) == 2
