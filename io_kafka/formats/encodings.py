"""How the bytes of a message are read and written, as plain data: one class for each format beside JSON.

`Encoding` is closed: each class has a descriptor in table.py. None stands for JSON. The classes pickle, and hold no connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from io_kafka.registry.address import RegistryAddress


class MessagePart(Enum):
    """What the bytes are. ROW: the columns. ENVELOPE: before, after and op, with rows in the first two. KEY: the key columns; if it is one, a
    bare value may stand for it."""

    ROW = "row"
    ENVELOPE = "envelope"
    KEY = "key"


@dataclass(frozen=True)
class WithRegistry:
    """An encoding whose schemas a registry has. table.py refuses an encoding that names a registry and does not derive from this."""

    registry: RegistryAddress


@dataclass(frozen=True)
class Avro(WithRegistry):
    """Confluent's wire format: a byte 0, four bytes of the writer's schema id, and the Avro datum. `reader`: the text of the reader's schema,
    whose defaults and aliases count; None if the table's columns are all that is known."""

    reader: str | None = None


@dataclass(frozen=True)
class Csv:
    """One record of CSV. `null_value`: the text that stands for NULL, beside an empty field without quotes."""

    sep: str = ","
    null_value: str = ""


@dataclass(frozen=True)
class Text:
    """The whole value is one column: a STRING, or a BINARY."""


@dataclass(frozen=True)
class Protobuf(WithRegistry):
    """Confluent's wire format: a byte 0, four bytes of the schema's id, which message of it, and the message. `defaults`: whether a plain field
    that is missing has its type's zero."""

    defaults: bool = False


@dataclass(frozen=True)
class DescribedProtobuf:
    """Nothing but the message. `descriptor`: the bytes of a FileDescriptorSet; `message`: the full name of the type in it, or how that ends.
    `defaults`: as above."""

    descriptor: bytes = field(repr=False)
    message: str
    defaults: bool = False


@dataclass(frozen=True)
class JsonWithRegistry(WithRegistry):
    """JSON, before which some or all messages have a byte 0 and the four bytes of their schema's id."""


@dataclass(frozen=True)
class PlainAvro:
    """Nothing but the datum. `writer`: the text of the schema with which all messages were written."""

    writer: str


Encoding = Avro | PlainAvro | Csv | Text | Protobuf | DescribedProtobuf | JsonWithRegistry | None

KeyFormat = Literal["json", "avro", "protobuf", "string", "long", "int", "none"]
"""How the key of a message is read. `string`: its bytes are the text. `long`, `int`: 8 or 4 bytes, the highest first, as Kafka's serializers of
these names write them. `none`: it is not read."""


@dataclass(frozen=True)
class SchemaIds:
    """What a registry has given for an output: the ids of the schemas of its values and of its keys (None if no schema has them).

    Each format that has schemas derives its own class, so that the class says the format."""

    value: int
    key: int | None


class AvroIds(SchemaIds):
    """The ids of an output in Avro."""


class ProtobufIds(SchemaIds):
    """The ids of an output in Protobuf."""


OutputEncoding = SchemaIds | Csv | Text | None
"""How the messages of an output are written; None is JSON."""
