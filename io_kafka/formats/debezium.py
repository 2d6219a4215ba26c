"""Debezium's envelope without a schema: {"before", "after", "op", ...}. The one with a schema is read in connect/read.py.

A number in a TIMESTAMP column is refused: `from_json` would read it as seconds, but Debezium may mean any of three units.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.exact import Reader, RowReader, node_text, read_members, reader
from io_kafka.formats.jackson import Malformed, Members, Node, Number, parse_object


def column_reader(column: str, kind: pa.DataType, patterns: Patterns = NO_PATTERNS) -> Reader:
    """Reads a column as `from_json` does, but for numbers as timestamps."""
    plain = reader(column, kind, patterns)
    if not pa.types.is_timestamp(kind):
        return plain

    def read(node: Node) -> Any:
        if isinstance(node, Number):
            raise Malformed(
                f"column {column}: {node.text} is a timestamp of unknown unit; send the schema with the payload"
            )
        return plain(node)

    return read


def image_reader(place: str, kind: pa.StructType, patterns: Patterns) -> Reader:
    """Reads `before` or `after`."""
    members = {field.name: column_reader(f"{place}.{field.name}", field.type, patterns) for field in kind}

    def read(node: Node) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise Malformed(f"{place}: {node_text(node)} is not an object")
        return read_members(node, members)

    return read


class EnvelopeReader(RowReader):
    """Messages -> before, after, op. `schema` has those three columns."""

    def __init__(self, schema: pa.Schema, patterns: Patterns = NO_PATTERNS) -> None:
        super().__init__(schema, patterns)
        images = {place: image_reader(place, schema.field(place).type, patterns) for place in ("before", "after")}
        self._members = {**images, "op": reader("op", pa.string())}

    def read(self, message: bytes | None) -> dict[str, Any]:
        if not message or not message.strip(b" \t\r\n"):
            raise Malformed("empty")
        row = read_members(parse_object(message), self._members)
        if row["op"] is None:
            raise Malformed("no op: not a change in Debezium's envelope")
        return row
