"""A Protobuf message type and the columns of a table -> one function that reads a whole batch.

Fields are found by their names. The fields of a message come in any order, and any of them may be missing. So all messages move on together,
one field of each in a round, which says where the values are. Then each column is read. Of a field that comes twice, the last value counts.
Fields that the table does not have are passed over.

A field that is missing is NULL, as in Spark's `from_protobuf`, or the default that its schema in proto2 names. With `defaults` a field without
presence (in proto3 a plain scalar) has its type's zero, as in Spark with `emit.default.values`. An array or a map that is missing is empty. A
map is a MAP, or an array of its entries as they were written; what an entry leaves out is zero, or an empty message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from base.arrays import Bools, Int64s
from base.text.type_names import sql_type
from io_kafka.formats.avro.schema import BadSchema, schema_fields_of
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.maps import with_repeated_keys
from io_kafka.formats.protobuf.known import DATE, DECIMAL, TIMESTAMP
from io_kafka.formats.protobuf.parts import days_of, decimals_of
from io_kafka.formats.protobuf.values import NUMBERS, NumberType, read_number

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
WIDTHS = {FIXED64: 8, FIXED32: 4}

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
SECONDS_MAX = 9_223_372_036_853
"""The largest number of seconds of a moment that 64 bits of microseconds hold, with the part of a second."""

ReadMessages = Callable[[Cursor], list[pa.Array]]
"""One array for each column, with a value for each message of the cursor."""


def columns_of(message: Descriptor, fields: Sequence[pa.Field], defaults: bool, place: str = "") -> ReadMessages:
    """Raises BadSchema, which names the column and both types."""
    by_name = {field.name: field for field in message.fields}
    named = schema_fields_of([column.name for column in fields], by_name)
    columns: list[tuple[int, FieldDescriptor, _Put]] = []
    for number, column in enumerate(fields):
        field = by_name.get(named.get(column.name, ""))
        if field is not None:
            columns.append((number, field, _put(field, column.type, defaults, f"{place}{column.name}")))
    wanted = {field.number: (number, field, put) for number, field, put in columns}
    groups = [np.array([member.number for member in oneof.fields]) for oneof in message.oneofs]
    choices = [group for group in groups if len(group) > 1 and not wanted.keys().isdisjoint(group.tolist())]

    def read(cursor: Cursor) -> list[pa.Array]:
        spans = _spans(cursor, wanted.keys(), choices)
        count = len(cursor.at)
        found = [pa.nulls(count, column.type) for column in fields]
        for tag, (number, _, put) in wanted.items():
            found[number] = put(cursor, spans[tag], count)
        return found

    return read


@dataclass
class Spans:
    """Where the values of one field are, in the order in which they were met: the message, the wire type, where the value begins and ends."""

    rows: Int64s
    wires: Int64s
    begins: Int64s
    ends: Int64s

    def take(self, which: Int64s) -> Spans:
        return Spans(self.rows[which], self.wires[which], self.begins[which], self.ends[which])


_Put = Callable[[Cursor, Spans, int], pa.Array]


def _spans(cursor: Cursor, wanted: Iterable[int], choices: Sequence[Int64s]) -> dict[int, Spans]:
    """Goes through all messages to their ends. `choices`: the numbers of the members of each `oneof`. Of those that a message has, the last one
    counts."""
    parts: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]] = []
    open_ = np.flatnonzero(cursor.at < cursor.end)
    while len(open_):
        tags = cursor.varints(open_).astype(np.int64)
        numbers, wires = tags >> 3, tags & 7
        begins = _pass(cursor, open_, numbers, wires)
        parts.append((numbers, open_, wires, begins, cursor.at[open_]))
        open_ = open_[cursor.at[open_] < cursor.end[open_]]
    none = np.zeros(0, np.int64)
    whole = [np.concatenate([none, *(part[n] for part in parts)]) for n in range(5)]
    for choice in choices:
        counts = _is_chosen(whole[0], whole[1], choice)
        if not counts.all():
            whole = [column[counts] for column in whole]
    found: dict[int, Spans] = {}
    for number in wanted:
        which = np.flatnonzero(whole[0] == number)
        found[number] = Spans(*(column[which] for column in whole[1:]))
    return found


def _is_chosen(numbers: Int64s, rows: Int64s, choice: Int64s) -> Bools:
    """Which values count, of fields with these numbers in the order in which they were met: all but those of members of the choice behind which
    another member comes in the same message."""
    counts = np.ones(len(numbers), np.bool_)
    members = np.flatnonzero(np.isin(numbers, choice))
    if len(members):
        last = np.zeros(int(rows[members].max()) + 1, np.int64)
        last[rows[members]] = numbers[members]  # of equal rows the last one stays
        counts[members] = numbers[members] == last[rows[members]]
    return counts


def _pass(cursor: Cursor, rows: Int64s, numbers: Int64s, wires: Int64s) -> Int64s:
    """Passes over a value of each row. The result is where each begins, behind the length of a DELIMITED one."""
    wrong = (numbers <= 0) | ~np.isin(wires, (VARINT, FIXED64, DELIMITED, FIXED32))
    if wrong.any():
        cursor.fault(rows[wrong], "what stands at the place of a field is none")
    begins = cursor.at[rows]
    for wire in np.unique(wires[~wrong]).tolist():
        mine = np.flatnonzero((wires == wire) & ~wrong)
        chosen = rows[mine]
        if wire == VARINT:
            cursor.varints(chosen)
        elif wire == DELIMITED:
            lengths = cursor.varints(chosen).view(np.int64)
            begins[mine] = cursor.at[chosen]
            cursor.advance(chosen, lengths)
        else:
            cursor.advance(chosen, np.full(len(chosen), WIDTHS[wire], np.int64))
    return begins


def _put(field: FieldDescriptor, kind: pa.DataType, defaults: bool, place: str) -> _Put:
    if field.is_repeated:
        if pa.types.is_map(kind):
            return _map(field, kind, defaults, place)
        if not pa.types.is_list(kind):
            raise BadSchema(f"column {place}: the field is repeated {_type_text(field)}, which is read as ARRAY only")
        return _repeated_put(field, kind, _values(field, kind.value_type, defaults, f"{place}[]"), place)
    values = _values(field, kind, defaults, place)
    is_message, of_entry = isinstance(field.message_type, Descriptor), field.containing_type.GetOptions().map_entry
    has_default = field.has_default_value or (of_entry and not is_message) or (defaults and not field.has_presence)
    missing = _default(field, kind, place) if has_default else pa.scalar(None, kind)

    def put(cursor: Cursor, spans: Spans, count: int) -> pa.Array:
        if of_entry and is_message:
            spans = _with_empty(spans, count)
        last = np.full(count, -1, np.int64)
        last[spans.rows] = np.arange(len(spans.rows))  # the last one of a row counts
        if is_message:
            twice = np.flatnonzero(np.bincount(spans.rows, minlength=count) > 1)
            if len(twice):
                cursor.fault(twice, f"column {place}: the message is there twice, in parts")
        present = np.flatnonzero(last >= 0)
        found = values(cursor, spans.take(last[present]))
        if len(present) == count:
            return found
        where = np.zeros(count, np.int64)
        where[present] = np.arange(len(present))
        absent = last < 0
        spread = found.take(pa.array(where, mask=absent))
        return pc.if_else(pa.array(absent), missing, spread) if missing.is_valid else spread

    return put


def _with_empty(spans: Spans, count: int) -> Spans:
    """With a message of no bytes in each row that has none."""
    absent = np.setdiff1d(np.arange(count), spans.rows)
    none = np.zeros(len(absent), np.int64)
    wires = np.concatenate([spans.wires, none + DELIMITED])
    return Spans(
        np.concatenate([spans.rows, absent]),
        wires,
        np.concatenate([spans.begins, none]),
        np.concatenate([spans.ends, none]),
    )


def _default(field: FieldDescriptor, kind: pa.DataType, place: str) -> pa.Scalar:
    try:
        return pa.scalar(_default_value(field, kind), kind)
    except (pa.ArrowInvalid, OverflowError):
        raise BadSchema(
            f"column {place}: the field's default {field.default_value} does not fit {sql_type(kind)}"
        ) from None


def _default_value(field: FieldDescriptor, kind: pa.DataType) -> object:
    if field.type == FieldDescriptor.TYPE_ENUM and pa.types.is_string(kind):
        return field.enum_type.values_by_number[field.default_value].name
    if field.type == FieldDescriptor.TYPE_BOOL and pa.types.is_string(kind):
        return str(field.default_value).lower()
    return field.default_value


_Values = Callable[[Cursor, Spans], pa.Array]
"""One value for each span."""


def _values(field: FieldDescriptor, kind: pa.DataType, defaults: bool, place: str) -> _Values:
    message = field.message_type
    if message is None:
        number = NUMBERS.get(field.type)
        if number is not None:
            return _numbers(field, number, kind, place)
        return _bytes(field, kind, place)
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        read = columns_of(message, fields, defaults, f"{place}.")
        return lambda cursor, spans: pa.StructArray.from_arrays(_inside(cursor, spans, read), fields=fields)
    if message.full_name in _WRAPPERS:
        read = columns_of(message, [pa.field("value", kind)], True, f"{place}.")
        return lambda cursor, spans: _inside(cursor, spans, read)[0]
    if message.full_name == TIMESTAMP and pa.types.is_timestamp(kind):
        parts = [pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())]
        read = columns_of(message, parts, True, f"{place}.")
        return lambda cursor, spans: _timestamps(cursor, spans, read, kind, place)
    if message.full_name == DATE and pa.types.is_date(kind):
        read = columns_of(message, [pa.field(name, pa.int32()) for name in ("year", "month", "day")], True, f"{place}.")
        return lambda cursor, spans: days_of(cursor, spans.rows, _inside(cursor, spans, read), place)
    if message.full_name == DECIMAL and pa.types.is_decimal(kind):
        parts = [pa.field("value", pa.binary()), pa.field("scale", pa.int32())]
        read = columns_of(message, parts, True, f"{place}.")
        return lambda cursor, spans: decimals_of(cursor, spans.rows, _inside(cursor, spans, read), kind, place)
    raise _not_read(field, kind, place)


def _type_text(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return f"message {field.message_type.full_name}"
    if field.enum_type is not None:
        return f"enum {field.enum_type.full_name}"
    names = {number: name for name, number in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
    return str(names[field.type]).removeprefix("TYPE_").lower()


def _not_read(field: FieldDescriptor, kind: pa.DataType, place: str) -> BadSchema:
    return BadSchema(f"column {place}: the field's type is {_type_text(field)}, which is not read as {sql_type(kind)}")


def _inside(cursor: Cursor, spans: Spans, read: ReadMessages) -> list[pa.Array]:
    """Reads messages within messages. Their faults are those of the messages around them."""
    _expect(cursor, spans, DELIMITED)
    inner = cursor.narrow(spans.begins, spans.ends)
    found = read(inner)
    for row, reason in inner.faults.items():
        cursor.fault(spans.rows[row : row + 1], reason)
    return found


def _expect(cursor: Cursor, spans: Spans, wire: int) -> None:
    wrong = spans.wires != wire
    if wrong.any():
        cursor.fault(spans.rows[wrong], "a field has a value of another type")
        spans.ends = np.where(wrong, spans.begins, spans.ends)


def _bytes(field: FieldDescriptor, kind: pa.DataType, place: str) -> _Values:
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        raise _not_read(field, kind, place)

    def read(cursor: Cursor, spans: Spans) -> pa.Array:
        _expect(cursor, spans, DELIMITED)
        inner = cursor.narrow(spans.begins, spans.ends)
        rows = np.arange(len(spans.rows))
        found = inner.slices(rows, spans.ends - spans.begins)
        found = inner.texts(rows, found) if pa.types.is_string(kind) else found
        for row in inner.faults:
            cursor.fault(spans.rows[row : row + 1], f"column {place}: {inner.faults[row]}")
        return found

    return read


def _no_value(field: FieldDescriptor, kind: pa.DataType) -> str:
    if field.enum_type is not None and pa.types.is_string(kind):
        return f"a number for which {field.enum_type.full_name} has no name in this schema; declare INT to have the numbers"
    return f"a value of {_type_text(field)} that does not fit {sql_type(kind)}"


def _numbers(field: FieldDescriptor, number: NumberType, kind: pa.DataType, place: str) -> _Values:
    convert = read_number(field, number, kind)
    if convert is None:
        raise _not_read(field, kind, place)

    def read(cursor: Cursor, spans: Spans) -> pa.Array:
        _expect(cursor, spans, number.wire)
        inner = cursor.narrow(spans.begins, spans.ends)
        values, wrong = convert(inner, np.arange(len(spans.rows)))
        if wrong.any():
            cursor.fault(spans.rows[wrong], f"column {place}: {_no_value(field, kind)}")
        return values

    return read


def _repeated_put(field: FieldDescriptor, kind: pa.ListType, values: _Values, place: str) -> _Put:
    number = None if field.message_type is not None else NUMBERS.get(field.type)

    def put(cursor: Cursor, spans: Spans, count: int) -> pa.Array:
        if number is not None and (spans.wires == DELIMITED).any():
            spans = _unpack(cursor, spans, number)
        order = np.argsort(spans.rows, kind="stable")
        items = values(cursor, spans.take(order))
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(spans.rows, minlength=count), out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=kind)

    return put


def _map(field: FieldDescriptor, kind: pa.MapType, defaults: bool, place: str) -> _Put:
    of_entry = field.message_type
    if of_entry is None or not of_entry.GetOptions().map_entry:
        raise BadSchema(f"column {place}: the field is repeated {_type_text(field)}, which is read as ARRAY only")
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    lists = _repeated_put(field, pa.list_(entry), _values(field, entry, defaults, f"{place}[]"), place)

    def put(cursor: Cursor, spans: Spans, count: int) -> pa.Array:
        found = lists(cursor, spans, count)
        keys, values = found.values.flatten()
        maps = pa.MapArray.from_arrays(found.offsets, keys, values).cast(kind)
        twice = np.flatnonzero(with_repeated_keys(maps))
        if len(twice):
            cursor.fault(twice, f"column {place}: two entries of the map have one key")
        return maps

    return put


def _unpack(cursor: Cursor, spans: Spans, number: NumberType) -> Spans:
    """Each value of the packed fields as a span of its own. In each round, every field that has values left gives one."""
    packed = spans.wires == DELIMITED
    inner = cursor.narrow(spans.begins, spans.ends)
    turns: list[tuple[Int64s, Int64s, Int64s]] = []
    open_ = np.flatnonzero(packed & (inner.at < inner.end))
    while len(open_):
        begins = inner.at[open_]
        if number.wire == VARINT:
            inner.varints(open_)
        else:
            inner.advance(open_, np.full(len(open_), WIDTHS[number.wire], np.int64))
        turns.append((open_, begins, inner.at[open_]))
        open_ = open_[inner.at[open_] < inner.end[open_]]
    for row, reason in inner.faults.items():
        cursor.fault(spans.rows[row : row + 1], reason)
    single = np.flatnonzero(~packed)
    of = np.concatenate([single, *(turn[0] for turn in turns)])
    begins = np.concatenate([spans.begins[single], *(turn[1] for turn in turns)])
    ends = np.concatenate([spans.ends[single], *(turn[2] for turn in turns)])
    wires = np.where(packed, number.wire, spans.wires)
    order = np.argsort(of, kind="stable")  # the values of one field in their turns, and the fields as they came
    return Spans(spans.rows[of][order], wires[of][order], begins[order], ends[order])


def _timestamps(cursor: Cursor, spans: Spans, read: ReadMessages, kind: pa.DataType, place: str) -> pa.Array:
    seconds, nanos = (column.to_numpy(zero_copy_only=False) for column in _inside(cursor, spans, read))
    wrong = (seconds > SECONDS_MAX) | (seconds < -SECONDS_MAX) | (nanos < 0) | (nanos > 999_999_999)
    if wrong.any():
        cursor.fault(spans.rows[wrong], f"column {place}: no moment that a TIMESTAMP can hold")
        seconds = np.where(wrong, 0, seconds)
    return pa.array(seconds * 1_000_000 + nanos // 1000, pa.int64()).cast(kind)
