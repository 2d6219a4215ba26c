"""Messages of batch tables: every type comes back exactly, messages are bounded, and what is none is named with its place."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from io_kafka.formats.batches import MESSAGE_BYTES_MAX, MESSAGE_ROWS_MAX, NotRows, TableFormat, messages_of, rows_in
from io_kafka.messages import Messages, TopicMessages

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "x": pa.float64(),
        "d": pa.decimal128(38, 18),
        "at": pa.timestamp("us", "UTC"),
        "b": pa.binary(),
        "s": pa.struct({"l": pa.list_(pa.field("element", pa.string())), "m": pa.map_(pa.int32(), pa.bool_())}),
    }
)
ROWS = [
    {
        "n": n,
        "x": float("nan") if n % 3 else -0.0,
        "d": Decimal(n),
        "at": datetime.datetime(1969, 1, 1, 1, 1, 1, n, datetime.UTC),
        "b": b"\x00\xff" * (n % 5),
        "s": {"l": ["é", None], "m": [(n, None)]} if n % 2 else None,
    }
    for n in range(MESSAGE_ROWS_MAX + 5)
]


def records(messages: list[bytes | None]) -> TopicMessages:
    count = len(messages)
    values, offsets = pa.array(messages, pa.binary()), pa.array(range(10, 10 + count), pa.int64())
    partitions = pa.array([3] * count, pa.int32())
    return TopicMessages("t", partitions, Messages.plain(pa.nulls(count, pa.binary()), values, offsets))


def test_rows_come_back_in_order_with_every_type() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    found = list(messages_of(batch))
    assert [rows for rows, _ in found] == [MESSAGE_ROWS_MAX, 5]
    rows = rows_in(TableFormat("t", SCHEMA), records([message for _, message in found]))
    assert rows.column_names == [*(f"c{index}" for index in range(6)), "weight"] and set(
        rows["weight"].to_pylist()
    ) == {1}
    back = rows.drop_columns(["weight"]).rename_columns(SCHEMA.names)
    assert back.schema == SCHEMA and repr(back.to_pylist()) == repr(batch.to_pylist())  # NaN is not equal to itself


def test_messages_are_bounded_but_a_row_is_never_cut() -> None:
    large = [
        b"x" * (MESSAGE_BYTES_MAX // 3),
        b"y" * (MESSAGE_BYTES_MAX // 3),
        b"z" * (2 * MESSAGE_BYTES_MAX),
        b"",
        None,
    ]
    batch = pa.record_batch({"b": pa.array(large, pa.binary())})
    found = list(messages_of(batch))
    assert [rows for rows, _ in found] == [2, 1, 2] and len(found[0][1]) <= MESSAGE_BYTES_MAX < len(found[1][1])
    rows = rows_in(TableFormat("t", batch.schema), records([message for _, message in found]))
    assert rows["c0"].to_pylist() == large
    assert not list(messages_of(batch.slice(0, 0)))


@pytest.mark.parametrize("message", [None, b"", b"{}", next(messages_of(pa.record_batch({"other": [1]})))[1]])
def test_a_message_of_somebody_else_is_named(message: bytes | None) -> None:
    good = next(messages_of(pa.RecordBatch.from_pylist(ROWS[:1], SCHEMA)))[1]
    with pytest.raises(NotRows, match=r"^topic t, partition 3, offset 11: the message holds no rows of t: "):
        rows_in(TableFormat("t", SCHEMA), records([good, message]))
