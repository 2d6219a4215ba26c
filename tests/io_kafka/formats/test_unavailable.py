"""Debezium's placeholder in every type of column, and the changes that are of no row: in all modes, with and without the wrapper's schema."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from base.options import UNAVAILABLE_VALUE, Truncate
from base.text.variants import VARIANT
from io_kafka.formats.decode import decode as decode_records
from io_kafka.formats.spec import Decoded, SourceFormat
from io_kafka.formats.text_limits import TextLimit
from io_kafka.formats.unavailable import Placeholder, placeholder_of
from io_kafka.messages import Messages, TopicMessages
from tests.io_kafka.formats import avro_messages as a
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

P = UNAVAILABLE_VALUE
BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Java's UUID.nameUUIDFromBytes of the placeholder's bytes."""
NUMBERS = [*P.encode()]


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


def decoded(source: SourceFormat, messages: Sequence[tuple[Any, Any]], truncate: Truncate = "fail") -> Decoded:
    def octets(value: Any) -> bytes | None:
        return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()

    keys, values = (pa.array([octets(message[i]) for message in messages], pa.binary()) for i in (0, 1))
    places = pa.array([7] * len(messages), pa.int32()), pa.array(range(10, 10 + len(messages)), pa.int64())
    return decode(source, keys, values, *places, truncate=truncate)


def reasons(got: Decoded) -> dict[int, str]:
    return {rejected.offset: rejected.reason for rejected in got.rejected}


def rows(got: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in got.rows.to_pylist()]


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "x"}, "op": op}


SPELLINGS: list[tuple[pa.DataType, Any]] = [
    (pa.string(), P),
    (pa.string(), BASE64),
    (pa.string(), P.encode().hex()),
    (pa.string(), {P: P}),
    (pa.string(), json.dumps({P: P}, separators=(",", ":"))),
    (pa.string(), [P]),
    (pa.string(), [BASE64]),
    (pa.string(), [UUID]),
    (pa.string(), NUMBERS),
    (pa.string(), f'"{P}"'),
    (pa.binary(), BASE64),
    (pa.list_(pa.string()), [P]),
    (pa.list_(pa.string()), [UUID]),
    (pa.list_(pa.string()), [BASE64]),
    (pa.list_(pa.string()), NUMBERS),
    (pa.list_(pa.binary()), [BASE64]),
    (pa.list_(pa.int64()), NUMBERS),
    (pa.list_(pa.int32()), NUMBERS),
    (pa.list_(pa.int8()), NUMBERS),
    (pa.list_(pa.decimal128(9, 2)), NUMBERS),
    (pa.map_(pa.string(), pa.string()), {P: P}),
    (VARIANT, P),
]
OTHERS: list[tuple[pa.DataType, Any]] = [
    (pa.string(), f"{P} "),
    (pa.string(), P[:-1] + "X"),
    (pa.string(), [P, P]),
    (pa.list_(pa.string()), [P, P]),
    (pa.list_(pa.string()), []),
    (pa.list_(pa.string()), [None]),
    (pa.list_(pa.int64()), NUMBERS[:-1]),
    (pa.list_(pa.int64()), [*NUMBERS[:-1], None]),
    (pa.map_(pa.string(), pa.string()), {P: "x"}),
    (pa.map_(pa.string(), pa.string()), {P: P, "x": "y"}),
]


@pytest.mark.parametrize(("kind", "spelling"), SPELLINGS)
def test_every_spelling_becomes_the_mark_of_its_type(kind: pa.DataType, spelling: Any) -> None:
    """Also where nulls may not be."""
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", kind, nullable=False)])
    mark = Placeholder(P).mark(kind).as_py()
    assert Placeholder(P).marks(pa.array([mark, None], kind)).tolist() == [True, False]  # type: ignore[union-attr]
    upsert = decoded(SourceFormat("h", schema, "upsert", ("id",)), [(1, {"id": 1, "v": spelling}), (2, {"id": 2})])
    assert rows(upsert) == [(1, mark, False, 7, 10)]
    keyed = decoded(SourceFormat("h", schema, "changelog", ("id",)), [(1, change("u", None, {"id": 1, "v": spelling}))])
    assert rows(keyed) == [(1, mark, False, 7, 10)]
    whole = change("u", {"id": 1, "v": spelling}, {"id": 1, "v": spelling})
    refused = decoded(
        SourceFormat("h", schema, "changelog"), [(None, whole), (None, change("c", None, whole["after"]))]
    )
    assert {offset: reason.split(":")[0] for offset, reason in reasons(refused).items()} == {
        10: "column before.v",
        11: "column after.v",
    }
    assert all("REPLICA IDENTITY FULL" in reason and P in reason for reason in reasons(refused).values())


@pytest.mark.parametrize(("kind", "value"), OTHERS)
def test_what_only_looks_like_a_placeholder_is_a_value(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    for mode, key in (("upsert", ("id",)), ("changelog", ("id",)), ("changelog", ())):
        row = {"id": 1, "v": value}
        got = decoded(SourceFormat("h", schema, mode, key), [(1, row if mode == "upsert" else change("c", None, row))])  # type: ignore[arg-type]
        assert not got.rejected and Placeholder(P).cells(got.rows.column(1)) is None


INFO = pa.struct([("a", pa.string()), ("l", pa.list_(pa.string()))])
WITHIN: list[tuple[pa.DataType, Any, str]] = [
    (INFO, {"a": P}, "v.a"),
    (INFO, {"a": "x", "l": [P]}, "v.l"),
    (pa.list_(INFO), [{"a": "x"}, {"a": BASE64}], "v[].a"),
    (pa.map_(pa.string(), INFO), {"k": {"a": P}}, "v[].a"),
    (pa.struct([("i", INFO)]), {"i": {"a": P}}, "v.i.a"),
]


@pytest.mark.parametrize(("kind", "value", "place"), WITHIN)
def test_a_field_that_was_not_sent_is_malformed(kind: pa.DataType, value: Any, place: str) -> None:
    """In mode append it is what was sent."""
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    row, good = {"id": 1, "v": value}, {"id": 2, "v": None}
    for mode, key, image in (("upsert", ("id",), ""), ("changelog", ("id",), ""), ("changelog", (), "after.")):
        messages = [(r["id"], r if mode == "upsert" else change("c", None, r)) for r in (good, row, good)]
        got = decoded(SourceFormat("h", schema, mode, key), messages)  # type: ignore[arg-type]
        assert {offset: reason.split(":")[0] for offset, reason in reasons(got).items()} == {
            11: f"column {image}{place}"
        }
        assert len(rows(got)) == 2
    assert not decoded(SourceFormat("h", schema), [(None, row)]).rejected


def test_an_append_table_has_what_was_sent_and_an_empty_setting_knows_no_placeholder() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    assert rows(decoded(SourceFormat("h", schema), [(None, {"id": 1, "v": P})])) == [(1, P, 1)]
    without = SourceFormat("h", schema, "changelog", unavailable="")
    assert rows(decoded(without, [(None, change("c", None, {"id": 1, "v": P}))])) == [(1, P, 1)]
    assert placeholder_of("") is None


@pytest.mark.parametrize("setting", ["none", "hex:6e6f6e65", "né", "hex:ff00"])
def test_another_placeholder(setting: str) -> None:
    """With Debezium's prefix for bytes. The usual one is a value then."""
    octets = bytes.fromhex(setting[4:]) if setting.startswith("hex:") else setting.encode()
    text, numbers = octets.decode("utf-8", "replace"), [byte - 256 if byte > 127 else byte for byte in octets]
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("x", pa.binary()), ("n", pa.list_(pa.int32()))])
    source = SourceFormat("h", schema, "upsert", ("id",), unavailable=setting)
    lacking = {"id": 1, "s": text, "x": base64.b64encode(octets).decode(), "n": numbers}
    usual = {"id": 2, "s": P, "x": BASE64, "n": NUMBERS}
    got = decoded(source, [(1, lacking), (2, usual)])
    marks = [Placeholder(setting).marks(got.rows.column(n)) for n in range(4)]
    assert [None if found is None else found.tolist() for found in marks] == [None, *[[True, False]] * 3]


def test_a_placeholder_is_neither_padded_nor_too_long() -> None:
    schema = pa.schema([("id", pa.int64()), ("short", pa.string()), ("long", pa.string())])
    limits = (TextLimit(("short",), 3, True), TextLimit(("long",), 40, True))
    row = {"id": 1, "short": P, "long": P}
    keyed = decoded(SourceFormat("h", schema, "upsert", ("id",), limits=limits), [(1, row), (1, {**row, "long": "x"})])
    assert rows(keyed) == [(1, P, P, False, 7, 10), (1, P, "x" + " " * 39, False, 7, 11)]
    stateless = decoded(SourceFormat("h", schema, "changelog", limits=limits), [(None, change("c", None, row))])
    assert reasons(stateless)[10].startswith("column after.short: the database has not sent its value")


def test_a_key_has_no_placeholder() -> None:
    """What the value lacks, the message's key may have."""
    schema = pa.schema([("id", pa.string()), ("v", pa.string())])
    source = SourceFormat("h", schema, "upsert", ("id",))
    got = decoded(
        source,
        [({"id": "a"}, {"id": P, "v": "x"}), (None, {"id": P, "v": "x"}), ({"id": P}, {"v": "x"}), ({"id": P}, None)],
    )
    assert rows(got) == [("a", "x", False, 7, 10)]
    assert set(reasons(got)) == {11, 12, 13}
    assert all(
        "column id: the database has not sent" in reason and "it is in the key" in reason
        for reason in reasons(got).values()
    )


def test_columns_of_the_record_are_no_values_of_the_database() -> None:
    """Here the topic has the name of the placeholder."""
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("topic", pa.string())])
    source = SourceFormat("h", schema, "upsert", ("id",), metadata=(("topic", "topic"),))
    keys, values = pa.array([b"1"], pa.binary()), pa.array([b'{"id":1,"v":"x"}'], pa.binary())
    messages = Messages.plain(keys, values, pa.array([0], pa.int64()))
    got = decode_records(source, TopicMessages(P, pa.array([0], pa.int32()), messages))
    assert rows(got)[0][:3] == (1, "x", P)


def wrapped(payload: Any, *fields: tuple[str, str]) -> dict[str, Any]:
    image = [{"field": name, "type": kind, "optional": True} for name, kind in fields]
    images = [{"field": side, "type": "struct", "fields": image} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": images}, "payload": payload}


def test_within_the_wrapper_of_a_schema() -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("x", pa.binary())])
    message = wrapped(
        change("u", None, {"id": 1, "s": P, "x": BASE64}), ("id", "int64"), ("s", "string"), ("x", "bytes")
    )
    assert rows(decoded(SourceFormat("h", schema, "changelog", ("id",)), [(1, message)])) == [
        (1, P, P.encode(), False, 7, 10)
    ]


AVRO_ROW = a.record(
    ("id", "long"), ("s", "string"), ("x", "bytes"), ("t", {"type": "array", "items": "string"}), ("b", {"type": "array", "items": "bytes"}),
    ("n", {"type": "array", "items": "int"}),
)  # fmt: skip
AVRO_ENVELOPE = a.record(
    ("before", ["null", {**AVRO_ROW, "name": "Value"}]), ("after", ["null", "Value"]), ("op", "string")
)
AVRO_MESSAGE = a.record(("op", "string"), ("message", ["null", a.record(("prefix", "string"), name="Block")]), name="M")


def test_in_avro(registry: SchemaRegistry) -> None:
    columns = pa.schema([
        ("id", pa.int64()), ("s", pa.string()), ("x", pa.binary()), ("t", pa.list_(pa.string())), ("b", pa.list_(pa.binary())),
        ("n", pa.list_(pa.int64())),
    ])  # fmt: skip
    lacking = {"id": 1, "s": P, "x": P.encode(), "t": [P], "b": [P.encode()], "n": NUMBERS}
    marks = (P, P.encode(), [P], [P.encode()], NUMBERS)
    upsert = SourceFormat("h", columns, "upsert", ("id",), encoding=a.encoding(registry), key_format="none")
    values = a.written(registry, AVRO_ROW, [lacking])
    assert rows(decoded(upsert, [(None, value) for value in values])) == [(1, *marks, False, 7, 10)]
    changes = [{"before": None, "after": lacking, "op": "u"}, {"before": None, "after": None, "op": "t"}]
    values = [
        *a.written(registry, AVRO_ENVELOPE, changes),
        *a.written(registry, AVRO_MESSAGE, [{"op": "m", "message": {"prefix": "p"}}]),
    ]
    keyed = SourceFormat("h", columns, "changelog", ("id",), encoding=a.encoding(registry), key_format="none")
    got = decoded(keyed, [(None, value) for value in values], "apply")
    nothing = (None,) * 6
    assert rows(got) == [(1, *marks, False, 7, 10), (*nothing, None, 7, 11)] and got.ignored == 1 and not got.rejected


# Changes that are of no row

ROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
KEYED = SourceFormat("h", ROW, "changelog", ("id",))
KEYS_OF_NO_ROW: list[Any] = [
    None,
    {"id": None},
    {"prefix": "p"},
    {"schema": None, "payload": None},
    b"rubbish{",
    {"id": 1},
]


@pytest.mark.parametrize("key", KEYS_OF_NO_ROW)
def test_a_truncation_of_a_keyed_table(key: Any) -> None:
    """Whatever its key is."""
    messages = [
        (1, change("c", None, {"id": 1, "v": "x"})),
        (key, change("t")),
        (1, None),
        (key, {"op": "t"}),
        (2, change("x")),
    ]
    failed = decoded(KEYED, messages)
    assert set(reasons(failed)) == {11, 13, 14} and failed.ignored == 0
    assert "'truncate' = 'apply'" in reasons(failed)[11] and reasons(failed)[14] == "op 'x' is none of c, r, u, d"
    applied = decoded(KEYED, messages, "apply")
    assert [(r[2], r[4]) for r in rows(applied)] == [(False, 10), (None, 11), (True, 12), (None, 13)]
    assert set(reasons(applied)) == {14} and applied.ignored == 0
    ignored = decoded(KEYED, messages, "ignore")
    assert [(r[2], r[4]) for r in rows(ignored)] == [(False, 10), (True, 12)] and ignored.ignored == 2
    assert set(reasons(ignored)) == {14}


@pytest.mark.parametrize("key", KEYS_OF_NO_ROW)
@pytest.mark.parametrize("truncate", ["fail", "apply", "ignore"])
def test_a_message_of_a_program_is_left_out_and_counted(key: Any, truncate: Truncate) -> None:
    message = {"op": "m", "ts_ms": 1, "message": {"prefix": "p", "content": "aGk="}}
    for source in (KEYED, SourceFormat("h", ROW, "changelog")):
        got = decoded(source, [(key, message), (1, change("c", None, {"id": 1, "v": "x"}))], truncate)
        assert (got.rows.num_rows, got.ignored, got.rejected) == (1, 1, [])


def test_a_truncation_without_a_key() -> None:
    source = SourceFormat("h", ROW, "changelog")
    messages = [(None, change("t")), (None, change("c", None, {"id": 1, "v": "x"}))]
    for truncate in ("fail", "apply"):
        got = decoded(source, messages, truncate)  # type: ignore[arg-type]
        assert "without a key" in reasons(got)[10] and "declare its key" in reasons(got)[10]
        assert rows(got) == [(1, "x", 1)]
    got = decoded(source, messages, "ignore")
    assert (rows(got), got.ignored, got.rejected) == ([(1, "x", 1)], 1, [])
