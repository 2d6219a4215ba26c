"""Messages of an input partition -> rows of the circuit's source, and the messages that were refused.

Append: the value is the row, of weight 1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from io_kafka.formats.parse import parse
from io_kafka.formats.spec import Decoded, Rejected, SourceFormat


def decode(source: SourceFormat, keys: pa.Array, values: pa.Array, partition: int, offsets: pa.Array) -> Decoded:
    """`keys`, `values`: binary, null where the message has none; `offsets`: int64; all of one length, in the order
    of the partition.

    Rows: `c0`.. and `weight` (append, changelog without a key), or `c0`.., `deleted`, `partition`, `offset`."""
    assert len(keys) == len(values) == len(offsets)
    return _append(source, values, partition, offsets)


def _append(source: SourceFormat, values: pa.Array, partition: int, offsets: pa.Array) -> Decoded:
    parsed = parse(values, source.schema)
    weights = pa.array(np.ones(len(parsed.at), dtype=np.int64))
    return Decoded(weighted(parsed.rows, weights), rejected(parsed.faults, partition, offsets))


def weighted(rows: pa.RecordBatch, weights: pa.Array) -> pa.Table:
    fields = [pa.field(f"c{i}", column.type) for i, column in enumerate(rows.columns)]
    fields.append(pa.field("weight", pa.int64(), nullable=False))
    return pa.Table.from_arrays([*rows.columns, weights], schema=pa.schema(fields))


def rejected(faults: list[tuple[int, str]], partition: int, offsets: pa.Array) -> list[Rejected]:
    return [Rejected(partition, offsets[position].as_py(), reason) for position, reason in faults]
