"""Where reading begins, for sources that were never read, and for partitions that came later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pyarrow as pa
import pytest

from coordinator.specification import InputTopic
from coordinator.starting.positions import Since, since_of, starting_positions
from engine.run.sources import SourceTable
from io_kafka.clients.topics import Topics
from io_kafka.errors import NothingSince
from io_kafka.formats import SourceFormat
from io_kafka.offsets import TopicPartition

BEGIN, END = 3, 9
KNOWN = {TopicPartition("in", 0): 5}


class TwoPartitions:
    """Every topic has two, which hold the offsets from 3 to 8."""

    def begin_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(name, number): BEGIN for name in topics for number in (0, 1)}

    def end_offsets(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(name, number): END for name in topics for number in (0, 1)}

    def offsets_since(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int | None]:
        """Only partition 0 has later messages than 100."""
        return {place: 7 if milliseconds <= 100 or place.partition == 0 else None for place in partitions}


def positions(known: Mapping[TopicPartition, int], *wishes: str, topic: str = "in") -> list[int]:
    inputs = [
        InputTopic(SourceTable(f"t{i}", (topic,), SourceFormat(f"t{i}", pa.schema([]), "append")), wish, "fail", None)
        for i, wish in enumerate(wishes)
    ]
    found = starting_positions(cast(Topics, TwoPartitions()), inputs, known)
    assert list(found) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    return list(found.values())


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("earliest", [BEGIN, BEGIN]),
        ("latest", [END, END]),
        ('{"in": {"0": 4, "1": -1}}', [4, END]),
        ('{"in": {"1": 7}}', [BEGIN, 7]),
        ("since 100", [7, 7]),
        ("since 101 or latest", [7, END]),
    ],
)
def test_a_source_that_was_never_read_begins_as_it_says(wish: str, expected: list[int]) -> None:
    assert positions({}, wish) == expected


@pytest.mark.parametrize("wish", ["earliest", "latest", '{"in": {"0": 8, "1": 8}}'])
def test_what_the_log_knows_wins_and_a_partition_that_came_later_begins_at_its_first_offset(wish: str) -> None:
    """Its messages arrived after the source was first read, so all of them are new."""
    assert positions(KNOWN, wish) == [5, BEGIN]


def test_a_topic_added_to_a_pipeline_begins_as_it_says() -> None:
    assert positions(KNOWN, "latest", topic="other") == [END, END]


def test_of_two_tables_over_one_topic_the_earlier_decides() -> None:
    assert positions({}, "latest", "earliest") == positions({}, "earliest", "latest") == [BEGIN, BEGIN]
    assert positions({}, '{"in": {"0": 6, "1": 8}}', '{"in": {"0": 7, "1": 5}}') == [6, 5]


def test_a_start_at_a_timestamp_after_all_messages() -> None:
    with pytest.raises(NothingSince, match=r"topic 'in' partition 1 has no message since 101 .*Strategy = latest"):
        positions({}, "since 101")
    assert positions({TopicPartition("in", 0): 5, TopicPartition("in", 1): 6}, "since 101") == [5, 6]


@pytest.mark.parametrize("since", [Since(0, False), Since(1_700_000_000_000, True)])
def test_a_start_at_a_timestamp_is_read_from_its_text(since: Since) -> None:
    assert since_of(str(since)) == since
    assert since_of("latest") is None
