"""Messages in Protobuf without a registry: Google's library writes them and their descriptor file."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from base.options import Mode
from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.encodings import DescribedProtobuf
from io_kafka.formats.protobuf.described import reader_of
from io_kafka.formats.spec import Decoded, SourceFormat
from tests.io_kafka.formats import protobuf_messages as p
from tests.io_kafka.formats import test_protobuf as with_registry
from tests.io_kafka.formats.decoding import decode
from tests.schema_registry import schema_registry

SCHEMA, COLUMNS = with_registry.SCHEMA, with_registry.COLUMNS
SMALL = pa.schema([("id", pa.int64())])


def decoded(message: str, schema: pa.Schema, values: list[bytes | None], mode: Mode = "append", **more: Any) -> Decoded:
    source = SourceFormat("t", schema, mode, encoding=DescribedProtobuf(p.descriptors(SCHEMA), message), **more)
    count = len(values)
    keys, every = pa.array([None] * count, pa.binary()), pa.array(range(count), pa.int64())
    return decode(source, keys, pa.array(values, pa.binary()), every.cast(pa.int32()), every)


def test_messages_are_read_as_those_of_a_registry() -> None:
    chance = Random(7)
    messages = [with_registry.random_order(chance).SerializeToString() for _ in range(200)]
    with schema_registry() as registry:
        number = with_registry.number_of(registry)
        framed = with_registry.decoded(registry, COLUMNS, [p.framed(number, message) for message in messages])
    found = decoded("shop.Order", COLUMNS, list(messages))
    assert (found.rejected, framed.rejected) == ([], [])
    assert found.rows.equals(framed.rows)


def test_what_is_no_message() -> None:
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    found = decoded("Other", required, [b"\x08\x05", None, b"", b"\x08", b"\x08\x06"])
    assert [row["c0"] for row in found.rows.to_pylist()] == [5, 6]
    assert [(rejected.offset, rejected.reason) for rejected in found.rejected] == [
        (1, "empty"), (2, "column id: null, but declared NOT NULL"), (3, "it ends within a value")
    ]  # fmt: skip
    assert decoded("Other", SMALL, [None]).rejected[0].reason == "empty"
    assert decoded("Other", SMALL, [b""]).rows.column(0).to_pylist() == [None]


@pytest.mark.parametrize("name", ["shop.Other", "Other", "Other.Within", "shop.Other.Within"])
def test_the_name_of_a_message(name: str) -> None:
    assert decoded(name, SMALL, [b"\x08\x05"]).rows.column(0).to_pylist() == [5]


@pytest.mark.parametrize(
    ("descriptor", "message", "kind", "expected"),
    [
        (b"no descriptor", "Other", pa.int64(), "it is no FileDescriptorSet"),
        (p.descriptors(SCHEMA), "Orders", pa.int64(), "it has no message Orders; it has .*shop.Order"),
        (p.descriptors(SCHEMA, "--include_source_info"), "Other", pa.int64(), "was it made with --include_imports"),
        (
            p.descriptors(SCHEMA),
            "Other",
            pa.string(),
            "column id: the field's type is int64, which is not read as STRING",
        ),
    ],
)
def test_a_descriptor_that_does_not_fit(descriptor: bytes, message: str, kind: pa.DataType, expected: str) -> None:
    with pytest.raises(BadSchema, match=expected):
        reader_of(DescribedProtobuf(descriptor, message), pa.schema([("id", kind)]))
