"""Messages are counted, cut and joined as whole arrays, and nothing is copied without need."""

from __future__ import annotations

import pyarrow as pa
import pytest

from io_kafka.extras import TYPES, Extras
from io_kafka.messages import Messages, TopicMessages, join_messages

KEYS = [b"k", None, b"", b"\x00\xff", None]
VALUES = [None, b"value", b"", b"v" * 1000, b"\x00"]
OFFSETS = [3, 4, 8, 9, 20]
HEADERS = [None, [{"key": "a", "value": b"1"}, {"key": "", "value": None}], [], None, [{"key": "é", "value": b"xyz"}]]


def messages(extras: Extras) -> Messages:
    if extras is Extras.NONE:
        read = pa.nulls(len(OFFSETS))
    else:
        rows = [{"timestamp": at, "timestamp_type": 0, "headers": each} for at, each in enumerate(HEADERS)]
        read = pa.array(rows, TYPES[extras])
    return Messages(pa.array(KEYS, pa.binary()), pa.array(VALUES, pa.binary()), pa.array(OFFSETS, pa.int64()), read)


def sizes(extras: Extras) -> list[int]:
    """Of each message, counted one by one."""
    headers = [
        sum(len(pair["key"].encode()) + len(pair["value"] or b"") for pair in each or ())
        if extras is Extras.HEADERS
        else 0
        for each in HEADERS
    ]
    return [len(k or b"") + len(v or b"") + h for k, v, h in zip(KEYS, VALUES, headers, strict=True)]


@pytest.mark.parametrize("extras", Extras)
def test_bytes_are_those_of_the_messages_wherever_they_are_cut(extras: Extras) -> None:
    whole, expected = messages(extras), sizes(extras)
    assert whole.length == len(OFFSETS) and whole.content_sizes.tolist() == expected
    for first in range(len(OFFSETS) + 1):
        for end in range(first, len(OFFSETS) + 1):
            part = whole.part(first, end)
            assert part.content_sizes.tolist() == expected[first:end]
            assert part.content_bytes == sum(expected[first:end])


@pytest.mark.parametrize("extras", Extras)
@pytest.mark.parametrize("offset", [0, 3, 5, 8, 20, 21])
def test_a_split_loses_nothing(extras: Extras, offset: int) -> None:
    whole = messages(extras)
    below, above = whole.split(offset)
    assert below.offsets.to_pylist() == [each for each in OFFSETS if each < offset]
    assert above.offsets.to_pylist() == [each for each in OFFSETS if each >= offset]
    back = join_messages([below, above])
    assert [column.to_pylist() for column in back] == [column.to_pylist() for column in whole]
    assert [column.type for column in back] == [column.type for column in whole]


def test_only_what_waits_alone_is_copied() -> None:
    whole = messages(Extras.NONE)
    part = whole.part(1, 3)
    assert join_messages([whole]) is whole
    for column, cut, copy in zip(whole[:3], part, part.alone(), strict=False):
        assert cut.buffers()[1].address == column.buffers()[1].address
        assert copy.buffers()[1].address != column.buffers()[1].address and copy.equals(cut)


def test_a_place_names_topic_partition_and_offset() -> None:
    records = TopicMessages("orders", pa.array([0, 0, 1, 1, 2], pa.int32()), messages(Extras.NONE))
    assert records.place_of(3) == "topic orders, partition 1, offset 9"
