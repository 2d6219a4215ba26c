"""The format of an output's messages: which properties each format has, and which columns, keys and modes it can hold.

Guarantees as in message_formats.py, which has the formats of sources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never, get_args

from pyspark.sql.types import StructType

from base.options import Mode, OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS, Patterns, writer
from io_kafka.formats.avro import declare as avro
from io_kafka.formats.delimited_write import is_written_as_csv
from io_kafka.formats.encodings import Csv
from io_kafka.formats.protobuf import declare as protobuf
from io_kafka.formats.spec import FormatError, OutputFormat
from io_kafka.registry.address import RegistryAddress
from stepwell.catalyst.types import UnsupportedType, arrow_schema
from stepwell.project.message_formats import (
    FORMAT,
    KEY_FORMAT,
    PATTERNS,
    REGISTRY,
    SEPARATOR,
    Properties,
    check_text,
    chosen_format,
    chosen_key_format,
    csv_options,
    patterns_of,
    registry_of,
)

OUTPUT_FORMATS: tuple[OutputFormatName, ...] = get_args(OutputFormatName)
OUTPUT_KEY_FORMATS: tuple[OutputKeyFormat, ...] = get_args(OutputKeyFormat)

OF_OUTPUTS = (FORMAT, KEY_FORMAT, REGISTRY, SEPARATOR, "csv.nullValue", *PATTERNS.values())


@dataclass(frozen=True)
class FormatOfOutput:
    """`registry` is there if the format has schemas. `key_format`: None is as it belongs to the format, so that one circuit has one form."""

    name: OutputFormatName = "json"
    registry: RegistryAddress | None = None
    key_format: OutputKeyFormat | None = None
    csv: Csv = field(default_factory=Csv)
    patterns: Patterns = NO_PATTERNS


def output_format(of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]) -> FormatOfOutput:
    """Raises ProjectError, also for a column that the format cannot have."""
    name = chosen_format(of, OUTPUT_FORMATS, mode, may_have_ids=False)
    registry, csv = None, Csv()
    match name:
        case "json":
            pass
        case "avro" | "protobuf":
            _check_schema(of, name, schema, mode, key)
            registry = registry_of(of)
        case "csv":
            csv = csv_options(of)
            _check_fields(of, schema)
        case "text":
            advice = "Put the columns together in the view, for example with concat_ws or to_json(struct(...))."
            check_text(of, schema, key, "the key", advice)
        case _:
            assert_never(name)
    usual: OutputKeyFormat = name if name in ("avro", "protobuf") else "json"
    key_format = chosen_key_format(of, OUTPUT_KEY_FORMATS, usual, name, schema, key)
    return FormatOfOutput(name, registry, None if key_format == usual else key_format, csv, patterns_of(of, writer))


def _check_schema(of: Properties, name: OutputFormatName, schema: StructType, mode: Mode, key: tuple[str, ...]) -> None:
    try:
        form = OutputFormat("this output", arrow_schema(schema), mode, key)
        avro.value_schema(form) if name == "avro" else protobuf.value_schema(form)
    except FormatError as fault:
        raise of.error(fault.message, fault.what_to_do) from None
    except UnsupportedType:
        pass  # the column is refused by its type, whatever the format


def _check_fields(of: Properties, schema: StructType) -> None:
    try:
        columns = arrow_schema(schema)
    except UnsupportedType:
        return  # as above
    for column, declared in zip(columns, schema.fields, strict=True):
        if not is_written_as_csv(column.type):
            raise of.error(
                f"column {column.name} has the type {declared.dataType.simpleString()}, which CSV does not have",
                "Write it as text in the view, for example with to_json, base64 or CAST, or use another format.",
            )
