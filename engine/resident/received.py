"""Reads the rows that another process of the run has sent.

A frame has the form of a message (frames.py), but what its buffers hold is only what the sender says. Guarantee: a table that `received_table`
returns has the schema that was asked for, and its buffers have the sizes that Arrow needs. Everything else is a loss of the sender (TaskLost):
the crew is replaced, and the sender's process with it.

The values inside the buffers are looked at only with `every_value`, because that takes as long as it takes to read them.
"""

from __future__ import annotations

import pyarrow as pa

from engine.errors import TaskLost
from engine.resident.frames import Buffer
from engine.run.exchange import from_buffer

REASON_CHARACTERS_MAX = 300
"""How many characters are kept of what Arrow says about bytes that it cannot read. It may quote them."""


def received_table(data: Buffer, schema: pa.Schema | None, what: str, *, every_value: bool = False) -> pa.Table:
    """The table that `exchange.to_buffer` has made. `what`: the sender and its rows, for example "worker 1 has sent rows of node 3". Raises
    TaskLost if it is no table of this schema; None stands for any. `every_value`: whether lengths, offsets and texts inside the buffers are
    looked at too."""
    try:
        table = from_buffer(data)
        table.validate(full=every_value)
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise TaskLost(f"{what}, which cannot be read: {str(fault)[:REASON_CHARACTERS_MAX]}") from None
    if schema is not None and not table.schema.equals(schema):
        raise TaskLost(
            f"{what}, which have other columns than expected: {_schema_text(table.schema)}, not {_schema_text(schema)}"
        )
    return table


def _schema_text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)[:REASON_CHARACTERS_MAX]
