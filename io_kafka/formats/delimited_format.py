"""CSV, and the whole value as one column, as formats of messages."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from io_kafka.formats.delimited import parse_csv, parse_text
from io_kafka.formats.delimited_write import csv_values, text_values
from io_kafka.formats.descriptor import Format, FromOptions, Option, Reading, Writing
from io_kafka.formats.encodings import Csv, MessagePart, Text
from io_kafka.formats.json_format import keys_beside, no_properties, written_keys
from io_kafka.formats.parse import Parsed
from io_kafka.formats.spec import OutputFormat, SourceFormat

SEPARATOR, NULL_VALUE = "csv.sep", "csv.nullValue"
"""The names of properties."""

_CSV_OPTIONS = (
    Option(name=SEPARATOR, recorded="csv_separator", usual=Csv().sep),
    Option(name=NULL_VALUE, recorded="csv_null", usual=Csv().null_value),
)


def _csv_values(encoding: Csv, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart) -> Parsed:
    return parse_csv(values, schema, encoding, source.patterns)


def csv_identity(encoding: Csv) -> dict[str, str]:
    given = {SEPARATOR: encoding.sep, NULL_VALUE: encoding.null_value}
    return {option.name: given[option.name] for option in _CSV_OPTIONS if given[option.name] != option.usual}


def _csv(options: Mapping[str, str]) -> Csv:
    return Csv(options[SEPARATOR], options[NULL_VALUE])


def _csv_written(encoding: Csv, output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None) -> pa.Array:
    return csv_values(columns, output.schema.names, encoding, output.patterns, deleted)


def _text_values(
    encoding: Text, source: SourceFormat, values: pa.Array, schema: pa.Schema, part: MessagePart
) -> Parsed:
    return parse_text(values, schema, source.key)


def _text(options: Mapping[str, str]) -> Text:
    return Text()


def _text_written(encoding: Text, output: OutputFormat, columns: list[pa.Array], deleted: pa.Array | None) -> pa.Array:
    return text_values(columns, output.schema.names, output.key, deleted)


CSV = Format(
    name="csv",
    datetimes_are_texts=True,
    is_json=False,
    columns_by_name=False,
    reads=(
        Reading(
            encoding=Csv,
            values=_csv_values,
            keys=keys_beside,
            keys_as="json",
            identity=csv_identity,
            schemas=None,
            values_are_text=True,
        ),
    ),
    writes=Writing(
        encoding=Csv,
        encoding_from=FromOptions(options=_CSV_OPTIONS, encoding=_csv),
        values=_csv_written,
        changes=None,
        keys=written_keys,
        keys_as="json",
        says_every_row=False,
        columns_known_by="place",
    ),
)

TEXT = Format(
    name="text",
    datetimes_are_texts=False,
    is_json=False,
    columns_by_name=False,
    reads=(
        Reading(
            encoding=Text,
            values=_text_values,
            keys=keys_beside,
            keys_as="json",
            identity=no_properties,
            schemas=None,
            values_are_text=True,
        ),
    ),
    writes=Writing(
        encoding=Text,
        encoding_from=FromOptions(options=(), encoding=_text),
        values=_text_written,
        changes=None,
        keys=written_keys,
        keys_as="json",
        says_every_row=False,
        columns_known_by="place",
    ),
)
