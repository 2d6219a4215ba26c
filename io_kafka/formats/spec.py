"""The input and the result of a format, as plain data that is the same in the driver and in every task.

`SourceFormat` and `OutputFormat` pickle. Their schema carries the columns' names and Arrow types in the order of
the circuit's columns; a field that is not nullable is a NOT NULL column, and a null in it makes a message
malformed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from base.fault import ExitCode, Fault
from base.options import UNAVAILABLE_VALUE, Mode, OutputKeyFormat
from base.text.months import is_months
from base.text.patterns import NO_PATTERNS, Patterns
from base.text.type_names import sql_type
from io_kafka.formats.encodings import Encoding, KeyFormat, OutputEncoding
from io_kafka.formats.text_limits import TextLimit


class FormatError(Fault):
    """A declared table cannot be read or written. Names the handle, the column, and what to declare instead."""

    exit_code = ExitCode.PROJECT


def check_type(handle: str, column: str, kind: pa.DataType) -> None:
    """Raises FormatError for an Arrow type that Stepwell cannot read from messages or write to them."""
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            check_type(handle, f"{column}.{kind.field(index).name}", kind.field(index).type)
    elif pa.types.is_map(kind) and kind.key_type == pa.string():
        check_type(handle, f"{column}[]", kind.item_type)
    elif pa.types.is_list(kind):
        check_type(handle, f"{column}[]", kind.value_type)
    elif not (
        pa.types.is_signed_integer(kind)
        or is_months(kind)
        or kind in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.duration("us"))
        or pa.types.is_decimal128(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"))
    ):
        raise FormatError(
            f"{handle}: column {column} has type {kind}, which messages cannot hold; declare another type"
        )


def check_table(handle: str, schema: pa.Schema, mode: Mode, key: tuple[str, ...]) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise FormatError(f"{handle}: two columns have one name in {schema.names}; rename one")
    for field in schema:
        check_type(handle, field.name, field.type)
    missing = [name for name in key if name not in schema.names]
    if missing:
        raise FormatError(f"{handle}: key column {missing[0]} is not among the columns {schema.names}")
    for name in key:
        if pa.types.is_nested(schema.field(name).type):
            raise FormatError(
                f"{handle}: key column {name} has type {sql_type(schema.field(name).type)}; a key needs plain columns"
            )
    if mode == "upsert" and not key:
        raise FormatError(f"{handle}: mode upsert needs a key; add 'key' = 'COLUMN' to the table's properties")


@dataclass(frozen=True)
class SourceFormat:
    """How the messages of one input handle become rows. `metadata`: columns of `schema` that the message's record has and its value has not, as
    pairs of a column's name and the name in records.py. `encoding`: how values are read; None is JSON. `key_format`: how keys are read.
    `limits`: the columns, and what is within them, that are CHAR(n) or VARCHAR(n). `patterns`: of dates and timestamps in JSON and CSV.
    `unavailable`: Debezium's placeholder (unavailable.py)."""

    handle: str
    schema: pa.Schema
    mode: Mode = "append"
    key: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    encoding: Encoding = None
    key_format: KeyFormat = "json"
    limits: tuple[TextLimit, ...] = ()
    patterns: Patterns = NO_PATTERNS
    unavailable: str = UNAVAILABLE_VALUE

    def __post_init__(self) -> None:
        check_table(self.handle, self.schema, self.mode, self.key)
        if self.mode == "append" and self.key:
            raise FormatError(f"{self.handle}: mode append takes no key; leave it out or use mode upsert")
        assert not self.metadata or self.keyed or self.mode == "append", "an image before a change has another record"

    @property
    def payload(self) -> pa.Schema:
        """The columns that the value has."""
        of_record = {column for column, _ in self.metadata}
        return pa.schema([field for field in self.schema if field.name not in of_record]) if of_record else self.schema

    @property
    def keyed(self) -> bool:
        """Messages, for `LastByKey`, rather than a Z-set."""
        return bool(self.key)


@dataclass(frozen=True)
class OutputFormat:
    """How the rows of one output handle become messages. `encoding`: how values are written; None is JSON. `key_format`: how keys are
    written; None is as it belongs to the encoding. `patterns`: of dates and timestamps in JSON and CSV."""

    handle: str
    schema: pa.Schema
    mode: Mode = "append"
    key: tuple[str, ...] = ()
    encoding: OutputEncoding = None
    key_format: OutputKeyFormat | None = None
    patterns: Patterns = NO_PATTERNS

    def __post_init__(self) -> None:
        check_table(self.handle, self.schema, self.mode, self.key)


class Unwritable(Exception):
    """A row of an output is none in its format. `message` names the column; `what_to_do` is for users."""

    def __init__(self, message: str, what_to_do: str) -> None:
        super().__init__(message)
        self.message, self.what_to_do = message, what_to_do


class Rejected(NamedTuple):
    """A malformed message, and why."""

    partition: int
    offset: int
    reason: str


class Decoded(NamedTuple):
    """What a batch of messages of a source gives. `rows` keep the order of the messages; `rejected` is in that order too. Every message is in
    exactly one of them (a Debezium update of a table without a key gives two rows, and so does one that changes a key; a tombstone of a
    changelog gives none). `ignored`: the number of messages that say nothing of the table (table_events.py)."""

    rows: pa.Table
    rejected: list[Rejected]
    ignored: int = 0
