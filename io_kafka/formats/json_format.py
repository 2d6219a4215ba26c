"""JSON as a format of messages: with and without the ids of a registry. It has also the keys of all formats whose keys are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import NoneType

import pyarrow as pa
import pyarrow.compute as pc

from base.text.patterns import Patterns
from io_kafka.formats.connect.read import WantedColumns, parse_wrapped
from io_kafka.formats.connect.registered import explain_ids, parse_registered
from io_kafka.formats.debezium import EnvelopeReader, without_other_messages
from io_kafka.formats.descriptor import Format, FromOptions, Ops, Reading, Writing
from io_kafka.formats.encodings import JsonWithRegistry, MessagePart
from io_kafka.formats.keys import json_keys
from io_kafka.formats.parse import Parsed, parse
from io_kafka.formats.render import fragment, record
from io_kafka.formats.spec import OutputFormat, SourceFormat

NO_REGISTRY = "set 'format' = 'json' and 'schema.registry.url' if JSON follows, else 'format' = 'avro' or 'protobuf' with that registry"
NO_REGISTRY_OF_KEYS = "set 'key.format' as the producer writes its keys"


def no_properties(encoding: object) -> dict[str, str]:
    """Whether JSON has a registry is no property that identifies it, because what is read without one is read alike with one."""
    return {}


def keys_beside(encoding: object, keys: pa.Array, schema: pa.Schema, patterns: Patterns) -> Parsed:
    """Keys in JSON beside values in any other format."""
    return explain_ids(json_keys(keys, schema, patterns), keys, NO_REGISTRY_OF_KEYS)


def written_keys(encoding: object, output: OutputFormat, key: list[pa.Array]) -> pa.Array:
    """Keys in JSON beside values in any format."""
    return record(list(output.key), key, micros=True, patterns=output.patterns.exact)


def _values(encoding: None, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart) -> Parsed:
    return explain_ids(_plain_or_wrapped(values, source, schema, part), values, NO_REGISTRY)


def _values_with_ids(
    encoding: JsonWithRegistry, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart
) -> Parsed:
    others = partial(_plain_or_wrapped, source=source, schema=schema, part=part)
    return parse_registered(values, encoding, WantedColumns(schema, part, source.patterns), others)


def _plain_or_wrapped(values: pa.Array, source: SourceFormat, schema: pa.Schema, part: MessagePart) -> Parsed:
    plain = partial(_plain_values, source=source, schema=schema, part=part)
    return parse_wrapped(values, WantedColumns(schema, part, source.patterns), plain)


def _plain_values(values: pa.Array, source: SourceFormat, schema: pa.Schema, part: MessagePart) -> Parsed:
    reader = EnvelopeReader(schema, source.patterns) if part is MessagePart.ENVELOPE else None
    return without_other_messages(parse(values, schema, reader, source.patterns), values, part)


def _keys(encoding: None, keys: pa.Array, schema: pa.Schema, patterns: Patterns) -> Parsed:
    return explain_ids(json_keys(keys, schema, patterns), keys, NO_REGISTRY)


def _keys_with_ids(encoding: JsonWithRegistry, keys: pa.Array, schema: pa.Schema, patterns: Patterns) -> Parsed:
    others = partial(json_keys, schema=schema, patterns=patterns)
    return parse_registered(keys, encoding, WantedColumns(schema, MessagePart.KEY, patterns), others)


def _without_options(options: Mapping[str, str]) -> None:
    return None


def _written_values(
    encoding: None, output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None
) -> pa.Array:
    return record(output.schema.names, columns, patterns=output.patterns)


def _changes(encoding: None, output: OutputFormat, before: pa.StructArray, after: pa.StructArray, ops: Ops) -> pa.Array:
    old, new = (fragment(image, patterns=output.patterns) for image in (before, after))
    parts = ['{"before":', old, ',"after":', new, ',"op":"', pa.array(ops, pa.string()), '"}', ""]
    return pc.binary_join_element_wise(*parts)


JSON = Format(
    name="json",
    datetimes_are_texts=True,
    is_json=True,
    columns_by_name=True,
    reads=(
        Reading(
            encoding=NoneType,
            values=_values,
            keys=_keys,
            keys_as="json",
            identity=no_properties,
            schemas=None,
            values_are_text=True,
        ),
        Reading(
            encoding=JsonWithRegistry,
            values=_values_with_ids,
            keys=_keys_with_ids,
            keys_as="json",
            identity=no_properties,
            schemas=None,  # its messages need not have ids, so a registry without schemas of JSON may do
            values_are_text=False,
        ),
    ),
    writes=Writing(
        encoding=NoneType,
        encoding_from=FromOptions(options=(), encoding=_without_options),
        values=_written_values,
        changes=_changes,
        keys=written_keys,
        keys_as="json",
        says_every_row=True,
        columns_known_by="name",
    ),
)
