# ruff: noqa: E501 (tables of messages: more readable in long lines)
"""Kafka Connect's wrapper: every logical type as every declared type at every depth is what Spark's CAST makes of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from base.options import Mode
from io_kafka.formats.encodings import JsonWithRegistry, PlainAvro
from io_kafka.formats.spec import Decoded, SourceFormat
from io_kafka.registry.address import RegistryAddress
from tests.io_kafka.formats import avro_messages
from tests.io_kafka.formats import connect_table as t
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry


def decoded(
    schema: pa.Schema,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    mode: Mode = "append",
    key: tuple[str, ...] = (),
    **more: Any,
) -> Decoded:
    count = len(values)
    return decode(
        SourceFormat("t", schema, mode, key, **more),
        pa.array(keys or [None] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([3] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
    )


def reasons(found: Decoded) -> dict[int, str]:
    return {rejected.offset: rejected.reason for rejected in found.rejected}


def rows(found: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows.to_pylist()]


@pytest.fixture(scope="module")
def cases_of_sources(spark: SparkSession) -> list[list[t.Case]]:
    """Spark's answers, for each type of a schema."""
    found: dict[str, list[t.Case]] = {}
    for case in t.cases(spark):
        found.setdefault(str(case.source), []).append(case)
    return list(found.values())


def test_every_logical_type_as_every_type_at_every_depth_is_sparks_cast(cases_of_sources: list[list[t.Case]]) -> None:
    """A table has a column of each type, and each message a value for one of them."""
    wrong: list[Any] = []
    counts = [0, 0]
    for cases in cases_of_sources:
        for depth in t.DEPTHS:
            differing, read = _compared(cases, depth)
            wrong += differing
            counts = [counts[0] + read, counts[1] + 1]
    assert not wrong, (len(wrong), wrong[:60])
    assert counts[0] > 5000 and counts[1] == len(t.SOURCES) * len(t.DEPTHS), counts


def _compared(cases: Sequence[t.Case], depth: t.Depth) -> tuple[list[Any], int]:
    """(what differs, the number of values that were read)."""
    names = [f"c{number}" for number in range(len(cases))]
    schema = t.text(
        t.row_schema(**{name: depth.schema(case.source.schema) for name, case in zip(names, cases, strict=True)})
    )
    columns = pa.schema(
        [(name, depth.kind(t.DECLARED[case.declared])) for name, case in zip(names, cases, strict=True)]
    )
    samples = [(number, sample) for number, case in enumerate(cases) for sample in range(len(case.source.samples))]
    messages = [t.wrapped_in(schema, {names[n]: depth.json(cases[n].source.samples[k].json)}) for n, k in samples]
    found = decoded(columns, messages)
    found.rows.validate(full=True)
    why = reasons(found)
    offsets = {each: offset for offset, each in enumerate(samples)}
    taken = [each for offset, each in enumerate(samples) if offset not in why]
    wrong: list[Any] = []
    for number, case in enumerate(cases):
        mine = pa.array([n == number for n, _ in taken], pa.bool_())
        values = t.comparable(depth.inner(found.rows.column(number).combine_chunks().filter(mine)))
        got: dict[int, str | None] = dict(zip([k for n, k in taken if n == number], values, strict=True))
        place = (case.source.name, case.declared, depth.name)
        for sample, want in enumerate(case.expected):
            reason = why.get(offsets[number, sample], "")
            said = (
                f"column {depth.path.replace('c', names[number], 1)}:" in reason
                and case.source.name in reason
                and case.declared in reason
            )
            if got.get(sample) != want or (reason and not said):
                wrong.append((*place, case.source.samples[sample].json, want, got.get(sample), reason))
    return wrong, len(taken)


ROW = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROW_SCHEMA = t.row_schema(id={"type": "int64", "optional": False}, name={"type": "string", "optional": True})


def every_shape(schema: Any, payload: Any) -> list[bytes]:
    """The same message as different producers write it."""
    one, two = t.text(schema), t.text(payload)
    pretty = json.dumps({"payload": payload, "schema": schema}, indent=2).encode()
    return [
        f'{{"schema":{one},"payload":{two}}}'.encode(), f'{{"payload":{two},"schema":{one}}}'.encode(), pretty, json.dumps({"schema": schema, "payload": payload}).encode(),
        b" \n" + pretty + b"\t ", f'{{"schema" : {one}\n, "payload" :{two} }}'.encode(),
    ]  # fmt: skip


@pytest.mark.parametrize("schema", [ROW_SCHEMA, None])
def test_a_wrapped_row_is_read_in_every_shape(schema: Any) -> None:
    messages = every_shape(schema, {"id": 1, "name": '}{\\"payload":'})
    mixed = [*messages, b'{"id":2,"name":"plain"}', *messages]
    found = decoded(ROW, mixed)
    assert reasons(found) == {}
    assert rows(found) == [
        *[(1, '}{\\"payload":', 1)] * len(messages),
        (2, "plain", 1),
        *[(1, '}{\\"payload":', 1)] * len(messages),
    ]


KEY_SCHEMA = {"type": "struct", "optional": False, "fields": [{"type": "int64", "optional": False, "field": "id"}]}


@pytest.mark.parametrize("schema", [ROW_SCHEMA, None])
@pytest.mark.parametrize(
    "key",
    [
        t.wrapped(KEY_SCHEMA, {"id": 1}),
        t.wrapped(None, {"id": 1}),
        t.wrapped({"type": "int64", "optional": False}, 1),
        t.wrapped(None, 1),
        b"1",
        None,
        t.wrapped(None, None),
    ],
)
def test_wrapped_upserts_and_tombstones(schema: Any, key: bytes | None) -> None:
    values = every_shape(schema, {"id": 1, "name": "a"})
    gone = [*every_shape(schema, None), None]
    found = decoded(ROW, [*values, *gone], [key] * (len(values) + len(gone)), "upsert", ("id",))
    upserts = [(1, "a", False, 3, at) for at in range(len(values))]
    at_end = range(len(values), len(values) + len(gone))
    no_key = key is None or b'"payload":null' in key
    assert rows(found) == upserts + ([] if no_key else [(1, None, True, 3, at) for at in at_end])
    assert reasons(found) == (dict.fromkeys(at_end, "a deletion that names no key") if no_key else {})


def test_a_tombstone_deletes_in_a_changelog_and_is_refused_where_nothing_can_be_deleted() -> None:
    gone = [t.wrapped(None, None), t.wrapped(ROW_SCHEMA, None)]
    keyed = decoded(ROW, gone, [t.wrapped(KEY_SCHEMA, {"id": 1})] * 2, "changelog", ("id",))
    assert rows(keyed) == [(1, None, True, 3, at) for at in range(2)] and not keyed.rejected
    unkeyed = decoded(ROW, gone, None, "changelog")
    assert unkeyed.rows.num_rows == 0 and not unkeyed.rejected
    append = decoded(ROW, gone)
    assert append.rows.num_rows == 0 and [
        reason.startswith("its payload is null: a tombstone") for reason in reasons(append).values()
    ] == [True, True]


def envelope_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    image = t.row_schema(**fields)
    members = [
        image | {"field": "before"},
        image | {"field": "after"},
        {"type": "string", "optional": False, "field": "op"},
    ]
    return {"type": "struct", "optional": False, "name": "server.t.Envelope", "fields": members}


def test_images_of_a_change_are_typed_at_every_depth() -> None:
    micro = {"type": "int64", "optional": True, "name": t.T + "MicroTimestamp"}
    money = {"type": "bytes", "optional": True, "name": t.C + "Decimal", "parameters": {"scale": "2"}}
    schema = envelope_schema(
        id={"type": "int64"}, at={"type": "array", "items": micro}, money={"type": "array", "items": money}
    )
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("at", pa.list_(pa.field("element", pa.timestamp("us")))),
            ("money", pa.list_(pa.field("element", pa.string()))),
        ]
    )
    image = {"id": 1, "at": [5, None], "money": [t.unscaled(1250)]}
    messages = [
        t.wrapped(schema, {"before": None, "after": image, "op": "c"}),
        t.wrapped(schema, {"before": image, "after": image | {"at": None}, "op": "u"}),
        t.wrapped(schema, {"before": image, "after": None, "op": "d"}),
        t.wrapped(schema, {"before": None, "after": image | {"money": ["*"]}, "op": "c"}),
        t.wrapped(schema, {"before": None, "after": image, "op": None}),
        t.wrapped(None, {"before": None, "after": {"id": 7}, "op": "c"}),
    ]
    found = decoded(columns, messages, None, "changelog")
    five = datetime(1970, 1, 1, microsecond=5)
    full = (1, [five, None], ["12.50"])
    assert rows(found) == [(*full, 1), (*full, -1), (1, None, ["12.50"], 1), (*full, -1), (7, None, None, 1)]
    assert reasons(found)[3].startswith(
        "column after.money[]: * of the schema's type bytes org.apache.kafka.connect.data.Decimal of scale 2"
    )
    assert reasons(found)[4] == "no op: not a change in Debezium's envelope"
    keyed = decoded(columns, messages, [t.wrapped(KEY_SCHEMA, {"id": 1})] * 3 + [None] * 3, "changelog", ("id",))
    assert [row[:3] for row in rows(keyed)] == [full, (1, None, ["12.50"]), (1, None, None), (7, None, None)]


def test_changes_that_are_read_as_rows_are_malformed_and_no_rows_of_nulls() -> None:
    change = t.wrapped(envelope_schema(id={"type": "int64"}), {"before": None, "after": {"id": 1}, "op": "c"})
    other = t.wrapped(t.row_schema(a={"type": "int64"}), {"a": 1})
    for mode, key in (("append", ()), ("upsert", ("id",))):
        found = decoded(ROW, [change, other], [b"1"] * 2, mode, key)  # type: ignore[arg-type]
        assert reasons(found) == {
            0: "its schema has before, after, op, and none of the table's columns; these are Debezium's changes: write 'mode' = 'changelog'",
            1: "its schema has a, and none of the table's columns",
        }


WRITE_CHANGELOG = "and none of the table's columns; these are Debezium's changes: write 'mode' = 'changelog'"


def test_changes_without_a_schema_are_malformed_too() -> None:
    """A table may have columns that envelopes have beside their images. Rows without any column are rows of NULL, as Spark reads them."""
    columns = pa.schema([("id", pa.int64()), ("v", pa.string()), ("ts_ms", pa.int64())])
    change = {"before": None, "after": {"id": 1, "v": "x"}, "op": "c", "ts_ms": 7}
    values = [
        json.dumps(value).encode()
        for value in (change, {"id": 1}, {"op": "c"}, {**change, "v": None}, {"schema": None, "payload": change})
    ]
    for mode, key in (("append", ()), ("upsert", ("id",))):
        found = decoded(columns, values, [b"1"] * len(values), mode, key)  # type: ignore[arg-type]
        assert set(reasons(found).items()) == {
            (row, f"it has before, after, op, ts_ms, {WRITE_CHANGELOG}") for row in (0, 4)
        }
        assert len(rows(found)) == 3
    itself = pa.schema([("op", pa.string()), ("before", pa.string())])
    own = decoded(itself, [json.dumps({**change, "op": None}).encode()])
    assert rows(own) == [(None, None, 1)], "who declares an image reads the envelope itself"


def test_changes_in_avro_are_malformed_where_rows_are_read(registry: SchemaRegistry) -> None:
    envelope = avro_messages.record(
        ("before", ["null", "long"]), ("after", ["null", "long"]), ("op", "string"), ("ts_ms", "long")
    )
    values = avro_messages.written(registry, envelope, [{"before": None, "after": 1, "op": "c", "ts_ms": 7}])
    values += avro_messages.written(registry, avro_messages.record(("other", "long"), name="Other"), [{"other": 1}])
    columns = pa.schema([("id", pa.int64()), ("ts_ms", pa.int64())])
    for mode, key in (("append", ()), ("upsert", ("id",))):
        more = {"encoding": avro_messages.encoding(registry), "key_format": "long"}
        found = decoded(columns, values, [b"\0" * 8] * 2, mode, key, **more)  # type: ignore[arg-type]
        why = [reason.split(": ", 1)[1] for reason in reasons(found).values()]
        assert why == [
            f"it has before, after, op, ts_ms, {WRITE_CHANGELOG}",
            "it has other, and none of the table's columns",
        ]
    reader = avro_messages.record(("id", "long"))
    reader["fields"][0] |= {"aliases": ["other"]}
    aliased = avro_messages.encoding(registry, reader)
    assert rows(decoded(pa.schema([("id", pa.int64())]), values[1:], encoding=aliased, key_format="avro")) == [(1, 1)]


def test_changes_of_another_table_are_malformed(registry: SchemaRegistry) -> None:
    """Their images have none of the columns."""
    change = {"before": None, "after": {"other": 1}, "op": "c"}
    image = avro_messages.record(("other", "long"), name="Image")
    envelope = avro_messages.record(("before", ["null", image]), ("after", ["null", "Image"]), ("op", "string"))
    of_avro = {"encoding": avro_messages.encoding(registry), "key_format": "long"}
    for values, more in (
        ([t.wrapped(envelope_schema(other={"type": "int64"}), change)], {}),
        (avro_messages.written(registry, envelope, [change]), of_avro),
    ):
        for key in ((), ("id",)):
            found = decoded(
                pa.schema([("id", pa.int64())]),
                values,
                [b"\0" * 7 + b"1"] if more else [b"1"],
                "changelog",
                key,
                **more,
            )  # type: ignore[arg-type]
            assert reasons(found)[0].endswith(" has other, and none of the table's columns")


def test_keys_are_converted_by_their_schemas() -> None:
    columns = pa.schema([("day", pa.date32()), ("price", pa.decimal128(9, 2)), ("v", pa.int64())])
    day = {"type": "int32", "optional": False, "name": t.T + "Date", "field": "day"}
    price = {
        "type": "bytes",
        "optional": False,
        "name": t.C + "Decimal",
        "parameters": {"scale": "1"},
        "field": "price",
    }
    both = t.wrapped({"type": "struct", "fields": [day, price]}, {"day": 19724, "price": t.unscaled(15)})
    value = b'{"day":"2024-01-02","price":1.50,"v":7}'
    found = decoded(columns, [value, None], [both] * 2, "upsert", ("day", "price"))
    when = date(2024, 1, 2)
    assert rows(found) == [(when, Decimal("1.50"), 7, False, 3, 0), (when, Decimal("1.50"), None, True, 3, 1)]
    single = [
        t.wrapped(day, 19724),
        t.wrapped(day, "x"),
        t.wrapped(price, t.unscaled(15)),
        t.wrapped({"type": "struct", "fields": [price]}, {"price": "AQ=="}),
    ]
    found = decoded(columns, [None] * 4, single, "upsert", ("day",))
    assert rows(found) == [(when, None, None, True, 3, 0)]
    assert [reason.startswith("key: column day") for reason in reasons(found).values()] == [True] * 3
    missing = decoded(columns, [None], [t.wrapped(day, 19724)], "upsert", ("day", "price"))
    assert reasons(missing)[0].startswith(
        "key: its schema is int32 io.debezium.time.Date, and the key columns day, price need a struct"
    )


def test_columns_named_schema_and_payload_are_told_from_a_wrapper() -> None:
    own = pa.schema([("schema", pa.string()), ("payload", pa.string())])
    plain = [
        b'{"schema":"public","payload":"x"}',
        b'{"schema":null,"payload":null}',
        b'{"payload":"y","schema":null}',
        b'{"schema":{"a":1},"payload":"z"}',
    ]
    within = t.row_schema(schema={"type": "string"}, payload={"type": "string"})
    found = decoded(
        own,
        [*plain, t.wrapped(within, {"schema": "s", "payload": "p"}), t.wrapped(None, {"schema": "s", "payload": "p"})],
    )
    assert not found.rejected
    assert [row[:2] for row in rows(found)] == [
        ("public", "x"),
        (None, None),
        (None, "y"),
        ('{"a":1}', "z"),
        ("s", "p"),
        ("s", "p"),
    ]


def test_a_table_may_declare_the_payload_itself() -> None:
    """As a project does that has no reader of wrappers."""
    columns = pa.schema([("payload", pa.struct([("id", pa.int64())]))])
    found = decoded(
        columns, [t.wrapped(ROW_SCHEMA, {"id": 1, "name": "a"}), t.wrapped(None, {"id": 2}), t.wrapped(None, None)]
    )
    assert [row[0] for row in rows(found)] == [{"id": 1}, {"id": 2}, None] and not found.rejected
    outbox = pa.schema([("id", pa.int64()), ("payload", pa.string())])
    schema = t.row_schema(id={"type": "int64"}, payload={"type": "string"})
    values = [
        t.wrapped(schema, {"id": 1, "payload": "x"}),
        b'{"id":1,"payload":"y"}',
        t.wrapped(None, {"id": 1, "payload": "z"}),
        t.wrapped(None, None),
    ]
    found = decoded(outbox, values, [b"1"] * 4, "upsert", ("id",))
    assert [row[:3] for row in rows(found)] == [
        (1, "x", False),
        (1, "y", False),
        (1, "z", False),
        (1, None, True),
    ] and not found.rejected


WRONG_SCHEMAS = [
    b"1", b'"x"', b"{}", b"[]", b'{"type":"struct"}', b'{"type":"struct","fields":1}', b'{"type":["struct"],"fields":1}', b'{"a":1,}', b'{"type":"struct","fields":[]',
    b'{"type":"int32"}', b'{"type":"array","items":{"type":"int32"}}', b"nul", b'{"type":"union"}', b"true", b'{"type":"struct","fields":[1]]}',
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_SCHEMAS)
def test_a_wrapper_with_a_wrong_schema_is_malformed_and_never_a_row_of_nulls(wrong: bytes) -> None:
    good = t.wrapped(ROW_SCHEMA, {"id": 1, "name": "a"})
    message = b'{"schema":' + wrong + b',"payload":{"id":1,"name":"a"}}'
    found = decoded(ROW, [good, message, good])
    assert rows(found) == [(1, "a", 1)] * 2 and list(reasons(found)) == [1]


def test_a_payload_is_one_value_and_nothing_else() -> None:
    schema = t.text(ROW_SCHEMA)
    payloads = [
        '{"id":1}x',
        '{"id":1}}',
        '{"id":1',
        "",
        "[]",
        "1",
        '"x"',
        "nul",
        '{"id":"x"}',
        '{"id":1,}',
        '{"id":1}{}',
    ]
    three = [
        '{"id":1},"more":1',
        '{"id":1},"payload":{"id":2}',
    ]  # more than two members are no wrapper, and no row of these columns
    for company in ([], [t.wrapped(ROW_SCHEMA, {"id": 2})]):
        messages = [f'{{"schema":{schema},"payload":{payload}}}'.encode() for payload in [*payloads, *three]]
        found = decoded(ROW, [*company, *messages])
        assert rows(found) == [(2, None, 1)] * len(company)
        assert list(reasons(found)) == list(range(len(company), len(messages) + len(company)))
        assert all("which are in its " in list(reasons(found).values())[number] for number in (-1, -2))


def test_many_schemas_in_one_batch() -> None:
    """More than are compared with all messages at once."""

    def schema(number: int) -> dict[str, Any]:
        return ROW_SCHEMA | {"name": f"server.t{number}.Value"}

    messages = [t.wrapped(schema(number % 40), {"id": number, "name": "x"}) for number in range(400)]
    found = decoded(ROW, messages)
    assert rows(found) == [(number, "x", 1) for number in range(400)]


def test_fields_that_a_schema_lacks_and_values_that_are_null() -> None:
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("other", pa.int32()),
            ("s", pa.struct([("x", pa.date32()), ("y", pa.string())])),
            ("l", pa.list_(pa.date32())),
        ]
    )
    days = {"type": "int32", "optional": True, "name": t.C + "Date"}
    schema = t.row_schema(
        id={"type": "int32"},
        s=t.row_schema(x=days) | {"optional": True},
        l={"type": "array", "items": days},
        unused={"type": "bytes"},
    )
    payloads = [
        {"id": 1, "s": None, "l": None},
        {"id": 2, "s": {"x": None}, "l": [None, 1]},
        {"id": 3},
        {"id": None, "s": {"x": 1}},
        {"id": 5, "l": [], "s": {}, "unused": 5},
    ]
    found = decoded(columns, [t.wrapped(schema, payload) for payload in payloads])
    none, first = {"x": None, "y": None}, date(1970, 1, 2)
    assert [row[:4] for row in rows(found)] == [
        (1, None, None, None),
        (2, None, none, [None, first]),
        (3, None, None, None),
        (5, None, none, []),
    ]
    assert reasons(found) == {3: "column id: null, but declared NOT NULL"}


def test_values_with_parts_as_text_are_sparks_cast(spark: SparkSession) -> None:
    money = {"type": "bytes", "optional": True, "name": t.C + "Decimal", "parameters": {"scale": "2"}}
    days = {"type": "int32", "optional": True, "name": t.C + "Date"}
    record = t.row_schema(
        n={"type": "int32"}, d=days, m=money, none={"type": "string"}, inner=t.row_schema(x={"type": "boolean"})
    )
    values = [
        (record, {"n": 1, "d": 1, "m": t.unscaled(1250), "none": None, "inner": {"x": True}},
            "named_struct('n', 1, 'd', DATE'1970-01-02', 'm', 12.50BD, 'none', CAST(NULL AS STRING), 'inner', named_struct('x', true))"),
        ({"type": "array", "items": days}, [1, None, 0], "array(DATE'1970-01-02', NULL, DATE'1970-01-01')"),
        ({"type": "array", "items": days}, [], "array()"),
        ({"type": "map", "keys": {"type": "string"}, "values": days}, {"a": 1, "b": None}, "map('a', DATE'1970-01-02', 'b', NULL)"),
        ({"type": "array", "items": record}, [{"n": 2}, None], "array(named_struct('n', 2, 'd', NULL, 'm', NULL, 'none', NULL, 'inner', NULL), NULL)"),
    ]  # fmt: skip
    expected = spark.sql("SELECT " + ", ".join(f"CAST({literal} AS STRING)" for _, _, literal in values)).collect()[0]
    schema = t.row_schema(**{f"c{number}": each for number, (each, _, _) in enumerate(values)})
    columns = pa.schema([(f"c{number}", pa.string()) for number in range(len(values))])
    found = decoded(columns, [t.wrapped(schema, {f"c{number}": value for number, (_, value, _) in enumerate(values)})])
    assert rows(found) == [(*expected, 1)]


def test_maps_with_other_keys_are_arrays_of_pairs() -> None:
    columns = pa.schema([("m", pa.map_(pa.string(), pa.date32()))])
    schema = t.row_schema(
        m={"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32", "name": t.C + "Date"}}
    )
    found = decoded(
        columns, [t.wrapped(schema, {"m": value}) for value in ([[1, 0], [2, None]], None, [], [[1]], [1], [[None, 1]])]
    )
    assert [row[0] for row in rows(found)] == [[("1", date(1970, 1, 1)), ("2", None)], None, []]
    assert [reason.startswith("column m") for reason in reasons(found).values()] == [True] * 3


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "bytes", "name": t.C + "Decimal", "parameters": {"scale": "2"}}, ["", "*", "A", True, {}, [], 1.005, "1.00", "AAAA" * 30_000]),
        ({"type": "bytes", "name": t.C + "Decimal"}, ["AQ=="]),
        ({"type": "bytes", "name": t.C + "Decimal", "parameters": {"scale": "x"}}, ["AQ=="]),
        ({"type": "bytes", "name": t.C + "Decimal", "parameters": {"scale": "999999999"}}, ["AQ=="]),
        ({"type": "int64", "name": t.T + "MicroTimestamp"}, ["5", 1.5, True, {}, 2**63, "2024-01-02"]),
        ({"type": "int32", "name": t.T + "Date"}, ["x", 2**31, 1.0, []]),
        ({"type": "struct", "name": t.D + "VariableScaleDecimal", "fields": []},
            [{}, {"scale": 1}, {"value": "AQ=="}, {"scale": 1, "value": ""}, {"scale": "x", "value": "AQ=="}, 1, "AQ==", []]),
        ({"type": "boolean"}, [1, "true", {}]),
        ({"type": "bytes"}, ["*", 1, "A", "AQ"]),
    ],
)  # fmt: skip
def test_values_that_are_none_of_their_schema_are_malformed(schema: dict[str, Any], values: list[Any]) -> None:
    """In a column of each type, also within an array. The reason names all three."""
    for declared in ("BIGINT", "STRING", "DECIMAL(38,9)", "TIMESTAMP"):
        kind = t.DECLARED[declared]
        columns = pa.schema([("c", kind), ("l", pa.list_(pa.field("element", kind)))])
        whole = t.row_schema(c=schema, l={"type": "array", "items": schema})
        messages = [t.wrapped(whole, {"c": value}) for value in values] + [
            t.wrapped(whole, {"l": [value]}) for value in values
        ]
        found = decoded(columns, messages)
        assert rows(found) == [], declared
        assert [
            reason
            for reason in reasons(found).values()
            if not ("column c" in reason or "column l[]" in reason) or declared not in reason
        ] == []


def test_conversion_of_whole_columns_is_that_of_single_messages() -> None:
    """A message is read alike in any company, and rubbish beside it changes nothing."""
    random = Random(1)
    schema = t.row_schema(**{f"f{number}": source.schema for number, source in enumerate(t.SOURCES)})
    columns = pa.schema([(f"f{number}", random.choice(list(t.DECLARED.values()))) for number in range(len(t.SOURCES))])
    messages: list[bytes | None] = []
    for _ in range(150):
        names = random.sample(range(len(t.SOURCES)), random.choice([1, 3]))
        messages.append(t.wrapped(schema, {f"f{name}": random.choice(t.SOURCES[name].samples).json for name in names}))
    rubbish = [
        None,
        b"",
        b"{",
        b'{"schema":{},"payload":{}}',
        b'{"f0":true}',
        t.wrapped(None, {"f0": False}),
        t.wrapped(schema, {"f0": True}) + b"x",
    ]
    messages += rubbish
    random.shuffle(messages)
    together = decoded(columns, messages)
    alone = [decoded(columns, [message]) for message in messages]
    assert rows(together) == [row for each in alone for row in rows(each)]
    assert list(reasons(together).values()) == [reason for each in alone for reason in reasons(each).values()]
    assert together.rows.num_rows > 20 and len(together.rejected) > 20


def test_base64_of_nothing_but_digits_is_no_number() -> None:
    """10,000 numbers of three bytes are so. Whatever the batch begins with: a value that is absent says nothing of how the others come."""
    decimal = {"type": "bytes", "optional": True, "name": t.C + "Decimal", "parameters": {"scale": "2"}}
    schema = t.row_schema(
        price=decimal,
        prices={"type": "array", "items": decimal},
        by={"type": "map", "keys": {"type": "string"}, "values": decimal},
    )
    columns = pa.schema(
        [
            ("price", pa.decimal128(10, 2)),
            ("prices", pa.list_(pa.decimal128(10, 2))),
            ("by", pa.map_(pa.string(), pa.string())),
        ]
    )
    digits = t.unscaled(-2658824)
    assert digits == "1234"
    first = [{"price": None}, {"price": digits}, {"price": t.unscaled(500)}, {"price": 5.00}]
    for begin in first:
        whole = {"price": digits, "prices": [digits, 1.5], "by": {"a": digits}}
        found = decoded(columns, [t.wrapped(schema, begin), t.wrapped(schema, whole)])
        price = Decimal("-26588.24")
        assert rows(found)[1][:3] == (price, [price, Decimal("1.50")], [("a", "-26588.24")]), begin
    key = t.wrapped({"type": "struct", "fields": [decimal | {"field": "price"}]}, {"price": digits})
    gone = decoded(columns, [None], [key], "upsert", ("price",))
    assert rows(gone)[0][0] == Decimal("-26588.24")


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


MICRO = {"type": "integer", "title": t.T + "MicroTimestamp", "connect.type": "int64", "connect.index": 1}
JSON_SCHEMA = {
    "type": "object", "title": "server.t.Value", "$defs": {"days": {"type": "integer", "title": t.C + "Date", "connect.type": "int32"}},
    "properties": {
        "id": {"type": "integer", "connect.type": "int64"}, "at": {"oneOf": [{"type": "null"}, MICRO]},
        "price": {"oneOf": [{"type": "null"}, {"type": "number", "title": t.C + "Decimal", "connect.type": "bytes", "connect.parameters": {"scale": "2"}}]},
        "days": {"type": "array", "items": {"$ref": "#/$defs/days"}}, "plain": {"type": ["null", "string"]},
        "m": {"type": "object", "connect.type": "map", "additionalProperties": {"$ref": "#/$defs/days"}},
    },
}  # fmt: skip
OF_JSON_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("days", pa.list_(pa.date32())),
        ("plain", pa.timestamp("us")),
        ("m", pa.map_(pa.string(), pa.date32())),
    ]
)


def test_json_with_a_schemas_id_is_read_as_its_schema_says(registry: SchemaRegistry) -> None:
    number = registry.add("t-value", JSON_SCHEMA, "JSON")
    bare = registry.add("u-value", {"type": "integer", "connect.type": "int64"}, "JSON")
    says_nothing = registry.add("v-value", {"$schema": "http://json-schema.org/draft-07/schema#"}, "JSON")
    avro = registry.add("w-value", {"type": "record", "name": "R", "fields": []})
    row = {"id": 1, "at": 5, "price": t.unscaled(125), "days": [0, None], "plain": "2024-01-02 03:04:05", "m": {"a": 1}}
    values = [
        avro_messages.framed(number, t.text(row).encode()), t.text({"id": 2, "at": "2024-01-02"}).encode(), avro_messages.framed(number, t.text(row | {"price": 1.25}).encode()),
        avro_messages.framed(says_nothing, b'{"id":4}'), t.wrapped(ROW_SCHEMA, {"id": 5}), avro_messages.framed(avro, b"{}"), avro_messages.framed(99, b"{}"), b"\x00\x00", b"\x00",
        avro_messages.framed(number, t.text(row | {"at": "x"}).encode()), avro_messages.framed(bare, b"1"), avro_messages.framed(number, b""), avro_messages.framed(number, b"{"),
    ]  # fmt: skip
    encoding = JsonWithRegistry(RegistryAddress(registry.url))
    found = decoded(OF_JSON_SCHEMA, values, encoding=encoding)
    five, first = datetime(1970, 1, 1, microsecond=5), date(1970, 1, 1)
    whole = (1, five, Decimal("1.25"), [first, None], datetime(2024, 1, 2, 3, 4, 5), [("a", date(1970, 1, 2))])
    second = (2, datetime(2024, 1, 2), None, None, None, None)
    assert [row[:6] for row in rows(found)] == [whole, second, whole, (4, *[None] * 5), (5, *[None] * 5)]
    why = reasons(found)
    assert why[5] == f"schema id {avro}: it is a schema of AVRO, and the table's format is json"
    assert (
        why[6].startswith("schema id 99 is not in the registry")
        and why[7] == why[8] == "it begins with 0, as a registry's messages do, and then has no schema id"
    )
    assert why[9].startswith(
        "column at: \"x\" is not an integer of 64 bits; the schema's type is int64 io.debezium.time.MicroTimestamp, the column's TIMESTAMP_NTZ"
    )
    assert why[10] == f"schema id {bare}: its schema is int64, and rows need a struct" and {11, 12} < set(why)
    keys = [
        avro_messages.framed(bare, b"7"),
        avro_messages.framed(number, b'{"id":7}'),
        b"7",
        avro_messages.framed(says_nothing, b"7"),
        t.wrapped(KEY_SCHEMA, {"id": 7}),
    ]
    keyed = decoded(OF_JSON_SCHEMA, [None] * 5, keys, "upsert", ("id",), encoding=encoding)
    assert [row[0] for row in rows(keyed)] == [7] * 5 and not keyed.rejected
    envelope = {
        "type": "object", "properties": {"after": {"$ref": "#/definitions/Value"}, "op": {"type": "string"}}, "definitions": {"Value": JSON_SCHEMA},
        "$defs": JSON_SCHEMA["$defs"],
    }  # fmt: skip
    change = avro_messages.framed(registry.add("x-value", envelope, "JSON"), t.text({"after": row, "op": "c"}).encode())
    found = decoded(OF_JSON_SCHEMA, [change], mode="changelog", encoding=encoding)
    assert [row[:6] for row in rows(found)] == [whole] and not found.rejected


def test_titles_of_a_schema_that_is_not_connects_mean_nothing(registry: SchemaRegistry) -> None:
    """As Pydantic gives one to each property. The text is read as without a schema."""
    columns = pa.schema(
        [
            ("price", pa.decimal128(30, 2)),
            ("photo", pa.binary()),
            ("n", pa.int64()),
            ("at", pa.timestamp("us")),
            ("text", pa.string()),
        ]
    )
    types = {"price": "number", "photo": "string", "n": "number", "at": "string", "text": "number"}
    titled = {name: {"title": name.title(), "type": kind} for name, kind in types.items()}
    optional = {
        name: {"title": name.title(), "anyOf": [{"type": kind}, {"type": "null"}]} for name, kind in types.items()
    }
    texts = [
        '{"price":12345678901234567.89,"photo":"aGVsbG8=","n":9007199254740993,"at":"2024-01-02 03:04:05","text":5}',
        '{"at":"2024-01-02T03:04:05+02:00"}',
        '{"n":7.9}',
    ]
    plain = decoded(columns, [text.encode() for text in texts])
    assert len(plain.rejected) == 2
    for name, properties in (("titled-value", titled), ("optional-value", optional)):
        number = registry.add(name, {"title": "Order", "type": "object", "properties": properties}, "JSON")
        messages = [avro_messages.framed(number, text.encode()) for text in texts]
        found = decoded(columns, messages, encoding=JsonWithRegistry(RegistryAddress(registry.url)))
        assert (rows(found), reasons(found).keys()) == (rows(plain), reasons(plain).keys())


def test_a_map_with_other_keys_in_json_schema_is_a_list_of_pairs(registry: SchemaRegistry) -> None:
    of_price = {
        "type": "number",
        "title": t.C + "Decimal",
        "connect.type": "bytes",
        "connect.parameters": {"scale": "2"},
    }
    moment = {"type": "integer", "title": t.C + "Timestamp", "connect.type": "int64"}
    kinds = {"price": of_price, "at": moment}
    entries = {
        name: {
            "type": "array",
            "connect.type": "map",
            "items": {
                "type": "object",
                "properties": {"key": {"type": "integer", "connect.type": "int32"}, "value": kind},
            },
        }
        for name, kind in kinds.items()
    }
    number = registry.add("pairs-value", {"type": "object", "properties": entries}, "JSON")
    pair = [("key", pa.int32())]
    columns = pa.schema(
        [
            ("price", pa.list_(pa.struct([*pair, ("value", pa.string())]))),
            ("at", pa.list_(pa.struct([*pair, ("value", pa.timestamp("us"))]))),
        ]
    )
    row = {"price": [{"key": 1, "value": t.unscaled(500)}], "at": [{"key": 2, "value": 1700000000000}]}
    message = avro_messages.framed(number, t.text(row).encode())
    found = decoded(columns, [message], encoding=JsonWithRegistry(RegistryAddress(registry.url)))
    at = datetime(2023, 11, 14, 22, 13, 20)
    assert rows(found) == [([{"key": 1, "value": "5.00"}], [{"key": 2, "value": at}], 1)], reasons(found)


def test_json_with_a_schemas_id_and_no_registry_says_what_it_is() -> None:
    value = avro_messages.framed(258, b'{"id":1,"name":"a"}')
    for mode, key in (("append", ()), ("upsert", ("id",)), ("changelog", ("id",)), ("changelog", ())):
        found = decoded(ROW, [value, b"\x00{"], [b"1"] * 2, mode, key)  # type: ignore[arg-type]
        assert reasons(found)[0] == (
            "it begins with 0 and the schema id 258, as a schema registry's messages do; set 'format' = 'json' and 'schema.registry.url' if JSON "
            "follows, else 'format' = 'avro' or 'protobuf' with that registry"
        )
        assert "schema id" not in reasons(found)[1]
    found = decoded(ROW, [b'{"id":1}'], [avro_messages.framed(258, b"1")], "upsert", ("id",))
    assert reasons(found)[0].startswith("key: it begins with 0 and the schema id 258")


AVRO_KINDS = {"int32": "int", "int64": "long", "bytes": "bytes", "string": "string"}
VARIABLE = {
    "type": "record", "name": "VariableScaleDecimal", "namespace": "io.debezium.data", "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}  # fmt: skip


def as_avro(source: t.Source) -> Any:
    """The type as Connect's converter for Avro writes it."""
    if source.schema["type"] == "struct":
        return VARIABLE
    found = {"type": AVRO_KINDS[source.schema["type"]], "connect.version": 1, "connect.name": source.schema["name"]}
    scale = source.schema.get("parameters", {}).get("scale")
    if scale is None:
        return found
    return (
        found
        | {"connect.parameters": {"scale": scale}}
        | ({"logicalType": "decimal", "precision": 64, "scale": int(scale)} if int(scale) >= 0 else {})
    )


def as_datum(source: t.Source, value: Any) -> Any:
    if isinstance(value, dict):
        return value | {"value": base64.b64decode(value["value"])}
    return base64.b64decode(value) if source.schema["type"] == "bytes" else value


AVRO_DEPTHS = [
    (lambda k: k, lambda v: v, lambda k: k, lambda c: c),
    (lambda k: ["null", k], lambda v: v, lambda k: k, lambda c: c),
    (lambda k: {"type": "array", "items": ["null", k]}, lambda v: [None, v, None], lambda k: pa.list_(pa.field("element", k)),
        lambda c: c.flatten().take(pa.array(range(1, 3 * len(c), 3), pa.int64()))),
    (lambda k: {"type": "map", "values": k}, lambda v: {"a": v}, lambda k: pa.map_(pa.string(), k), lambda c: c.items),
    (lambda k: {"type": "array", "items": avro_messages.record(("n", "int"), ("v", ["null", k]), name="Item")},
        lambda v: [{"n": 1, "v": v}], lambda k: pa.list_(pa.field("element", pa.struct([("v", k)]))), lambda c: c.flatten().field("v")),
]  # fmt: skip


TEXTS = {t.C + "Decimal", t.D + "VariableScaleDecimal", t.T + "ZonedTimestamp", t.T + "IsoDate", t.T + "IsoTimestamp"}


@pytest.mark.parametrize("depth", range(len(AVRO_DEPTHS)))
def test_connects_types_in_avro_are_sparks_cast_at_every_depth(
    registry: SchemaRegistry, cases_of_sources: list[list[t.Case]], depth: int
) -> None:
    of_type, of_value, of_kind, inner = AVRO_DEPTHS[depth]
    wrong: list[Any] = []
    read = 0
    for cases in cases_of_sources:
        source = cases[0].source
        if source.name not in TEXTS | _COUNTED:
            continue
        names = [f"c{number}" for number in range(len(cases))]
        samples = [
            n for n, each in enumerate(source.samples) if source.schema["type"] != "bytes" or isinstance(each.json, str)
        ]
        pairs = [(number, n) for number in range(len(cases)) for n in samples]
        row = avro_messages.record(("v", of_type(as_avro(source))), name="One")
        writer = avro_messages.record(*((name, ["null", row if name == "c0" else "One"]) for name in names))
        data = [
            dict.fromkeys(names) | {names[number]: {"v": of_value(as_datum(source, source.samples[n].json))}} for number, n in pairs
        ]  # fmt: skip
        kinds = [pa.struct([("v", of_kind(t.DECLARED[case.declared]))]) for case in cases]
        messages = avro_messages.written(registry, writer, data)
        columns = pa.schema(list(zip(names, kinds, strict=True)))
        found = decoded(columns, [message[5:] for message in messages], encoding=PlainAvro(json.dumps(writer)))
        found.rows.validate(full=True)
        why = reasons(found)
        taken = [pair for offset, pair in enumerate(pairs) if offset not in why]
        read += len(taken)
        for number, case in enumerate(cases):
            mine = pa.array([each == number for each, _ in taken], pa.bool_())
            values = t.comparable(inner(found.rows.column(number).combine_chunks().filter(mine).field("v")))
            got = dict(zip([n for each, n in taken if each == number], values, strict=True))
            wrong += [
                (source.name, case.declared, source.samples[n].json, case.expected[n], got.get(n), why.get(pairs.index((number, n))))
                for n in samples if case.expected[n] != got.get(n)
            ]  # fmt: skip
        wrong += [(source.name, reason) for reason in why.values() if not reason.startswith("column c")]
    assert not wrong, (len(wrong), wrong[:20])
    assert read > 500


_COUNTED = {
    source.name
    for source in t.SOURCES
    if source.schema["type"].startswith("int") and "name" in source.schema and source.name != t.T + "Year"
}


def test_unions_of_several_branches_in_avro(registry: SchemaRegistry) -> None:
    micro, days = (
        {"type": "long", "connect.name": t.T + "MicroTimestamp"},
        {"type": "int", "connect.name": t.C + "Date", "logicalType": "date"},
    )
    union = [
        "null",
        micro,
        {"type": "bytes", "connect.name": t.C + "Decimal", "connect.parameters": {"scale": "1"}},
        "string",
        VARIABLE,
        "boolean",
    ]
    schema = avro_messages.record(
        ("c", union),
        ("l", {"type": "array", "items": [*union[:4], VARIABLE["connect.name"], "boolean"]}),
        ("d", ["null", days]),
    )
    values = [5, b"\x0f", "x", {"scale": 2, "value": b"\x0f"}, None, True]
    messages = avro_messages.written(
        registry, schema, [{"c": value, "l": [value, None, 7], "d": 1} for value in values]
    )
    for kind, expected in (
        (pa.string(), ["1970-01-01 00:00:00.000005", "1.5", "x", "0.15", None, "?"]),
        (pa.timestamp("us"), [datetime(1970, 1, 1, microsecond=5), "?", "?", "?", None, "?"]),
        (pa.int64(), [5, 1, "?", 0, None, "?"]),
    ):
        columns = pa.schema([("c", kind), ("d", pa.string())])
        found = decoded(columns, messages, encoding=avro_messages.encoding(registry), key_format="avro")
        why, left = reasons(found), iter(rows(found))
        assert [("?" if row in why else next(left)[0]) for row in range(len(values))] == expected
        assert all(reason.startswith("column c: ") for reason in why.values())
        lists = decoded(
            pa.schema([("l", pa.list_(pa.field("element", kind)))]),
            messages,
            encoding=avro_messages.encoding(registry),
            key_format="avro",
        )
        assert [row[0][0] for row in rows(lists)] == [value for value in expected if value != "?"]
