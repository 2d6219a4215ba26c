"""The format of an output's messages: which properties each format has, and which columns, keys and modes it can hold.

Guarantees as in message_formats.py, which has the formats of sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pyspark.sql.types import StructType

from base.options import Mode, OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS, Patterns, writer
from io_kafka.formats.descriptor import FromRegistry
from io_kafka.formats.table import FORMATS, options_of_outputs
from io_kafka.registry.address import RegistryAddress
from stepwell.project.format_properties import (
    FORMAT,
    PATTERNS,
    PROPERTIES,
    REGISTRY,
    Properties,
    registry_of,
)
from stepwell.project.message_formats import KEY_FORMAT, choose_format, choose_key_format, patterns_of, refuse_variants

OUTPUT_KEY_FORMATS: tuple[OutputKeyFormat, ...] = get_args(OutputKeyFormat)

OF_OUTPUTS = (FORMAT, KEY_FORMAT, REGISTRY, *(option.name for option in options_of_outputs()), *PATTERNS.values())


@dataclass(frozen=True)
class FormatOfOutput:
    """The format of an output. `registry` is there if the format has schemas. `key_format`: None is as it belongs to the format, so that one
    circuit has one form."""

    name: OutputFormatName = "json"
    registry: RegistryAddress | None = None
    key_format: OutputKeyFormat | None = None
    options: tuple[tuple[str, str], ...] = ()
    patterns: Patterns = NO_PATTERNS


def output_format(of: Properties, schema: StructType, mode: Mode, key: tuple[str, ...]) -> FormatOfOutput:
    """Raises ProjectError, also for a column that the format cannot have."""
    name = choose_format(of, mode, may_have_ids=False)
    refuse_variants(of, name, schema)
    options = PROPERTIES[name].output(of, schema, mode, key)
    encoding_from = FORMATS[name].writes.encoding_from
    registry = registry_of(of) if isinstance(encoding_from, FromRegistry) else None
    usual = FORMATS[name].writes.keys_as
    key_format = choose_key_format(of, OUTPUT_KEY_FORMATS, usual, name, schema=schema, key=key)
    return FormatOfOutput(
        name, registry, None if key_format == usual else key_format, tuple(options.items()), patterns_of(of, writer)
    )
