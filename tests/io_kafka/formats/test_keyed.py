# ruff: noqa: E501 (tables of messages: more readable in long lines)
"""Upsert and changelog input: keys, tombstones, Debezium's envelope with and without its schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from io_kafka.formats.spec import Decoded, SourceFormat
from tests.io_kafka.formats.decoding import decode

ROW = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("v", pa.float64())])
Message = tuple[bytes | None, bytes | None]


def decoded(source: SourceFormat, messages: Sequence[Message]) -> Decoded:
    keys, values = ([message[i] for message in messages] for i in (0, 1))
    offsets = pa.array(range(10, 10 + len(messages)), pa.int64())
    return decode(
        source,
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([7] * len(messages), pa.int32()),
        offsets,
    )


def rows(got: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in got.rows.to_pylist()]


def reasons(got: Decoded) -> dict[int, str]:
    return {rejected.offset: rejected.reason for rejected in got.rejected}


UPSERT = SourceFormat("h", ROW, "upsert", ("id",))


def test_upsert_rows_and_tombstones() -> None:
    got = decoded(UPSERT, [(b'{"id":1}', b'{"id":1,"name":"x","v":1}'), (b'{"id":1}', None), (None, b'{"id":2}')])
    assert got.rows.schema.names == ["c0", "c1", "c2", "deleted", "partition", "offset"]
    assert got.rows.schema.types[3:] == [pa.bool_(), pa.int32(), pa.int64()]
    assert rows(got) == [(1, "x", 1.0, False, 7, 10), (1, None, None, True, 7, 11), (2, None, None, False, 7, 12)]
    assert not got.rejected


@pytest.mark.parametrize(
    "key", [b"5", b'{"id":5}', b' {"id" : 5} ', b" 5 ", b'{"x":1,"id":5}', b'{"schema":null,"payload":{"id":5}}']
)
def test_shapes_of_a_key(key: bytes) -> None:
    assert rows(decoded(UPSERT, [(key, None)])) == [(5, None, None, True, 7, 10)]


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"x",
        b"null",
        b"{}",
        b"[5]",
        b'"5"',
        b"5.0",
        b'5,"x":1',
        b'{"x":5}',
        b'5}{"id":6',
        b"9223372036854775808",
        b"5 6",
    ],
)
def test_malformed_keys(key: bytes) -> None:
    got = decoded(UPSERT, [(key, b'{"id":5}'), (b"6", None)])
    assert [r[0] for r in rows(got)] == [6]
    assert reasons(got)[10].startswith("key: ")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"abc", "abc"),
        (b'"abc"', "abc"),
        (b"1.50", "1.50"),
        (b"a b", "a b"),
        (b'"a\\nb"', "a\nb"),
        (b'{"name":"x"}', "x"),
        (b"true", "true"),
        (b"\xc3\xa9", "é"),
        (b'a"b', 'a"b'),
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\\ud800"', r"\ud800"),
        (rb"\ud800", r"\ud800"),  # no JSON, so it has no escapes
        (rb'x"\ud800"', r'x"\ud800"'),
        (rb'{"name":"a","no column":"\ud800"}', "a"),
    ],
)
def test_bare_text_is_a_key_of_a_string_column(key: bytes, text: str) -> None:
    source = SourceFormat("h", ROW, "upsert", ("name",))
    assert rows(decoded(source, [(key, None)])) == [(None, text, None, True, 7, 10)]


@pytest.mark.parametrize("text", [r"\ud800", r"\udbff", r"a\uDE00\ud83d", r"\ud83d\\ude00", r"\ud83d\ud83d\ude00"])
@pytest.mark.parametrize(
    "key",
    [
        '"%s"', "'%s'", '{"name":"%s"}', '{"schema":null,"payload":{"name":"%s"}}',
        '{"schema":{"type":"string","optional":false},"payload":"%s"}',
    ],
)  # fmt: skip
def test_keys_do_not_become_one_by_halves_of_characters(key: str, text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        json.loads(f'"{text}"').encode()
    source = SourceFormat("h", ROW, "upsert", ("name",))
    got = decoded(source, [((key % text).encode(), None), (b'"?"', None)])
    assert [row[1] for row in rows(got)] == ["?"]
    assert reasons(got)[10].startswith("key: it has the escape of half a character")


def test_the_key_completes_the_value_and_may_not_contradict_it() -> None:
    got = decoded(UPSERT, [(b"1", b'{"name":"x"}'), (b"1", b'{"id":2}'), (None, None), (None, b"null"), (b"3", b"")])
    assert rows(got) == [(1, "x", None, False, 7, 10)]
    assert reasons(got) == {
        11: "column id: 1 in the message's key, 2 in its value",
        12: "a deletion that names no key",
        13: "not a JSON object",
        14: "empty",
    }


@pytest.mark.parametrize(
    ("kind", "key", "value", "shown"),
    [
        (pa.date32(), "10000-01-01", "2024-01-02", "+10000-01-01 in the message's key, 2024-01-02"),
        (pa.date32(), "2024-01-02", "-0001-01-02", "2024-01-02 in the message's key, -0001-01-02"),
        (pa.timestamp("us", "UTC"), "10000-01-01T00:00:00.000001Z", "2024-01-02T00:00:00Z", "+10000-01-01T00:00:00.000001Z in the message's key, 2024-01-02 00:00:00+00:00"),
        (pa.timestamp("us"), "2024-01-02T00:00:00", "0000-01-01T00:00:00", "2024-01-02 00:00:00 in the message's key, 0000-01-01T00:00:00.000"),
    ],
)  # fmt: skip
def test_key_and_value_may_differ_outside_of_pythons_years(kind: pa.DataType, key: str, value: str, shown: str) -> None:
    source = SourceFormat("h", pa.schema([("id", kind), ("v", pa.string())]), "upsert", ("id",))
    got = decoded(source, [(f'"{key}"'.encode(), b'{"id":"%s"}' % value.encode())])
    assert reasons(got) == {10: f"column id: {shown} in its value"}


def test_not_null_columns_bind_rows_but_not_deletions() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)])
    source = SourceFormat("h", schema, "upsert", ("id",))
    got = decoded(source, [(b"1", None), (b"1", b'{"name":"x"}'), (b"1", b"{}"), (None, b'{"name":"x"}')])
    assert [r[:3] for r in rows(got)] == [(1, None, True), (1, "x", False)]
    assert reasons(got) == {
        12: "column name: null, but declared NOT NULL",
        13: "column id: null, but declared NOT NULL",
    }


def test_key_of_two_columns() -> None:
    source = SourceFormat("h", ROW, "upsert", ("name", "id"))
    got = decoded(
        source, [(b'{"id":1,"name":"x"}', None), (b'{"id":1}', None), (b"1", None), (b'{"id":null,"name":"x"}', None)]
    )
    assert [r[:2] for r in rows(got)] == [(1, "x"), (None, "x")]
    assert reasons(got) == {
        11: "key: column name is missing",
        12: "key: 1 is not an object of the key columns name, id",
    }


def envelope(op: str, before: Any = None, after: Any = None) -> bytes:
    return json.dumps({"before": before, "after": after, "source": {"db": "x"}, "op": op, "ts_ms": 1}).encode()


A, B = {"id": 1, "name": "x", "v": 1.0}, {"id": 1, "name": "y", "v": 2.0}


def test_changelog_without_key_retracts_before_and_adds_after() -> None:
    source = SourceFormat("h", ROW, "changelog")
    got = decoded(
        source,
        [
            (None, envelope("r", None, A)),
            (None, envelope("u", A, B)),
            (None, envelope("d", B)),
            (b"k", None),
            (None, envelope("c", A, B)),
        ],
    )
    assert rows(got) == [(1, "x", 1.0, 1), (1, "x", 1.0, -1), (1, "y", 2.0, 1), (1, "y", 2.0, -1), (1, "y", 2.0, 1)]
    assert not got.rejected


def test_changelog_refusals() -> None:
    source = SourceFormat("h", ROW, "changelog")
    bad = [
        envelope("u", None, A),
        envelope("d", None),
        envelope("c", A),
        envelope("t"),
        envelope("m"),
        b'{"after":{}}',
        b"{}",
        b"null",
    ]
    got = decoded(source, [(None, message) for message in [*bad, envelope("c", None, A)]])
    assert rows(got) == [(1, "x", 1.0, 1)]
    assert reasons(got)[10] == "op u without before; declare a key if the source does not send it"
    assert reasons(got)[12].startswith("op c without after")
    assert reasons(got)[13].startswith("op t: the table was truncated")
    assert reasons(got)[15].startswith("no op") and reasons(got)[16].startswith("no op")
    assert sorted(reasons(got)) == [10, 11, 12, 13, 15, 16, 17] and got.ignored == 1


def test_changelog_with_key_ignores_before() -> None:
    source = SourceFormat("h", ROW, "changelog", ("id",))
    got = decoded(
        source,
        [
            (b'{"id":1}', envelope("u", None, B)), (b'{"id":1}', envelope("d", {"id": 1, "name": 5, "v": "bad"})), (b'{"id":1}', None),
            (None, envelope("d", {"id": 2})), (None, envelope("d")), (b'{"id":1}', envelope("c")), (b'{"id":3}', envelope("c", None, A)),
        ],
    )  # fmt: skip
    gone = (None, None, True, 7)
    assert rows(got) == [(1, "y", 2.0, False, 7, 10), (1, *gone, 11), (1, *gone, 12), (2, *gone, 13)]
    assert reasons(got) == {
        14: "a deletion that names no key",
        15: "op c without after",
        16: "column id: 3 in the message's key, 1 in its value",
    }


TYPED = pa.schema(
    [
        ("id", pa.int64()), ("price", pa.decimal128(10, 2)), ("day", pa.date32()), ("ms", pa.timestamp("us", "UTC")), ("us", pa.timestamp("us")),
        ("at", pa.timestamp("us", "UTC")), ("any", pa.decimal128(10, 3)), ("raw", pa.int64()),
    ]
)  # fmt: skip


def connect(name: str, kind: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True} | ({"name": logical} if logical else {}) | more


FIELDS = [
    connect("id", "int64"),
    connect("price", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
    connect("day", "int32", "io.debezium.time.Date"),
    connect("ms", "int64", "io.debezium.time.Timestamp"),
    connect("us", "int64", "io.debezium.time.MicroTimestamp"),
    connect("at", "string", "io.debezium.time.ZonedTimestamp"),
    connect("any", "struct", "io.debezium.data.VariableScaleDecimal"),
    connect("raw", "int64", "io.debezium.time.MicroTimestamp"),
]


def wrapped(op: str, before: Any, after: Any) -> bytes:
    images = [{"type": "struct", "fields": FIELDS, "optional": True, "field": name} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, connect("op", "string")], "name": "Envelope"}
    return json.dumps({"schema": schema, "payload": {"before": before, "after": after, "op": op}}).encode()


def unscaled(value: int) -> str:
    return base64.b64encode(value.to_bytes(4, "big", signed=True)).decode()


def test_the_schema_wrapper_types_the_columns() -> None:
    image = {
        "id": 1, "price": unscaled(-12345), "day": 19724, "ms": 1704164645123, "us": -1, "at": "2024-01-02T03:04:05.5Z",
        "any": {"scale": 4, "value": unscaled(12345)}, "raw": 99,
    }  # fmt: skip
    got = decoded(
        SourceFormat("h", TYPED, "changelog"),
        [(None, wrapped("c", None, image)), (None, wrapped("u", image, {"id": 2}))],
    )
    assert not got.rejected
    first = got.rows.slice(0, 1).to_pylist()[0]
    assert first["c1"] == Decimal("-123.45") and first["c6"] == Decimal("1.235") and first["c7"] == 99
    assert str(first["c2"]) == "2024-01-02"
    assert got.rows.column("c3").cast(pa.int64()).to_pylist()[0] == 1704164645123000
    assert got.rows.column("c4").cast(pa.int64()).to_pylist()[0] == -1
    assert got.rows.column("c5").cast(pa.int64()).to_pylist()[0] == 1704164645500000
    assert got.rows.column("weight").to_pylist() == [1, -1, 1]
    assert got.rows.column("c0").to_pylist() == [1, 1, 2]


def test_without_the_schema_epochs_and_base64_are_malformed() -> None:
    source = SourceFormat("h", TYPED, "changelog")
    images = [
        {"price": unscaled(-12345)},
        {"day": 19724},
        {"ms": 1704164645123},
        {"us": 1},
        {"any": {"scale": 1, "value": "AQ=="}},
    ]
    got = decoded(source, [(None, envelope("c", None, image)) for image in images])
    assert got.rows.num_rows == 0 and len(got.rejected) == len(images)
    assert "unknown unit" in reasons(got)[12]


def test_numbers_as_timestamps_have_no_unit_at_any_depth_and_in_bare_keys() -> None:
    moment = pa.timestamp("us", "UTC")
    deep = pa.schema(
        [
            ("id", pa.int64()),
            ("ats", pa.list_(moment)),
            ("of", pa.struct([("at", moment)])),
            ("by", pa.map_(pa.string(), moment)),
        ]
    )
    source = SourceFormat("h", deep, "changelog")
    at = 1704164645123
    images: list[dict[str, Any]] = [{"id": 1, "ats": [at]}, {"id": 1, "of": {"at": at}}, {"id": 1, "by": {"a": at}}]
    got = decoded(source, [(None, envelope("c", None, image)) for image in images])
    assert [reason.split(": ")[0] for reason in reasons(got).values()] == [
        f"column after.{name}" for name in ("ats[]", "of.at", "by[]")
    ]
    assert all("unknown unit" in reason for reason in reasons(got).values())
    texts = {"id": 1, "ats": ["2024-01-02T03:04:05Z"], "of": {"at": "2024-01-02T03:04:05Z"}, "by": {}}
    assert decoded(source, [(None, envelope("c", None, texts))]).rows.num_rows == 1
    keyed = SourceFormat("h", pa.schema([("at", moment), ("v", pa.int64())]), "upsert", ("at",))
    keys = [b"1704164645", b'{"schema":null,"payload":1704164645}', b'{"at":1704164645}', b'"2024-01-02T03:04:05Z"']
    got = decoded(keyed, [(key, None) for key in keys])
    assert got.rows.num_rows == 1 and len(got.rejected) == 3 and all("unknown unit" in r for r in reasons(got).values())


def test_wrapped_keys_are_typed_too() -> None:
    source = SourceFormat("h", TYPED, "changelog", ("day",))
    key = json.dumps({"schema": {"type": "struct", "fields": FIELDS}, "payload": {"day": 19724}}).encode()
    got = decoded(
        source,
        [
            (key, None),
            (b'{"day":"2024-01-02"}', None),
            (b'"2024-01-02"', None),
            (b"2024-01-02", None),
            (b"19724.5", None),
        ],
    )
    assert got.rows.column("c2").cast(pa.int32()).to_pylist() == [19724] * 4
    assert list(reasons(got)) == [14]


def test_nonsense_schemas_are_refused_not_raised() -> None:
    source = SourceFormat("h", TYPED, "changelog")
    messages = [
        b'{"schema":{},"payload":{"op":"c","after":{}}}', b'{"schema":{"fields":1},"payload":{"op":"c","after":{}}}', b'{"schema":1,"payload":1}',
        b'{"schema":{"fields":[1,{"field":2}]},"payload":{"op":"c","after":{}}}', b'{"schema":{"fields":[{"field":"after"}]},"payload":{"op":"c","after":{}}}',
        b'{"schema":{"fields":[{"field":"after","fields":[{"field":"price","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}}]}]},"payload":{"op":"c","after":{}}}',
        b'{"schema":{"fields":[{"field":"after","fields":[{"field":"price","name":["x"],"parameters":3}]}]},"payload":{"op":"c","after":{}}}',
    ]  # fmt: skip
    got = decoded(source, [(None, message) for message in messages])
    assert got.rows.num_rows + len(got.rejected) == len(messages)


def test_fast_and_slow_shapes_mix_in_order() -> None:
    source = SourceFormat("h", ROW, "changelog")
    wrapper = {"schema": {"type": "struct", "fields": []}, "payload": json.loads(envelope("c", None, A | {"id": 0}))}
    messages = [envelope("c", None, A | {"id": i}) if i % 3 else json.dumps(wrapper).encode() for i in range(300)]
    got = decoded(source, [(None, message) for message in messages])
    assert got.rows.column("c0").to_pylist() == [i if i % 3 else 0 for i in range(300)]


@pytest.mark.parametrize(
    "source", [UPSERT, SourceFormat("h", ROW, "changelog"), SourceFormat("h", ROW, "changelog", ("id",))]
)
def test_no_messages(source: SourceFormat) -> None:
    got = decoded(source, [])
    assert got.rows.num_rows == 0 and not got.rejected
