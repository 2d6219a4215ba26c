"""The writer's atomic types -> the table's: which may be read as which, and how.

Each function gives a `Read`, and None if no value of the writer's type is one of the column's. Avro's promotions count, and one more: an
`int` may stand for SMALLINT and TINYINT, which Avro does not have and our own outputs write so. Each value is checked then.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from base.arrays import Int64s, UInt8s
from base.limits import DECIMAL_BYTES, DECIMAL_DIGITS_MAX
from io_kafka.formats.avro.schema import Enum, Fixed, Primitive
from io_kafka.formats.cursor import Cursor
from io_kafka.formats.envelopes import DELETED_FLAG

Read = Callable[[Cursor, Int64s], pa.Array]
"""One value for each of the rows, in the column's type."""

_MOMENTS = (pa.timestamp("us", "UTC"), pa.timestamp("us"))

# Microseconds = number * first // second.
_UTC = {"timestamp-millis": (1000, 1), "timestamp-micros": (1, 1), "timestamp-nanos": (1, 1000)}
_LOCAL = {f"local-{name}": unit for name, unit in _UTC.items()}
_CONNECT_UTC = {
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
_CONNECT_DATES = ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date")


def read_primitive(writer: Primitive, kind: pa.DataType, column: str) -> Read | None:
    match writer.kind:
        case "null":
            return lambda cursor, rows: pa.nulls(len(rows), kind)
        case "boolean":
            return _booleans(column, kind) if kind == pa.bool_() or is_flag(column, kind) else None
        case "int" | "long":
            return _whole_numbers(writer, kind, column)
        case "float" | "double":
            return _floats(writer, kind)
        case "bytes" if writer.logical == "decimal":
            return _decimals(writer, kind, column)
        case "bytes" | "string":
            if kind == pa.binary():
                return lambda cursor, rows: cursor.slices(rows, cursor.longs(rows))
            if kind == pa.string():
                return lambda cursor, rows: cursor.texts(rows, cursor.slices(rows, cursor.longs(rows)))
    return None


def declarable(writer: Primitive | Fixed | Enum) -> pa.DataType | None:
    """The first type of a column as which the writer's is read."""
    if isinstance(writer, Enum):
        return pa.string()
    decimal = pa.decimal128(DECIMAL_DIGITS_MAX, writer.scale) if 0 <= writer.scale <= DECIMAL_DIGITS_MAX else pa.int64()
    for kind in (
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        *_MOMENTS,
        decimal,
    ):
        read = read_fixed(writer, kind, "") if isinstance(writer, Fixed) else read_primitive(writer, kind, "")
        if read is not None:
            return kind
    return None


def read_fixed(writer: Fixed, kind: pa.DataType, column: str) -> Read | None:
    size = writer.size
    if writer.logical == "decimal":
        return _decimals(writer, kind, column)
    if writer.logical == "uuid" and size == 16 and kind == pa.string():
        return lambda cursor, rows: _uuids(cursor.read_fixed(rows, size))
    if writer.logical == "duration":
        return None
    if kind == pa.binary():
        return lambda cursor, rows: cursor.slices(rows, np.full(len(rows), size, np.int64))
    return None


def read_enum(writer: Enum, reader: Enum | None, kind: pa.DataType, column: str) -> Read | None:
    if kind != pa.string():
        return None
    known = None if reader is None else set(reader.symbols)
    instead = None if reader is None else reader.default
    names = [name if known is None or name in known else instead for name in writer.symbols]
    symbols = pa.array(names, pa.string())

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        numbers = cursor.longs(rows)
        wrong = (numbers < 0) | (numbers >= len(names))
        if wrong.any():
            cursor.fault(rows[wrong], f"column {column}: no symbol of {writer.name} has this number")
            numbers[wrong] = 0
        found = symbols.take(pa.array(numbers))
        if found.null_count:
            strange = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
            reason = f"column {column}: a symbol of {writer.name} that the reader's schema has neither among its symbols nor a default for"
            cursor.fault(rows[strange], reason)
        return found

    return read


def is_flag(column: str, kind: pa.DataType) -> bool:
    """Whether the column is the text of Debezium's flag of a deletion, which its connector for MongoDB sends as a boolean."""
    return column == DELETED_FLAG and kind == pa.string()


def _booleans(column: str, kind: pa.DataType) -> Read:
    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        bytes_ = cursor.read_fixed(rows, 1).reshape(-1)
        if (bytes_ > 1).any():
            cursor.fault(rows[bytes_ > 1], f"column {column}: a boolean that is neither 0 nor 1")
        return pa.array(bytes_ == 1).cast(kind)

    return read


def _whole_numbers(writer: Primitive, kind: pa.DataType, column: str) -> Read | None:
    if pa.types.is_date(kind):
        if writer.kind != "int" or (writer.logical != "date" and writer.connect not in _CONNECT_DATES):
            return None
        return _bounded_integers(column, 32, pa.int32(), kind)
    if pa.types.is_timestamp(kind):
        unit = (_UTC if kind.tz else _LOCAL).get(writer.logical or "") if writer.kind == "long" else None
        if unit is None and writer.logical is None and writer.kind == "long":
            unit = _CONNECT_UTC.get(writer.connect or "")  # Debezium has one type for both kinds
        return None if unit is None else _instants(column, *unit, kind)
    if writer.logical in ("date", *_UTC, *_LOCAL):
        return None  # a moment is no number
    if pa.types.is_integer(kind):
        writer_bits = 32 if writer.kind == "int" else 64
        if kind.bit_width < writer_bits and writer.kind == "long":
            return None
        return _bounded_integers(column, min(kind.bit_width, writer_bits), kind, kind)
    if pa.types.is_floating(kind):
        width = np.float32 if kind == pa.float32() else np.float64
        return lambda cursor, rows: pa.array(cursor.longs(rows).astype(width), kind)
    return None


def _bounded_integers(column: str, bits: int, number: pa.DataType, kind: pa.DataType) -> Read:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        found = cursor.longs(rows)
        if bits < 64 and ((found < low) | (found > high)).any():
            wrong = (found < low) | (found > high)
            values = found[wrong]
            cursor.fault(rows[wrong], lambda at: f"column {column}: {values[at]} does not fit {bits} bits")
            found = np.where(wrong, 0, found)
        numbers = pa.array(found.astype(number.to_pandas_dtype()), number)
        return numbers if number == kind else numbers.cast(kind)

    return read


def _instants(column: str, times: int, divided: int, kind: pa.DataType) -> Read:
    highest = (2**63 - 1) // times

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        found = cursor.longs(rows)
        wrong = (found > highest) | (found < -highest)
        if times > 1 and wrong.any():
            values = found[wrong]
            cursor.fault(
                rows[wrong], lambda at: f"column {column}: {values[at]} is no moment that a TIMESTAMP can hold"
            )
            found = np.where(wrong, 0, found)
        return pa.array(found * times // divided, pa.int64()).cast(kind)

    return read


def _floats(writer: Primitive, kind: pa.DataType) -> Read | None:
    own = np.float32 if writer.kind == "float" else np.float64
    if kind == pa.float64() or (kind == pa.float32() and own is np.float32):
        target = np.float32 if kind == pa.float32() else np.float64
        return lambda cursor, rows: pa.array(cursor.floats(rows, own).astype(target), kind)
    return None


def _decimals(writer: Primitive | Fixed, kind: pa.DataType, column: str) -> Read | None:
    if not pa.types.is_decimal(kind) or kind.scale < writer.scale:
        return None
    size = writer.size if isinstance(writer, Fixed) else None

    def read(cursor: Cursor, rows: Int64s) -> pa.Array:
        lengths = cursor.longs(rows) if size is None else np.full(len(rows), size, np.int64)
        starts = cursor.at[rows]
        good = cursor.advance(rows, lengths)
        lengths = np.where(good, lengths, 1)
        wide, padded = low_bytes(cursor.data, starts, lengths)
        wrong = good & ((lengths == 0) | ~padded)
        if wrong.any():
            cursor.fault(rows[wrong], f"column {column}: a decimal of no byte, or of more than 38 digits")
            good = good & ~wrong
        wide[~good] = 0
        return at_scale(cursor, rows, wide, scale=writer.scale, kind=kind, column=column)

    return read


def low_bytes(data: UInt8s, starts: Int64s, lengths: Int64s) -> tuple[UInt8s, np.ndarray]:
    """(the 16 lowest bytes of each number, the lowest first; whether all others only repeat the sign). The numbers have the highest first."""
    negative = data.take(starts, mode="clip") >= 0x80
    sign = np.where(negative, np.uint8(0xFF), np.uint8(0))
    place = np.arange(DECIMAL_BYTES)
    found = data.take((starts + lengths)[:, None] - 1 - place, mode="clip")
    wide = np.where(place < lengths[:, None], found, sign[:, None]).astype(np.uint8)
    padded = np.ones(len(starts), np.bool_)
    for row in np.flatnonzero(lengths > DECIMAL_BYTES):
        above = data[starts[row] : starts[row] + lengths[row] - DECIMAL_BYTES]
        padded[row] = (above == sign[row]).all() and (wide[row, -1] >= 0x80) == negative[row]
    return wide, padded


def at_scale(
    cursor: Cursor, rows: Int64s, wide: UInt8s, *, scale: int, kind: pa.Decimal128Type, column: str
) -> pa.Array:
    own = pa.Array.from_buffers(
        pa.decimal128(DECIMAL_DIGITS_MAX, scale), len(wide), [None, pa.py_buffer(np.ascontiguousarray(wide).tobytes())]
    )
    try:
        found = own.cast(kind)
        found.validate(full=True)
        return found
    except pa.ArrowInvalid:
        pass
    numbers = [int.from_bytes(row.tobytes(), "little", signed=True) * 10 ** (kind.scale - scale) for row in wide]
    limit = 10**kind.precision
    values: list[Decimal] = []
    for position, number in enumerate(numbers):
        if abs(number) >= limit:
            cursor.fault(rows[position : position + 1], f"column {column}: {number}e{-kind.scale} does not fit {kind}")
            number = 0
        sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
        values.append(Decimal((sign, digits, -kind.scale)))
    return pa.array(values, kind)


def _uuids(rows: UInt8s) -> pa.Array:
    return pa.array(
        [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in (row.tobytes().hex() for row in rows)],
        pa.string(),
    )
