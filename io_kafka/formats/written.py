"""How the messages of an output are written, as its table says it: one value, into which only formats look.

A circuit holds it, and its JSON form has the value's parts beside the other fields of the node. Each part is left out where it has its default,
so that circuits keep their fingerprint when a part comes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from base.options import WITHOUT_NULL, OutputFormatName, OutputKeyFormat
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.descriptor import ColumnsKnownBy, FromOptions, Option
from io_kafka.formats.encodings import OutputEncoding, SchemaIds
from io_kafka.formats.table import FORMATS


@dataclass(frozen=True)
class Written:
    """The format of an output, as circuits have it. `key_format`: that of keys, if it is not as it belongs to the format. `options`: the
    properties of the format that differ from their defaults, by names. `patterns`: of dates and timestamps; without one, texts are those of
    `to_json`."""

    format: OutputFormatName
    key_format: OutputKeyFormat | None
    options: tuple[tuple[str, str], ...]
    patterns: Patterns

    def __post_init__(self) -> None:
        unknown = dict(self.options).keys() - {option.name for option in self._options}
        assert not unknown, f"format {self.format} has no option {', '.join(sorted(unknown))}: it would be ignored"

    @property
    def _options(self) -> tuple[Option, ...]:
        """All that the format has."""
        encoding_from = FORMATS[self.format].writes.encoding_from
        return encoding_from.options if isinstance(encoding_from, FromOptions) else ()

    def recorded_parts(self) -> dict[str, str]:
        """The parts that differ from their defaults, as the JSON form of circuits names them."""
        options, given = self._options, dict(self.options)
        parts = {
            "format": "" if self.format == PLAIN.format else self.format,
            "key_format": self.key_format,
            "date_format": self.patterns.date,
            "timestamp_format": self.patterns.timestamp,
            "timestamp_ntz_format": self.patterns.timestamp_ntz,
        }
        own = {each.recorded: given.get(each.name, each.usual) for each in options}
        differ = {each.recorded: own[each.recorded] for each in options if own[each.recorded] != each.usual}
        return {name: part for name, part in parts.items() if part} | differ

    def encoding(self, ids: Callable[[], SchemaIds]) -> OutputEncoding:
        """`ids`: what the registry has given for the schemas of the output, which is called if there are some."""
        encoding_from = FORMATS[self.format].writes.encoding_from
        if not isinstance(encoding_from, FromOptions):
            return ids()
        given = dict(self.options)
        encoding: OutputEncoding = encoding_from.encoding(
            {each.name: given.get(each.name, each.usual) for each in encoding_from.options}
        )
        return encoding

    @property
    def says_every_row(self) -> bool:
        """Whether every row has a message. One that has none raises Unwritable."""
        return FORMATS[self.format].writes.says_every_row and self.key_format not in WITHOUT_NULL

    @property
    def columns_known_by(self) -> ColumnsKnownBy:
        return FORMATS[self.format].writes.columns_known_by

    @property
    def shown(self) -> str:
        """What differs from plain JSON, for the text of a plan."""
        of_key = "" if self.key_format is None else f", its key as {self.key_format}"
        return ("" if self.format == PLAIN.format else f" as {self.format}") + of_key


PLAIN = Written("json", None, (), NO_PATTERNS)
