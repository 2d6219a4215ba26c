"""Protobuf by Google's own library: messages in the wire format, and schemas as a registry has them."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from io_kafka.formats.encodings import Protobuf
from io_kafka.registry.address import RegistryAddress
from tests.schema_registry import SchemaRegistry


@lru_cache
def classes(text: str) -> Any:
    """A function from the full name of a message to its class."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.proto").write_text(text)
        result, google = Path(folder) / "out", Path(grpc_tools.__file__).parent / "_proto"
        status = protoc.main(
            ["protoc", f"-I{folder}", f"-I{google}", "--include_imports", f"--descriptor_set_out={result}", "t.proto"]
        )
        assert status == 0
        files = FileDescriptorSet.FromString(result.read_bytes())
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
