"""Where reading begins, for sources that were never read, and for partitions that came later."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

import pyarrow as pa
import pytest

from coordinator.specification import InputTopic
from coordinator.starting.topics.positions import Since, since_of, starting_positions
from engine.run.source_table import SourceTable
from io_kafka.clients.topics import Topics
from io_kafka.errors import NoSuchStart, NothingSince
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.spec import SourceFormat
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
        ('{"in": {"0": "4", "1": "-1"}}', [4, END]),
        ('{"in": {"0": 3, "01": 9, "7": -2}}', [BEGIN, END]),
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


@pytest.mark.parametrize(("offset", "number"), [(2, 0), (10, 1), (50, 1)])
def test_a_start_at_an_offset_that_is_not_there_names_the_offset_and_what_is(offset: int, number: int) -> None:
    """A run that read from there would skip what arrives before, or advise a full refresh, which begins there again."""
    wish = json.dumps({"in": {str(number): offset}})
    says = rf"source t0: its startingOffsets begin topic 'in' partition {number} at offset {offset}, and the partition holds \[3, 9\)\."
    with pytest.raises(NoSuchStart, match=says) as raised:
        positions({}, wish)
    assert "-2 begins at the first message" in str(raised.value)
    assert positions({TopicPartition("in", number): 6}, wish)[number] == 6, "it counts where a topic was never read"


def test_a_start_in_a_partition_that_does_not_exist() -> None:
    with pytest.raises(
        NoSuchStart, match=r"begin topic 'in' partition 7 at offset 3, and the partition does not exist\."
    ):
        positions({}, '{"in": {"0": -2, "7": 3}}')
    assert positions(KNOWN, '{"in": {"7": 3}}') == [5, BEGIN]


def test_a_batch_table_whose_rows_are_gone_is_refused_by_reading_alone() -> None:
    """No user has named the offset at which its load begins."""
    table = SourceTable("t", ("in",), TableFormat("t", pa.schema([])), frozenset({TopicPartition("in", 0)}))
    source = InputTopic(table, '{"in": {"0": 1}}', "fail", None)
    assert starting_positions(cast(Topics, TwoPartitions()), [source], {}) == {TopicPartition("in", 0): 1}


def test_a_topic_that_joins_a_pattern_later_does_not_begin_as_its_source_says() -> None:
    form = SourceFormat("t", pa.schema([]), "append")
    table = SourceTable("t", ("in", "in2"), form, pattern="in.*")
    source = InputTopic(table, '{"in2": {"0": 50, "7": 3}}', "fail", None)
    found = starting_positions(cast(Topics, TwoPartitions()), [source], KNOWN)
    assert found == {**KNOWN, **{TopicPartition(name, n): BEGIN for name, n in (("in", 1), ("in2", 0), ("in2", 1))}}


@pytest.mark.parametrize("since", [Since(0, False), Since(1_700_000_000_000, True)])
def test_a_start_at_a_timestamp_is_read_from_its_text(since: Since) -> None:
    assert since_of(str(since)) == since
    assert since_of("latest") is None
