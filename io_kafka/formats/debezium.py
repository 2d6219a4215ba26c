"""Debezium's envelope without a schema: {"before", "after", "op", ...}. The one with a schema is read in connect/read.py.

A number in a TIMESTAMP column is refused: `from_json` would read it as seconds, but Debezium may mean any of three units.

Changes that a table reads as rows (`mode` is missing, or upsert) have none of its columns, so all of them would be NULL. They are malformed in
every format.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, fill
from base.text.columns import nulls_of
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.encodings import Part
from io_kafka.formats.exact import Reader, RowReader, node_text, read_members, reader
from io_kafka.formats.jackson import Malformed, Members, Node, Number, parse_object
from io_kafka.formats.parse import Parsed

ABOUT_CHANGES = frozenset({"source", "transaction", "ts_ms", "ts_us", "ts_ns"})
"""What an envelope says of a change beside its images. A table of rows may have columns of these names too."""

WRITE_CHANGELOG = "these are Debezium's changes: write 'mode' = 'changelog'"
NAMES_SHOWN = 10


def is_envelope(names: Set[str]) -> bool:
    return "op" in names and bool({"before", "after"} & names)


def why_no_row(names: Sequence[str], columns: Set[str]) -> str | None:
    """Why a message or a schema with fields of these names is no row of these columns; None if it may be one. A table whose columns are all of
    the message's record reads any."""
    if not names or not columns:
        return None
    found = columns & set(names)
    if found and not (is_envelope(set(names)) and found <= ABOUT_CHANGES and found < columns):
        return None
    what_to_do = f"; {WRITE_CHANGELOG}" if is_envelope(set(names)) else ""
    return f"has {', '.join(names[:NAMES_SHOWN])}, and none of the table's columns{what_to_do}"


def row_columns(schema: pa.Schema, part: Part) -> Set[str]:
    """The columns of a row, from those of a part: a row, or an envelope."""
    return {*schema.names} if part is Part.ROW else {field.name for field in schema.field("after").type}


def without_changes(parsed: Parsed, values: pa.Array) -> Parsed:
    """What was read of these messages in JSON as rows, without those that are changes. Other messages without any of the columns are rows of
    NULL, as `from_json` has them."""
    rows, columns = parsed.rows, frozenset(parsed.rows.schema.names)
    faults: dict[int, str] = {}
    suspects = parsed.at[_nothing_but_null(rows)]
    if len(suspects):
        suspects = suspects[
            fill(pc.match_substring(values.take(pa.array(suspects)), '"op"'), False).to_numpy(zero_copy_only=False)
        ]
    for message in suspects.tolist():
        names = [name for name, _ in parse_object(values[message].as_py())]
        reason = why_no_row(names, columns) if is_envelope(set(names)) else None
        if reason is not None:
            faults[message] = f"it {reason}"
    if not faults:
        return parsed
    good = np.flatnonzero(~np.isin(parsed.at, list(faults)))
    return Parsed(rows.take(pa.array(good)), parsed.at[good], sorted({**dict(parsed.faults), **faults}.items()))


def _nothing_but_null(rows: pa.RecordBatch) -> Bools:
    """Which rows have no value in the columns that only rows have."""
    of_rows = [
        column for name, column in zip(rows.schema.names, rows.columns, strict=True) if name not in ABOUT_CHANGES
    ]
    empty = np.full(rows.num_rows, bool(of_rows))
    for column in of_rows:
        if not column.null_count:
            return np.zeros(rows.num_rows, np.bool_)
        empty &= nulls_of(column)
    return empty


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
