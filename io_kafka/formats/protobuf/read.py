"""Messages in Confluent's wire format -> rows of a schema: 0, the id of the schema, which message of it, and the message.

A schema is a file, in which messages have numbers and may have messages within. A path of numbers says which one is meant; the path of the first
message is written as a single 0. The messages of a batch that have one schema and one path are read together.

Clients do not agree about the numbers of messages within another one. Java's counts those that the text declares there. Those of Go, Python and
others count as descriptors do, which also have one for each map, for its entries, and one for each group. Nothing in a message says who counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.text.columns import nulls_of
from io_kafka.formats.avro.read import HEADER_BYTES, check_key, check_row, merge_parts, schema_ids
from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.debezium import row_columns
from io_kafka.formats.encodings import MessagePart, Protobuf
from io_kafka.formats.exact_json import nullable
from io_kafka.formats.parse import Parsed
from io_kafka.registry.client import UnknownSchema, registry_at

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from io_kafka.formats.protobuf.resolve import ReadMessages  # with Protobuf's library, which not every worker needs

PATH_MAX = 16
"""How many messages may be within each other. The compiler itself allows about 30, and nobody writes three."""


def parse_protobuf(
    values: pa.Array, schema: pa.Schema, encoding: Protobuf, part: MessagePart = MessagePart.ROW
) -> Parsed:
    """`values`: binary; a null is an empty message. Raises RegistryUnreachable and RegistryRefused."""
    ids, faults = schema_ids(values)
    given = np.flatnonzero(ids >= 0)
    cursor = Cursor(values.take(pa.array(given)), HEADER_BYTES)
    paths = _paths(cursor)
    faults.update((int(given[row]), reason) for row, reason in cursor.faults.items())
    kinds, group = np.unique(np.column_stack([ids[given], paths]), axis=0, return_inverse=True)
    parts: list[pa.RecordBatch] = []
    places: list[Int64s] = []
    for number, kind in enumerate(kinds.tolist()):
        mine = np.flatnonzero((group.reshape(-1) == number) & ~np.isin(np.arange(len(given)), list(cursor.faults)))
        if not len(mine):
            continue
        try:
            registry_at(encoding.registry).check_counts(kind[0])
            read = _reader(encoding, kind[0], tuple(place for place in kind[1:] if place >= 0), schema, part)
        except (BadSchema, UnknownSchema) as fault:
            reason = str(fault) if isinstance(fault, UnknownSchema) else f"schema id {kind[0]}: {fault}"
            faults.update((int(given[row]), reason) for row in mine)
            continue
        rows, wrong = read_messages(cursor, mine, read, schema)
        faults.update((int(given[mine[row]]), reason) for row, reason in wrong.items())
        good = np.setdiff1d(np.arange(len(mine)), np.array(list(wrong), np.int64))
        parts.append(rows.take(pa.array(good)) if wrong else rows)
        places.append(given[mine[good]])
    return merge_parts(parts, places, faults, schema)


def _paths(cursor: Cursor) -> Int64s:
    """Which message of its schema each is: a row of numbers, -1 behind the last one."""
    every = np.arange(len(cursor.at))
    paths = np.full((len(every), PATH_MAX), -1, np.int64)
    lengths = cursor.longs(every)
    paths[lengths == 0, 0] = 0
    wrong = (lengths < 0) | (lengths > PATH_MAX)
    if wrong.any():
        cursor.fault(every[wrong], "it does not name a message of its schema")
    for place in range(int(np.where(wrong, 0, lengths).max(initial=0))):
        mine = every[(lengths > place) & ~wrong]
        numbers = cursor.longs(mine)
        cursor.fault(mine[numbers < 0], "it does not name a message of its schema")
        paths[mine, place] = np.maximum(numbers, -1)
    return paths


def read_messages(
    cursor: Cursor, rows: Int64s, read: ReadMessages, schema: pa.Schema
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """(what these rows of the cursor are, why some are malformed, by their places within `rows`)."""
    inner = cursor.narrow(cursor.at[rows], cursor.end[rows])
    found = read(inner)
    for field, column in zip(schema, found, strict=True):
        if not field.nullable and column.null_count:
            inner.fault(np.flatnonzero(nulls_of(column)), f"column {field.name}: null, but declared NOT NULL")
    return pa.RecordBatch.from_arrays(found, schema=nullable(schema)), inner.faults


@lru_cache(maxsize=1024)  # of a process: one for each message type of a writer and each use of it
def _reader(
    encoding: Protobuf, number: int, path: tuple[int, ...], schema: pa.Schema, part: MessagePart
) -> ReadMessages:
    """Raises BadSchema and UnknownSchema."""
    from io_kafka.formats.protobuf.compile import compile_schema
    from io_kafka.formats.protobuf.resolve import columns_of

    found = registry_at(encoding.registry).schema(number)
    if found.kind != "PROTOBUF":
        raise BadSchema(f"it is a schema of {found.kind}, and the table's format is protobuf")
    pool, name = compile_schema(found.text, found.references)
    message = _message(list(pool.FindFileByName(name).message_types_by_name.values()), path)
    if part is MessagePart.KEY:
        check_key({field.name for field in message.fields}, schema)
    else:
        after = message.fields_by_name.get("after")
        row = message if part is MessagePart.ROW else after.message_type if after is not None else None
        if row is not None:
            check_row([field.name for field in row.fields], row_columns(schema, part))
    return columns_of(message, list(schema), encoding.defaults)


def _message(messages: Sequence[Descriptor], path: tuple[int, ...]) -> Descriptor:
    """The message that the path means. `messages`: those of the file. Raises BadSchema, also if it depends on who counted."""
    described = _walk(messages, path, lambda message: message.nested_types)
    if described is not None and described.GetOptions().map_entry:
        described = None  # it is never sent by itself
    declared = _walk(messages, path, _declared_within)
    if described is not None and declared is not None and described is not declared:
        raise BadSchema(
            f"its message {'.'.join(map(str, path))} is {declared.full_name} for clients in Java, and {described.full_name} for those that "
            "also count maps and groups; declare messages at the top level, or before the first map or group"
        )
    message = described if declared is None else declared
    if message is None:
        raise BadSchema(f"it has no message {'.'.join(map(str, path))}")
    return message


def _walk(
    messages: Sequence[Descriptor], path: tuple[int, ...], within: Callable[[Descriptor], Sequence[Descriptor]]
) -> Descriptor | None:
    message = None
    for place in path:
        if place >= len(messages):
            return None
        message = messages[place]
        messages = within(message)
    return message


def _declared_within(message: Descriptor) -> list[Descriptor]:
    """The messages that the text declares as such: no entries of maps, and no groups, whose fields have their names in small letters."""
    groups = {field.message_type.name for field in message.fields if field.type == field.TYPE_GROUP}
    groups = {name for name in groups if name.lower() in message.fields_by_name}
    return [each for each in message.nested_types if each.name not in groups and not each.GetOptions().map_entry]
