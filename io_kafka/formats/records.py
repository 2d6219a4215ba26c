"""Messages as rows of their own: nothing is decoded, so nothing can be malformed. The columns are those of Spark's Kafka source.

key, value        binary, null where the message has none (a null value is a tombstone)
topic, partition, offset
timestamp         the record's own, in microseconds; a record without one has Kafka's number -1, as in Spark
timestampType     0 if the producer set the timestamp, 1 if the broker did, -1 if there is none
headers           name and value of each, in their order; null if there are none
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from io_kafka.extras import TYPES, Extras
from io_kafka.messages import TopicMessages

COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": TYPES[Extras.HEADERS].field("headers").type,
}

_EXTRAS = {"timestamp": Extras.TIMESTAMPS, "timestampType": Extras.TIMESTAMPS, "headers": Extras.HEADERS}

MICROSECONDS_PER_MILLISECOND = 1000

TIMESTAMP_MS_MAX = (2**63 - 1) // MICROSECONDS_PER_MILLISECOND
"""The largest number of milliseconds, before or after 1970, that a TIMESTAMP can hold. A producer that writes nanoseconds sends larger ones."""


class TimestampBeyondRange(Exception):
    """A record's timestamp is beyond what a TIMESTAMP can hold. Spark fails on it too. `place` and `reason` are for users."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place, self.reason = place, reason


@dataclass(frozen=True)
class RecordFormat:
    """The messages of an input handle are its rows. The names in `schema` are among COLUMNS."""

    handle: str
    schema: pa.Schema


def extras_of(names: Iterable[str]) -> Extras:
    """What has to be read of each message, so that it has these columns."""
    return max((_EXTRAS.get(name, Extras.NONE) for name in names), default=Extras.NONE)


def rows_of(form: RecordFormat, records: TopicMessages) -> pa.Table:
    """One row of weight 1 for each message: `c0`.., `weight`. Raises TimestampBeyondRange."""
    found, faults = columns_of(records, form.schema.names)
    for at, reason in faults.items():
        raise TimestampBeyondRange(records.place_of(at), reason)
    columns = [found[field.name].cast(field.type) for field in form.schema]
    columns.append(pa.repeat(pa.scalar(1, pa.int64()), records.messages.length))
    return pa.Table.from_arrays(columns, names=[*(f"c{i}" for i in range(len(form.schema))), "weight"])


def columns_of(records: TopicMessages, names: Iterable[str]) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Returns those of COLUMNS with these names, and why some messages have a null where none should be, by position in ascending order."""
    faults: dict[int, str] = {}
    return {name: _column(records, name, faults) for name in names}, faults


def _column(records: TopicMessages, name: str, faults: dict[int, str]) -> pa.Array:
    match name:
        case "key":
            return records.messages.keys
        case "value":
            return records.messages.values
        case "topic":
            return pa.repeat(pa.scalar(records.topic, pa.string()), records.messages.length)
        case "partition":
            return records.partitions
        case "offset":
            return records.messages.offsets
        case "timestamp":
            return _microseconds(records, faults)
        case "timestampType":
            return records.messages.extras.field("timestamp_type")
        case "headers":
            return records.messages.extras.field("headers")
    raise AssertionError(f"a message has no {name}")


def _microseconds(records: TopicMessages, faults: dict[int, str]) -> pa.Array:
    """The timestamps, with a null and a fault for each that no TIMESTAMP can hold."""
    milliseconds = records.messages.extras.field("timestamp")
    try:
        moments = pc.multiply_checked(milliseconds, MICROSECONDS_PER_MILLISECOND)
    except pa.ArrowInvalid:
        beyond = pc.or_(pc.greater(milliseconds, TIMESTAMP_MS_MAX), pc.less(milliseconds, -TIMESTAMP_MS_MAX))
        for at in pc.indices_nonzero(beyond).to_pylist():
            faults[at] = f"the record's timestamp is {milliseconds[at]} ms since 1970, which no TIMESTAMP can hold"
        nothing = pa.scalar(None, milliseconds.type)
        moments = pc.multiply_checked(pc.if_else(beyond, nothing, milliseconds), MICROSECONDS_PER_MILLISECOND)
    return moments.cast(pa.timestamp("us", "UTC"))
