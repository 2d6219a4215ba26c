"""Reads one JSON message at a time as Spark's `from_json` does in the mode FAILFAST. It is the reference for native_json.py.

A `Reader` turns one JSON node into the value of one Arrow type, or raises Malformed with the column's name. Readers
are built once per schema. The values are those that `pyarrow.array` accepts for that type: days and microseconds as ints,
decimals at their scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import pyarrow as pa

from base.text import doubles
from base.text.months import is_months, months_value
from base.text.pattern_columns import one_in_pattern, pattern_of
from base.text.patterns import NO_PATTERNS, Patterns
from base.text.variants import FIELD, VARIANT
from io_kafka.formats import javatext
from io_kafka.formats.jackson import NOT_FINITE, Malformed, Members, Node, Number, parse_object, render_node
from io_kafka.formats.variant_texts import variant_of_node

Reader = Callable[[Node], Any]

# Jackson takes an unsigned byte where a signed one is asked, and Spark keeps its bits.
BYTE_MAX = 255
NODE_CHARS_SHOWN = 60


def node_text(node: Node) -> str:
    text = render_node(node)
    return text if len(text) <= NODE_CHARS_SHOWN else text[:NODE_CHARS_SHOWN] + "..."


def _refusal(column: str, node: Node, kind: str) -> Malformed:
    return Malformed(f"column {column}: {node_text(node)} is not {kind}")


def _integer(column: str, kind: pa.DataType) -> Reader:
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    high_taken = BYTE_MAX if kind.bit_width == 8 else high

    def read(node: Node) -> int | None:
        if node is None:
            return None
        if isinstance(node, Number) and node.integral:
            value = int(node.text)
            if low <= value <= high_taken:
                return value if value <= high else value - 2**kind.bit_width
        raise _refusal(column, node, f"an integer of {kind.bit_width} bits")

    return read


def _float(column: str, kind: pa.DataType) -> Reader:
    def read(node: Node) -> float | None:
        if node is None:
            return None
        if isinstance(node, str) and node in NOT_FINITE:
            return NOT_FINITE[node]
        if not isinstance(node, Number):
            raise _refusal(column, node, "a number")
        if node.text in NOT_FINITE:
            return NOT_FINITE[node.text]
        # Parsed straight to the type's own width; 0.0 is added for an integer's -0 is 0.
        value = doubles.single_value(node.text) if kind == pa.float32() else float(node.text)
        assert value is not None, f"Jackson's grammar of numbers is a part of Java's: {node.text}"
        return value + 0.0 if node.integral else value

    return read


def _boolean(column: str) -> Reader:
    def read(node: Node) -> bool | None:
        if node is None or isinstance(node, bool):
            return node
        raise _refusal(column, node, "a boolean")

    return read


def _string(node: Node) -> str | None:
    return node if node is None or isinstance(node, str) else render_node(node)


def _spelt(column: str, of_text: Callable[[str], Any], kind: str) -> Reader:
    """Types that are written as strings."""

    def read(node: Node) -> Any:
        if node is None:
            return None
        value = of_text(node) if isinstance(node, str) else None
        if value is None:
            raise _refusal(column, node, kind)
        return value

    return read


def _timestamp(column: str, of_text: Callable[[str], Any], what: str) -> Reader:
    spelt = _spelt(column, of_text, what)

    def read(node: Node) -> Any:
        if not isinstance(node, Number):
            return spelt(node)
        if not node.integral or not -(2**63) <= int(node.text) < 2**63:
            raise _refusal(column, node, "a timestamp")
        # A number is seconds since the epoch; Spark multiplies in 64 bits and lets it wrap.
        return (int(node.text) * 1_000_000 + 2**63) % 2**64 - 2**63

    return read


def _spelt_timestamp(column: str, of_text: Callable[[str], Any], what: str) -> Reader:
    """A timestamp where the unit of a number is not known."""
    spelt = _spelt(column, of_text, what)

    def read(node: Node) -> Any:
        if isinstance(node, Number):
            raise Malformed(
                f"column {column}: {node.text} is a timestamp of unknown unit; send the schema with the payload"
            )
        return spelt(node)

    return read


def _decimal(column: str, kind: pa.Decimal128Type) -> Reader:
    def read(node: Node) -> Any:
        if node is None:
            return None
        text = node.replace(",", "") if isinstance(node, str) else node.text if isinstance(node, Number) else ""
        value = javatext.decimal_value(text, kind.precision, kind.scale)
        if value is None:
            raise _refusal(column, node, f"a decimal({kind.precision},{kind.scale})")
        return value

    return read


def _struct(column: str, kind: pa.StructType, datetimes: Datetimes) -> Reader:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    members = {field.name: _reader(f"{column}.{field.name}", field.type, datetimes) for field in fields}

    def read(node: Node) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise _refusal(column, node, "an object")
        return read_members(node, members)

    return read


def _map(column: str, kind: pa.MapType, datetimes: Datetimes) -> Reader:
    """Members in their order. A name that is repeated is refused (see maps.py)."""
    if kind.key_type != pa.string():
        raise TypeError(f"{column}: the keys of a map in JSON are strings, not {kind.key_type}")
    item = _reader(f"{column}[]", kind.item_type, datetimes)

    def read(node: Node) -> list[tuple[str, Any]] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise _refusal(column, node, "an object")
        entries = {name: item(value) for name, value in node}
        if len(entries) < len(node):
            names = [name for name, _ in node]
            twice = next(name for name in names if names.count(name) > 1)
            raise Malformed(f"column {column}: two entries of the map have the key {node_text(twice)}")
        return list(entries.items())

    return read


def _list(column: str, kind: pa.ListType, datetimes: Datetimes) -> Reader:
    item = _reader(f"{column}[]", kind.value_type, datetimes)

    def read(node: Node) -> list[Any] | None:
        if node is None:
            return None
        if isinstance(node, Members) or not isinstance(node, list):
            raise _refusal(column, node, "an array")
        return [item(element) for element in cast("list[Node]", node)]

    return read


def read_members(node: Members, members: dict[str, Reader]) -> dict[str, Any]:
    """Unknown names are ignored, and missing ones are null. Of a repeated name the last value counts, but each must be valid."""
    row: dict[str, Any] = dict.fromkeys(members)
    for name, value in node:
        if name in members:
            row[name] = members[name](value)
    return row


class Datetimes(NamedTuple):
    """How dates and timestamps are read. `patterns`: of their texts. `takes_seconds`: whether a number is a timestamp in seconds, as in
    `from_json`. Feeds of changes send other units too, so a number means nothing there."""

    patterns: Patterns
    takes_seconds: bool


def reader(column: str, kind: pa.DataType, patterns: Patterns = NO_PATTERNS, *, takes_seconds: bool = True) -> Reader:
    """Returns what reads a value of this type, at any depth. See Datetimes."""
    return _reader(column, kind, Datetimes(patterns, takes_seconds))


def _variant(column: str) -> Reader:
    """A null is a variant too. A column without a member is NULL."""

    def read(node: Node) -> dict[str, str]:
        try:
            return {FIELD: variant_of_node(node)}
        except Malformed as malformed:
            raise Malformed(f"column {column}: {malformed}") from malformed

    return read


def _reader(column: str, kind: pa.DataType, datetimes: Datetimes) -> Reader:
    if kind == VARIANT:
        return _variant(column)
    if pa.types.is_integer(kind):
        return _integer(column, kind)
    if pa.types.is_floating(kind):
        return _float(column, kind)
    if pa.types.is_decimal(kind):
        return _decimal(column, kind)
    if pa.types.is_struct(kind):
        return _struct(column, kind, datetimes)
    if pa.types.is_map(kind):
        return _map(column, kind, datetimes)
    if pa.types.is_list(kind):
        return _list(column, kind, datetimes)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _datetime(column, kind, datetimes)
    if is_months(kind):
        return _spelt(column, partial(months_value, type_=kind), "a year-month interval")
    simple: dict[pa.DataType, Reader] = {
        pa.string(): _string,
        pa.bool_(): _boolean(column),
        pa.duration("us"): _spelt(column, javatext.interval_us, "a day-time interval"),
        pa.binary(): _spelt(column, javatext.binary_value, "base64"),
    }
    return simple[kind]


def _datetime(column: str, kind: pa.DataType, datetimes: Datetimes) -> Reader:
    """A date or a timestamp. With a pattern no other text is taken, as in Spark."""
    timestamp = _timestamp if datetimes.takes_seconds else _spelt_timestamp
    pattern, zoned = pattern_of(kind, datetimes.patterns), not pa.types.is_date(kind) and kind.tz is not None
    if pattern is not None:
        what = f"{'a date' if pa.types.is_date(kind) else 'a timestamp'} in the form {pattern}"
        one = one_in_pattern(kind, pattern)
        return timestamp(column, one, what) if zoned else _spelt(column, one, what)
    if zoned:
        return timestamp(column, javatext.timestamp_us, "a timestamp")
    if pa.types.is_date(kind):
        return _spelt(column, javatext.date_days, "a date")
    return _spelt(column, javatext.timestamp_ntz_us, "a timestamp without a zone")


class RowReader:
    """Messages -> rows of a schema, one at a time."""

    def __init__(self, schema: pa.Schema, patterns: Patterns = NO_PATTERNS) -> None:
        self.schema = schema
        self._members = {field.name: reader(field.name, field.type, patterns) for field in schema}
        self._required = [field.name for field in schema if not field.nullable]

    def read(self, message: bytes | None) -> dict[str, Any]:
        if not message or not message.strip(b" \t\r\n"):
            raise Malformed("empty")
        return self.row(parse_object(message))

    def row(self, node: Members) -> dict[str, Any]:
        row = read_members(node, self._members)
        for name in self._required:
            if row[name] is None:
                raise Malformed(f"column {name}: null, but declared NOT NULL")
        return row

    def table(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return columns_of(rows, self.schema)


def columns_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=nullable(schema))


def nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
