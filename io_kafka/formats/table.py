"""All formats of messages. Whoever has an encoding or a name asks here what it means, and knows no format.

An encoding without a descriptor, or a name without one, is an error when this module is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, get_args

from base.options import OutputFormatName
from io_kafka.formats.avro.format import AVRO
from io_kafka.formats.delimited_format import CSV, TEXT
from io_kafka.formats.descriptor import Format, FromOptions, FromRegistry, Option, Reading, Writing
from io_kafka.formats.encodings import Encoding, OutputEncoding, SchemaIds, WithRegistry
from io_kafka.formats.json_format import JSON
from io_kafka.formats.protobuf.format import PROTOBUF


def by_name(formats: tuple[Format, ...]) -> Mapping[OutputFormatName, Format]:
    """Raises TypeError unless each name, each encoding of sources and each encoding of outputs is that of one format."""
    _check("format", [each.name for each in formats], get_args(OutputFormatName))
    _check("encoding of sources", [way.encoding for each in formats for way in each.reads], get_args(Encoding))
    of_outputs = [each for each in get_args(OutputEncoding) if each is not SchemaIds]
    _check(
        "encoding of outputs",
        [each.writes.encoding for each in formats],
        (*of_outputs, *SchemaIds.__subclasses__()),
    )
    check_registries(get_args(Encoding))
    return MappingProxyType({each.name: each for each in formats})


def check_registries(encodings: Iterable[type]) -> None:
    """Raises TypeError for an encoding that has a registry and does not say so by its base: it would get no credentials."""
    for encoding in encodings:
        if "registry" in getattr(encoding, "__dataclass_fields__", ()) and not issubclass(encoding, WithRegistry):
            raise TypeError(f"{encoding} has a registry, so it has to derive from WithRegistry")


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
_WRITTEN: dict[type, Format] = {each.writes.encoding: each for each in FORMATS.values()}


def format_of(encoding: Encoding) -> Format:
    return _READ[type(encoding)][0]


def reading_of(encoding: Encoding) -> Reading[Any]:
    return _READ[type(encoding)][1]


def writing_of(encoding: OutputEncoding) -> Writing[Any]:
    return _WRITTEN[type(encoding)].writes


def name_of(ids: SchemaIds) -> OutputFormatName:
    """The name of the format of the output that has these ids."""
    return _WRITTEN[type(ids)].name


def ids_of(name: OutputFormatName, value: int, key: int | None) -> SchemaIds:
    """The ids of the schemas of an output in the format of this name. See `SchemaIds`."""
    encoding_from = FORMATS[name].writes.encoding_from
    assert isinstance(encoding_from, FromRegistry), f"{name} has no schemas"
    ids = encoding_from.encoding(value, key)
    assert isinstance(ids, SchemaIds), f"{name}: {type(ids)} does not derive from SchemaIds"
    return ids


def options_of_outputs() -> Iterator[Option]:
    """Yields the options that outputs have in all formats."""
    for each in FORMATS.values():
        if isinstance(each.writes.encoding_from, FromOptions):
            yield from each.writes.encoding_from.options
