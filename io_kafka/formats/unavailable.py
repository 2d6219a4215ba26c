"""Debezium's placeholder: what stands in a message for a value that the database did not send, because it has not changed.

PostgreSQL leaves out large values (TOAST) that an update did not touch, and so do MySQL (binlog_row_image = NOBLOB) and Oracle. In a table with
a key the placeholder means the value that the row had before, which only the operator LastByKey knows. So decoding brings every spelling of it
to one, the *mark* of the column's type, and LastByKey looks for marks. A column whose type no placeholder fits has no mark.

Spellings of the placeholder P, as Debezium's converters and Connect's have them:

    text                P; base64 or hexadecimal digits of its bytes; and what a list or map below is as JSON
    binary              its bytes; the same in base64
    array of texts      [P], [its base64], [the UUID that its bytes name]
    array of binaries   [its bytes]
    array of numbers    the number of each byte, with its sign; of dates: these days
    map                 {P: P}
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import md5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, fill
from base.text.columns import bytes_of
from base.text.variants import FIELD, VARIANT, quote

HEX = "hex:"
"""The prefix that says that the rest of Debezium's property is the bytes, in hexadecimal digits."""

_COMPACT = (",", ":")
_EPOCH = date(1970, 1, 1)
_BYTE_DIGITS = 3  # of the largest number of a byte

WHAT_TO_SET = "set REPLICA IDENTITY FULL on the table in PostgreSQL (in MySQL binlog_row_image = FULL), so that each change has all values"


class Placeholder:
    """The texts that stand for a value that Debezium did not send. `setting`: Debezium's unavailable.value.placeholder. Raises ValueError if it
    is no text for one."""

    def __init__(self, setting: str) -> None:
        self.octets = bytes.fromhex(setting[len(HEX) :]) if setting.startswith(HEX) else setting.encode()
        if not self.octets:
            raise ValueError("an empty text can be a value of its own")
        self.text = self.octets.decode("utf-8", "replace")
        self._spellings: dict[pa.DataType, tuple[pa.Array, ...]] = {}

    def cells(self, column: pa.Array | pa.ChunkedArray) -> Bools | None:
        """Which values of the column are the placeholder, in any spelling; None if none is."""
        return _cells_found(column, self._spellings_of(column.type))

    def marks(self, column: pa.Array | pa.ChunkedArray) -> Bools | None:
        """Which values of the column are the mark of its type; None if none is."""
        return _cells_found(column, self._spellings_of(column.type)[:1])

    def mark(self, kind: pa.DataType) -> pa.Scalar:
        """The mark of a type, in a column of which a placeholder was found."""
        return self._spellings_of(kind)[0][0]

    def _spellings_of(self, kind: pa.DataType) -> tuple[pa.Array, ...]:
        """Arrays of one value each, the mark first."""
        if kind not in self._spellings:
            self._spellings[kind] = tuple(pa.array([value], kind) for value in self._values(kind))
        return self._spellings[kind]

    def _values(self, kind: pa.DataType) -> Iterable[object]:
        if kind == VARIANT:
            return [{FIELD: quote(self.text)}]
        if pa.types.is_string(kind):
            return self._texts()
        if pa.types.is_binary(kind):
            return [self.octets, base64.b64encode(self.octets)]
        if pa.types.is_list(kind):
            return self._lists(kind.value_type)
        if pa.types.is_map(kind) and kind.key_type == kind.item_type == pa.string():
            return [[(self.text, self.text)]]
        return []

    def _texts(self) -> list[str]:
        encoded = [base64.b64encode(self.octets).decode(), base64.urlsafe_b64encode(self.octets).decode()]
        lists: list[list[str] | list[int]] = [[self.text], [encoded[0]], [self._uuid()], self._numbers()]
        within = [json.dumps(value, ensure_ascii=False, separators=_COMPACT) for value in (self.text, *lists)]
        whole = json.dumps({self.text: self.text}, ensure_ascii=False, separators=_COMPACT)
        return list(dict.fromkeys([self.text, *encoded, self.octets.hex(), *within, whole]))

    def _lists(self, kind: pa.DataType) -> list[list[object]]:
        if pa.types.is_string(kind):
            encoded = base64.b64encode(self.octets).decode()
            numbers, days = ([str(each) for each in values] for values in (self._numbers(), self._days()))
            return [[self.text], [encoded], [self._uuid()], [*numbers], [*days]]
        if pa.types.is_binary(kind):
            return [[self.octets]]
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return [[*self._numbers()]]
        if pa.types.is_decimal(kind) and kind.precision - kind.scale >= _BYTE_DIGITS:
            return [[Decimal(number) for number in self._numbers()]]
        if pa.types.is_date(kind):
            return [[*self._days()]]
        return []

    def _numbers(self) -> list[int]:
        return [int(number) for number in np.frombuffer(self.octets, np.int8)]

    def _days(self) -> list[date]:
        return [_EPOCH + timedelta(days=number) for number in self._numbers()]

    def _uuid(self) -> str:
        """Returns the UUID that Java's UUID.nameUUIDFromBytes makes of the bytes. It knows no name space."""
        return str(uuid.UUID(bytes=md5(self.octets, usedforsecurity=False).digest(), version=3))


@lru_cache(maxsize=256)  # a project has one for each of its connectors
def placeholder_of(setting: str) -> Placeholder | None:
    """None if the setting is empty: then no text is a placeholder. Raises ValueError."""
    return Placeholder(setting) if setting else None


def _cells_found(column: pa.Array | pa.ChunkedArray, spellings: Sequence[pa.Array]) -> Bools | None:
    if not spellings:
        return None
    if isinstance(column, pa.ChunkedArray):
        parts = [_cells_found(chunk, spellings) for chunk in column.chunks]
        if all(part is None for part in parts):
            return None
        empty = [np.zeros(len(chunk), np.bool_) for chunk in column.chunks]
        return np.concatenate([none if part is None else part for part, none in zip(parts, empty, strict=True)])
    kind = column.type
    if kind == VARIANT:
        return _cells_found(column.flatten()[0], [spelling.field(0) for spelling in spellings])
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _lists_found(column, spellings)
    return _texts_found(column, spellings)


def _texts_found(column: pa.Array, spellings: Sequence[pa.Array]) -> Bools | None:
    """Few values have the length of a spelling, and only these are compared."""
    _, ends = bytes_of(column)
    lengths = [pc.binary_length(spelling)[0].as_py() for spelling in spellings]
    near = np.flatnonzero(np.isin(np.diff(ends), lengths))
    if not len(near):
        return None
    equal = pc.is_in(column.take(pa.array(near)), value_set=pa.concat_arrays(spellings))
    return _mask(len(column), near[equal.to_numpy(zero_copy_only=False)])


def _lists_found(column: pa.Array, spellings: Sequence[pa.Array]) -> Bools | None:
    if pa.types.is_map(column.type):
        lengths = np.where(_nulls(column), -1, np.diff(column.offsets.to_numpy()))
    else:
        lengths = fill(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    found: list[Int64s] = []
    for spelling in spellings:
        near = np.flatnonzero(lengths == len(_items(spelling)[0]))
        if len(near):
            found.append(near[_equal_items(column.take(pa.array(near)), spelling)])
    return _mask(len(column), np.concatenate(found)) if found else None


def _equal_items(column: pa.Array, spelling: pa.Array) -> Bools:
    """Which lists, all of which are as long as the spelling, equal it."""
    result = np.ones(len(column), np.bool_)
    for items, wanted in zip(_items(column), _items(spelling), strict=True):
        expected = wanted.take(pa.array(np.tile(np.arange(len(wanted)), len(column))))
        equal = fill(pc.equal(items, expected), False).to_numpy(zero_copy_only=False)
        result &= equal.reshape(len(column), -1).all(axis=1)
    return result


def _items(column: pa.Array) -> list[pa.Array]:
    """What lists have within, which begin where their column does: one array for each field of an entry."""
    if pa.types.is_map(column.type):
        return [column.keys, column.items]
    return [column.flatten()]


def _nulls(column: pa.Array) -> Bools:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _mask(count: int, rows: Int64s) -> Bools | None:
    if not len(rows):
        return None
    result = np.zeros(count, np.bool_)
    result[rows] = True
    return result
