"""Messages in Confluent's wire format -> rows of a schema: 0, the id of the writer's schema in four bytes, and the datum.

The messages of each writer's schema are read together. If a schema cannot be read into the columns, all its messages are malformed, and the
reason names the column. Equal bytes give equal rows, because a schema does not change under its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.avro import schema as avro
from io_kafka.formats.avro.resolve import column_numbers, columns_of
from io_kafka.formats.avro.schema import BadSchema, parse_schema, schema_fields_of, type_text
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.debezium import row_columns
from io_kafka.formats.encodings import Avro, MessagePart, PlainAvro
from io_kafka.formats.envelopes import why_no_row
from io_kafka.formats.exact_json import nullable
from io_kafka.formats.parse import Parsed
from io_kafka.registry.client import UnknownSchema, registry_at

HEADER_BYTES = 5

Columns = Callable[[Cursor, Int64s], list[pa.Array]]


def parse_avro(values: pa.Array, schema: pa.Schema, encoding: Avro, part: MessagePart = MessagePart.ROW) -> Parsed:
    """`values`: binary; a null is an empty message. `schema`: the columns of the part. Raises RegistryUnreachable and RegistryRefused."""
    ids, faults = schema_ids(values)
    order = np.argsort(ids, kind="stable")
    numbers, firsts = np.unique(ids[order], return_index=True)
    parts: list[pa.RecordBatch] = []
    places: list[Int64s] = []
    groups = np.split(order, firsts[1:]) if len(order) else []
    for number, at in zip(numbers.tolist(), groups, strict=True):
        if number < 0:
            continue
        try:
            registry_at(encoding.registry).check_counts(number)
            read = _columns(encoding, number, schema, part)
        except (BadSchema, UnknownSchema) as fault:
            reason = str(fault) if isinstance(fault, UnknownSchema) else f"schema id {number}: {fault}"
            faults.update((int(position), reason) for position in at)
            continue
        rows, wrong = _read(values if len(numbers) == 1 else values.take(pa.array(at)), read, schema)
        faults.update((int(at[row]), reason) for row, reason in wrong.items())
        good = np.array([row for row in range(len(at)) if row not in wrong] if wrong else range(len(at)), np.int64)
        parts.append(rows.take(pa.array(good)) if wrong else rows)
        places.append(at[good])
    return merge_parts(parts, places, faults, schema)


def parse_plain_avro(values: pa.Array, schema: pa.Schema, encoding: PlainAvro) -> Parsed:
    """Reads messages without a schema's id, which were all written with one schema."""
    return read_alike(values, schema, lambda given: _read(given, plain_columns(encoding, schema), schema, skip=0))


def read_alike(
    values: pa.Array, schema: pa.Schema, read: Callable[[pa.Array], tuple[pa.RecordBatch, dict[int, str]]]
) -> Parsed:
    """Messages that are all read in one way. `read` gives the rows of those that are not null, which are malformed, and why others are."""
    null = nulls_of(values)
    faults = {int(row): "empty" for row in np.flatnonzero(null)}
    given = np.flatnonzero(~null)
    if not len(given):
        return merge_parts([], [], faults, schema)
    try:
        rows, wrong = read(values.take(pa.array(given)))
    except BadSchema as fault:
        # The project was checked, but not for the flag that the table does not declare (flattened.py).
        faults.update((int(row), str(fault)) for row in given)
        return merge_parts([], [], faults, schema)
    faults.update((int(given[row]), reason) for row, reason in wrong.items())
    good = np.setdiff1d(np.arange(len(given)), np.array(list(wrong), np.int64))
    return merge_parts([rows.take(pa.array(good)) if wrong else rows], [given[good]], faults, schema)


@lru_cache(maxsize=256)  # of a process: one for each table and each use of it
def plain_columns(encoding: PlainAvro, schema: pa.Schema) -> Columns:
    """Raises BadSchema, which names a column that the schema has otherwise."""
    writer = parse_schema(encoding.writer)
    assert isinstance(writer, avro.Record), "the project was checked"
    return columns_of(writer, list(schema), None, "")


def merge_parts(parts: list[pa.RecordBatch], places: list[Int64s], faults: dict[int, str], schema: pa.Schema) -> Parsed:
    """Rows that were read in groups, in the order of the messages again."""
    if len(parts) == 1:
        return Parsed(parts[0], places[0], sorted(faults.items()))
    at = np.concatenate([np.zeros(0, np.int64), *places])
    whole = pa.concat_batches(parts) if parts else pa.RecordBatch.from_pylist([], nullable(schema))
    back = np.argsort(at)
    return Parsed(whole.take(pa.array(back)), at[back], sorted(faults.items()))


def schema_ids(values: pa.Array) -> tuple[Int64s, dict[int, str]]:
    """(the schema id of each message, -1 where there is none; faults)."""
    data, ends = bytes_of(values)
    starts = ends[:-1].astype(np.int64)
    lengths = np.where(nulls_of(values), 0, ends[1:] - starts)
    if not len(data):
        data = np.zeros(1, np.uint8)
    head = data.take(starts[:, None] + np.arange(HEADER_BYTES), mode="clip")
    ids = head[:, 1:].astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
    wrong = (lengths < HEADER_BYTES) | (head[:, 0] != 0)
    faults: dict[int, str] = {}
    for row in np.flatnonzero(wrong).tolist():
        faults[row] = (
            "it does not begin with 0 and a schema id, as a registry's messages do" if lengths[row] else "empty"
        )
    ids[wrong] = -1
    return ids, faults


def _read(
    values: pa.Array, columns: Columns, schema: pa.Schema, skip: int = HEADER_BYTES
) -> tuple[pa.RecordBatch, dict[int, str]]:
    cursor = Cursor(values, skip)
    found = columns(cursor, np.arange(len(values)))
    late = np.flatnonzero(cursor.at < cursor.end)
    if len(late):
        left = (cursor.end - cursor.at)[late]
        cursor.fault(late, lambda at: f"{left[at]} bytes are left behind its value")
    for field, column in zip(schema, found, strict=True):
        if not field.nullable and column.null_count:
            cursor.fault(np.flatnonzero(nulls_of(column)), f"column {field.name}: null, but declared NOT NULL")
    return pa.RecordBatch.from_arrays(found, schema=nullable(schema)), cursor.faults


@lru_cache(maxsize=1024)  # of a process: one for each schema of a writer and each use of it
def _columns(encoding: Avro, number: int, schema: pa.Schema, part: MessagePart) -> Columns:
    """Raises BadSchema and UnknownSchema."""
    found = registry_at(encoding.registry).schema(number)
    if found.kind != "AVRO":
        raise BadSchema(f"it is a schema of {found.kind}, and the table's format is avro")
    writer = parse_schema(found.text, found.references)
    if part is MessagePart.KEY and not isinstance(writer, avro.Record):
        if len(schema) != 1:
            raise BadSchema(f"the key is {type_text(writer)}, and no record of {', '.join(schema.names)}")
        writer = avro.Record("key", [avro.Field(schema.names[0], writer)])
    if not isinstance(writer, avro.Record):
        raise BadSchema(f"the writer's type is {type_text(writer)}, and rows need a record")
    if part is MessagePart.KEY:
        writer = _with_columns(writer, schema, _reader(encoding, MessagePart.ROW))
        check_key({field.name for field in writer.fields}, schema)
    else:
        _check_row(_row_of(writer, part), row_columns(schema, part), _reader(encoding, MessagePart.ROW))
    return columns_of(writer, list(schema), _reader(encoding, part), "")


def check_key(names: set[str], schema: pa.Schema) -> None:
    """A column of the key may be NULL, but not because the writer does not have it: all its rows would have one key. Raises BadSchema."""
    found = schema_fields_of(schema.names, names)
    missing = [name for name in schema.names if name not in found]
    if missing:
        raise BadSchema(f"column {missing[0]} is missing")


def _with_columns(writer: avro.Record, schema: pa.Schema, reader: avro.Record | None) -> avro.Record:
    """A key's record with the names of the columns where it has others, such as aliases. Nothing else of the reader's schema counts for a key:
    by the default of an enum, several keys would be one."""
    of_reader = {field.name: field for field in reader.fields} if reader is not None else {}
    numbers = column_numbers(writer, {name: number for number, name in enumerate(schema.names)}, of_reader)
    names = {field: schema.names[number] for field, number in numbers.items()}
    return avro.Record(writer.name, [replace(field, name=names.get(field.name, field.name)) for field in writer.fields])


def _row_of(writer: avro.Record, part: MessagePart) -> avro.Record | None:
    """The record of a row: the writer's own, or what a change has as its image."""
    if part is MessagePart.ROW:
        return writer
    after = next((field.type for field in writer.fields if field.name == "after"), None)
    branches = after.branches if isinstance(after, avro.Union) else (after,)
    return next((branch for branch in branches if isinstance(branch, avro.Record)), None)


def _check_row(row: avro.Record | None, columns: Set[str], reader: avro.Record | None) -> None:
    """Checks the fields of a writer's row as `check_row` does. A default of the reader's schema is a value too."""
    of_reader = [] if reader is None else [field for field in reader.fields if field.name in columns]
    if row is not None and not any(field.default for field in of_reader):
        aliases = {alias for field in of_reader for alias in field.aliases}
        check_row([field.name for field in row.fields], columns | aliases)


def check_row(names: Sequence[str], columns: Set[str]) -> None:
    """A writer that has none of the columns writes something else, and its rows would have nothing but NULL. Raises BadSchema."""
    reason = why_no_row(names, columns, any_case=True)
    if reason is not None:
        raise BadSchema(f"it {reason}")


def _reader(encoding: Avro, part: MessagePart) -> avro.Record | None:
    """The reader's schema of a part, if the table names one."""
    if encoding.reader is None or part is MessagePart.KEY:
        return None
    row = parse_schema(encoding.reader)
    assert isinstance(row, avro.Record), "the project was checked"
    if part is MessagePart.ROW:
        return row
    return avro.Record("envelope", [avro.Field("before", row), avro.Field("after", row)])
