"""Messages as rows of their own: every column, nulls, and a timestamp that no TIMESTAMP can hold."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from base.options import Mode
from io_kafka.extras import TYPES, Extras, header_sizes
from io_kafka.formats.decode import decode as decode_records
from io_kafka.formats.records import COLUMNS, RecordFormat, TimestampBeyondRange, extras_of, rows_of
from io_kafka.formats.spec import Decoded, SourceFormat
from io_kafka.formats.text_limits import TextLimit
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


def test_a_timestamp_beyond_the_range_on_either_side_is_the_one_that_is_named() -> None:
    largest = (2**63 - 1) // 1000
    assert rows_of(EVERYTHING, records(HEADERS, [largest, -largest, 0], [0, 0, 0])).num_rows == 3
    with pytest.raises(TimestampBeyondRange, match=f"offset 7: .* {-largest - 1} ms"):
        rows_of(EVERYTHING, records(HEADERS, [largest, -largest - 1, 3], [0, 0, 0]))


NANOSECONDS = 1_700_000_000_000_000_000
STAMPED = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.string())])


def stamped(mode: Mode, key: tuple[str, ...], values: list[bytes | None], limit: int | None = None) -> Decoded:
    """Of messages of which those at odd positions have nanoseconds for their timestamp, from offset 20 on."""
    count = len(values)
    stamps = [{"timestamp": NANOSECONDS if n % 2 else 1000 + n, "timestamp_type": 0} for n in range(count)]
    keys, offsets = pa.nulls(count, pa.binary()), pa.array(range(20, 20 + count), pa.int64())
    messages = Messages(keys, pa.array(values, pa.binary()), offsets, pa.array(stamps, TYPES[Extras.TIMESTAMPS]))
    limits = () if limit is None else (TextLimit(("x",), limit, padded=False),)
    form = SourceFormat("h", STAMPED, mode, key, (("ts", "timestamp"),), limits=limits)
    return decode_records(form, TopicMessages("t", pa.array([3] * count, pa.int32()), messages))


REASON = f"the record's timestamp is {NANOSECONDS} ms since 1970, which no TIMESTAMP can hold"


@pytest.mark.parametrize("limit", [None, 1])
def test_a_timestamp_beyond_the_range_makes_its_message_malformed(limit: int | None) -> None:
    rows = [
        b'{"id":1,"x":"a"}',
        b'{"id":2,"x":"b"}',
        b"no JSON",
        b"no JSON",
        b'{"id":5,"x":"long"}',
        b'{"id":6,"x":"long"}',
    ]
    found = stamped("append", (), rows, limit)
    assert found.rows.column(0).to_pylist() == ([1, 5] if limit is None else [1])
    reasons = {offset: reason for partition, offset, reason in found.rejected if partition == 3}
    assert sorted(reasons) == ([21, 22, 23, 25] if limit is None else [21, 22, 23, 24, 25])
    assert reasons[21] == reasons[25] == REASON and reasons[22] == reasons[23]


def test_a_deletion_needs_no_timestamp() -> None:
    upserts = [b'{"id":1,"x":"a"}', b'{"id":1,"x":"b"}', b'{"id":2}', None]
    found = stamped("upsert", ("id",), upserts)
    assert found.rows.column(0).to_pylist() == [1, 2]
    assert [(at, why == REASON) for _, at, why in found.rejected] == [(21, True), (23, False)], (
        "one deletion names no key"
    )
    changes = [b"{}", b'{"before":{"id":1},"op":"d"}', b"{}", b'{"after":{"id":2},"op":"u"}', b"{}", b'{"op":"t"}']
    found = stamped("changelog", ("id",), changes)
    assert [(row["c0"], row["c1"], row["deleted"]) for row in found.rows.to_pylist()] == [(1, None, True)]
    assert [(at, why == REASON) for _, at, why in found.rejected if at % 2] == [(23, True), (25, False)]


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
