"""Messages -> rows of a schema: fast for the usual messages, exact for all, and never a crash.

Guarantee: `parse` gives for every message the same row or the same refusal as `parse_slowly`, which reads one message at a time exactly as
Spark's `from_json`. The usual messages are read by an extension in C (`native_json.py`), if it was built. Whatever is unusual about a message,
or malformed, is left to the exact reader.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.text.patterns import NO_PATTERNS, Patterns
from io_kafka.formats.exact_json import RowReader
from io_kafka.formats.jackson import Malformed
from io_kafka.formats.native_json import read_usual


class Parsed(NamedTuple):
    """What a batch of messages was read as. `rows[i]` is message `at[i]`; `at` and the positions in `faults` ascend, and together are all
    messages."""

    rows: pa.RecordBatch
    at: Int64s
    faults: list[tuple[int, str]]


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def row_reader(schema: pa.Schema, patterns: Patterns = NO_PATTERNS) -> RowReader:
    return RowReader(schema, patterns)


def parse_slowly(values: pa.Array, schema: pa.Schema, reader: RowReader | None = None) -> Parsed:
    reader = reader or row_reader(schema)
    rows: list[dict[str, Any]] = []
    at: list[int] = []
    faults: list[tuple[int, str]] = []
    for position, message in enumerate(values.to_pylist()):
        try:
            rows.append(reader.read(message))
            at.append(position)
        except Malformed as refusal:
            faults.append((position, str(refusal)))
    return Parsed(reader.table(rows), np.array(at, dtype=np.int64), faults)


def parse(
    values: pa.Array, schema: pa.Schema, reader: RowReader | None = None, patterns: Patterns = NO_PATTERNS
) -> Parsed:
    """`values`: binary, a null is an empty message. `reader` is the exact reader for messages of other shapes too: it
    must agree with the schema and the patterns wherever no column declared NOT NULL is missing."""
    read = read_usual(values, schema, patterns)
    if read is None:
        return parse_slowly(values, schema, reader or row_reader(schema, patterns))
    batch, declined = read
    if not declined.any():
        return Parsed(batch, np.arange(len(values)), [])
    late = np.flatnonzero(declined)
    others = parse_slowly(_take(values, late), schema, reader or row_reader(schema, patterns))
    faults = [(int(late[position]), reason) for position, reason in others.faults]
    batches = [batch.filter(pa.array(~declined)), others.rows]
    return _in_order(batches, [np.flatnonzero(~declined), late[others.at]], faults)


def _in_order(batches: list[pa.RecordBatch], places: list[Int64s], faults: list[tuple[int, str]]) -> Parsed:
    """`places` are the messages of the rows of each batch."""
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    at = np.concatenate(places)
    if (np.diff(at) < 0).any():
        order = np.argsort(at)
        rows, at = rows.take(pa.array(order)), at[order]
    return Parsed(rows, at, faults)


def _take(values: pa.Array, rows: Int64s) -> pa.Array:
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return values.slice(int(rows[0]), len(rows))
    return values.take(pa.array(rows))
