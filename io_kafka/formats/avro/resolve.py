"""The writer's schema and the columns of a table -> one function that reads a whole batch.

This is Avro's schema resolution, in which the table's columns are the reader's schema. Fields are found by their names. A column that the writer
does not have is null, or has the default of the reader's schema if the table names one, whose aliases count too. What only the writer has is
passed over. A union is read if each branch that a message takes can be read as the column; the others are faults of the messages that have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.text.type_names import sql_type
from io_kafka.formats.avro import schema as avro
from io_kafka.formats.avro.connected import VARIABLE_PARTS, means_more, read_connect, read_variable_decimal
from io_kafka.formats.avro.defaults import as_datum, branch_of
from io_kafka.formats.avro.schema import BadSchema, Type, schema_fields_of, type_text
from io_kafka.formats.avro.values import Read, declarable, read_enum, read_fixed, read_primitive
from io_kafka.formats.connect.types import VARIABLE_DECIMAL
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.maps import with_repeated_keys

Skip = Callable[[Cursor, Int64s], None]

DEPTH_MAX = 200
"""How many types may be within each other in a value: half as many records, if each is in a union with null or in an array. A table's columns
end sooner, but a type that the table does not have may contain itself. Each is up to three calls, and Python has 1000."""

EMPTY_ITEMS_MAX = 1000
"""How many items without bytes an array that is a column may have. Each takes memory, and a message says any number in ten bytes."""

_Known = dict[tuple[avro.Record, int], Skip]
"""How records are passed over at each depth."""


def resolve(writer: Type, kind: pa.DataType, reader: Type | None, column: str) -> Read:
    """Raises BadSchema, which names the column and both types, if the writer's type has no values of the column's."""
    match writer:
        case avro.Union():
            return _union(writer, kind, reader, column)
        case avro.Record(name=name) if name == VARIABLE_DECIMAL and not pa.types.is_struct(kind):
            return read_variable_decimal(_struct(writer, VARIABLE_PARTS, None, column), kind, column)
        case avro.Record() if pa.types.is_struct(kind):
            return _struct(writer, kind, _among(reader, avro.Record), column)
        case avro.Array() if pa.types.is_list(kind):
            of_array = _among(reader, avro.Array)
            read_item = resolve(writer.items, kind.value_type, of_array and of_array.items, f"{column}[]")
            return (
                _list_of_empty(read_item, kind, column) if _has_no_bytes(writer.items, {}) else _list(read_item, kind)
            )
        case avro.Map() if pa.types.is_map(kind):
            of_map = _among(reader, avro.Map)
            return _map(resolve(writer.values, kind.item_type, of_map and of_map.values, f"{column}[]"), kind, column)
        case avro.Primitive():
            found = None if means_more(writer, kind) else read_primitive(writer, kind, column)
            if found is None and writer.connect is not None:
                found = read_connect(writer, kind, column)
        case avro.Fixed():
            found = read_fixed(writer, kind, column)
        case avro.Enum():
            found = read_enum(writer, _among(reader, avro.Enum), kind, column)
        case _:
            found = None
    if found is None:
        raise BadSchema(f"column {column}: the writer's type is {type_text(writer)}, {_not_read_as(writer, kind)}")
    return found


def _not_read_as(writer: Type, kind: pa.DataType) -> str:
    declared = declarable(writer) if isinstance(writer, avro.Primitive | avro.Fixed | avro.Enum) else None
    what_to_do = "" if declared is None else f"; declare {sql_type(declared)}"
    return f"which is not read as {sql_type(kind)}{what_to_do}"


def _among(reader: Type | None, kind: type[Any]) -> Any:
    """The reader's type if it is of this kind, or the first branch of its union that is."""
    branches = reader.branches if isinstance(reader, avro.Union) else (reader,)
    return next((branch for branch in branches if isinstance(branch, kind)), None)


def _union(writer: avro.Union, kind: pa.DataType, reader: Type | None, column: str) -> Read:
    reads: list[Read | None] = []
    reasons: list[str] = []
    for branch in writer.branches:
        try:
            reads.append(resolve(branch, kind, reader, column))
        except BadSchema as fault:
            reads.append(None)
            reasons.append(str(fault))
    only_null = all(
        read is None or (isinstance(branch, avro.Primitive) and branch.kind == "null")
        for read, branch in zip(reads, writer.branches, strict=True)
    )
    if reasons and only_null:
        raise BadSchema(reasons[0])

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        branches = cursor.longs(rows)
        wrong = (branches < 0) | (branches >= len(reads))
        if wrong.any():
            cursor.fault(rows[wrong], f"column {column}: its union has no branch of this number")
        parts: list[pa.Array] = []
        place = np.zeros(len(rows), np.int64)
        missing = np.ones(len(rows), np.bool_)
        done = 0
        for number, of_branch in enumerate(reads):
            mine = np.flatnonzero(branches == number)
            if not len(mine):
                continue
            if of_branch is None:
                branch = writer.branches[number]
                kind_of_branch, not_read = type_text(branch), _not_read_as(branch, kind)
                cursor.fault(rows[mine], f"column {column}: a value of type {kind_of_branch}, {not_read}")
                continue
            part = of_branch(cursor, rows[mine])
            if len(mine) == len(rows):
                return part
            place[mine], missing[mine] = done + np.arange(len(mine)), False
            parts.append(part)
            done += len(mine)
        if not parts:
            return pa.nulls(len(rows), kind)
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        return whole.take(pa.array(place, mask=missing))

    return read


def columns_of(
    writer: avro.Record, fields: Sequence[pa.Field], reader: avro.Record | None, column: str
) -> Callable[[Cursor, Int64s], list[pa.Array]]:
    """One array for each of `fields`. `column`: the prefix of their names in errors."""
    by_name = {field.name: number for number, field in enumerate(fields)}
    of_reader = {field.name: field for field in reader.fields} if reader is not None else {}
    taken = column_numbers(writer, by_name, of_reader)
    moves: list[tuple[int | None, Any]] = []
    for field in writer.fields:
        number = taken.get(field.name)
        if number is None:
            moves.append((None, skip(field.type)))
            continue
        name, kind = fields[number].name, fields[number].type
        known = of_reader[name].type if name in of_reader else None
        moves.append((number, resolve(field.type, kind, known, f"{column}{name}")))
    absent = [number for number in range(len(fields)) if number not in taken.values()]
    constants = {number: _default(of_reader.get(fields[number].name), fields[number], column) for number in absent}

    def read(cursor: Cursor, rows: Int64s) -> list[pa.Array]:
        found: list[pa.Array] = [None] * len(fields)
        for number, move in moves:
            if number is None:
                move(cursor, rows)
            else:
                found[number] = move(cursor, rows)
        for number, constant in constants.items():
            found[number] = constant.take(pa.array(np.zeros(len(rows), np.int64)))
        return found

    return read


def column_numbers(writer: avro.Record, columns: dict[str, int], of_reader: dict[str, avro.Field]) -> dict[str, int]:
    """The number of the column for each field of the writer that is read. A field of the column's own name goes before an alias, and that before
    its name in another case (names.py). Raises BadSchema."""
    names = {field.name for field in writer.fields}
    taken = {name: columns[name] for name in names if name in columns}
    for name, number in columns.items():
        if name not in names and name in of_reader:
            alias = next((each for each in of_reader[name].aliases if each in names and each not in taken), None)
            if alias is not None:
                taken[alias] = number
    left = [name for name, number in columns.items() if number not in taken.values()]
    found = schema_fields_of(left, names - set(taken))
    return taken | {field: columns[name] for name, field in found.items()}


def _default(field: avro.Field | None, column: pa.Field, place: str) -> pa.Array:
    """The one value of a column that the writer does not have."""
    if field is None or not field.default:
        return pa.nulls(1, column.type)
    type_ = branch_of(field.type, field.default[0])
    cursor = Cursor(pa.array([as_datum(type_, field.default[0])], pa.binary()))
    found = resolve(type_, column.type, type_, f"{place}{column.name}")(cursor, np.zeros(1, np.int64))
    if cursor.faults:
        raise BadSchema(f"column {place}{column.name}: its default: {cursor.faults[0]}")
    return found


def _struct(writer: avro.Record, kind: pa.StructType, reader: avro.Record | None, column: str) -> Read:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    read = columns_of(writer, fields, reader, f"{column}.")
    return lambda cursor, rows: pa.StructArray.from_arrays(read(cursor, rows), fields=fields)


def _list(read_item: Read, kind: pa.ListType) -> Read:
    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        offsets, items = _blocks(cursor, rows, read_item, pa.array([], kind.value_type))
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=kind)

    return read


def _list_of_empty(read_item: Read, kind: pa.ListType, column: str) -> Read:
    """Arrays whose items have no bytes."""

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        counts = _count_empty(cursor, rows)
        wrong = counts > EMPTY_ITEMS_MAX
        cursor.fault(rows[wrong], f"column {column}: an array of more than {EMPTY_ITEMS_MAX} items that have no bytes")
        counts[wrong] = 0
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), read_item(cursor, np.repeat(rows, counts)), type=kind)

    return read


def _map(read_value: Read, kind: pa.MapType, column: str) -> Read:
    entry = pa.struct([pa.field("key", pa.string()), pa.field("value", kind.item_type)])

    def read_entry(cursor: Cursor, rows: Int64s) -> pa.Array:
        key = cursor.texts(rows, cursor.slices(rows, cursor.longs(rows)))
        return pa.StructArray.from_arrays([key, read_value(cursor, rows)], fields=list(entry))

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        offsets, entries = _blocks(cursor, rows, read_entry, pa.array([], entry))
        keys, values = entries.flatten()
        maps = pa.MapArray.from_arrays(pa.array(offsets), keys, values).cast(kind)
        twice = with_repeated_keys(maps)
        if twice.any():
            cursor.fault(rows[twice], f"column {column}: two entries of the map have one key")
        return maps

    return read


def _blocks(cursor: Cursor, rows: Int64s, read_item: Read, none: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """(offsets of each row's items, the items). In each round, every row that has items left reads one."""
    parts, places = [none], [np.zeros(0, np.int64)]
    for open_, items in _rounds(cursor, rows, read_item):
        places.append(open_)
        parts.append(items)
    place = np.concatenate(places)
    items = pa.concat_arrays(parts).take(pa.array(np.argsort(place, kind="stable")))
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.bincount(place, minlength=len(rows)), out=offsets[1:])
    return offsets, items


def _rounds(cursor: Cursor, rows: Int64s, read_item: Callable[[Cursor, Int64s], Any]) -> Any:
    open_ = np.arange(len(rows))
    left = np.zeros(len(rows), np.int64)
    while len(open_):
        due = open_[left[open_] == 0]
        if len(due):
            left[due] = _block_sizes(cursor, rows[due])
            open_ = open_[left[open_] > 0]
        if len(open_):
            yield open_, read_item(cursor, rows[open_])
            left[open_] -= 1


def _has_no_bytes(writer: Type, known: dict[avro.Record, bool]) -> bool:
    """Whether no value of this type has any. `known`: whether it is so for records."""
    match writer:
        case avro.Primitive(kind="null") | avro.Fixed(size=0):
            return True
        case avro.Record():
            if writer not in known:
                known[writer] = False  # it has no end if it contains itself
                known[writer] = all(_has_no_bytes(field.type, known) for field in writer.fields)
            return known[writer]
    return False


def _count_empty(cursor: Cursor, rows: Int64s) -> Int64s:
    """The number of items of each row's array, which have no bytes. Numbers above EMPTY_ITEMS_MAX are not exact."""
    found = np.zeros(len(rows), np.int64)
    open_ = np.arange(len(rows))
    while len(open_):
        counts = _block_counts(cursor, rows[open_])
        wrong = (counts < 0) | ((counts > 0) & (cursor.at[rows[open_]] == cursor.end[rows[open_]]))
        cursor.fault(rows[open_[wrong]], "it ends within a value")
        counts[wrong] = 0
        found[open_] = np.minimum(found[open_] + np.minimum(counts, EMPTY_ITEMS_MAX + 1), EMPTY_ITEMS_MAX + 1)
        open_ = open_[counts > 0]
    return found


def _block_counts(cursor: Cursor, rows: Int64s) -> Int64s:
    """What the next block says of itself. A negative number is followed by the block's size in bytes."""
    counts = cursor.longs(rows)
    sized = np.flatnonzero(counts < 0)
    if len(sized):
        cursor.longs(rows[sized])
        counts[sized] = -counts[sized]
    return counts


def _block_sizes(cursor: Cursor, rows: Int64s) -> Int64s:
    """The number of items of the next block; 0 behind the last one."""
    counts = _block_counts(cursor, rows)
    # Each item has a byte at least, so a message with a wrong number cannot take all memory.
    wrong = (counts < 0) | (counts > cursor.end[rows] - cursor.at[rows])
    if wrong.any():
        cursor.fault(rows[wrong], "an array or map that is longer than its message")
        counts[wrong] = 0
    return counts


def skip(writer: Type) -> Skip:
    """Passes over values that the table has no column for."""
    return _skip(writer, 0, {})


def _skip(writer: Type, depth: int, known: _Known) -> Skip:
    if depth > DEPTH_MAX:
        return lambda cursor, rows: cursor.fault(rows, f"values within each other, more than {DEPTH_MAX} deep")
    match writer:
        case avro.Primitive(kind="null"):
            return lambda cursor, rows: None
        case avro.Primitive(kind="int" | "long") | avro.Enum():
            return lambda cursor, rows: _drop(cursor.varints(rows))
        case avro.Primitive(kind="bytes" | "string"):
            return lambda cursor, rows: _drop(cursor.advance(rows, cursor.longs(rows)))
        case avro.Primitive() | avro.Fixed():
            width = (
                writer.size if isinstance(writer, avro.Fixed) else {"boolean": 1, "float": 4, "double": 8}[writer.kind]
            )
            return lambda cursor, rows: _drop(cursor.advance(rows, np.full(len(rows), width, np.int64)))
        case avro.Array() | avro.Map():
            return _skip_blocks(writer, depth, known)
        case avro.Union():
            return _skip_union([_later(branch, depth, known) for branch in writer.branches])
        case avro.Record():
            fields = [_later(field.type, depth, known) for field in writer.fields]

            def record(cursor: Cursor, rows: Int64s) -> None:
                for each in fields:
                    each(cursor, rows)

            return record
        case _:
            assert_never(writer)


def _later(writer: Type, depth: int, known: _Known) -> Skip:
    """A record may contain itself, so what is behind one is made when it is needed."""
    if not isinstance(writer, avro.Record):
        return _skip(writer, depth + 1, known)

    def later(cursor: Cursor, rows: Int64s) -> None:
        if not len(rows):
            return
        if (writer, depth) not in known:
            known[writer, depth] = _skip(writer, depth + 1, known)
        known[writer, depth](cursor, rows)

    return later


def _skip_blocks(writer: avro.Array | avro.Map, depth: int, known: _Known) -> Skip:
    if isinstance(writer, avro.Array) and _has_no_bytes(writer.items, {}):
        return lambda cursor, rows: _drop(_count_empty(cursor, rows))
    item = _later(writer.items if isinstance(writer, avro.Array) else writer.values, depth, known)
    has_key = isinstance(writer, avro.Map)

    def one(cursor: Cursor, rows: Int64s) -> None:
        if has_key:
            cursor.advance(rows, cursor.longs(rows))
        item(cursor, rows)

    def blocks(cursor: Cursor, rows: Int64s) -> None:
        for _ in _rounds(cursor, rows, one):
            pass

    return blocks


def _skip_union(branches: Sequence[Skip]) -> Skip:
    def union(cursor: Cursor, rows: Int64s) -> None:
        numbers = cursor.longs(rows)
        wrong = (numbers < 0) | (numbers >= len(branches))
        if wrong.any():
            cursor.fault(rows[wrong], "a union has no branch of this number")
        for number, branch in enumerate(branches):
            if len(mine := rows[numbers == number]):
                branch(cursor, mine)

    return union


def _drop(value: object) -> None:
    """What was read is not needed."""
