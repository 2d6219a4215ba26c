"""Columns that were read for all messages at once -> the rows of those that are no faults."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.text.columns import nulls_of
from io_kafka.formats.exact import nullable
from io_kafka.formats.parse import Parsed


def without_faults(columns: list[pa.Array], schema: pa.Schema, faults: dict[int, str]) -> Parsed:
    """`columns`: one entry for each message, also where it has a fault. A null where none may be is a fault too."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(nulls_of(column)).tolist():
                faults.setdefault(row, f"column {field.name}: null, but declared NOT NULL")
    rows = pa.RecordBatch.from_arrays(columns, schema=nullable(schema))
    at = np.arange(rows.num_rows)
    if faults:
        at = np.setdiff1d(at, np.array(list(faults), np.int64))
        rows = rows.take(pa.array(at))
    return Parsed(rows, at, sorted(faults.items()))
