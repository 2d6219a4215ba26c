"""What the rest of the project knows of a format of messages. Each format ends with one `Format`, and table.py has all of them.

No field has a default, so that a new format has to say each of them. A function of an encoding gets the encoding first, typed as its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa

from base.options import OutputFormatName, OutputKeyFormat
from base.text.patterns import Patterns
from io_kafka.formats.encodings import KeyFormat, MessagePart
from io_kafka.formats.parse import Parsed
from io_kafka.formats.spec import OutputFormat, SourceFormat

Ops: TypeAlias = list[str]
"""The op of each change: c if there is no image before it, d if there is none after it, else u."""

ColumnsKnownBy = Literal["name", "number", "place"]
"""How consumers find a column in a message. `number`: each column has one, which a schema gives a name. `place`: as the first one, the second
one, and so on; names are not in messages."""

E = TypeVar("E")
"""The class of an encoding; NoneType for plain JSON."""


@dataclass(frozen=True)
class Reading(Generic[E]):
    """How the messages of sources in one encoding become rows.

    `values`: reads the bytes of values, or of the part that is named. `keys`: reads the keys beside such values in the format `keys_as`, which
    they have if nothing else is said. `identity`: the properties that decide which row a message gives, by their names. It leaves out those with
    their defaults, and a schema has a digest in its place. `schemas`: the kind of schemas that its registry must have; None if it needs none.
    `values_are_text`: whether people can read the bytes of values, if these are UTF-8. A dead letter has all others in base64."""

    encoding: type[E]
    values: Callable[[E, SourceFormat, pa.Array, pa.Schema, MessagePart], Parsed]
    keys: Callable[[E, pa.Array, pa.Schema, Patterns], Parsed]
    keys_as: KeyFormat
    identity: Callable[[E], dict[str, str]]
    schemas: str | None
    values_are_text: bool


@dataclass(frozen=True)
class Option:
    """A property that outputs in one format have. `recorded`: its name in the JSON form of circuits, which may never change. `usual`: its
    default."""

    name: str
    recorded: str
    usual: str


@dataclass(frozen=True)
class FromOptions(Generic[E]):
    """The encoding of an output follows from its options, which are all given by their names."""

    options: tuple[Option, ...]
    encoding: Callable[[Mapping[str, str]], E]


@dataclass(frozen=True)
class FromRegistry(Generic[E]):
    """The encoding of an output is what a registry gives for its schemas. `kind`: that of the schemas. `value`, `key`: their texts; these raise
    FormatError. `encoding`: of the id of values' schema, and that of keys' if they have one."""

    kind: str
    value: Callable[[OutputFormat], str]
    key: Callable[[OutputFormat], str]
    encoding: Callable[[int, int | None], E]


@dataclass(frozen=True)
class Writing(Generic[E]):
    """How the rows of outputs become messages.

    `encoding_from`: from what the encoding of an output follows. `values(encoding, output, columns, deleted)`: one value per row; those of
    deleted rows are never used. `changes(encoding, output, before, after, ops)`: one value per change, from its images and its op; None if the
    format has no changelog. `keys(encoding, output, columns)`: one key per row in the format `keys_as`, which keys have if nothing else is said.
    `says_every_row`: whether every row has a message. If not, these functions raise Unwritable for the others. `columns_known_by`: how consumers
    find a column in a value."""

    encoding: type[E]
    encoding_from: FromOptions[E] | FromRegistry[E]
    values: Callable[[E, OutputFormat, list[pa.Array], pa.Array | None], pa.Array]
    changes: Callable[[E, OutputFormat, pa.StructArray, pa.StructArray, Ops], pa.Array] | None
    keys: Callable[[E, OutputFormat, list[pa.Array]], pa.Array]
    keys_as: OutputKeyFormat
    says_every_row: bool
    columns_known_by: ColumnsKnownBy


@dataclass(frozen=True)
class Format:
    """All that the project knows of one format. `name`: as the property `format` has it. `datetimes_are_texts`: dates and timestamps are texts,
    so that patterns say their form, and a timestamp has milliseconds without one. `is_json`: a tombstone may be within a wrapper of Connect.
    `columns_by_name`: a message names its columns, so that one that is declared later changes nothing of the others. `reads`: the ways to read
    it."""

    name: OutputFormatName
    datetimes_are_texts: bool
    is_json: bool
    columns_by_name: bool
    reads: tuple[Reading[Any], ...]
    writes: Writing[Any]

    @property
    def has_changelog(self) -> bool:
        return self.writes.changes is not None
