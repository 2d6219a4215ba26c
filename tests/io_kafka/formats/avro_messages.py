"""Avro by fastavro, which shares no code with ours: schemas, random rows, and messages in the wire format."""

from __future__ import annotations

import decimal
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

from io_kafka.formats.encodings import Avro
from io_kafka.registry.address import RegistryAddress
from tests.schema_registry import SchemaRegistry


def record(*fields: tuple[str, Any], name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def framed(number: int, datum: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + datum


def written(registry: SchemaRegistry, schema: Any, rows: list[Any], subject: str = "t-value") -> list[bytes]:
    """The messages of a producer."""
    number, parsed = registry.add(subject, schema), fastavro.parse_schema(schema)
    messages = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        messages.append(framed(number, out.getvalue()))
    return messages


def read_back(registry: SchemaRegistry, message: bytes) -> Any:
    """What a consumer reads."""
    assert message[0] == 0
    schema = fastavro.parse_schema(json.loads(registry.schemas[int.from_bytes(message[1:5], "big")]["schema"]))
    rest = io.BytesIO(message[5:])
    value = fastavro.schemaless_reader(rest, schema, None)
    assert not rest.read(), "nothing is left"
    return value


def encoding(registry: SchemaRegistry, reader: Any = None) -> Avro:
    return Avro(RegistryAddress(registry.url), None if reader is None else json.dumps(reader))


EVERY_TYPE = pa.schema([
    ("b", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("l", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("s", pa.string()),
    ("x", pa.binary()), ("t", pa.bool_()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")),
    ("price", pa.decimal128(20, 3)), ("wide", pa.decimal128(38, 0)), ("list", pa.list_(pa.field("element", pa.string()))),
    ("deep", pa.struct([("a", pa.int32()), ("q", pa.list_(pa.field("element", pa.struct([("z", pa.float64())]))))])),
    ("map", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


def rows_of_every_type(count: int, seed: int) -> list[dict[str, Any]]:
    chance = Random(seed)
    return [{field.name: value_of(chance, field.type) for field in EVERY_TYPE} for _ in range(count)]


def value_of(chance: Random, kind: pa.DataType) -> Any:
    if chance.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {kind.field(i).name: value_of(chance, kind.field(i).type) for i in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return {f"k{i}": value_of(chance, kind.item_type) for i in range(chance.randrange(3))}
    if pa.types.is_list(kind):
        return [value_of(chance, kind.value_type) for _ in range(chance.randrange(4))]
    if pa.types.is_integer(kind):
        edge = 2 ** (kind.bit_width - 1)
        return chance.choice([0, 1, -1, 63, 64, -64, -65, edge - 1, -edge])
    if pa.types.is_decimal(kind):
        edge = 10**kind.precision - 1
        unscaled = chance.choice([0, -1, 127, 128, -128, -129, 255, 256, edge, -edge])
        return Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=50))
    if pa.types.is_date(kind):
        return date(1, 1, 1) + timedelta(days=chance.randrange(3_000_000))
    if pa.types.is_timestamp(kind):
        return datetime(1, 1, 1, tzinfo=UTC if kind.tz else None) + timedelta(microseconds=chance.randrange(10**17))
    choices: dict[pa.DataType, list[Any]] = {
        pa.float32(): [0.5, -1.25, float("inf")],
        pa.float64(): [0.1, -0.0, 1e300, float("-inf")],
        pa.string(): ["", "é", "\N{SNOWMAN}" * 100],
        pa.binary(): [b"", b"\xff\x00"],
        pa.bool_(): [True, False],
    }
    return chance.choice(choices[kind])
