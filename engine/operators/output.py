"""Output: the change of a view, encoded as the messages of a topic.

The result is a table of messages (partition int32, key binary, value binary), not a Z-set: the engine hands it to the writer. What is
written is a function of the change alone; the writer puts the messages of a partition in canonical order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine import zset
from engine.circuit import Output
from engine.operators.base import StepContext
from io_kafka.formats import OutputFormat, encode
from io_kafka.partitioner import partitions_of

MESSAGES = pa.schema([("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary())])


def step_output(node: Output, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    delta = zset.consolidate(inputs[0])
    if delta.num_rows == 0:
        return MESSAGES.empty_table()
    types = [field.type for field in delta.schema][:-1]
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, types, strict=True)])
    form = OutputFormat(node.handle, schema, node.mode, tuple(node.names[c] for c in node.key))
    return messages(form, delta, context.partitions[node.handle])


def messages(form: OutputFormat, delta: pa.Table, partitions: int) -> pa.Table:
    encoded = encode(form, delta)
    key, value = (encoded.column(name).combine_chunks() for name in ("key", "value"))
    return pa.Table.from_arrays([partitions_of(key, value, partitions), key, value], schema=MESSAGES)


def repeated(delta: pa.Table) -> pa.Table:
    """Every row as often as its weight says."""
    weights = zset.weights_of(delta)
    if (weights == 1).all():
        return delta
    return zset.take_rows(delta, np.repeat(np.arange(len(weights)), weights))
