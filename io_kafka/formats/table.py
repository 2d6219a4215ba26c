"""All formats of messages. Whoever has an encoding or a name asks here what it means, and knows no format.

An encoding without a descriptor, or a name without one, is an error when this module is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

from base.options import OutputFormatName
from io_kafka.formats.avro.format import AVRO
from io_kafka.formats.delimited_format import CSV, TEXT
from io_kafka.formats.descriptor import Format, FromOptions, Option, Reading, Writing
from io_kafka.formats.encodings import Encoding, OutputEncoding
from io_kafka.formats.json_format import JSON
from io_kafka.formats.protobuf.format import PROTOBUF


def by_name(formats: tuple[Format, ...]) -> Mapping[OutputFormatName, Format]:
    """Raises TypeError unless each name, each encoding of sources and each encoding of outputs is that of one format."""
    _check("format", [each.name for each in formats], get_args(OutputFormatName))
    _check("encoding of sources", [way.encoding for each in formats for way in each.reads], get_args(Encoding))
    _check("encoding of outputs", [each.writes.encoding for each in formats], get_args(OutputEncoding))
    return MappingProxyType({each.name: each for each in formats})


def _check(what: str, described: list[Any], known: tuple[Any, ...]) -> None:
    for each in (*known, *described):
        if described.count(each) != 1 or each not in known:
            count = described.count(each)
            raise TypeError(
                f"{what} {each}: {count} descriptors in io_kafka/formats/table.py, wanted 1 of each in {known}"
            )


FORMATS = by_name((JSON, AVRO, PROTOBUF, CSV, TEXT))

_READ: dict[type, tuple[Format, Reading[Any]]] = {
    way.encoding: (each, way) for each in FORMATS.values() for way in each.reads
}
_WRITTEN: dict[type, Writing[Any]] = {each.writes.encoding: each.writes for each in FORMATS.values()}


def format_of(encoding: Encoding) -> Format:
    return _READ[type(encoding)][0]


def reading_of(encoding: Encoding) -> Reading[Any]:
    return _READ[type(encoding)][1]


def writing_of(encoding: OutputEncoding) -> Writing[Any]:
    return _WRITTEN[type(encoding)]


def options_of_outputs() -> Iterator[Option]:
    """Of all formats."""
    for each in FORMATS.values():
        if isinstance(each.writes.made, FromOptions):
            yield from each.writes.made.options
