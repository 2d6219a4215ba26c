"""Sources that name their topics by a pattern: which topics they are, at the first start and later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pytest

from coordinator.revisions.rereadable import topics_of
from coordinator.specification import InputTopic, OutputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.patterns import with_matching_topics
from coordinator.starting.topics.positions import starting_positions
from coordinator.topic_names import load_topic_of, table_topic_of
from engine.run.source_table import SourceTable
from io_kafka.clients.topics import Topics
from io_kafka.errors import NoTopicMatches, UnknownTopic
from io_kafka.formats.records import RecordFormat
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import TopicIdentity
from tests.coordinator.stepping.test_inputs import Clock, Cluster, spec

ENDS = {TopicPartition(name, 0): 5 for name in ("in.a", "in.b", "in", "out", "stepwell.p.steps", "stepwell.p.plans")}


class Named(Cluster):
    def names(self) -> set[str]:
        return {place.topic for place in self.ends}


def source(pattern: str | None, starting: str = "earliest", topics: tuple[str, ...] = ()) -> InputTopic:
    table = SourceTable(f"kafka({pattern or topics})", topics, RecordFormat("k", pa.schema([])), None, pattern)
    return InputTopic(table, starting, "fail", None)


def found(
    *sources: InputTopic, ends: Mapping[TopicPartition, int] = ENDS, known: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    given: PipelineSpec = replace(
        spec(Clock(), 4), inputs=sources, outputs=(OutputTopic("out", "out", 1, compacted=False),)
    )
    identities = {name: TopicIdentity(topic=name, id="i", partitions=1) for name in known}
    resolved = with_matching_topics(given, cast(Topics, Named(dict(ends))), identities)
    return [each.table.topics for each in resolved.inputs]


def test_the_topics_whose_whole_names_match() -> None:
    assert found(source(r"in\..*"), source(None, topics=("in",))) == [("in.a", "in.b"), ("in",)]
    assert found(source("in")) == [("in",)]
    assert found(source("stepwell.*|in")) == [("in",)], "not the step log"


def test_no_pattern_matches_the_topics_of_batch_tables() -> None:
    """Loads come and go, also those of other pipelines, and their messages are rows."""
    table = table_topic_of("p", "0123456789abcdef")
    names = (table, load_topic_of(table, "7f"), table_topic_of("other", "0123456789abcdef"))
    ends = {TopicPartition(name, 0): 5 for name in (*names, "stepwell.in", "stepwell.p.table.in")}
    assert found(source("stepwell.*"), ends=ends) == [("stepwell.in", "stepwell.p.table.in")]
    assert found(source("stepwell.in"), ends=ends, known=("gone", *names)) == [("stepwell.in",)]
    gone = found(source("stepwell.*"), ends=ends, known=(f"{table}.8f", "stepwell.in"))
    assert gone == [("stepwell.in", "stepwell.p.table.in")], "a load that was deleted is not missing"
    assert topics_of(source("stepwell.*"), [*names, "stepwell.in"]) == ("stepwell.in",)
    assert topics_of(source(None, topics=(table,)), names) == (table,)


def test_what_is_refused() -> None:
    with pytest.raises(NoTopicMatches, match=r"matches the pattern inn.*subscribePattern"):
        found(source("inn"))
    with pytest.raises(TopicChanged, match=r"the pattern .* matches topic out, which this pipeline writes"):
        found(source(".*"))
    with pytest.raises(TopicChanged, match=r"topic in.c, which .* reads by the pattern in.*, is gone"):
        found(source(r"in\..*"), known=("in.a", "in.c", "out"))
    with pytest.raises(TopicChanged, match=r"topic in.a is read by .* from earliest, and by .* from latest"):
        found(source(r"in\..*"), source(None, "latest", ("in.a",)))


def test_a_topic_that_matches_later_begins_at_its_first_offset() -> None:
    table = replace(source(None, "latest", ("in.a", "in.b")).table, pattern=r"in\..*")
    inputs = [InputTopic(table, "latest", "fail", None)]
    topics = cast(Topics, Cluster(dict(ENDS)))
    a, b = TopicPartition("in.a", 0), TopicPartition("in.b", 0)
    assert starting_positions(topics, inputs, {}) == {a: 5, b: 5}
    assert starting_positions(topics, inputs, {a: 3}) == {a: 3, b: 0}


def test_only_the_partitions_that_a_source_names() -> None:
    ends = {TopicPartition("in", number): 5 for number in range(3)}
    table = replace(source(None, topics=("in",)).table, partitions=frozenset({TopicPartition("in", 1)}))
    topics = cast(Topics, Cluster(ends))
    assert starting_positions(topics, [InputTopic(table, "earliest", "fail", None)], {}) == {TopicPartition("in", 1): 0}
    table = replace(table, partitions=frozenset({TopicPartition("in", 3)}))
    with pytest.raises(UnknownTopic, match=r"topic 'in' partition 3 does not exist"):
        starting_positions(topics, [InputTopic(table, "earliest", "fail", None)], {})
