"""What the rows of a keyed source have behind the columns of its table, before they are the rows of the table.

The decoder makes these fields, the circuit names their types, and the operator that keeps the last row of each key reads them by place.
"""

from __future__ import annotations

import pyarrow as pa

MESSAGE_FIELDS = (
    pa.field("deleted", pa.bool_()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
)
"""`deleted` is null in a message that truncates the table. `partition` is the complement of the partition's number, so below 0, in a deletion
that the message implies: an update that changes the key deletes the row of the former key (moved_keys.py)."""

MESSAGE_TYPES = tuple(field.type for field in MESSAGE_FIELDS)

DELETED, PARTITION, OFFSET = range(len(MESSAGE_FIELDS))
"""The places of the fields behind the columns."""
