"""The rows of views as the workers send them: one Arrow IPC stream from each worker for each view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from base.version import VersionId
from engine.errors import TaskLost
from engine.resident.frames import Buffer
from engine.resident.messages import Contents
from engine.resident.received import received_table


@dataclass(frozen=True)
class ViewRows:
    """The rows of some views as of `version`. `parts[i]` has one Arrow IPC stream per worker for the i-th view."""

    version: VersionId
    parts: tuple[tuple[Buffer, ...], ...]


def check_rows(views: Sequence[str], found: Mapping[int, tuple[Contents, tuple[Buffer, ...]]]) -> None:
    """Raises TaskLost if the rows of a worker cannot be read, or have other columns than those of the first one."""
    schemas: dict[int, pa.Schema] = {}
    for worker, (_, buffers) in found.items():
        if len(buffers) != len(views):
            raise TaskLost(
                f"worker {worker} has answered a question about {len(views)} views with {len(buffers)} tables"
            )
        for position, (view, buffer) in enumerate(zip(views, buffers, strict=True)):
            table = received_table(buffer, schemas.get(position), f"worker {worker} has sent rows of view {view}")
            schemas.setdefault(position, table.schema)


def tables_of(rows: ViewRows) -> list[pa.Buffer]:
    """One Arrow IPC stream for each view, with the rows of all workers."""
    return [_join(parts) for parts in rows.parts]


def _join(parts: Sequence[Buffer]) -> pa.Buffer:
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()
