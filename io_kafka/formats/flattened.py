"""Deletions that are rows: what Debezium's ExtractNewRecordState writes with `delete.tombstone.handling.mode` = `rewrite`.

Each row then has the field `__deleted`. Where it is true, the row is the one that was deleted, and no tombstone follows. In mode `upsert` such a
message deletes its key, as a tombstone does. A table that declares the column has these rows: then its views decide about them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools
from io_kafka.formats.envelopes import DELETED_FLAG
from io_kafka.formats.exact_json import nullable
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.table import format_of
from io_kafka.formats.table_events import is_op

_FLAG = pa.field(DELETED_FLAG, pa.string())
"""The flag is a text, and a boolean in MongoDB's ExtractNewDocumentState, whose text is the same."""


def flagged_columns(source: SourceFormat) -> pa.Schema:
    """The columns of the values of mode upsert, and the flag behind them if it is none of the table's own."""
    columns = nullable(source.payload)
    return columns.append(_FLAG) if has_flag(source) else columns


def has_flag(source: SourceFormat) -> bool:
    return DELETED_FLAG not in source.schema.names and format_of(source.encoding).columns_by_name


def without_flag(source: SourceFormat, columns: list[pa.Array]) -> tuple[list[pa.Array], Bools]:
    """(the table's columns, which rows were deleted). A deleted row keeps the columns of its key. `columns`: those of `flagged_columns`."""
    deleted = is_op(columns[-1], {"true"})
    if not deleted.any():
        return columns[:-1], deleted
    gone = pa.array(deleted)
    kept = [
        column if field.name in source.key else pc.if_else(gone, pa.scalar(None, field.type), column)
        for field, column in zip(source.payload, columns[:-1], strict=True)
    ]
    return kept, deleted
