"""Messages in Avro: fastavro is the other reader and the other writer."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from base.options import Mode
from io_kafka.formats.avro.declare import key_schema, value_schema
from io_kafka.formats.encode import encode
from io_kafka.formats.encodings import AvroIds, KeyFormat, PlainAvro
from io_kafka.formats.spec import Decoded, FormatError, OutputFormat, SourceFormat
from tests.io_kafka.formats import avro_messages as a
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

LIST = pa.list_(pa.field("element", pa.int64()))
SECOND = datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


def decoded(
    registry: SchemaRegistry,
    schema: pa.Schema,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    mode: Mode = "append",
    *,
    key: tuple[str, ...] = (),
    key_format: KeyFormat = "avro",
    reader: Any = None,
) -> Decoded:
    source = SourceFormat("t", schema, mode, key, (), a.encoding(registry, reader), key_format)
    count = len(values)
    return decode(
        source,
        pa.array(keys or [None] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([3] * count, pa.int32()),
        pa.array(range(100, 100 + count), pa.int64()),
    )


def rows(found: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def reasons(found: Decoded) -> list[str]:
    return [rejected.reason for rejected in found.rejected]


def output(mode: Mode, schema: pa.Schema = a.EVERY_TYPE, key: tuple[str, ...] = ()) -> OutputFormat:
    return OutputFormat("a view", schema, mode, key, AvroIds(7, 8))


def as_python(rows: pa.Table) -> list[Any]:
    """As fastavro has them."""
    return [row | {"map": None if row["map"] is None else dict(row["map"])} for row in rows.to_pylist()]


def test_every_type_of_column_is_read(registry: SchemaRegistry) -> None:
    expected = a.rows_of_every_type(300, seed=1)
    messages = a.written(registry, json.loads(value_schema(output("append"))), expected)
    found = decoded(registry, a.EVERY_TYPE, messages)
    found.rows.validate(full=True)
    assert not found.rejected
    assert as_python(found.rows.drop_columns("weight").rename_columns(a.EVERY_TYPE.names)) == expected


def test_every_type_of_column_is_written() -> None:
    expected = a.rows_of_every_type(300, seed=2)
    messages = encode(output("append"), pa.Table.from_pylist(expected, a.EVERY_TYPE)).column("value").to_pylist()
    schema = fastavro.parse_schema(json.loads(value_schema(output("append"))))
    for message, row in zip(messages, expected, strict=True):
        rest = io.BytesIO(message)
        assert rest.read(5) == b"\x00\x00\x00\x00\x07"
        assert fastavro.schemaless_reader(rest, schema, None) == row and not rest.read()


@pytest.mark.parametrize("field", list(a.EVERY_TYPE), ids=lambda field: field.name)
def test_lists_and_maps_without_any_element_are_written(field: pa.Field) -> None:
    """A batch may have nothing but empty ones, and so may one without rows."""
    inner = pa.struct([("of", field.type)])
    columns = pa.schema([("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("n", pa.list_(field.type))])
    schema = fastavro.parse_schema(json.loads(value_schema(output("append", columns))))
    given = [{"l": [], "m": {}, "n": None}, {"l": None, "m": None, "n": []}]
    for rows in ([], given):
        messages = encode(output("append", columns), pa.Table.from_pylist(rows, columns)).column("value").to_pylist()
        assert [fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None) for message in messages] == rows


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
WIDE_MONEY = {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 9, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = SECOND.replace(tzinfo=None)

WRITERS: list[tuple[Any, Any, pa.DataType, Any]] = [
    # writer's type, datum, column, value (a text: why it is refused)
    ("int", 5, pa.int64(), 5),
    ("int", 5, pa.float32(), 5.0),
    ("long", 2**53 + 1, pa.float64(), float(2**53 + 1)),
    ("float", 1.5, pa.float64(), 1.5),
    ("long", 5, pa.int32(), "column c: the writer's type is long, which is not read as INT"),
    ("double", 1.5, pa.float32(), "column c: the writer's type is double, which is not read as FLOAT"),
    ("int", 300, pa.int8(), "column c: 300 does not fit 8 bits"),
    ("int", -300, pa.int16(), -300),
    ("string", "é", pa.binary(), "é".encode()),
    ("bytes", "é".encode(), pa.string(), "é"),
    ("bytes", b"\xff", pa.string(), "a text that is not UTF-8"),
    ("null", None, pa.int64(), None),
    (["int", "null", "string"], None, pa.int64(), None),
    (["int", "null", "string"], 4, pa.int64(), 4),
    (["int", "null", "string"], "x", pa.int64(), "column c: a value of type string, which is not read as BIGINT; declare STRING"),
    (["null", "string"], "x", pa.int64(), "column c: the writer's type is string, which is not read as BIGINT; declare STRING"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", pa.binary(), b"abc"),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=7), pa.string(), str(UUID(int=7))),
    ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), pa.date32(), date(1969, 12, 31)),
    ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), pa.int32(), "column c: the writer's type is int (date), which is not"),
    ("int", 5, pa.date32(), "column c: the writer's type is int, which is not read as DATE"),
    (MILLIS, SECOND, pa.timestamp("us", "UTC"), SECOND),
    ({"type": "long", "logicalType": "timestamp-micros"}, SECOND, pa.timestamp("us", "UTC"), SECOND),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, LOCAL, pa.timestamp("us"), LOCAL),
    (MILLIS, SECOND, pa.timestamp("us"), "column c: the writer's type is long (timestamp-millis)"),
    ("long", 5, pa.timestamp("us", "UTC"), "column c: the writer's type is long, which is not read as TIMESTAMP"),
    (MILLIS, 2**62, pa.timestamp("us", "UTC"), f"column c: {2**62} is no moment"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 5, pa.timestamp("us"), datetime(1970, 1, 1, microsecond=5)),
    ({"type": "int", "connect.name": "io.debezium.time.Date"}, 5, pa.date32(), date(1970, 1, 6)),
    (MONEY, Decimal("-1.25"), pa.decimal128(8, 4), Decimal("-1.2500")),
    (MONEY, Decimal("1.25"), pa.decimal128(8, 1), "column c: the writer's type is decimal(5,2)"),
    (MONEY, Decimal("123.45"), pa.decimal128(4, 2), "column c: 12345e-2 does not fit"),
    (WIDE_MONEY, Decimal("-7.25"), pa.decimal128(9, 2), Decimal("-7.25")),
    ({"type": "array", "items": "int"}, [1, 2, 3] * 50, LIST, [1, 2, 3] * 50),
    ({"type": "map", "values": "int"}, {"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    ({"type": "map", "values": "int"}, {"a": 1}, LIST, "column c: the writer's type is map of int"),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "datum", "kind", "expected"), WRITERS)
def test_what_a_writers_type_is_read_as(
    registry: SchemaRegistry, writer: Any, datum: Any, kind: pa.DataType, expected: Any
) -> None:
    if writer == MILLIS and isinstance(datum, int):
        (message,) = a.written(registry, a.record(("c", "long")), [{"c": datum}])
        message = a.framed(registry.add("t-value", a.record(("c", writer))), message[5:])
    else:
        (message,) = a.written(registry, a.record(("c", writer)), [{"c": datum}])
    found = decoded(registry, pa.schema([("c", kind)]), [message])
    if isinstance(expected, str) and reasons(found):
        assert expected in reasons(found)[0]
    else:
        assert rows(found) == [(expected, 1)] and not found.rejected


def test_fields_are_found_by_name_and_others_are_passed_over(registry: SchemaRegistry) -> None:
    tree: dict[str, Any] = a.record(("children", {"type": "array", "items": "Tree"}), ("n", "long"), name="Tree")
    more = [
        ("tree", tree), ("bag", {"type": "map", "values": ["null", "double"]}), ("one", ["int", "string"]),
        ("flag", "boolean"), ("raw", "bytes"),
    ]  # fmt: skip
    schema = a.record(*more[:3], ("n", "long"), *more[3:], ("s", "string"))
    row = {
        "tree": {"children": [{"children": [], "n": 1}, {"children": [{"children": [], "n": 2}], "n": 3}], "n": 4},
        "bag": {"x": 1.5, "y": None}, "one": "text", "n": 5, "flag": True, "raw": b"12", "s": "end",
    }  # fmt: skip
    columns = pa.schema([("s", pa.string()), ("absent", pa.int32()), ("n", pa.int64())])
    found = decoded(registry, columns, a.written(registry, schema, [row] * 2))
    assert rows(found) == [("end", None, 5, 1)] * 2 and not found.rejected


def test_a_value_too_deep_to_be_passed_over_is_malformed_alone(registry: SchemaRegistry) -> None:
    """A list of that kind, and a tree with arrays. What fastavro has written is read as far as the limit goes, beside what is not."""
    node = a.record(("v", "int"), ("next", ["null", "Node"]), ("more", {"type": "array", "items": "Node"}), name="Node")
    writer = a.record(("id", "long"), ("chain", ["null", node]), ("end", "long"))

    def chain(length: int, *, in_arrays: bool) -> Any:
        found: Any = None
        for _ in range(length):
            inside = [] if found is None else [found]
            found = {"v": 1, "next": None if in_arrays else found, "more": inside if in_arrays else []}
        return found

    schema = pa.schema([("id", pa.int64()), ("end", pa.int64())])
    for in_arrays in (False, True):
        chains = [None, *(chain(length, in_arrays=in_arrays) for length in (3, 90, 150)), None]
        messages = a.written(registry, writer, [{"id": n, "chain": each, "end": -n} for n, each in enumerate(chains)])
        plain = SourceFormat("t", schema, encoding=PlainAvro(json.dumps(writer)))
        every = pa.array(range(100, 105), pa.int64())
        bare = pa.array([message[5:] for message in messages], pa.binary())
        for found in (
            decoded(registry, schema, messages),
            decode(plain, pa.nulls(5, pa.binary()), bare, every.cast(pa.int32()), every),
        ):
            assert rows(found) == [(n, -n, 1) for n in (0, 1, 2, 4)]
            assert [(each.offset, each.reason) for each in found.rejected] == [
                (103, "values within each other, more than 200 deep")
            ]


def test_a_readers_schema_has_defaults_and_aliases(registry: SchemaRegistry) -> None:
    reader = a.record(
        ("n", "long"), ("price", MONEY), ("tags", {"type": "array", "items": "string"}), ("in", a.record(("x", "int"), ("y", "int"), name="In")),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "Z"], "default": "Z"}), ("none", ["null", "int"]),
    )  # fmt: skip
    fields = {field["name"]: field for field in reader["fields"]}
    fields["n"]["aliases"] = ["was_n"]
    fields["price"]["default"] = "\u0001\u00f4"  # 500
    fields["tags"]["default"] = ["a", "b"]
    fields["none"]["default"] = None
    fields["in"]["type"]["fields"][1] |= {"default": 9}
    writer = a.record(
        ("was_n", "int"), ("in", a.record(("x", "int"), name="In")), ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]})
    )  # fmt: skip
    schema = pa.schema([
        ("n", pa.int64()), ("price", pa.decimal128(5, 2)), ("tags", pa.list_(pa.string())),
        ("in", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
        ("e", pa.string()), ("none", pa.int32()),
    ])  # fmt: skip
    messages = a.written(
        registry, writer, [{"was_n": 1, "in": {"x": 2}, "e": "A"}, {"was_n": 2, "in": {"x": 3}, "e": "B"}]
    )
    found = decoded(registry, schema, messages, reader=reader)
    same = (Decimal("5.00"), ["a", "b"])
    assert rows(found) == [(1, *same, {"x": 2, "y": 9}, "A", None, 1), (2, *same, {"x": 3, "y": 9}, "Z", None, 1)]
    without = decoded(registry, schema, messages)
    assert rows(without)[0] == (None, None, None, {"x": 2, "y": None}, "A", None, 1)


DEFAULTS: list[tuple[Any, Any, pa.DataType]] = [
    (["null", "int"], 0, pa.int32()),
    (["null", "int"], None, pa.int32()),
    (["int", "null"], None, pa.int32()),
    (["null", "string", a.record(("a", "int"), name="In")], {"a": 3}, pa.struct([("a", pa.int32())])),
    (["boolean", "int"], 1, pa.int32()),
    (["int", "boolean"], True, pa.bool_()),
    (["int", "long"], 2**40, pa.int64()),
    (["boolean", "double"], 1, pa.float64()),
    ([{"type": "array", "items": "string"}, "string"], "ab", pa.string()),
    ({"type": "array", "items": ["null", "string"]}, ["a", None], pa.list_(pa.string())),
]


@pytest.mark.parametrize(("type_", "default", "kind"), DEFAULTS)
def test_a_default_may_be_of_any_branch_of_a_union(
    registry: SchemaRegistry, type_: Any, default: Any, kind: pa.DataType
) -> None:
    """As fastavro reads it, which takes the value as the schema has it. Since version 1.12 the specification says so."""
    reader = a.record(("id", "long"), ("x", type_))
    reader["fields"][1]["default"] = default
    writer = a.record(("id", "long"))
    (message,) = a.written(registry, writer, [{"id": 1}])
    found = decoded(registry, pa.schema([("id", pa.int64()), ("x", kind)]), [message], reader=reader)
    expected = fastavro.schemaless_reader(io.BytesIO(message[5:]), writer, reader)
    assert rows(found) == [(*expected.values(), 1)] and not found.rejected


@pytest.mark.parametrize(
    ("type_", "default", "kind"),
    [
        ("float", 1e300, pa.float32()),
        ("double", 10**400, pa.float64()),
        ("int", 2**31, pa.int32()),
        ("boolean", 0, pa.bool_()),
        ("double", True, pa.float64()),
        (["null", "int"], "x", pa.int32()),
        ({"type": "array", "items": "string"}, "ab", pa.list_(pa.string())),
    ],
)
def test_a_default_that_is_no_value_of_its_type_is_malformed(
    registry: SchemaRegistry, type_: Any, default: Any, kind: pa.DataType
) -> None:
    reader = a.record(("id", "long"), ("x", type_))
    reader["fields"][1]["default"] = default
    messages = a.written(registry, a.record(("id", "long")), [{"id": 1}])
    (refused,) = decoded(registry, pa.schema([("id", pa.int64()), ("x", kind)]), messages, reader=reader).rejected
    assert "is no default of the type" in refused.reason


def logical(kind: str, of: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": of} | more


@pytest.mark.parametrize(
    ("annotated", "datum", "kind"),
    [
        (logical("bytes", "decimal"), b"\x01", pa.binary()),
        (logical("bytes", "decimal", precision="many"), b"\x01", pa.binary()),
        (logical("bytes", "decimal", precision=2, scale=3), b"\x01", pa.binary()),
        (logical("string", "decimal", precision=4, scale=2), "1.5", pa.string()),
        (logical("fixed", "decimal", name="F", size=2), b"\x01\x02", pa.binary()),
        (logical("fixed", "duration", name="F", size=4), b"1234", pa.binary()),
        (logical("long", "date"), 5, pa.int64()),
        (logical("long", "time-millis"), 5, pa.int64()),
        (logical("int", "time-micros"), 5, pa.int32()),
        (logical("int", "timestamp-millis"), 5, pa.int32()),
        (logical("int", "local-timestamp-micros"), 5, pa.int64()),
        (logical("string", "timestamp-nanos"), "5", pa.string()),
        (logical("int", "of its own"), 5, pa.int32()),
    ],
)
def test_a_logical_type_that_its_type_cannot_have_is_ignored(
    registry: SchemaRegistry, annotated: Any, datum: Any, kind: pa.DataType
) -> None:
    """The specification wants the plain type then. That is how fastavro has written it."""
    plain = {name: value for name, value in annotated.items() if name != "logicalType"}
    (message,) = a.written(registry, a.record(("c", plain)), [{"c": datum}])
    message = a.framed(registry.add("t-value", a.record(("c", annotated))), message[5:])
    found = decoded(registry, pa.schema([("c", kind)]), [message])
    assert rows(found) == [(datum, 1)] and not found.rejected


def test_items_that_have_no_bytes(registry: SchemaRegistry) -> None:
    empty = a.record(("n", "null"), name="Empty")
    writer = a.record(
        ("nulls", {"type": "array", "items": "null"}), ("records", {"type": "array", "items": empty}), ("id", "long")
    )
    given = [
        {"nulls": [None] * n, "records": [{"n": None}] * m, "id": n}
        for n, m in ((5, 0), (0, 3), (1001, 0), (1, 1000), (0, 0))
    ]
    messages = a.written(registry, writer, given)
    passed = decoded(registry, pa.schema([("id", pa.int64())]), messages)
    assert rows(passed) == [(row["id"], 1) for row in given] and not passed.rejected
    kinds = {"nulls": pa.list_(pa.int32()), "records": pa.list_(pa.struct([("n", pa.string())]))}
    found = decoded(registry, pa.schema([*kinds.items(), ("id", pa.int64())]), messages)
    assert rows(found) == [(*row.values(), 1) for row in given if row["id"] != 1001]
    assert reasons(found) == ["column nulls: an array of more than 1000 items that have no bytes"]
    two_blocks = b"\x06" + b"\x03\x00" + b"\x00"  # three items, and two in a block that says its bytes
    number = int.from_bytes(messages[0][1:5], "big")
    many = b"\xfe" + b"\xff" * 8 + b"\x01"
    others = [two_blocks + b"\x00\x02", many + b"\x00\x00\x02", many, b"\x02", many * 3]
    framed = [a.framed(number, datum) for datum in others]
    assert rows(decoded(registry, pa.schema([("nulls", kinds["nulls"])]), framed)) == [([None] * 5, 1)]
    passed = decoded(registry, pa.schema([("id", pa.int64())]), framed)
    assert rows(passed) == [(1, 1), (1, 1)] and reasons(passed) == ["it ends within a value"] * 3


def test_aliases_of_the_readers_schema_are_names_in_keys_too(registry: SchemaRegistry) -> None:
    reader = a.record(("id", "long"), ("s", "string"))
    reader["fields"][0]["aliases"] = ["number", "was_id"]
    values = a.written(registry, a.record(("was_id", "long"), ("s", "string")), [{"was_id": 3, "s": "a"}])
    keys = [
        *a.written(registry, a.record(("was_id", "long"), name="Key"), [{"was_id": 3}, {"was_id": 4}], "t-key"),
        *a.written(registry, a.record(("other", "long"), name="Key"), [{"other": 5}], "t-key"),
        *a.written(registry, a.record(("id", "long"), ("was_id", "long"), name="Key"), [{"id": 6, "was_id": 7}], "t-key"),
    ]  # fmt: skip
    found = decoded(registry, KEYED, [*values, None, None, None], keys, "upsert", key=("id",), reader=reader)
    assert rows(found) == [(3, "a", False, 3, 100), (4, None, True, 3, 101), (6, None, True, 3, 103)]
    assert ["column id is missing" in reason for reason in reasons(found)] == [True]


def test_messages_of_several_writers_stay_in_their_order(registry: SchemaRegistry) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("s", pa.string())])
    old = a.written(registry, a.record(("n", "int")), [{"n": n} for n in range(3)])
    new = a.written(registry, a.record(("s", "string"), ("n", "long")), [{"n": 10 + n, "s": "x"} for n in range(3)])
    null = a.written(registry, a.record(("n", ["null", "int"])), [{"n": None}])
    other = a.written(registry, a.record(("n", "string")), [{"n": "1"}])
    json_id = registry.add("t-value", "{}", "JSON")
    rubbish = [
        None,
        b"",
        b'{"n": 1}',
        a.framed(5, b"\x02"),
        *null,
        *other,
        old[0] + b"!",
        old[0][:5],
        a.framed(json_id, b"\x02"),
    ]
    found = decoded(registry, schema, [old[0], new[0], rubbish[0], new[1], *rubbish[1:], old[1], new[2], old[2]])
    assert [row[0] for row in rows(found)] == [0, 10, 11, 1, 12, 2]
    other_id, json_text = int.from_bytes(other[0][1:5], "big"), f"schema id {json_id}: it is a schema of JSON"
    expected = [
        "empty", "empty", "it does not begin with 0 and a schema id", "schema id 5 is not in the registry",
        "column n: null, but declared NOT NULL",
        f"schema id {other_id}: column n: the writer's type is string, which is not read as BIGINT; declare STRING",
        "1 bytes are left", "it ends within a value",
        json_text,
    ]  # fmt: skip
    assert [found for found, want in zip(reasons(found), expected, strict=True) if not found.startswith(want)] == []
    assert [rejected.offset for rejected in found.rejected] == [102, *range(104, 112)]


def test_messages_without_an_id(registry: SchemaRegistry) -> None:
    writer = a.record(("n", "int"), ("other", "string"))
    messages = [message[5:] for message in a.written(registry, writer, [{"n": n, "other": "x"} for n in range(3)])]
    source = SourceFormat("t", pa.schema([("n", pa.int64())]), encoding=PlainAvro(json.dumps(writer)))
    values = pa.array([messages[0], None, messages[1] + b"!", b"", messages[2]], pa.binary())
    every = pa.array(range(5), pa.int64())
    found = decode(source, pa.nulls(5, pa.binary()), values, every.cast(pa.int32()), every)
    assert [row["c0"] for row in found.rows.to_pylist()] == [0, 2]
    assert [(rejected.offset, rejected.reason) for rejected in found.rejected] == [
        (1, "empty"), (2, "1 bytes are left behind its value"), (3, "it ends within a value")
    ]  # fmt: skip


def test_types_of_other_subjects(registry: SchemaRegistry) -> None:
    registry.add(
        "money", {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    )
    place = [{"name": "shop.Money", "subject": "money", "version": 1}]
    number = registry.add("t-value", a.record(("m", "shop.Money")), references=place)
    found = decoded(registry, pa.schema([("m", pa.struct([("cents", pa.int64())]))]), [a.framed(number, b"\x0e")])
    assert rows(found) == [({"cents": 7}, 1)]


KEYED = pa.schema([("id", pa.int64()), ("s", pa.string())])
ID = a.record(("id", "long"), name="Key")


@pytest.mark.parametrize(
    ("key_format", "kind", "keys"),
    [
        ("avro", "record", [3, 4, 5]),
        ("avro", "bare", [3, 4, 5]),
        ("long", "", [(3).to_bytes(8, "big"), (4).to_bytes(8, "big"), (5).to_bytes(8, "big")]),
        ("json", "", [b"3", b'{"id": 4}', b"5"]),
    ],
)
def test_keys_of_each_format(registry: SchemaRegistry, key_format: KeyFormat, kind: str, keys: list[Any]) -> None:
    if kind == "record":
        keys = a.written(registry, ID, [{"id": n} for n in keys], "t-key")
    if kind == "bare":
        keys = [a.framed(registry.add("t-key", '"long"'), datum) for datum in (b"\x06", b"\x08", b"\x0a")]
    values = a.written(registry, a.record(("id", "long"), ("s", "string")), [{"id": 3, "s": "a"}, {"id": 9, "s": "b"}])
    found = decoded(
        registry, KEYED, [*values, None, values[0]], [*keys, None], "upsert", key=("id",), key_format=key_format
    )
    assert rows(found) == [(3, "a", False, 3, 100), (5, None, True, 3, 102), (3, "a", False, 3, 103)]
    assert reasons(found) == ["column id: 4 in the message's key, 9 in its value"]


def test_keys_that_are_wrong_or_not_read(registry: SchemaRegistry) -> None:
    (value,) = a.written(registry, a.record(("id", "long"), ("s", "string")), [{"id": 3, "s": "a"}])
    short = decoded(registry, KEYED, [value], [b"123"], "upsert", key=("id",), key_format="long")
    assert reasons(short) == ["key: it has 3 bytes, and a number 8"]
    unread = decoded(registry, KEYED, [value, None], [b"123", b"4"], "upsert", key=("id",), key_format="none")
    assert rows(unread) == [(3, "a", False, 3, 100)] and reasons(unread) == ["a deletion that names no key"]
    texts = pa.schema([("s", pa.string()), ("id", pa.int64())])
    as_text = decoded(registry, texts, [None, None], [b'{"s": 1}', b"\xff"], "upsert", key=("s",), key_format="string")
    assert rows(as_text) == [('{"s": 1}', None, True, 3, 100)] and reasons(as_text) == ["key: a text that is not UTF-8"]


def test_debeziums_envelope(registry: SchemaRegistry) -> None:
    at = {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"}
    row = a.record(("id", "long"), ("at", ["null", at]), name="Value")
    envelope = a.record(
        ("before", ["null", row]), ("after", ["null", "Value"]), ("source", a.record(("lsn", ["null", "long"]), name="Source")),
        ("op", "string"),
        ("ts_ms", ["null", "long"]), name="Envelope",
    )  # fmt: skip
    one, two = {"id": 1, "at": 5_000}, {"id": 1, "at": None}
    changes = [("c", None, one), ("u", one, two), ("d", two, None), ("u", None, two)]
    messages: list[bytes | None] = list(
        a.written(
            registry,
            envelope,
            [{"op": op, "before": b, "after": f, "source": {"lsn": 1}, "ts_ms": None} for op, b, f in changes],
        )
    )
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    five = datetime(1970, 1, 1, microsecond=5)
    found = decoded(registry, schema, [*messages, None], mode="changelog")
    assert rows(found) == [(1, five, 1), (1, five, -1), (1, None, 1), (1, None, -1)]
    assert reasons(found) == ["op u without before; declare a key if the source does not send it"]
    keyed = decoded(registry, schema, messages, mode="changelog", key=("id",))
    assert rows(keyed) == [(1, five, False, 3, 100), (1, None, False, 3, 101), (1, None, True, 3, 102), (1, None, False, 3, 103)]  # fmt: skip


def test_an_upsert_output_is_read_back(registry: SchemaRegistry) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    form = OutputFormat("v", schema, "upsert", ("id",))
    ids = AvroIds(registry.add("t-value", value_schema(form)), registry.add("t-key", key_schema(form)))
    table = pa.table({"id": [1, 2], "s": ["a", None], "deleted": [False, True]})
    messages = encode(OutputFormat("v", schema, "upsert", ("id",), ids), table).to_pylist()
    heads = [messages[0]["key"][:5], messages[1]["key"][:5], messages[0]["value"][:5]]
    assert ids.key is not None and heads == [a.framed(number, b"") for number in (ids.key, ids.key, ids.value)]
    assert [a.read_back(registry, message["key"]) for message in messages] == [{"id": 1}, {"id": 2}]
    assert a.read_back(registry, messages[0]["value"]) == {"id": 1, "s": "a"} and messages[1]["value"] is None


def test_a_changelog_output_is_read_back_by_both(registry: SchemaRegistry) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    ids = AvroIds(registry.add("t-value", value_schema(OutputFormat("v", schema, "changelog"))), None)
    kind = pa.struct(list(schema))
    images = {"before": [None, {"id": 1, "s": "a"}], "after": [{"id": 1, "s": "a"}, None]}
    table = pa.table({name: pa.array(image, kind) for name, image in images.items()})
    messages = encode(OutputFormat("v", schema, "changelog", (), ids), table).column("value").to_pylist()
    assert [a.read_back(registry, message) for message in messages] == [
        {"op": "c", "before": None, "after": {"id": 1, "s": "a"}},
        {"op": "d", "before": {"id": 1, "s": "a"}, "after": None},
    ]
    assert rows(decoded(registry, schema, messages, mode="changelog")) == [(1, "a", 1), (1, "a", -1)]


def test_a_name_that_avro_does_not_have() -> None:
    with pytest.raises(FormatError, match=r"'a b' is no name in Avro.*AS"):
        value_schema(output("append", pa.schema([("a b", pa.int64())])))


ONE, OTHER = pa.struct([("a", pa.int32())]), pa.struct([("b", pa.string())])
DEEP = pa.struct([("b_c", ONE), ("b", pa.struct([("c", OTHER), ("c_", ONE)]))])


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ([("x", pa.list_(ONE)), ("x_item", OTHER)], ["_x_item", "_x_item_"]),
        (
            [("m", pa.map_(pa.string(), ONE)), ("m_value", OTHER), ("m_value_", ONE)],
            ["_m_value", "_m_value_", "_m_value__"],
        ),
        ([("a", DEEP), ("a_b", OTHER)], ["_a", "_a_b_c", "_a_b", "_a_b_c_", "_a_b_c__", "_a_b_"]),
        ([("a", ONE), ("b", OTHER), ("A", ONE)], ["_a", "_b", "_A"]),
    ],
)
@pytest.mark.parametrize("mode", ["append", "changelog"])
def test_no_two_records_of_a_schema_have_one_name(columns: Any, names: list[str], mode: Mode) -> None:
    """fastavro refuses a schema that defines a name twice. Names that are of one record alone stay, because registered schemas have them."""
    text = value_schema(output(mode, pa.schema(columns)))
    row = "Value" if mode == "changelog" else "a_view"
    found = re.findall(r'"record","name":"(\w+)"', text)
    assert found == [*(["Envelope"] if mode == "changelog" else []), row, *(row + name for name in names)]
    fastavro.parse_schema(json.loads(text))


def test_rubbish_never_crashes_and_is_judged_as_by_others(registry: SchemaRegistry) -> None:
    chance = Random(3)
    schema = pa.schema(
        [field for field in a.EVERY_TYPE if field.name not in ("b", "h", "wide", "price", "at", "local", "day", "i")]
    )
    text = json.loads(value_schema(output("append", schema)))
    good = a.written(registry, text, [{n: row[n] for n in schema.names} for row in a.rows_of_every_type(400, seed=4)])
    broken = []
    for message in good:
        changed = bytearray(message)
        changed[chance.randrange(5, len(changed))] = chance.choice(
            [0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)]
        )
        broken.append(bytes(changed[: chance.choice([len(changed), chance.randrange(5, len(changed) + 1)])]))
    found = decoded(registry, schema, broken)
    found.rows.validate(full=True)
    refused = {rejected.offset - 100: rejected.reason for rejected in found.rejected}
    ours = iter(as_python(found.rows.drop_columns("weight").rename_columns(schema.names)))
    parsed = fastavro.parse_schema(text)
    for position, message in enumerate(broken):
        other = read_by_the_other(message, parsed)
        if position not in refused:
            assert repr(next(ours)) == repr(other)  # NaN is not equal to itself
        else:
            assert other is None or refused[position].endswith(WHERE_THE_OTHER_IS_LENIENT), (other, refused[position])
    assert 100 < len(refused) < 380


WHERE_THE_OTHER_IS_LENIENT = "a boolean that is neither 0 nor 1", "its union has no branch of this number"
"""fastavro takes every byte for a boolean, and a branch's number below 0 for one from the end."""


def read_by_the_other(message: bytes, parsed: Any) -> Any:
    """The row, or None if it is none."""
    rest = io.BytesIO(message[5:])
    try:
        value = fastavro.schemaless_reader(rest, parsed, None)
    except Exception:  # every kind of error says the same here
        return None
    return None if rest.read() else value


def test_a_map_has_no_two_entries_of_one_key(registry: SchemaRegistry) -> None:
    schema = a.record(("m", {"type": "map", "values": "long"}))
    number = registry.add("t-value", schema)
    entry = b"\x02a"
    datums = [
        b"\x04" + entry + b"\x02" + b"\x02b\x04" + b"\x00",
        b"\x04" + entry + b"\x02" + entry + b"\x02\x00",
        b"\x02" + entry + b"\x02" + b"\x02" + entry + b"\x04\x00",
    ]
    found = decoded(
        registry, pa.schema([("m", pa.map_(pa.string(), pa.int64()))]), [a.framed(number, datum) for datum in datums]
    )
    assert rows(found) == [([("a", 1), ("b", 2)], 1)]
    assert reasons(found) == ["column m: two entries of the map have one key"] * 2


def test_a_key_may_have_a_null_but_not_lack_a_column(registry: SchemaRegistry) -> None:
    key = a.record(("id", ["null", "int"]), ("n", "int"), name="Key")
    keys = a.written(registry, key, [{"id": None, "n": 1}, {"id": 2, "n": 1}], "t-key")
    other = a.written(registry, a.record(("n", "int"), name="Other"), [{"n": 1}], "t-key2")
    values = a.written(
        registry,
        a.record(("id", ["null", "int"]), ("n", "int")),
        [{"id": None, "n": 1}, {"id": 2, "n": 1}, {"id": 2, "n": 1}],
    )
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())])
    found = decoded(registry, schema, [*values, None], [*keys, *other, keys[0]], "upsert", key=("id", "n"))
    assert [row[:3] for row in rows(found)] == [(None, 1, False), (2, 1, False), (None, 1, True)]
    assert len(reasons(found)) == 1 and "column id is missing" in reasons(found)[0]
    required = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("n", pa.int32())])
    assert (
        "null, but declared NOT NULL"
        in reasons(decoded(registry, required, values[:1], keys[:1], "upsert", key=("id", "n")))[0]
    )


PRIMITIVES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [7, -(2**31)]),
    "long": (pa.int64(), [7, 2**40]),
    "float": (pa.float32(), [1.5, -0.0]),
    "double": (pa.float64(), [1.5, 1e300]),
    "string": (pa.string(), ["é", ""]),
    "bytes": (pa.binary(), ["é".encode(), b""]),
}


@pytest.mark.parametrize("name", [None, "com.example.Own"])
def test_types_without_a_name_that_is_known_have_avros_own_promotions(
    registry: SchemaRegistry, name: str | None
) -> None:
    """As the specification of Avro has them, by fastavro. What it refuses is malformed, also where CAST would have a value."""
    more = {} if name is None else {"connect.name": name}
    for writer, (_, values) in PRIMITIVES.items():
        schema = a.record(("c", {"type": writer} | more))
        messages = a.written(registry, schema, [{"c": value} for value in values])
        for reader, (kind, _) in PRIMITIVES.items():
            found = decoded(registry, pa.schema([("c", kind)]), messages)
            try:
                expected = [
                    fastavro.schemaless_reader(io.BytesIO(m[5:]), schema, a.record(("c", reader)))["c"]
                    for m in messages
                ]
            except fastavro.read.SchemaResolutionError:
                assert found.rows.num_rows == 0, (writer, reader)
                assert "which is not read as" in reasons(found)[0]
                continue
            assert [row[0] for row in rows(found)] == expected, (writer, reader)
