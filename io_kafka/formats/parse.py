"""Messages -> rows of a schema: fast for the usual messages, exact for all, and never a crash.

Guarantee: `parse` gives for every message the same row or the same refusal as `parse_slowly`. The usual messages are
read by an extension in C (`usual.py`), if it was built. The fast side for the others is pyarrow.json, which is unsafe on malformed input, so
it gets a block only if all of this holds:

- every message begins with `{` and ends with `}`, and none holds a raw newline (pyarrow may cut there), so a
  message border cannot lie within an object: a newline may not stand in a string, and outside a string `}` followed
  by `{` ends an object for good;
- it returns as many rows as messages: every message holds at least one object, hence exactly one, and nothing after
  it;
- it is UTF-8, and not so long that Jackson's limits matter; and it has none of the bare words that RapidJSON accepts
  and Jackson does not.

Types that it reads differently from Spark are read as strings and converted (`base.text.columns`, `vector.py`), or checked
afterwards. Values that stay doubtful are read by the slow path, message by message. A block that fails is cut into pieces,
so that one malformed message does not slow down the others.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from base.arrays import Bools, Int64s, UInt8s, filled
from base.text.columns import bytes_of, dates, nulls_of, timestamps
from io_kafka.formats import vector
from io_kafka.formats.exact import RowReader, nullable
from io_kafka.formats.jackson import DEPTH_MAX, NAME_CHARS_MAX, NUMBER_DIGITS_MAX, Malformed
from io_kafka.formats.usual import read_usual

BLOCK_BYTES_MAX = 16 << 20  # one parse stays within the cache's reach, and one failure costs little
PIECES = 8  # of a block that failed
SLOW_ROWS_MAX = 32  # pieces this small are not worth another try
# Shorter messages cannot reach Jackson's limits.
UNLIMITED_BYTES_MAX = min(DEPTH_MAX, NUMBER_DIGITS_MAX)
LONG_NUMBER = r"[0-9.eE+-]{500}"  # RE2 repeats 1000 times at most; half the limit finds every number beyond it
# pyarrow.json brings a number to the column's scale: with 128 bits it lets the result wrap, with 256 it refuses. So decimals
# are read wide, and the precision is looked at here.
DECIMAL256_DIGITS_MAX = 76
# RapidJSON's words which Jackson refuses; after a separator, for in strings they are common.
FOREIGN_WORD = r"[:,\[][ \t\r]*(-NaN|-?Inf)"


class Parsed(NamedTuple):
    """`rows[i]` is message `at[i]`; `at` and the positions in `faults` ascend, and together are all messages."""

    rows: pa.RecordBatch
    at: Int64s
    faults: list[tuple[int, str]]


@lru_cache(maxsize=256)  # one for each schema in use: an input has at most a few
def row_reader(schema: pa.Schema) -> RowReader:
    return RowReader(schema)


def parse_slowly(values: pa.Array, schema: pa.Schema, reader: RowReader | None = None) -> Parsed:
    reader = reader or row_reader(schema)
    rows: list[dict[str, Any]] = []
    at: list[int] = []
    faults: list[tuple[int, str]] = []
    for position, message in enumerate(values.to_pylist()):
        try:
            rows.append(reader.read(message))
            at.append(position)
        except Malformed as refusal:
            faults.append((position, str(refusal)))
    return Parsed(reader.table(rows), np.array(at, dtype=np.int64), faults)


def parse(values: pa.Array, schema: pa.Schema, reader: RowReader | None = None) -> Parsed:
    """`values`: binary, a null is an empty message. `reader` is the slow path for messages of other shapes too: it
    must agree with the schema wherever no column declared NOT NULL is missing."""
    read = read_usual(values, schema)
    if read is None:
        return _parse_unusual(values, schema, reader)
    batch, declined = read
    if not declined.any():
        return Parsed(batch, np.arange(len(values)), [])
    late = np.flatnonzero(declined)
    others = _parse_unusual(_taken(values, late), schema, reader)
    faults = [(int(late[position]), reason) for position, reason in others.faults]
    batches = [batch.filter(pa.array(~declined)), others.rows]
    return _in_order(batches, [np.flatnonzero(~declined), late[others.at]], faults)


def _parse_unusual(values: pa.Array, schema: pa.Schema, reader: RowReader | None) -> Parsed:
    """The same without the extension."""
    if any(_has_map(field.type) for field in schema):  # pyarrow.json cannot read maps
        return parse_slowly(values, schema, reader)
    batches: list[pa.RecordBatch] = []
    places: list[Int64s] = []
    slow = _refused_outright(values)
    fast = np.flatnonzero(~slow)
    late: list[Int64s] = [np.flatnonzero(slow)]
    todo = _blocks(fast, values)
    while todo:
        rows = todo.pop()
        block = values if len(rows) == len(values) else _taken(values, rows)
        result = _parse_block(block, schema)
        if result is not None:
            batch, doubtful = result
            if doubtful.any():
                late.append(rows[doubtful])
                batch, rows = batch.filter(pa.array(~doubtful)), rows[~doubtful]
            batches.append(batch)
            places.append(rows)
        elif len(rows) <= SLOW_ROWS_MAX:
            late.append(rows)
        else:
            todo += np.array_split(rows, PIECES)
    return _merged(values, reader or row_reader(schema), batches, places, np.sort(np.concatenate(late)))


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_map(kind.field(i).type) for i in range(kind.num_fields))


def _merged(
    values: pa.Array, reader: RowReader, batches: list[pa.RecordBatch], places: list[Int64s], late: Int64s
) -> Parsed:
    """The fast rows and, for the messages `late`, the slow ones, in the order of the messages."""
    faults: list[tuple[int, str]] = []
    if len(late):
        slowly = parse_slowly(_taken(values, late), reader.schema, reader)
        batches.append(slowly.rows)
        places.append(late[slowly.at])
        faults = [(int(late[position]), reason) for position, reason in slowly.faults]
    if not batches:
        return Parsed(pa.RecordBatch.from_pylist([], nullable(reader.schema)), np.zeros(0, np.int64), faults)
    return _in_order(batches, places, faults)


def _in_order(batches: list[pa.RecordBatch], places: list[Int64s], faults: list[tuple[int, str]]) -> Parsed:
    """`places` are the messages of the rows of each batch."""
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    at = np.concatenate(places)
    if (np.diff(at) < 0).any():
        order = np.argsort(at)
        rows, at = rows.take(pa.array(order)), at[order]
    return Parsed(rows, at, faults)


def _taken(values: pa.Array, rows: Int64s) -> pa.Array:
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return values.slice(int(rows[0]), len(rows))
    return values.take(pa.array(rows))


def _refused_outright(values: pa.Array) -> Bools:
    """The messages that the fast side must not get, judged by each message alone."""
    slow = nulls_of(values)
    data, ends = bytes_of(values)
    lengths = np.diff(ends)
    slow |= lengths < 2
    if slow.all():
        return slow
    first, last = ends[:-1].copy(), ends[1:] - 1
    first[slow], last[slow] = first[~slow][0], last[~slow][0]
    slow |= (data[first] != ord("{")) | (data[last] != ord("}"))
    long = np.flatnonzero((lengths > UNLIMITED_BYTES_MAX) & ~slow)
    if len(long):
        slow[long[_near_limits(values.take(pa.array(long)))]] = True
    return slow


def _near_limits(messages: pa.Array) -> Bools:
    opened = pc.add(pc.count_substring(messages, "{"), pc.count_substring(messages, "["))
    near = pc.or_(pc.greater(opened, DEPTH_MAX), pc.greater(pc.binary_length(messages), NAME_CHARS_MAX))
    return np.asarray(pc.or_(near, pc.match_substring_regex(messages, LONG_NUMBER)).to_numpy(zero_copy_only=False))


def _blocks(rows: Int64s, values: pa.Array) -> list[Int64s]:
    """Rows cut so that each block stays under BLOCK_BYTES_MAX (a single larger message is a block)."""
    if not len(rows):
        return []
    _, ends = bytes_of(values)
    sizes = np.cumsum((ends[1:].astype(np.int64) - ends[:-1] + 1)[rows])
    cuts = np.flatnonzero(np.diff(sizes // BLOCK_BYTES_MAX)) + 1
    return np.split(rows, cuts)[::-1]


def _parse_block(values: pa.Array, schema: pa.Schema) -> tuple[pa.RecordBatch, Bools] | None:
    """The rows and which of them are doubtful; None if the block as a whole is not certain."""
    try:
        texts = values.cast(pa.string())  # proves UTF-8
    except pa.ArrowInvalid:
        return None
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    chars = np.frombuffer(joined, dtype=np.uint8)
    if np.count_nonzero(chars == ord("\n")) != len(values) - 1:
        return None
    doubtful = _foreign_words(chars, texts)
    try:
        table = pj.read_json(
            pa.BufferReader(joined),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(chars) + 1),
            parse_options=pj.ParseOptions(explicit_schema=_read_schema(schema), unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(values):
        return None
    columns = []
    for field in schema:
        column, unsure = _converted(_one(table.column(field.name)), field.type)
        columns.append(column)
        if unsure is not None:
            doubtful |= unsure
        if not field.nullable and column.null_count:
            doubtful |= nulls_of(column)
    return pa.RecordBatch.from_arrays(columns, schema=nullable(schema)), doubtful


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _foreign_words(chars: UInt8s, texts: pa.Array) -> Bools:
    capitals = np.flatnonzero(chars[:-2] == ord("I"))
    found = bool(((chars[capitals + 1] == ord("n")) & (chars[capitals + 2] == ord("f"))).any())
    capitals = np.flatnonzero(chars == ord("N"))
    if not found and not (chars[capitals - 1] == ord("-")).any():
        return np.zeros(len(texts), dtype=np.bool_)
    return _matches(texts, FOREIGN_WORD)


def _matches(texts: pa.Array, pattern: str) -> Bools:
    return np.array(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False), dtype=np.bool_)


@lru_cache(maxsize=256)
def _read_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _read_type(field.type)) for field in schema])


def _read_type(kind: pa.DataType) -> pa.DataType:
    """The type pyarrow.json is asked for: strings where it reads otherwise than Spark."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(i).name, _read_type(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _read_type(kind.value_type)))
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_decimal(kind):
        return pa.decimal256(DECIMAL256_DIGITS_MAX, kind.scale)
    return kind


def _converted(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bools | None]:
    """A column as read -> as Spark has it, and the rows in doubt (None: there is none)."""
    if pa.types.is_struct(kind):
        return _converted_struct(column, kind)
    if pa.types.is_list(kind):
        return _converted_list(column, kind)
    if pa.types.is_floating(kind):
        return column, _unsure_floats(column)
    if pa.types.is_decimal(kind):
        return _narrowed(column, kind)
    if pa.types.is_date(kind):
        return dates(column)
    if pa.types.is_timestamp(kind):
        return timestamps(column, kind)
    if pa.types.is_binary(kind):
        return vector.base64s(column)
    if pa.types.is_duration(kind):
        return pa.nulls(len(column), kind), ~nulls_of(column)
    return column, None


def _unsure_floats(column: pa.Array) -> Bools | None:
    """-0.0 may have been the integer -0, which is 0.0."""
    values = filled(column, 1.0).to_numpy(zero_copy_only=False)
    unsure: Bools = (values == 0) & np.signbit(values)
    return unsure if unsure.any() else None


def _narrowed(column: pa.Array, kind: pa.Decimal128Type) -> tuple[pa.Array, Bools]:
    bound = pa.scalar(Decimal(10).scaleb(kind.precision - kind.scale - 1), column.type)
    wide = filled(pc.greater_equal(pc.abs(column), bound), False)
    unsure = np.array(wide.to_numpy(zero_copy_only=False), dtype=np.bool_)
    if unsure.any():
        column = pc.if_else(wide, pa.scalar(None, column.type), column)
    return column.cast(kind), unsure


def _converted_struct(column: pa.StructArray, kind: pa.StructType) -> tuple[pa.Array, Bools | None]:
    if kind.num_fields == 0:
        return column, ~nulls_of(column)
    fields = [kind.field(i) for i in range(kind.num_fields)]
    # flatten() puts the struct's own nulls into its children.
    pairs = [_converted(child, field.type) for child, field in zip(column.flatten(), fields, strict=True)]
    unsure: Bools | None = None
    for _, of_child in pairs:
        if of_child is not None:
            unsure = of_child if unsure is None else unsure | of_child
    mask = pa.array(nulls_of(column)) if column.null_count else None
    return pa.StructArray.from_arrays([child for child, _ in pairs], fields=fields, mask=mask), unsure


def _converted_list(column: pa.ListArray, kind: pa.ListType) -> tuple[pa.Array, Bools | None]:
    null = nulls_of(column)
    items, unsure_items = _converted(column.flatten(), kind.value_type)
    lengths = filled(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pa.array(null) if null.any() else None
    rebuilt = pa.ListArray.from_arrays(pa.array(offsets), items, type=kind, mask=mask)
    if unsure_items is None or not unsure_items.any():
        return rebuilt, None
    unsure = np.zeros(len(column), dtype=np.bool_)
    unsure[np.repeat(np.arange(len(column)), lengths)[unsure_items]] = True
    return rebuilt, unsure
