"""Outputs in Protobuf: Google's library reads them, and so does a source of our own."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from base.options import Mode
from io_kafka.formats.encode import encode
from io_kafka.formats.encodings import ProtobufIds
from io_kafka.formats.protobuf.declare import key_schema, value_schema
from io_kafka.formats.spec import FormatError, OutputFormat, SourceFormat, Unwritable
from tests.io_kafka.formats import avro_messages as a
from tests.io_kafka.formats import protobuf_messages as p
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

IDS = ProtobufIds(7, 8)
HEAD, KEY_HEAD = p.framed(7, b""), p.framed(8, b"")
EDGES = [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]


@pytest.fixture(scope="module")
def registry() -> Any:
    with schema_registry() as found:
        yield found


def form(schema: pa.Schema, mode: Mode = "append", key: tuple[str, ...] = (), ids: ProtobufIds = IDS) -> OutputFormat:
    return OutputFormat("a view", schema, mode, key, ids)


def written(values: list[Any], kind: pa.DataType) -> list[bytes]:
    """The messages of a view of one column, without their heads."""
    schema = pa.schema([("c", kind)])
    messages = encode(form(schema), pa.table([pa.array(values, kind)], schema)).column("value").to_pylist()
    assert all(message.startswith(HEAD) for message in messages)
    return [message[len(HEAD) :] for message in messages]


def without_nulls(value: Any) -> Any:
    """Elements, and the values of maps, that are null are left out; lists that are null are empty."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return {name: without_nulls(item) for name, item in value.items()} if isinstance(value, dict) else value


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    rows = []
    for row in a.rows_of_every_type(count, seed):
        chance = Random(seed)
        row = without_nulls(row) | {"day": chance.choice(EDGES)} | {"map": {}}
        entries = Random(len(rows)).randrange(4)
        row["map"] = {f"k{n}": n * 7 for n in range(entries)}
        row["list"] = row["list"] or []
        if row["deep"] is not None:
            row["deep"]["q"] = row["deep"]["q"] or []
        rows.append(row)
    return rows


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Moments without a zone are Protobuf's in UTC, and FLOAT has fewer digits."""
    made = pa.Table.from_pylist(rows, a.EVERY_TYPE).to_pylist()
    for row in made:
        row["map"] = dict(row["map"] or [])
        row["local"] = None if row["local"] is None else row["local"].replace(tzinfo=UTC)
    return made


def test_every_type_is_read_by_google_and_by_our_own_source(registry: SchemaRegistry) -> None:
    rows = rows_of(300, seed=1)
    table = pa.Table.from_pylist(rows, a.EVERY_TYPE)
    text = value_schema(form(a.EVERY_TYPE))
    number = registry.add("t-value", text, "PROTOBUF")
    messages = encode(form(a.EVERY_TYPE, ids=ProtobufIds(number, None)), table).column("value").to_pylist()
    read = p.message_class(text).FromString
    found = [p.of_google(read(message[6:])) for message in messages]
    assert found == plain(rows)
    assert [read(message[6:]).SerializeToString(deterministic=True) for message in messages] == [
        m[6:] for m in messages
    ]
    columns = pa.schema([field for field in a.EVERY_TYPE if field.name not in ("b", "h", "map")])
    source = SourceFormat("t", columns, encoding=p.encoding(registry))
    count = len(messages)
    own = decode(
        source,
        pa.nulls(count, pa.binary()),
        pa.array(messages, pa.binary()),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
    )
    assert own.rejected == []
    assert (
        own.rows.drop_columns("weight").rename_columns(columns.names).to_pylist()
        == table.select(columns.names).to_pylist()
    )


@pytest.mark.parametrize(
    "field", [field for field in a.EVERY_TYPE if field.name not in ("list", "map")], ids=lambda field: field.name
)
def test_lists_and_maps_without_any_element_are_written(field: pa.Field) -> None:
    """A batch may have nothing but empty ones, and so may one without rows."""
    for kind in (pa.list_(field.type), pa.list_(pa.struct([("of", field.type)])), pa.map_(pa.string(), field.type)):
        assert written([[], None], kind) == [b"", b""] and written([], kind) == []
        assert p.message_class(value_schema(form(pa.schema([("c", kind)]))))().SerializeToString() == b""


def test_null_is_told_from_zero_and_empty() -> None:
    assert written([0, None, -1], pa.int32()) == [b"\x08\x00", b"", b"\x08" + b"\xff" * 9 + b"\x01"]
    assert written(["", None], pa.string()) == [b"\x0a\x00", b""]
    assert written([False, True, None], pa.bool_()) == [b"\x08\x00", b"\x08\x01", b""]
    assert written([[], [0, 300], None], pa.list_(pa.int64())) == [b"", b"\x0a\x03\x00\xac\x02", b""]
    assert written([["", "a"], []], pa.list_(pa.string())) == [b"\x0a\x00\x0a\x01a", b""]
    inner = pa.struct([("x", pa.int64())])
    assert written([{"x": None}, None, {"x": 1}], inner) == [b"\x0a\x00", b"", b"\x0a\x02\x08\x01"]


def test_what_protobuf_does_not_have_is_refused_with_the_column() -> None:
    deep = pa.struct([("q", pa.list_(pa.int64()))])
    for kind, value, expected in (
        (pa.list_(pa.int64()), [1, None], "column c has an array with a NULL in it"),
        (deep, {"q": [None]}, r"column c\.q has an array with a NULL in it"),
        (pa.map_(pa.string(), pa.int64()), {"a": None}.items(), "column c has a map with a NULL in it"),
        (pa.date32(), 2_932_897, "column c has a DATE that is not in the years 1 to 9999"),
        (pa.timestamp("us", "UTC"), -62_135_596_800_000_001, "column c has a TIMESTAMP that is not in the years"),
    ):
        made = list(value) if pa.types.is_map(kind) else value
        with pytest.raises(Unwritable, match=expected):
            written([made], kind)


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        (pa.list_(pa.list_(pa.int64())), ("c",), "column c has a list or a map directly within another one"),
        (pa.duration("us"), ("c",), "column c has type INTERVAL DAY TO SECOND, which Protobuf does not have"),
        (pa.int64(), ("a b",), "'a b' is no name in Protobuf"),
        (pa.int64(), ("a_b", "aB"), "the columns a_b and aB are one name in Protobuf's JSON"),
    ],
)
def test_columns_that_have_no_schema(kind: pa.DataType, names: tuple[str, ...], expected: str) -> None:
    with pytest.raises(FormatError, match=expected):
        value_schema(form(pa.schema([(name, kind) for name in names])))


def test_odd_names_compile_and_a_column_at_the_end_changes_no_other_field() -> None:
    row = pa.struct([("google", pa.date32()), ("message", pa.decimal128(9, 2))])
    names = ("optional", "a_row", "a", "google", "Value", "op")
    kinds = (pa.int64(), pa.int64(), row, pa.list_(row), row, pa.map_(pa.string(), pa.decimal128(9, 2)))
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    for mode in ("append", "changelog"):
        for handle in ("google", "Value", "message", "1st view"):
            p.message_class(value_schema(OutputFormat(handle, schema, mode)))  # type: ignore[arg-type]
    before = value_schema(form(schema)).splitlines()
    after = value_schema(form(schema.append(pa.field("later", pa.string())))).splitlines()
    assert [line for line in after if line not in before] == ["  optional string later = 7;"]
    assert [line for line in before if line not in after] == []


def test_an_upsert_output_with_its_keys() -> None:
    schema = pa.schema([("s", pa.string()), ("id", pa.int64())])
    output = form(schema, "upsert", ("id",))
    table = pa.table({"s": ["a", None], "id": [1, 0], "deleted": [False, True]})
    first, second = encode(output, table).to_pylist()
    key = p.message_class(key_schema(output)).FromString
    assert [key(each["key"][len(KEY_HEAD) :]).id for each in (first, second)] == [1, 0]
    assert first["key"].startswith(KEY_HEAD) and second["value"] is None
    value = p.message_class(value_schema(output)).FromString(first["value"][len(HEAD) :])
    assert (value.s, value.id) == ("a", 1)


def test_a_changelog_is_debeziums_envelope() -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    images = {"before": [None, {"id": 1, "s": None}], "after": [{"id": 1, "s": None}, {"id": 1, "s": "b"}]}
    table = pa.table({name: pa.array(image, pa.struct(list(schema))) for name, image in images.items()})
    messages = encode(form(schema, "changelog"), table).column("value").to_pylist()
    envelope = p.message_class(value_schema(form(schema, "changelog"))).FromString
    one, two = [envelope(message[len(HEAD) :]) for message in messages]
    assert (one.op, one.HasField("before"), one.after.id, one.after.HasField("s")) == ("c", False, 1, False)
    assert (two.op, two.before.id, two.after.s) == ("u", 1, "b")


def test_dates_and_decimals_that_no_column_has_are_malformed(registry: SchemaRegistry) -> None:
    schema = pa.schema([("day", pa.date32()), ("price", pa.decimal128(5, 2))])
    text = value_schema(form(schema))
    number, row = registry.add("t-value", text, "PROTOBUF"), p.message_class(text)
    made = []
    for parts in ((2024, 2, 29), (2023, 2, 29), (2024, 0, 1), (0, 1, 1), (10_000, 1, 1)):
        message = row()
        message.day.year, message.day.month, message.day.day = parts
        made.append(message)
    for value, scale in (
        (b"\x05", 0),
        (b"\x00\x00\x07", 1),
        (b"\x7f\xff", 2),
        (b"\x7f\xff\xff", 2),
        (b"\x05", 3),
        (b"", 1),
        (b"\x05", -1),
    ):
        message = row()
        message.price.value, message.price.scale = value, scale
        made.append(message)
    values = pa.array([p.framed(number, message.SerializeToString()) for message in made], pa.binary())
    every = pa.array([0] * len(made), pa.int32()), pa.array(range(len(made)), pa.int64())
    found = decode(
        SourceFormat("t", schema, encoding=p.encoding(registry)), pa.nulls(len(made), pa.binary()), values, *every
    )
    assert [tuple(row.values())[:2] for row in found.rows.to_pylist()] == [
        (date(2024, 2, 29), None), (None, Decimal(5)), (None, Decimal("0.7")), (None, Decimal("327.67"))
    ]  # fmt: skip
    assert [rejected.offset for rejected in found.rejected] == [1, 2, 3, 4, 8, 9, 10, 11]
    reasons = {rejected.reason for rejected in found.rejected}
    assert all(reason.startswith(("column day: no whole date", "column price:")) for reason in reasons), reasons


def test_moments_before_1970() -> None:
    at = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    text = value_schema(form(pa.schema([("c", pa.timestamp("us", "UTC"))])))
    (message,) = written([at], pa.timestamp("us", "UTC"))
    found = p.message_class(text).FromString(message).c
    assert (found.seconds, found.nanos) == (-1, 999_999_000)
