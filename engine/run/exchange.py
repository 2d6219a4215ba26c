"""Exchange messages: what one worker sends to another after a stage.

A message holds the rows of several channels, possibly of none. A receiver reads its messages in the order of their sources, so the order in
which they arrive does not matter. A stage that failed sends messages that are `broken`: no receiver goes on with the step or
changes its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.analysis.stages import Channel
from engine.model.circuit import Circuit
from engine.rows import zset


@dataclass(frozen=True)
class ExchangeMessage:
    """What one worker sends to another after a stage. `source`: the worker that sent it. `channels`: the rows for later stages."""

    source: int
    channels: Mapping[Channel, pa.Table] = field(default_factory=dict)
    broken: bool = False


def channel_schema(channel: Channel, circuit: Circuit) -> pa.Schema:
    """Returns the schema of the rows of a channel."""
    return zset.schema_of(circuit.nodes[channel.producer].types)


def to_buffer(table: pa.Table) -> pa.Buffer:
    """The table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def from_buffer(data: pa.Buffer | bytes | memoryview) -> pa.Table:
    """The table of a stream that `to_buffer` has made. Its columns are slices of `data`."""
    return pa.ipc.open_stream(data if isinstance(data, pa.Buffer) else pa.py_buffer(data)).read_all()


def sort_messages(messages: Iterable[ExchangeMessage]) -> list[ExchangeMessage]:
    """The messages sorted by source."""
    return sorted(messages, key=lambda message: message.source)
