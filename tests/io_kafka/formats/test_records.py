"""Messages as rows of their own: every column, nulls, and a timestamp that no TIMESTAMP can hold."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from io_kafka.extras import TYPES, Extras, header_sizes
from io_kafka.formats import SourceFormat
from io_kafka.formats.records import COLUMNS, RecordFormat, TimestampBeyondRange, extras_of, rows_of
from io_kafka.messages import Messages, TopicMessages
from tests.io_kafka.formats.decoding import decode

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)
EVERYTHING = RecordFormat("h", pa.schema(list(COLUMNS.items())))


def records(headers: list[Any], milliseconds: list[int], kinds: list[int]) -> TopicMessages:
    count = len(milliseconds)
    extras = pa.array(
        [
            {"timestamp": at, "timestamp_type": kind, "headers": each}
            for at, kind, each in zip(milliseconds, kinds, headers, strict=True)
        ],
        TYPES[Extras.HEADERS],
    )
    keys = pa.array([b"k", None, b""][:count], pa.binary())
    values = pa.array([None, b"\x00\xff", b""][:count], pa.binary())
    offsets = pa.array([5, 7, 8][:count], pa.int64())
    return TopicMessages("t", pa.array([0, 0, 1][:count], pa.int32()), Messages(keys, values, offsets, extras))


HEADERS = [
    [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
    None,
    [{"key": "é", "value": b"\xff"}],
]


def test_every_column() -> None:
    milliseconds = round(MOMENT.timestamp() * 1000)
    rows = rows_of(EVERYTHING, records(HEADERS, [milliseconds, -1, 0], [0, -1, 1])).to_pylist()
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [tuple(row.values()) for row in rows] == [
        (b"k", None, "t", 0, 5, MOMENT, 0, HEADERS[0], 1),
        (None, b"\x00\xff", "t", 0, 7, BEFORE_1970, -1, None, 1),
        (b"", b"", "t", 1, 8, epoch, 1, HEADERS[2], 1),
    ]


def test_no_messages_and_slices() -> None:
    whole = records(HEADERS, [1, 2, 3], [0, 0, 0])
    topic, partitions, messages = whole
    nothing = TopicMessages(topic, partitions.slice(0, 0), messages.part(0, 0))
    assert rows_of(EVERYTHING, nothing).num_rows == 0
    last = TopicMessages(topic, partitions.slice(1), messages.part(1, messages.length))
    assert rows_of(EVERYTHING, last).equals(rows_of(EVERYTHING, whole).slice(1))
    sizes = header_sizes(messages.extras)
    assert sizes is not None and sizes.tolist() == [3, 0, 3]
    sliced = header_sizes(messages.extras.slice(2))
    assert sliced is not None and sliced.tolist() == [3]


def test_what_the_columns_need_to_be_read() -> None:
    assert extras_of(["key", "offset"]) is Extras.NONE
    assert extras_of(["key", "timestampType"]) is Extras.TIMESTAMPS
    assert extras_of(COLUMNS) is Extras.HEADERS


def test_a_timestamp_beyond_the_range_names_its_message() -> None:
    with pytest.raises(TimestampBeyondRange, match=r"topic t, partition 0, offset 7: .* 9300000000000000 ms") as raised:
        rows_of(EVERYTHING, records(HEADERS, [1, 9_300_000_000_000_000, 3], [0, 0, 0]))
    assert raised.value.place == "topic t, partition 0, offset 7"


def test_columns_of_the_record_beside_those_of_the_value() -> None:
    """In the order of the declaration, also where messages between them are malformed, deleted, or an update."""
    schema = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("o", pa.int64()), ("x", pa.string())])
    of_record = (("p", "partition"), ("o", "offset"))
    keys = pa.array([b"1", b"2", b"3", b"1"], pa.binary())
    values = pa.array([b'{"id":1,"x":"a","p":99}', b"no JSON", None, b'{"id":1}'], pa.binary())
    places, offsets = pa.array([0, 0, 1, 1], pa.int32()), pa.array([10, 11, 12, 13], pa.int64())
    append = decode(SourceFormat("h", schema, metadata=of_record), keys, values, places, offsets)
    assert [tuple(row.values()) for row in append.rows.to_pylist()] == [(0, 1, 10, "a", 1), (1, 1, 13, None, 1)]
    assert [rejected.offset for rejected in append.rejected] == [11, 12]
    upsert = decode(SourceFormat("h", schema, "upsert", ("id",), of_record), keys, values, places, offsets)
    assert [tuple(row.values())[:5] for row in upsert.rows.to_pylist()] == [
        (0, 1, 10, "a", False), (1, 3, 12, None, True), (1, 1, 13, None, False)
    ]  # fmt: skip
    changes = pa.array(
        [b'{"after":{"id":1,"x":"a"},"op":"c"}', b'{"before":{"id":2},"op":"d"}', None, b"{}"], pa.binary()
    )
    found = decode(SourceFormat("h", schema, "changelog", ("id",), of_record), keys, changes, places, offsets)
    assert [tuple(row.values())[:5] for row in found.rows.to_pylist()] == [
        (0, 1, 10, "a", False), (0, 2, 11, None, True), (1, 3, 12, None, True)
    ]  # fmt: skip
    assert [rejected.offset for rejected in found.rejected] == [13]
