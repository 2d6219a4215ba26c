"""Messages that hold many rows of a batch table each, as Arrow writes them.

A batch table goes through a topic of Stepwell's own, so its messages need no form that others read. Arrow's stream format keeps every type
exactly, and a message of many rows costs the broker and the reader as little as one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from io_kafka.messages import TopicMessages

MESSAGE_ROWS_MAX = 1024
"""Rows of one message. A step is bounded in offsets, so it may hold this many times fewer messages of tables than of topics."""

MESSAGE_BYTES_MAX = 512 * 1024
"""Half of the size that Kafka allows for one message by default, because the size of a message is known only when it was written. A
single row that is larger is tried as it is."""


@dataclass(frozen=True)
class TableFormat:
    """The rows of a batch table. `schema` has its columns, all of which may be null."""

    handle: str
    schema: pa.Schema


class NotRows(Exception):
    """A message is none of a batch table. `place` and `reason` are for users."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place, self.reason = place, reason


def messages_of(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Pairs of a number of rows and the message that holds them. Rows are in order."""
    if batch.num_rows == 0:
        return
    if batch.num_rows > MESSAGE_ROWS_MAX:
        for start in range(0, batch.num_rows, MESSAGE_ROWS_MAX):
            yield from messages_of(batch.slice(start, MESSAGE_ROWS_MAX))
        return
    message = _to_stream(batch)
    if len(message) <= MESSAGE_BYTES_MAX or batch.num_rows == 1:
        yield batch.num_rows, message
        return
    middle = batch.num_rows // 2
    yield from messages_of(batch.slice(0, middle))
    yield from messages_of(batch.slice(middle))


def _to_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def rows_in(form: TableFormat, records: TopicMessages) -> pa.Table:
    """The rows of all messages, with weight 1: `c0`.., `weight`. Raises NotRows."""
    tables: list[pa.Table] = []
    for at, value in enumerate(records.messages.values):
        try:
            if not value.is_valid:
                raise pa.ArrowInvalid("it has no value")
            found = pa.ipc.open_stream(value.as_buffer()).read_all()
            found.validate()
            if found.schema.names != form.schema.names:
                raise pa.ArrowInvalid(f"it has the columns {', '.join(found.schema.names)}")
            tables.append(found.cast(form.schema))
        except (pa.ArrowException, TypeError, OSError) as error:
            raise NotRows(records.place_of(at), f"the message holds no rows of {form.handle}: {error}") from None
    rows = pa.concat_tables(tables) if tables else form.schema.empty_table()
    named = rows.rename_columns([f"c{index}" for index in range(rows.num_columns)])
    return named.append_column("weight", pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
