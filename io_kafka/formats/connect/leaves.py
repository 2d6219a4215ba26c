"""What the values of a type without parts mean.

Debezium and Connect give a logical type a name. The name says what the number, the text or the bytes stand for. A name that is not known says
nothing: then the value is what its plain type says, and so it is where the plain type cannot hold the logical one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from base.text.timestamps import DAY_US
from io_kafka.formats.connect.types import DECIMAL, Plain


class Sense(Enum):
    """MOMENT: a count of time since 1970. CLOCK: one since midnight. SPAN: a length of time. ZONED: a moment as ISO text, with a zone or
    without. ISO_DATE: a date as ISO text, perhaps with a zone behind it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    STRING = "string"
    BINARY = "binary"
    DECIMAL = "decimal"
    DAYS = "days"
    MOMENT = "moment"
    CLOCK = "clock"
    SPAN = "span"
    ZONED = "zoned"
    ISO_DATE = "iso date"


@dataclass(frozen=True)
class Leaf:
    """An atomic type of Connect, with the sense of its values. `raw`: Arrow's type of the values as they come. Of a count of time, microseconds
    = count * times // divided. `scale`: of a decimal, whose raw values are unscaled, in two's complement with the highest byte first."""

    sense: Sense
    raw: pa.DataType
    times: int = 1
    divided: int = 1
    scale: int = 0


_RAW = {
    "boolean": (Sense.BOOLEAN, pa.bool_()),
    "int8": (Sense.INTEGER, pa.int8()),
    "int16": (Sense.INTEGER, pa.int16()),
    "int32": (Sense.INTEGER, pa.int32()),
    "int64": (Sense.INTEGER, pa.int64()),
    "float": (Sense.REAL, pa.float32()),
    "double": (Sense.REAL, pa.float64()),
    "string": (Sense.STRING, pa.string()),
    "bytes": (Sense.BINARY, pa.binary()),
}

_COUNTS = {
    "org.apache.kafka.connect.data.Date": (Sense.DAYS, DAY_US, 1),
    "org.apache.kafka.connect.data.Time": (Sense.CLOCK, 1000, 1),
    "org.apache.kafka.connect.data.Timestamp": (Sense.MOMENT, 1000, 1),
    "io.debezium.time.Date": (Sense.DAYS, DAY_US, 1),
    "io.debezium.time.Time": (Sense.CLOCK, 1000, 1),
    "io.debezium.time.MicroTime": (Sense.CLOCK, 1, 1),
    "io.debezium.time.NanoTime": (Sense.CLOCK, 1, 1000),
    "io.debezium.time.Timestamp": (Sense.MOMENT, 1000, 1),
    "io.debezium.time.MicroTimestamp": (Sense.MOMENT, 1, 1),
    "io.debezium.time.NanoTimestamp": (Sense.MOMENT, 1, 1000),
    "io.debezium.time.MicroDuration": (Sense.SPAN, 1, 1),
    "io.debezium.time.NanoDuration": (Sense.SPAN, 1, 1000),
}

_TEXTS = {
    "io.debezium.time.ZonedTimestamp": Sense.ZONED,
    "io.debezium.time.IsoTimestamp": Sense.ZONED,
    "io.debezium.time.IsoDate": Sense.ISO_DATE,
}


def leaf_of(type_: Plain) -> Leaf | None:
    """None if the schema lacks what its logical type needs: the scale of a decimal."""
    sense, raw = _RAW[type_.kind]
    if type_.logical == DECIMAL and sense is Sense.BINARY:
        return None if type_.scale is None else Leaf(Sense.DECIMAL, raw, scale=type_.scale)
    if type_.logical in _COUNTS and sense is Sense.INTEGER:
        counted, times, divided = _COUNTS[type_.logical]
        return Leaf(counted, raw, times, divided)
    if type_.logical in _TEXTS and sense is Sense.STRING:
        return Leaf(_TEXTS[type_.logical], raw)
    return Leaf(sense, raw)
