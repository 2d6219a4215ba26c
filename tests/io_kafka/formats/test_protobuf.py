"""Messages in Protobuf: Google's library is the other writer and the other reader."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from base.options import Mode
from io_kafka.formats.protobuf.compile import compile_schema
from io_kafka.formats.protobuf.known import TEXTS
from io_kafka.formats.spec import Decoded, SourceFormat
from tests.io_kafka.formats import protobuf_messages as p
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import SchemaRegistry, schema_registry

SCHEMA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; BOOK = 1; FILM = -2; }
message Order {
  message Line { string sku = 1; sint32 n = 2; Line inner = 3; }
  int32 i = 1; int64 l = 2; uint32 u = 3; uint64 ul = 4; sint32 z = 5; sint64 zl = 6; fixed32 f = 7; fixed64 fl = 8;
  sfixed32 s = 9; sfixed64 sl = 10;
  float x = 11; double d = 12; bool t = 13; string text = 14; bytes raw = 15; Kind kind = 16; Line line = 17;
  repeated Line lines = 18; repeated int32 numbers = 19; repeated sint64 loose = 20 [packed = false]; repeated double doubles = 21;
  repeated string texts = 22; google.protobuf.Timestamp at = 23; google.protobuf.Int64Value wrapped = 24; optional int32 maybe = 25;
  oneof either { int32 left = 26; string right = 27; } map<string, int64> counts = 28; repeated Kind kinds = 29; repeated bool flags = 2000;
}
message Other { message Within { int64 id = 1; } int64 id = 1; }
"""
LINE = pa.struct([("sku", pa.string()), ("n", pa.int32())])
COLUMNS = pa.schema([
    ("i", pa.int32()), ("l", pa.int64()), ("u", pa.int64()), ("ul", pa.int64()), ("z", pa.int32()), ("zl", pa.int64()), ("f", pa.int64()),
    ("fl", pa.int64()), ("s", pa.int64()), ("sl", pa.int64()), ("x", pa.float64()), ("d", pa.float64()), ("t", pa.bool_()),
    ("text", pa.string()),
    ("raw", pa.binary()), ("kind", pa.string()), ("line", pa.struct([*LINE, ("inner", LINE)])), ("lines", pa.list_(LINE)),
    ("numbers", pa.list_(pa.int64())), ("loose", pa.list_(pa.int64())), ("doubles", pa.list_(pa.float64())), ("texts", pa.list_(pa.string())),
    ("at", pa.timestamp("us", "UTC")), ("wrapped", pa.int64()), ("maybe", pa.int32()), ("left", pa.int32()), ("right", pa.string()),
    ("counts", pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))), ("kinds", pa.list_(pa.string())),
    ("flags", pa.list_(pa.bool_())),
])  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


def decoded(
    registry: SchemaRegistry,
    schema: pa.Schema,
    values: Sequence[bytes | None],
    *,
    defaults: bool = False,
    keys: Sequence[bytes | None] | None = None,
    mode: Mode = "append",
) -> Decoded:
    count, key = len(values), ("id",) if keys else ()
    source = SourceFormat("t", schema, mode, key, (), p.encoding(registry, defaults=defaults), "protobuf")
    every = pa.array(keys or [None] * count, pa.binary()), pa.array(values, pa.binary())
    return decode(source, *every, pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64()))


def rows(found: Decoded) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def number_of(registry: SchemaRegistry) -> int:
    return registry.add("t-value", SCHEMA, "PROTOBUF")


def random_order(chance: Random) -> Any:
    order = p.classes(SCHEMA)("shop.Order")()

    def maybe(name: str, *choices: Any) -> None:
        if chance.random() < 0.7:
            setattr(order, name, chance.choice(choices))

    for name, bits in (("i", 31), ("l", 63), ("z", 31), ("zl", 63), ("s", 31), ("sl", 63)):
        maybe(name, 0, 1, -1, 2**bits - 1, -(2**bits))
    for name, bits in (("u", 32), ("ul", 63), ("f", 32), ("fl", 63)):
        maybe(name, 0, 1, 2**bits - 1)
    maybe("x", 0.5, float("inf"))
    maybe("d", 0.1, -0.0)
    maybe("t", True, False)
    maybe("text", "", "é" * 100)
    maybe("raw", b"", b"\xff")
    maybe("kind", 0, 1, -2)
    maybe("maybe", 0, 7)
    maybe(chance.choice(["left"]), 0, 3)
    if chance.random() < 0.5:
        order.line.sku = chance.choice(["", "a"])
        order.line.inner.n = chance.choice([0, -5])
    for _ in range(chance.randrange(4)):
        order.lines.add(sku=chance.choice(["", "b"]), n=chance.choice([0, 70_000]))
        order.counts[chance.choice("abc")] = chance.randrange(5)
    order.numbers.extend(chance.choice([0, -1, 2**31 - 1, 300]) for _ in range(chance.randrange(5)))
    order.loose.extend(chance.choice([0, -1, 2**60]) for _ in range(chance.randrange(5)))
    order.doubles.extend(chance.choice([0.0, 1.5]) for _ in range(chance.randrange(3)))
    order.texts.extend(chance.choice(["", "x"]) for _ in range(chance.randrange(3)))
    order.kinds.extend(chance.choice([0, 1, -2]) for _ in range(chance.randrange(3)))
    order.flags.extend(chance.choice([True, False]) for _ in range(chance.randrange(3)))
    if chance.random() < 0.5:
        order.at.FromMicroseconds(chance.choice([0, -1, 1_700_000_000_123_456]))
    if chance.random() < 0.5:
        order.wrapped.value = chance.choice([0, 9])
    return order


def plain(message: Any, kind: pa.DataType | pa.Schema, names: Sequence[str], defaults: bool) -> dict[str, Any]:
    """What the library says, as a row. A field that is not in the bytes is null, or what the library gives in its place."""
    row: dict[str, Any] = {}
    set_fields = {field.name for field, _ in message.ListFields()}
    for name in names:
        field, value = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
        inner = kind.field(name).type
        if field.is_repeated:
            if name == "counts":
                row[name] = [{"key": key, "value": number} for key, number in value.items()]
                continue
            row[name] = [of_value(field, each, inner.value_type, defaults) for each in value]
        elif name in set_fields or (field.has_presence and message.HasField(name)):
            row[name] = of_value(field, value, inner, defaults)
        else:
            row[name] = None if not defaults or field.has_presence else of_value(field, value, inner, defaults)
    return row


def of_value(field: Any, value: Any, kind: pa.DataType, defaults: bool) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.message_type is None:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return pa.scalar(value.ToMicroseconds(), pa.int64()).cast(kind).as_py()
    if field.message_type.full_name == "google.protobuf.Int64Value":
        return value.value
    return plain(value, kind, [kind.field(n).name for n in range(kind.num_fields)], defaults)


@pytest.mark.parametrize("defaults", [False, True])
def test_every_type_is_read(registry: SchemaRegistry, defaults: bool) -> None:
    orders = [random_order(Random(seed)) for seed in range(300)]
    messages = [p.framed(number_of(registry), order.SerializeToString()) for order in orders]
    found = decoded(registry, COLUMNS, messages, defaults=defaults)
    found.rows.validate(full=True)
    assert not found.rejected
    ours = found.rows.drop_columns("weight").rename_columns(COLUMNS.names).to_pylist()
    for order, row in zip(orders, ours, strict=True):
        row["counts"].sort(key=lambda entry: entry["key"])
        expected = plain(order, COLUMNS, COLUMNS.names, defaults)
        expected["counts"].sort(key=lambda entry: entry["key"])
        assert repr(row) == repr(expected)


def test_an_enum_as_its_number(registry: SchemaRegistry) -> None:
    columns = pa.schema([("kind", pa.int32()), ("kinds", pa.list_(pa.int64()))])
    film = b"\x80\x01" + b"\xfe" + b"\xff" * 8 + b"\x01"
    messages = [p.framed(number_of(registry), message) for message in (film, b"")]
    assert rows(decoded(registry, columns, messages, defaults=True)) == [(-2, [], 1), (0, [], 1)]


FEW = pa.schema([("i", pa.int32()), ("text", pa.string()), ("numbers", pa.list_(pa.int32()))])


def test_fields_in_any_order_and_unknown_ones(registry: SchemaRegistry) -> None:
    number = number_of(registry)
    unknown = (
        b"\xc2\x3e\x03abc" + b"\xc8\x3e\x01" + b"\xcd\x3e1234" + b"\xd1\x3e12345678"
    )  # 1000: bytes, 1001: varint, 1002, 1003: fixed
    message = (
        b"\x9a\x01\x02\x01\x02"
        + unknown
        + b"\x72\x01a"
        + b"\x08\x05"
        + b"\x98\x01\x07"
        + b"\x08\x06"
        + b"\x9a\x01\x01\x08"
    )
    assert rows(decoded(registry, FEW, [p.framed(number, message)])) == [(6, "a", [1, 2, 7, 8], 1)]


def test_messages_of_several_types_stay_in_their_order(registry: SchemaRegistry) -> None:
    number = number_of(registry)
    newer = registry.add(
        "t-value", SCHEMA.replace("int64 id = 1; }\n", "string more = 2; int64 id = 1; }\n"), "PROTOBUF"
    )
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    avro = registry.add("t-value", '"long"')
    broken = registry.add("t-value", "no schema", "PROTOBUF")
    messages: list[bytes | None] = [
        p.framed(number, b"\x08\x01", 1), p.framed(newer, b"\x12\x01x\x08\x02", 1), p.framed(number, b"\x08\x03", 1, 0), None, b"",
        p.framed(number, b"\x08\x04", 5), p.framed(avro, b""), p.framed(7, b""), p.framed(number, b"", 1), p.framed(number, b"\x08", 1),
        p.framed(number, b"\x0b", 1), p.framed(broken, b""), p.framed(number, b"\x08\x05", 1), p.framed(number, b"\x09" + bytes(8), 1),
    ]  # fmt: skip
    found = decoded(registry, schema, messages)
    assert [row[0] for row in rows(found)] == [1, 2, 3, 5]
    expected = [
        "empty", "empty", f"schema id {number}: it has no message 5", f"schema id {avro}: it is a schema of AVRO",
        "schema id 7 is not in the registry",
        "column id: null, but declared NOT NULL", "it ends within a value", "what stands at the place of a field is none",
        f"schema id {broken}: it does not compile: ", "a field has a value of another type",
    ]  # fmt: skip
    assert [
        (r.reason, want) for r, want in zip(found.rejected, expected, strict=True) if not r.reason.startswith(want)
    ] == []
    assert [rejected.offset for rejected in found.rejected] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 13]


def test_schemas_that_import_others(registry: SchemaRegistry) -> None:
    registry.add("money", 'syntax = "proto3"; package m; message Money { int64 cents = 1; }', "PROTOBUF")
    place = [{"name": "shop/money.proto", "subject": "money", "version": 1}]
    text = 'syntax = "proto3"; import "shop/money.proto"; message Bill { m.Money total = 1; }'
    message = p.framed(registry.add("t-value", text, "PROTOBUF", place), b"\x0a\x02\x08\x07")
    kind = pa.struct([("cents", pa.int64())])
    assert rows(decoded(registry, pa.schema([("total", kind)]), [message])) == [({"cents": 7}, 1)]


@pytest.mark.parametrize("file", TEXTS)
def test_a_file_that_every_registry_knows_is_as_its_owner_has_it(file: str) -> None:
    """The owners' packages in Python: Google's, and Confluent's client, of whose packages this file alone can be loaded without more."""
    module = file.replace("/", ".").removesuffix(".proto") + "_pb2"
    if file.startswith("confluent"):
        parent = importlib.util.find_spec("confluent_kafka")
        assert parent is not None and parent.origin is not None
        path = Path(parent.origin).parent / "schema_registry" / (file.removesuffix(".proto") + "_pb2.py")
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    assert _declared(_with_every_file().FindFileByName(file)) == _declared(loaded.DESCRIPTOR)


@cache
def _with_every_file() -> DescriptorPool:
    imports = "".join(f'import "{file}";' for file in TEXTS)
    return compile_schema(f'syntax = "proto3"; {imports}', ())[0]


def _declared(file: FileDescriptor) -> str:
    """What a file declares, without options, which say how code is made, and without the names in JSON, which follow from the others."""
    found = FileDescriptorProto()
    file.CopyToProto(found)
    found.ClearField("options")
    return re.sub(r' *json_name: ".*"\n', "", str(found))


def test_what_connects_converter_registers(registry: SchemaRegistry) -> None:
    """Its types that Protobuf does not have are options of fields. The file of the options is not among the references."""
    text = """
    syntax = "proto3"; import "confluent/meta.proto"; import "google/type/timeofday.proto";
    message Row {
      int32 n = 1 [(confluent.field_meta) = { params: [ { key: "connect.type", value: "int16" } ] }];
      google.type.TimeOfDay at = 2 [(confluent.field_meta).tags = "PII"];
    }
    """
    number, made = registry.add("connect", text, "PROTOBUF"), p.message_class(text)
    message = made(n=5, at={"hours": 3, "nanos": 7}).SerializeToString()
    columns = pa.schema([("n", pa.int16()), ("at", pa.struct([("hours", pa.int32()), ("nanos", pa.int32())]))])
    assert rows(decoded(registry, columns, [p.framed(number, message)])) == [(5, {"hours": 3, "nanos": 7}, 1)]


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("l", pa.int32(), "column l: the field's type is int64, which is not read as INT"),
        ("u", pa.int32(), "column u: the field's type is uint32, which is not read as INT"),
        ("d", pa.float32(), "column d: the field's type is double, which is not read as FLOAT"),
        ("text", pa.int64(), "column text: the field's type is string, which is not read as BIGINT"),
        ("line", pa.string(), "column line: the field's type is message shop.Order.Line, which is not read as STRING"),
        ("kind", pa.bool_(), "column kind: the field's type is enum shop.Kind, which is not read as BOOLEAN"),
        ("numbers", pa.int32(), "column numbers: the field is repeated int32, which is read as ARRAY only"),
        ("i", pa.list_(pa.int32()), "column i: the field's type is int32, which is not read as ARRAY"),
        (
            "at",
            pa.int64(),
            "column at: the field's type is message google.protobuf.Timestamp, which is not read as BIGINT",
        ),
    ],
)
def test_types_that_do_not_go_together(registry: SchemaRegistry, name: str, kind: pa.DataType, why: str) -> None:
    (rejected,) = decoded(registry, pa.schema([(name, kind)]), [p.framed(number_of(registry), b"")]).rejected
    assert rejected.reason.startswith(f"schema id {number_of(registry)}: {why}")


def test_of_the_members_of_a_oneof_the_last_one_counts(registry: SchemaRegistry) -> None:
    """As the library has it, in messages that were put together from several. Also if the table has one of the members alone."""
    made, chance = p.classes(SCHEMA)("shop.Order"), Random(1)
    number, messages = number_of(registry), list[bytes]()
    for _ in range(200):
        parts = [
            chance.choice([{"left": 3}, {"left": 0}, {"right": "x"}, {"right": ""}, {"i": 5}])
            for _ in range(chance.randrange(5))
        ]
        messages.append(b"".join(made(**part).SerializeToString() for part in parts))  # type: ignore[arg-type]
    for names in (["i", "left", "right"], ["left"], ["right"]):
        columns = pa.schema([COLUMNS.field(name) for name in names])
        found = decoded(registry, columns, [p.framed(number, message) for message in messages])
        expected = [plain(made.FromString(message), columns, names, False) for message in messages]
        assert rows(found) == [(*row.values(), 1) for row in expected]


@pytest.mark.parametrize(
    ("name", "kind", "message", "why"),
    [
        ("ul", pa.int64(), b"\x20" + b"\xff" * 9 + b"\x01", "column ul: a value of uint64 that does not fit BIGINT"),
        (
            "kind",
            pa.string(),
            b"\x80\x01\x05",
            "column kind: a number for which shop.Kind has no name in this schema; declare INT to have the numbers",
        ),
        ("text", pa.string(), b"\x72\x01\xff", "column text: a text that is not UTF-8"),
        ("line", LINE, b"\x8a\x01\x01\x08", "it ends within a value"),
        ("line", LINE, b"\x8a\x01\x00\x8a\x01\x00", "column line: the message is there twice, in parts"),
        ("numbers", pa.list_(pa.int32()), b"\x9a\x01\x01\x80", "it ends within a value"),
        ("at", pa.timestamp("us", "UTC"), b"\xba\x01\x02\x10\x80", "it ends within a value"),
    ],
)
def test_values_that_cannot_be(
    registry: SchemaRegistry, name: str, kind: pa.DataType, message: bytes, why: str
) -> None:
    good = p.framed(number_of(registry), b"")
    found = decoded(registry, pa.schema([(name, kind)]), [good, p.framed(number_of(registry), message), good])
    assert [(rejected.offset, rejected.reason) for rejected in found.rejected] == [(1, why)] and len(rows(found)) == 2


def test_rubbish_never_crashes_and_is_judged_as_by_others(registry: SchemaRegistry) -> None:
    chance, number = Random(5), number_of(registry)
    broken = []
    for seed in range(300):
        changed = bytearray(random_order(Random(seed)).SerializeToString() or b"\x08\x01")
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        broken.append(bytes(changed[: chance.choice([len(changed), chance.randrange(len(changed) + 1)])]))
    found = decoded(registry, FEW, [p.framed(number, message) for message in broken])
    found.rows.validate(full=True)
    refused = {rejected.offset: rejected.reason for rejected in found.rejected}
    ours = iter(rows(found))
    for position, message in enumerate(broken):
        try:
            other = p.classes(SCHEMA)("shop.Order").FromString(message)
        except Exception:
            other = None  # it reads every field, and we those of the table
        if position in refused:
            assert (
                other is None
                or refused[position] == "a field has a value of another type"
                or "place of a field" in refused[position]
            )
        else:
            row = next(ours)
            assert other is None or row == (*plain(other, FEW, FEW.names, False).values(), 1)
    assert 20 < len(refused) < 280


def test_keys_and_changes(registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; message Change { Row before = 1; Row after = 2; string op = 3; } message Row { int64 id = 1; string s = 2; }'
    number = registry.add("t-value", text, "PROTOBUF")
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    keys = [p.framed(number, b"\x08\x03", 1), p.framed(number, b"", 1)]  # 0 has no bytes
    upserts = decoded(registry, schema, [p.framed(number, b"\x08\x03\x12\x01a", 1), None], keys=keys, mode="upsert")
    assert rows(upserts) == [(3, "a", False, 0, 0), (0, None, True, 0, 1)]
    changes = [b"\x12\x02\x08\x01\x1a\x01c", b"\x0a\x02\x08\x01\x1a\x01d"]
    found = decoded(registry, schema, [p.framed(number, change) for change in changes], mode="changelog")
    assert rows(found) == [(1, None, 1), (1, None, -1)]


def test_changes_that_are_read_as_rows_are_malformed(registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; message Change { int64 before = 1; int64 after = 2; string op = 3; int64 ts_ms = 4; }'
    message = p.framed(registry.add("changes", text, "PROTOBUF"), b"\x20\x07")
    (refused,) = decoded(registry, pa.schema([("id", pa.int64()), ("ts_ms", pa.int64())]), [message]).rejected
    assert "it has before, after, op, ts_ms, and none of the table's columns" in refused.reason
    text = 'syntax = "proto3"; message Change { Row after = 2; string op = 3; } message Row { int64 other = 1; }'
    message = p.framed(registry.add("others", text, "PROTOBUF"), b"\x12\x02\x08\x01\x1a\x01c")
    (refused,) = decoded(registry, pa.schema([("id", pa.int64())]), [message], mode="changelog").rejected
    assert "it has other, and none of the table's columns" in refused.reason


def test_a_map_is_read_as_a_map_without_two_entries_of_one_key(registry: SchemaRegistry) -> None:
    number = number_of(registry)
    order = p.classes(SCHEMA)("shop.Order")
    schema = pa.schema([("counts", pa.map_(pa.string(), pa.int64())), ("i", pa.int8())])
    plain, none = order(counts={"b": 1, "": 0}, i=-128), order()
    twice = plain.SerializeToString() + order(counts={"b": 2}).SerializeToString()
    messages = [
        *(p.framed(number, each.SerializeToString(deterministic=True)) for each in (plain, none, order(i=128))),
        p.framed(number, twice),
    ]
    found = decoded(registry, schema, messages)
    assert [(sorted(counts), *rest) for counts, *rest in rows(found)] == [([("", 0), ("b", 1)], -128, 1), ([], None, 1)]
    assert [each.reason for each in found.rejected] == [
        "column i: a value of int32 that does not fit TINYINT",
        "column counts: two entries of the map have one key",
    ]
    wrong = decoded(registry, pa.schema([("numbers", pa.map_(pa.string(), pa.int32()))]), messages[:1])
    assert "the field is repeated int32, which is read as ARRAY only" in wrong.rejected[0].reason


@pytest.mark.parametrize(
    ("seconds", "micros"),
    [
        (-(2**63), None),
        (2**63 - 1, None),
        (-(2**63) // 10**6 - 1, None),
        (2**63 // 10**6 + 1, None),
        (9_223_372_036_853, 9_223_372_036_853_999_999),
        (-9_223_372_036_853, -9_223_372_036_852_000_001),
    ],
)
def test_the_seconds_of_a_moment_are_any_number(registry: SchemaRegistry, seconds: int, micros: int | None) -> None:
    """Google's library writes them. Those whose microseconds need more than 64 bits are malformed."""
    order = p.classes(SCHEMA)("shop.Order")()
    order.at.seconds, order.at.nanos = seconds, 999_999_999
    found = decoded(
        registry, pa.schema([COLUMNS.field("at")]), [p.framed(number_of(registry), order.SerializeToString())]
    )
    assert found.rows.column(0).cast(pa.int64()).to_pylist() == ([] if micros is None else [micros])
    reason = "column at: no moment that a TIMESTAMP can hold"
    assert [each.reason for each in found.rejected] == ([reason] if micros is None else [])


WITHIN = """
syntax = "proto2";
message Outer {
  message First { optional int64 first = 1; }
  map<string, string> labels = 1;
  message Created { optional int64 created = 1; }
  message Deleted { optional int64 deleted = 1; map<string, string> tags = 2; message Deep { optional int64 deep = 1; } }
  optional group Part = 2 { optional int64 part = 1; }
  message Last { optional int64 last = 1; }
}
message Other { message Within { optional int64 within = 1; } }
"""


def test_which_message_a_path_means(registry: SchemaRegistry) -> None:
    """The paths of both kinds of clients: numbers among the descriptors that the compiler gives, and among the messages that the text declares.
    Each message has one field, which has its name. A path that means two messages is read as neither."""
    number, made = registry.add("within", WITHIN, "PROTOBUF"), p.classes(WITHIN)
    outer, deleted = made("Outer").DESCRIPTOR, made("Outer.Deleted").DESCRIPTOR
    assert [each.name for each in outer.nested_types] == ["First", "LabelsEntry", "Created", "Deleted", "Part", "Last"]
    described = {(0, place): each.name for place, each in enumerate(outer.nested_types) if each.name != "LabelsEntry"}
    described |= {(1, 0): "Within", (0, 3, 1): deleted.nested_types[1].name}
    declared = {(0, place): name for place, name in enumerate(("First", "Created", "Deleted", "Last"))}
    declared |= {(1, 0): "Within", (0, 2, 0): "Deep"}
    schema = pa.schema([(name.lower(), pa.int64()) for name in {*described.values(), *declared.values()}])
    seen = set()
    for path in sorted({*described, *declared, (0, 6), (0, 3, 0), (2,)}):
        found = decoded(registry, schema, [p.framed(number, b"\x08\x05", *path)])
        names = {of[path] for of in (described, declared) if path in of}
        seen.add(len(names))
        if len(names) == 1:
            (row,) = found.rows.drop_columns("weight").rename_columns(schema.names).to_pylist()
            assert {name for name, value in row.items() if value == 5} == {names.pop().lower()}, path
        else:
            expected = (
                f"{declared[path]} for clients in Java, and Outer.{described[path]} for"
                if names
                else "it has no message"
            )
            assert [expected in each.reason for each in found.rejected] == [True], path
    assert seen == {0, 1, 2}


def test_a_path_with_a_negative_number_is_malformed(registry: SchemaRegistry) -> None:
    number = registry.add("within", WITHIN, "PROTOBUF")
    paths = [b"\x04\x01\x00", b"\x04\x00\x01", b"\x02\x01", b"\x04\x02\x00"]  # [-1, 0], [0, -1], [-1], [1, 0]
    messages = [b"\x00" + number.to_bytes(4, "big") + path + b"\x08\x05" for path in paths]
    found = decoded(registry, pa.schema([("within", pa.int64())]), messages)
    assert rows(found) == [(5, 1)]
    assert [each.reason for each in found.rejected] == ["it does not name a message of its schema"] * 3


ENTRIES = """
syntax = "SYNTAX";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; BOOK = 1; }
message Part { optional int32 n = 1; PLAIN int32 m = 2; }
message Order {
  map<string, int32> number = 1; map<string, string> text = 2; map<string, Kind> kind = 3; map<string, Part> part = 4;
  map<string, google.protobuf.Int64Value> wrapped = 5; map<string, google.protobuf.Timestamp> at = 6;
}
"""
PART = pa.struct([("n", pa.int32()), ("m", pa.int32())])
VALUES = {
    "number": pa.int32(), "text": pa.string(), "kind": pa.string(), "part": PART, "wrapped": pa.int64(), "at": pa.timestamp("us", "UTC"),
}  # fmt: skip


@pytest.mark.parametrize("defaults", [False, True])
@pytest.mark.parametrize(("syntax", "label"), [("proto2", "optional"), ("proto3", "")])
def test_what_an_entry_of_a_map_leaves_out_is_as_google_has_it(
    registry: SchemaRegistry, syntax: str, label: str, defaults: bool
) -> None:
    """Some writers leave out what is zero, such as prost. Whether a field that is missing in a message is NULL is another question."""
    text = ENTRIES.replace("SYNTAX", syntax).replace("PLAIN", label)
    number, made = registry.add("entries", text, "PROTOBUF"), p.classes(text)("Order")
    for place, (name, kind) in enumerate(VALUES.items(), 1):
        bodies = [b"", b"\x0a\x01k", b"\x0a\x00" if name in ("number", "kind") else b"\x12\x00"]
        messages = [bytes([place << 3 | 2, len(body)]) + body for body in bodies]
        field = made.DESCRIPTOR.fields_by_name[name].message_type.fields_by_name["value"]
        pairs = [[*getattr(made.FromString(message), name).items()] for message in messages]
        expected = [[(key, of_value(field, value, kind, defaults)) for key, value in entries] for entries in pairs]
        framed = [p.framed(number, message, 1) for message in messages]
        as_map = decoded(registry, pa.schema([(name, pa.map_(pa.string(), kind))]), framed, defaults=defaults)
        assert rows(as_map) == [(entries, 1) for entries in expected]
        entry = pa.struct([("key", pa.string()), ("value", kind)])
        as_list = decoded(registry, pa.schema([(name, pa.list_(entry))]), framed, defaults=defaults)
        assert rows(as_list) == [([{"key": key, "value": value} for key, value in entries], 1) for entries in expected]


def test_an_entry_of_a_map_without_a_whole_date_is_malformed(registry: SchemaRegistry) -> None:
    text = (
        'syntax = "proto3"; import "google/type/date.proto"; message Days { map<string, google.type.Date> days = 1; }'
    )
    message = p.framed(registry.add("days", text, "PROTOBUF"), b"\x0a\x03\x0a\x01k")
    (refused,) = decoded(registry, pa.schema([("days", pa.map_(pa.string(), pa.date32()))]), [message]).rejected
    assert refused.reason == "column days[].value: no whole date of the years 1 to 9999"


PROTO2 = """
syntax = "proto2";
message Old {
  enum Kind { A = 1; B = 2; }
  optional int64 id = 1; optional string text = 2 [default = "none"]; optional int32 n = 3 [default = 42]; optional Kind kind = 4 [default = B];
  optional bool t = 5 [default = true]; optional bytes raw = 6 [default = "ab"]; optional double d = 7 [default = -0.5];
  optional string plain = 8; optional Old inner = 9;
}
"""


def test_a_default_of_proto2_stands_for_a_missing_field(registry: SchemaRegistry) -> None:
    """As Google's library and Spark's `from_protobuf` have it, whatever `emit.default.values` says. A field without one is NULL."""
    own = [("text", pa.string()), ("n", pa.int32()), ("kind", pa.string()), ("t", pa.bool_()), ("raw", pa.binary())]
    own += [("d", pa.float64()), ("plain", pa.string())]
    schema = pa.schema([("id", pa.int64()), *own, ("inner", pa.struct([("id", pa.int64()), *own]))])
    number, made = registry.add("old-value", PROTO2, "PROTOBUF"), p.classes(PROTO2)("Old")
    given = [made(id=1), made(id=2, text="", n=0, t=False), made(id=3, inner={"n": 7})]
    for defaults in (False, True):
        found = decoded(
            registry, schema, [p.framed(number, each.SerializeToString()) for each in given], defaults=defaults
        )
        assert rows(found) == [(*_of_proto2(each, own), _inner(each, own), 1) for each in given]
    narrow = decoded(registry, pa.schema([("id", pa.int64()), ("n", pa.int8())]), [p.framed(number, b"")])
    assert rows(narrow) == [(None, 42, 1)]


@pytest.mark.parametrize(
    ("field", "kind", "default"),
    [
        ("uint64 c = 1 [default = 18446744073709551615]", pa.int64(), "18446744073709551615 does not fit BIGINT"),
        ("fixed64 c = 1 [default = 9223372036854775808]", pa.int64(), "9223372036854775808 does not fit BIGINT"),
        ("int32 c = 1 [default = 128]", pa.int8(), "128 does not fit TINYINT"),
        ('bytes c = 1 [default = "\\377"]', pa.string(), r"b'\xff' does not fit STRING"),
        ("uint64 c = 1 [default = 9223372036854775807]", pa.int64(), 2**63 - 1),
        ("int32 c = 1 [default = -128]", pa.int8(), -128),
    ],
)
def test_a_default_that_does_not_fit_its_column(
    registry: SchemaRegistry, field: str, kind: pa.DataType, default: Any
) -> None:
    """It is malformed as the same value in the message is."""
    number = registry.add("defaults", f'syntax = "proto2"; message A {{ optional {field}; }}', "PROTOBUF")
    found = decoded(registry, pa.schema([("c", kind)]), [p.framed(number, b"")])
    reasons = [f"schema id {number}: column c: the field's default {default}"] if isinstance(default, str) else []
    assert [each.reason for each in found.rejected] == reasons
    assert rows(found) == ([] if reasons else [(default, 1)])


def _of_proto2(message: Any, own: list[tuple[str, pa.DataType]]) -> tuple[Any, ...]:
    """What Google's library says of the fields, as Java's has it: its default if it has one."""
    names = ["id", *(name for name, _ in own)]
    fields = message.DESCRIPTOR.fields_by_name
    has = {name: message.HasField(name) or fields[name].has_default_value for name in names}
    values = {name: getattr(message, name) if has[name] else None for name in names}
    return tuple({**values, "kind": {1: "A", 2: "B"}[values["kind"]]}.values())


def _inner(message: Any, own: list[tuple[str, pa.DataType]]) -> dict[str, Any] | None:
    if not message.HasField("inner"):
        return None
    return dict(zip(["id", *(name for name, _ in own)], _of_proto2(message.inner, own), strict=True))
