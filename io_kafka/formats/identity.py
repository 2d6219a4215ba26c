"""What identifies the format of a source: everything that decides which row a message gives.

Left out, each with its reason: the address of a registry and its password, because a registry that moves has the same schemas; the comments
(`doc`) and the spelling of an Avro schema, because they change no value; whether JSON has a registry, because what is read without one is read
alike with one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, assert_never

from io_kafka.formats.encodings import (
    Avro,
    Csv,
    DescribedProtobuf,
    Encoding,
    JsonWithRegistry,
    PlainAvro,
    Protobuf,
    Text,
)

DIGEST_LETTERS = 16


def name_of(encoding: Encoding) -> str:
    """The format's name, as a table's property has it."""
    match encoding:
        case None | JsonWithRegistry():
            return "json"
        case Avro() | PlainAvro():
            return "avro"
        case Protobuf() | DescribedProtobuf():
            return "protobuf"
        case Csv():
            return "csv"
        case Text():
            return "text"
        case _:
            assert_never(encoding)


def properties_of(encoding: Encoding) -> dict[str, str]:
    """The properties of the format by their names, those with their defaults left out. Schemas have a digest in their place."""
    match encoding:
        case None | JsonWithRegistry() | Text():
            return {}
        case Avro():
            return {} if encoding.reader is None else {"avro.schema": _of_schema(encoding.reader)}
        case PlainAvro():
            return {"avro.framing": "none", "avro.schema": _of_schema(encoding.writer)}
        case Csv():
            given = {"csv.sep": encoding.sep, "csv.nullValue": encoding.null_value}
            usual = {"csv.sep": Csv().sep, "csv.nullValue": Csv().null_value}
            return {name: value for name, value in given.items() if value != usual[name]}
        case Protobuf():
            return _defaults(defaults=encoding.defaults)
        case DescribedProtobuf():
            found = {"protobuf.descriptor": _digest(encoding.descriptor), "protobuf.message": encoding.message}
            return {**found, **_defaults(defaults=encoding.defaults)}
        case _:
            assert_never(encoding)


def _defaults(*, defaults: bool) -> dict[str, str]:
    return {"emit.default.values": "true"} if defaults else {}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()[:DIGEST_LETTERS]}"


def _of_schema(text: str) -> str:
    return _digest(json.dumps(_without_comments(json.loads(text)), sort_keys=True).encode())


def _without_comments(schema: Any) -> Any:
    """A default is a value, in which `doc` may be the name of a field."""
    if isinstance(schema, list):
        return [_without_comments(part) for part in schema]
    if isinstance(schema, dict):
        return {
            name: part if name == "default" else _without_comments(part)
            for name, part in schema.items()
            if name != "doc"
        }
    return schema
