"""Debezium's envelope without a schema: {"before", "after", "op", ...}. The one with a schema is read in connect/read.py.

A number in a TIMESTAMP column is refused: `from_json` would read it as seconds, but Debezium may mean any of three units.

Messages that are no rows of the table, such as changes that a table reads as rows (`mode` is missing, or upsert), have none of its columns, so
all of them would be NULL. They are malformed in every format (envelopes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, fill
from base.text.columns import nulls_of
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.encodings import MessagePart
from io_kafka.formats.envelopes import ABOUT, DELETED_FLAG, MARKS, envelope_of, names_anywhere, why_no_object
from io_kafka.formats.exact_json import Reader, RowReader, node_text, read_members, reader
from io_kafka.formats.jackson import Malformed, Members, Node, parse_object
from io_kafka.formats.parse import Parsed

FROM_MONGODB = (
    "; a text is what Debezium's connector for MongoDB writes: use ExtractNewDocumentState, and 'mode' = 'upsert'"
)


def row_columns(schema: pa.Schema, part: MessagePart) -> Set[str]:
    """The columns of a row, from those of a part: a row, or an envelope."""
    return (
        {*schema.names} - {DELETED_FLAG}
        if part is MessagePart.ROW
        else {field.name for field in schema.field("after").type}
    )


def without_other_messages(parsed: Parsed, values: pa.Array, part: MessagePart) -> Parsed:
    """What was read of these messages in JSON, without those that are known to be no rows of the table (envelopes.py)."""
    rows, image = parsed.rows, None
    fields, found = list(rows.schema), rows.columns
    if part is MessagePart.ENVELOPE:
        image = rows.column("after")
        fields = list(image.type)
        found = [image.field(number) for number in range(len(fields))]
    columns = frozenset(row_columns(rows.schema, part))
    suspects = np.zeros(0, np.int64)
    for of_rows, pattern in (
        (columns, names_anywhere(columns)),
        (columns - ABOUT, MARKS),
    ):
        empty = _nothing_but_null(fields, found, of_rows)
        if image is not None:
            empty &= ~nulls_of(image)
        at = parsed.at[empty]
        if len(at):
            strange = pc.match_substring_regex(values.take(pa.array(at)), pattern)
            suspects = np.union1d(suspects, at[fill(strange, False).to_numpy(zero_copy_only=False)])
    faults: dict[int, str] = {}
    for message in suspects.tolist():
        node: Node = parse_object(values[message].as_py())
        if part is MessagePart.ENVELOPE and isinstance(node, Members):
            node = dict(node).get("after")
        reason = why_no_object(node, columns) if isinstance(node, Members) else None
        if reason is not None:
            faults[message] = f"{'it' if part is MessagePart.ROW else 'its after'} {reason}"
    if not faults:
        return parsed
    good = np.flatnonzero(~np.isin(parsed.at, list(faults)))
    return Parsed(rows.take(pa.array(good)), parsed.at[good], sorted({**dict(parsed.faults), **faults}.items()))


def _nothing_but_null(fields: Iterable[pa.Field], columns: Sequence[pa.Array], wanted: Set[str]) -> Bools:
    """Which rows have no value in the wanted columns. None has if no column is wanted."""
    of_rows = [column for field, column in zip(fields, columns, strict=True) if field.name in wanted]
    if not of_rows or any(not column.null_count for column in of_rows):
        return np.zeros(len(columns[0]) if columns else 0, np.bool_)
    empty: Bools = nulls_of(of_rows[0])
    for column in of_rows[1:]:
        empty = empty & nulls_of(column)
    return empty


def column_reader(column: str, kind: pa.DataType, patterns: Patterns = NO_PATTERNS) -> Reader:
    """Reads a column as `from_json` does, but for numbers as timestamps, at any depth."""
    return reader(column, kind, patterns, takes_seconds=False)


def image_reader(place: str, kind: pa.StructType, patterns: Patterns) -> Reader:
    """Reads `before` or `after`."""
    members = {field.name: column_reader(f"{place}.{field.name}", field.type, patterns) for field in kind}

    def read(node: Node) -> dict[str, Any] | None:
        if node is None:
            return None
        if not isinstance(node, Members):
            raise Malformed(
                f"{place}: {node_text(node)} is not an object{FROM_MONGODB if isinstance(node, str) else ''}"
            )
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
        node = parse_object(message)
        row = read_members(node, self._members)
        if row["op"] is None:
            other = envelope_of({name for name, _ in node})
            what_to_do = f"; {other.what_to_do}" if other is not None and "op" not in other.all_of else ""
            raise Malformed(f"no op: not a change in Debezium's envelope{what_to_do}")
        return row
