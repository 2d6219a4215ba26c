"""Which sources can be read again, from where, and how many messages that is."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from base.options import Mode
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.rereadable import Rereading, Unreadable, messages_of, rereadings
from coordinator.specification import InputTopic, OutputTopic
from engine.model.circuit import Circuit
from engine.run.source_table import SourceTable
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.offsets import TopicPartition

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64())])
FIRST, SECOND, OTHER = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FACTS = PlanFacts(
    first={FIRST: 5, SECOND: 0},
    positions={FIRST: 100, SECOND: 40},
    begins={FIRST: 5, SECOND: 0, OTHER: 10},
    ends={FIRST: 120, SECOND: 40, OTHER: 25},
)


def source(*topics: str, mode: Mode = "append", key: tuple[str, ...] = (), starting: str = "earliest") -> InputTopic:
    return InputTopic(
        SourceTable("s", topics or ("a",), SourceFormat("s", SCHEMA, mode=mode, key=key)), starting, "fail", None
    )


def document(*inputs: InputTopic, outputs: tuple[OutputTopic, ...] = ()) -> PlanDocument:
    return PlanDocument(circuit=Circuit(()), numbers=(), inputs=inputs, outputs=outputs)


def found(now: InputTopic, facts: PlanFacts = FACTS, before: InputTopic | None = None) -> Rereading | Unreadable:
    able, unable = rereadings(document(before or now), document(now), facts)
    assert len(able) + len(unable) == 1
    return able["s"] if able else unable["s"]


def test_a_source_is_read_again_from_where_the_pipeline_began_up_to_where_it_is() -> None:
    reading = found(source())
    assert isinstance(reading, Rereading)
    assert (reading.starts, reading.messages, reading.is_new) == ({FIRST: 5, SECOND: 0}, 135, False)
    assert reading.text == "s: read again from where the pipeline began"


def test_a_partition_that_came_later_was_read_from_its_beginning() -> None:
    added = TopicPartition("a", 2)
    facts = replace(FACTS, begins={**FACTS.begins, added: 3}, ends={**FACTS.ends, added: 9})
    reading = found(source(), facts)
    assert isinstance(reading, Rereading) and reading.starts[added] == 3 and reading.messages == 141


@pytest.mark.parametrize(
    ("starting", "starts", "messages", "text"),
    [
        ("earliest", {OTHER: 10}, 15, "s: read from its startingOffsets (earliest)"),
        ("latest", {OTHER: 25}, 0, "s: read from its startingOffsets (latest)"),
        ('{"b": {"0": 12}}', {}, None, "s: read from its startingOffsets (as given)"),
    ],
)
def test_a_source_that_is_new_is_read_as_it_says(
    starting: str, starts: dict[TopicPartition, int], messages: int | None, text: str
) -> None:
    reading = found(source("b", starting=starting))
    assert isinstance(reading, Rereading) and reading.is_new
    assert (reading.starts, reading.messages, reading.text) == (starts, messages, text)


def test_what_has_expired_is_told_by_partition() -> None:
    gone = found(source(), replace(FACTS, begins={**FACTS.begins, FIRST: 60, SECOND: 7}))
    assert isinstance(gone, Unreadable)
    assert (gone.obstacle, gone.partitions) == ("expired", ((FIRST, 55), (SECOND, 7)))
    assert "a/0 begins at offset 60, and the pipeline began at 5: 55 offsets are missing" in gone.reason


def test_of_many_expired_partitions_some_are_named() -> None:
    many = [TopicPartition("a", number) for number in range(10)]
    zero, four, nine = (dict.fromkeys(many, offset) for offset in (0, 4, 9))
    gone = found(source(), PlanFacts(first=zero, positions=nine, begins=four, ends=nine))
    assert isinstance(gone, Unreadable) and len(gone.partitions) == 10
    assert gone.reason.endswith("; and 7 partitions more")


def test_a_topic_that_is_made_anew_can_begin_below_where_the_pipeline_began() -> None:
    """What is below the first offset has never counted."""
    reading = found(source(), replace(FACTS, begins={**FACTS.begins, FIRST: 0}))
    assert isinstance(reading, Rereading) and reading.starts[FIRST] == 5


def test_the_table_of_a_keyed_source_may_be_read_from_a_compacted_topic() -> None:
    upsert = source(mode="upsert", key=("k",))
    facts = replace(FACTS, compacted=frozenset({"a"}))
    reading = found(upsert, facts)
    assert isinstance(reading, Rereading) and reading.starts[FIRST] == 5
    for before in (source(), source(mode="upsert", key=("n",))):
        other = found(upsert, facts, before)
        assert isinstance(other, Unreadable) and other.obstacle == "compacted"
    another = found(upsert, facts, source("b", mode="upsert", key=("k",)))
    assert isinstance(another, Rereading) and another.is_new, "what an earlier revision has read does not count"
    partial = replace(upsert, table=replace(upsert.table, format=replace(upsert.table.format, mode="changelog")))
    lacking = found(partial, facts, partial)
    assert isinstance(lacking, Unreadable) and lacking.obstacle == "compacted", "a message may lack values"
    gone = found(upsert, replace(facts, begins={**FACTS.begins, FIRST: 60}))
    assert isinstance(gone, Unreadable) and gone.obstacle == "expired", "keys may be missing"


def test_a_key_whose_topic_has_grown_may_have_messages_in_two_partitions() -> None:
    facts = replace(FACTS, grown=frozenset({"a"}))
    refused = found(source(mode="upsert", key=("k",)), facts)
    assert isinstance(refused, Unreadable) and refused.obstacle == "grown"
    assert isinstance(found(source(), facts), Rereading), "the order of rows of a stream does not count"


@pytest.mark.parametrize(
    ("begin", "starting", "is_known"), [(0, "earliest", True), (1, "earliest", False), (0, "latest", False)]
)
def test_a_start_that_is_not_recorded(begin: int, starting: str, is_known: bool) -> None:
    facts = replace(FACTS, first={FIRST: 5}, begins={**FACTS.begins, SECOND: begin})
    reading = found(source(starting=starting), facts)
    assert isinstance(reading, Rereading) == is_known
    if isinstance(reading, Unreadable):
        assert reading.obstacle == "unknown start" and "a/1" in reading.reason


def test_a_pattern_reads_the_topics_that_fit_and_none_of_the_outputs() -> None:
    table = replace(source().table, topics=(), pattern="a|b")
    pattern = replace(source(), table=table)
    able, _ = rereadings(document(pattern), document(pattern, outputs=(OutputTopic("o", "b", 1, False),)), FACTS)
    assert able["s"].starts.keys() == {FIRST, SECOND}


def test_partitions_that_are_assigned_are_read_alone() -> None:
    table = replace(source().table, partitions=frozenset({SECOND}))
    reading = found(replace(source(), table=table))
    assert isinstance(reading, Rereading) and (reading.starts, reading.messages) == ({SECOND: 0}, 40)


def test_a_batch_table_never_expires_and_a_new_one_is_loaded() -> None:
    columns = pa.schema([pa.field("k", pa.string())])
    loaded, new = (
        InputTopic(SourceTable("s", (topic,), TableFormat("s", columns)), "earliest", "fail", None)
        for topic in ("b", "none")
    )
    facts = replace(FACTS, first={**FACTS.first, OTHER: 0}, positions={**FACTS.positions, OTHER: 20})
    reading = found(loaded, facts, loaded)
    assert isinstance(reading, Rereading) and (reading.starts, reading.messages) == ({OTHER: 0}, 20)
    for before, text in ((source(), "s: loaded"), (loaded, "s: loaded again")):  # sources of one handle
        reading = found(replace(new, table=replace(new.table, partitions=frozenset({OTHER}))), before=before)
        assert isinstance(reading, Rereading) and reading.is_load and reading.text == text
        assert (reading.starts, reading.messages) == ({OTHER: 0}, None), "how many rows it has is not known"
    gone = found(new, before=new)
    assert isinstance(gone, Unreadable) and gone.reason == "topic none, which has its rows, was deleted"


def test_sources_of_one_topic_share_its_messages() -> None:
    one = found(source())
    assert isinstance(one, Rereading)
    assert messages_of([one, replace(one, handle="again")], FACTS) == 135
    assert messages_of([one, replace(one, handle="new", messages=None)], FACTS) is None
    assert messages_of([], FACTS) == 0
