"""Protobuf by Google's own library: messages in the wire format, and schemas as a registry has them."""

from __future__ import annotations

import tempfile
from datetime import UTC, date
from decimal import Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from io_kafka.formats.encodings import Protobuf
from io_kafka.formats.protobuf.compile import compile_schema
from io_kafka.registry.address import RegistryAddress
from tests.schema_registry import SchemaRegistry


@lru_cache
def descriptors(text: str, *options: str) -> bytes:
    """The descriptor file of a schema, as `protoc` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.proto").write_text(text)
        result, google = Path(folder) / "out", Path(grpc_tools.__file__).parent / "_proto"
        status = protoc.main(
            [
                "protoc",
                f"-I{folder}",
                f"-I{google}",
                *(options or ("--include_imports",)),
                f"--descriptor_set_out={result}",
                "t.proto",
            ]
        )
        assert status == 0
        return result.read_bytes()


@lru_cache
def classes(text: str) -> Any:
    """A function from the full name of a message to its class."""
    files = FileDescriptorSet.FromString(descriptors(text))
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: GetMessageClass(pool.FindMessageTypeByName(name))


def path_bytes(*path: int) -> bytes:
    """Which message: counts and numbers in zigzag order."""
    return b"\x00" if path in ((), (0,)) else bytes([2 * len(path), *(2 * place for place in path)])


def framed(number: int, message: bytes, *path: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + path_bytes(*path) + message


def encoding(registry: SchemaRegistry, *, defaults: bool = False) -> Protobuf:
    return Protobuf(RegistryAddress(registry.url), defaults)


@lru_cache
def message_class(text: str) -> Any:
    """The class of the first message of a schema that may import what a registry knows."""
    pool, name = compile_schema(text, ())
    return GetMessageClass(next(iter(pool.FindFileByName(name).message_types_by_name.values())))


def of_google(value: Any) -> Any:
    """What Google's library has read, as Arrow has it."""
    name = None if not hasattr(value, "DESCRIPTOR") else value.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return value.ToDatetime(UTC)
    if name == "google.type.Date":
        return date(value.year, value.month, value.day)
    if name == "confluent.type.Decimal":
        return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale, Context(prec=50))
    if name is None:
        return value
    row: dict[str, Any] = {}
    for field in value.DESCRIPTOR.fields:
        found = getattr(value, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            row[field.name] = dict(found)
        elif field.is_repeated:
            row[field.name] = [of_google(item) for item in found]
        else:
            row[field.name] = of_google(found) if value.HasField(field.name) else None
    return row
