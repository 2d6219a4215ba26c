"""Messages of one type that a descriptor file declares, without a registry and without anything before the message, as Spark's `from_protobuf`
reads them. The file is a FileDescriptorSet, which `protoc --include_imports --descriptor_set_out=FILE` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from io_kafka.formats.avro.read import read_alike
from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.encodings import DescribedProtobuf
from io_kafka.formats.parse import Parsed
from io_kafka.formats.protobuf.read import read_messages

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto

    from io_kafka.formats.protobuf.resolve import ReadMessages


_GOOGLES = "google.protobuf."

SHOWN_MAX = 10
"""Names in an error: more of them help nobody."""


def parse_described(values: pa.Array, schema: pa.Schema, encoding: DescribedProtobuf) -> Parsed:
    """`values`: binary. A message of no bytes is one in which every field is missing; a null is none."""
    return read_alike(
        values,
        schema,
        lambda given: read_messages(Cursor(given), np.arange(len(given)), reader_of(encoding, schema), schema),
    )


@lru_cache(maxsize=256)  # of a process: one for each table and each use of it
def reader_of(encoding: DescribedProtobuf, schema: pa.Schema) -> ReadMessages:
    """Raises BadSchema, which names a column that the type has otherwise."""
    from io_kafka.formats.protobuf.resolve import columns_of  # with Protobuf's library, which not every worker needs

    return columns_of(_message(encoding), list(schema), encoding.defaults)


def _message(encoding: DescribedProtobuf) -> Descriptor:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(encoding.descriptor).file
    except DecodeError:
        raise BadSchema("it is no FileDescriptorSet") from None
    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
    except TypeError as fault:
        raise BadSchema(f"it is not whole ({fault}); was it made with --include_imports?") from None
    names = {name for file in files for name in _names(file.package, file.message_type)}
    found = [full for full in names if full == encoding.message or full.endswith(f".{encoding.message}")]
    if encoding.message in found:
        found = [encoding.message]
    if len(found) != 1:
        own = sorted(name for name in names if not name.startswith(_GOOGLES))[:SHOWN_MAX]
        count = "several messages" if found else "no message"
        raise BadSchema(f"it has {count} {encoding.message}; it has {', '.join(own)}")
    return pool.FindMessageTypeByName(found[0])


def _names(package: str, messages: Iterable[DescriptorProto]) -> list[str]:
    """The full names of messages and of those within them."""
    found: list[str] = []
    for message in messages:
        name = f"{package}.{message.name}" if package else message.name
        found += [name, *_names(name, message.nested_type)]
    return found
