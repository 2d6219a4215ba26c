"""Makes rows of columns that were read for all messages at once, and leaves out the messages that have a fault."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.text.columns import nulls_of
from io_kafka.formats.exact_json import nullable
from io_kafka.formats.parse import Parsed


def without_faults(columns: list[pa.Array], schema: pa.Schema, faults: dict[int, str]) -> Parsed:
    """Returns the rows of the messages without a fault, and all faults. `columns`: one entry for each message, also where it has a fault. A null
    where none may be is a fault too."""
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
