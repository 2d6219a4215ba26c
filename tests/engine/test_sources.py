"""Every range of a step is read by one worker, and the result does not depend on which: however many ranges a worker has, its rows have one
schema."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from base.options import Mode, OnError
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.from_now import handle_from_now
from engine.model.layout import FixedShards, Layout
from engine.model.placement import Placement
from engine.model.rows import LastByKey, Source
from engine.operators.facts import DivisionFacts
from engine.run import sources
from engine.run.source_table import SourceTable
from engine.run.sources import ranges_of_worker, read_sources
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.errors import SchemaGone
from io_kafka.extras import TYPES, Extras
from io_kafka.formats.records import COLUMNS as COLUMNS_OF_RECORDS
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.registry.unknown import UnknownSchemas, join_unknown
from tests.engine.contexts import placement_of
from tests.engine.in_process import InProcess
from tests.io_kafka.formats import avro_messages
from tests.sampling import sampled
from tests.schema_registry import schema_registry


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_range_is_read_by_one_worker(workers: int) -> None:
    placement = Placement.of(Layout.initial(FixedShards(), workers), {"in": 2, "other": 1})
    there = [OffsetRange("in", 0, 0, 5), OffsetRange("in", 1, 2, 3), OffsetRange("other", 0, 1, 4)]
    came_later = [OffsetRange("in", number, 0, 1) for number in range(2, 12)]
    nothing_in_it = [OffsetRange("other", 1, 7, 7)]
    readers = Counter(
        span
        for worker in range(workers)
        for span in ranges_of_worker(there + came_later + nothing_in_it, placement, worker)
    )
    assert readers == Counter(there + came_later)


@pytest.mark.parametrize("readers", [(0, 5), (0,), ()])
def test_a_partition_that_came_later_than_the_placement_is_read_by_one_worker(readers: tuple[int, ...]) -> None:
    """The numbers of the workers have gaps."""
    spans, owned = [OffsetRange("in", number, 0, 1) for number in range(8)], placement_of(4).owned
    placement = Placement(0, {(0, 2, 5, 9)[worker]: slots for worker, slots in owned.items()}, {"in": readers})
    read = [ranges_of_worker(spans, placement, worker) for worker in placement.workers]
    assert Counter(span for each in read for span in each) == Counter(spans)
    assert all(read), "a worker has nothing to read, though partitions came later than the placement"


# Every mode, any number of partitions and workers, and any partitions that have rows

STRUCT = pa.struct([pa.field("flag", pa.bool_(), nullable=False), pa.field("text", pa.string())])
COLUMNS = pa.schema([
    pa.field("id", pa.int64(), nullable=False), pa.field("g", pa.string()), pa.field("n", pa.int32(), nullable=False),
    pa.field("inner", STRUCT), pa.field("list", pa.list_(pa.int64())),
])  # fmt: skip
GROUPS = 3
ROWS_PER_RANGE = 4
MODES: tuple[tuple[Mode, bool], ...] = (("append", False), ("upsert", True), ("changelog", True), ("changelog", False))


def circuit(mode: Mode, keyed: bool) -> Circuit:
    """count(*) and sum(n) by g."""
    types, longs = tuple(COLUMNS.types), (pa.int64(), pa.int64())
    retracts = mode == "changelog" and not keyed
    messages = (*types, pa.bool_(), pa.int32(), pa.int64())
    read: tuple[Node, ...] = (
        (Source((), messages, "in", keyed=True), LastByKey((0,), types, "in", (0,)))
        if keyed
        else (Source((), types, "in", retracts=retracts),)
    )
    last, result = len(read) - 1, (pa.string(), *longs)
    calls = (AggregateCall("count", None, False, longs[0]), AggregateCall("sum", 2, False, longs[1]))
    names = ("g", "rows", "total")
    return Circuit((
        *read, Aggregate((last,), result, (1,), calls), View((last + 1,), result, "sums", names, True, (0,)),
        Output((last + 2,), (), "sums", "upsert", names, (0,)),
    ))  # fmt: skip


def given(step: int, source: str, on_error: OnError) -> StepInput:
    return StepInput(facts=DivisionFacts(number=step), ranges=(), on_error={source: on_error})


def row(number: int) -> dict[str, Any]:
    inner = {"flag": number % 2 == 0, "text": None}
    return {"id": number, "g": "abc"[number % GROUPS], "n": number, "inner": inner, "list": [number]}


class Topic:
    """A topic in memory, and the table that its messages describe: the rows by id."""

    def __init__(self, mode: Mode, keyed: bool, partitions: int) -> None:
        self.mode, self.keyed = mode, keyed
        self.ends = [0] * partitions
        self.table: dict[int, dict[str, Any]] = {}

    def send(self, partitions: Sequence[int]) -> list[RawBatch]:
        """One range of every partition. Each of `partitions` gets new rows, and loses one if the mode has deletions."""
        batches = []
        for partition, start in enumerate(self.ends):
            messages = list(self._messages(partition)) if partition in partitions else []
            self.ends[partition] = start + len(messages)
            span = OffsetRange("in", partition, start, self.ends[partition])
            keys, values = ([message[i] for message in messages] for i in (0, 1))
            offsets = pa.array(range(span.start, span.end), pa.int64())
            columns = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), offsets
            batches.append(raw_batch(span, Messages.plain(*columns)))
        return batches

    def _messages(self, partition: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        mine = [number for number in self.table if number % len(self.ends) == partition]
        for number in mine[:1] if self.mode != "append" else []:
            before = self.table.pop(number)
            yield self._message(before, None)
        first = self.ends[partition]
        for index in range(first, first + ROWS_PER_RANGE):
            number = index * len(self.ends) + partition
            self.table[number] = row(number)
            yield self._message(None, self.table[number])

    def _message(
        self, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> tuple[bytes | None, bytes | None]:
        some = after or before
        assert some is not None
        key = json.dumps({"id": some["id"]}).encode() if self.keyed else None
        if self.mode == "changelog":
            return key, json.dumps({"before": before, "after": after, "op": "d" if after is None else "c"}).encode()
        return key, None if after is None else json.dumps(after).encode()

    def sums(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for one in self.table.values():
            count, total = found.get(one["g"], (0, 0))
            found[one["g"]] = (count + 1, total + one["n"])
        return found


@pytest.mark.parametrize(("mode", "keyed"), MODES)
@pytest.mark.parametrize("partitions", sampled(range(1, 6), 2))
@pytest.mark.parametrize("workers", sampled(range(1, 6), 2, (2,)))
def test_which_partitions_have_rows_does_not_matter(mode: Mode, keyed: bool, partitions: int, workers: int) -> None:
    """In each step, other partitions have rows: one, all, none, every second one."""
    engine, topic = InProcess(circuit(mode, keyed), workers, {"sums": 2}), Topic(mode, keyed, partitions)
    tables = {"in": SourceTable("in", ("in",), SourceFormat("in", COLUMNS, mode, ("id",) if keyed else ()))}
    placement = Placement.of(Layout.initial(FixedShards(), workers), {"in": partitions})
    written: dict[str, tuple[int, int]] = {}
    every = range(partitions)
    for step, filled in enumerate([every[:1], every, every[:0], every[::2]]):
        batches = topic.send(filled)
        spans = [batch.range for batch in batches]
        mine = [ranges_of_worker(spans, placement, worker) for worker in range(workers)]
        read = [
            read_sources(
                engine.plan.circuit, tables, given(step, "in", "fail"), [b for b in batches if b.range in own]
            )[0]
            for own in mine
        ]
        assert len({rows[0].schema.to_string(show_field_metadata=False) for rows in read}) == 1
        for message in engine.step_of(read)["sums"].to_pylist():
            group = json.loads(message["key"])["g"]
            written.pop(group, None)
            if message["value"] is not None:
                value = json.loads(message["value"])
                written[group] = (value["rows"], value["total"])
        assert written == topic.sums()


def test_the_same_schemas_are_unknown_in_the_same_partitions_of_a_replay() -> None:
    """Workers may have asked at different moments, and another one may read a partition in the replay. That a message is gone which was there is
    no fault of the message."""
    with schema_registry() as registry:
        columns = pa.schema([("id", pa.int64())])
        schema = avro_messages.record(("id", "long"))
        message = avro_messages.written(registry, schema, [{"id": 7}])[0]
        number = int.from_bytes(message[1:5], "big")
        form = SourceFormat("in", columns, encoding=avro_messages.encoding(registry), key_format="none")
        tables, nodes = {"in": SourceTable("in", ("in",), form)}, Circuit((Source((), (pa.int64(),), "in"),))
        batches = []
        for partition, values in enumerate(([b"rubbish", message], [message], [message] * 2)):
            offsets, keys = pa.array(range(3, 3 + len(values)), pa.int64()), pa.nulls(len(values), pa.binary())
            span = OffsetRange("in", partition, 3, 3 + len(values))
            batches.append(raw_batch(span, Messages.plain(keys, pa.array(values, pa.binary()), offsets)))
        before = registry.schemas.pop(number)
        first = given(4, "in", "skip")
        _, report = read_sources(nodes, tables, first, batches)
        assert report.unknown == [UnknownSchemas("in", "in", (0, 1, 2), (number,))]
        assert report.skipped == {"in": 5}
        replay = replace(first, unknown=(UnknownSchemas("in", "in", (0, 2), (number,)),))
        with pytest.raises(
            SchemaGone, match=r"^source in, topic in, partition 1, offset 3, step 4: the schema registry"
        ):
            read_sources(nodes, tables, replay, batches)
        with pytest.raises(
            SchemaGone, match=r"^source in, topic in, partition 0, offset 4, step 4: the schema registry"
        ):
            read_sources(nodes, tables, replace(first, unknown=()), batches)
        registry.schemas[number] = before
        rows, report = read_sources(nodes, tables, replay, batches)
        assert rows[0].column(0).to_pylist() == [7]
        assert join_unknown(report.unknown) == (UnknownSchemas("in", "in", (0, 2), (number,)),)
        assert report.skipped == {"in": 4}


@pytest.mark.parametrize(("mode", "keyed"), MODES)
def test_messages_that_are_decoded_together_give_what_they_give_apart(
    mode: Mode, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also which of them are malformed, where they lie, and what the dead-letter topic gets."""
    topic = Topic(mode, keyed, 4)
    batches = [damaged(batch) for batch in topic.send(range(4)) if batch.range.partition != 2]
    tables = {"in": SourceTable("in", ("in",), SourceFormat("in", COLUMNS, mode, ("id",) if keyed else ()))}
    nodes, found = circuit(mode, keyed), []
    for limit in (0, sum(batch.messages.memory_bytes for batch in batches[:2]), 1 << 20):
        monkeypatch.setattr(sources, "JOINED_BYTES_MAX", limit)
        rows, report = read_sources(nodes, tables, given(0, "in", "dead-letter"), batches)
        with pytest.raises(DataError) as refused:
            read_sources(nodes, tables, given(0, "in", "fail"), batches)
        found.append((rows[0].to_pylist(), report, refused.value.place))
    assert found[0] == found[1] == found[2]
    _, report, place = found[0]
    letters = [json.loads(letter.value) for letter in report.dead["in"]]
    assert [(letter["partition"], letter["offset"]) for letter in letters] == [(0, 1), (1, 1), (3, 1)]
    assert [letter["value"] for letter in letters] == [f"no JSON {number}" for number in (0, 1, 3)]
    assert place == "topic in, partition 0, offset 1"


def damaged(batch: RawBatch) -> RawBatch:
    """The same range, in which the second message is malformed."""
    values = batch.messages.values.to_pylist()
    values[1] = f"no JSON {batch.range.partition}".encode()
    return raw_batch(batch.range, batch.messages._replace(values=pa.array(values, pa.binary())))


def test_sources_of_one_topic_get_what_they_name() -> None:
    """Records of two topics, of named partitions of one of them, and rows of the other with a column of the record."""
    extras = pa.array([{"timestamp": n, "timestamp_type": 0} for n in range(2)], TYPES[Extras.TIMESTAMPS])
    values = pa.array([b'{"n": 1}', b"no JSON"], pa.binary())
    messages = Messages(pa.nulls(2, pa.binary()), values, pa.array([0, 1]), extras)
    batches = [
        raw_batch(OffsetRange(topic, partition, 0, 2), messages) for topic, partition in (("a", 0), ("b", 0), ("b", 1))
    ]
    columns = pa.schema([(name, COLUMNS_OF_RECORDS[name]) for name in ("topic", "partition", "offset", "timestamp")])
    whole = pa.schema([("n", pa.int32()), ("place", pa.int64())])
    tables = {
        "both": SourceTable("both", ("a", "b"), RecordFormat("both", columns)),
        "named": SourceTable("named", ("b",), RecordFormat("named", columns), frozenset({TopicPartition("b", 1)})),
        "rows": SourceTable("rows", ("a",), SourceFormat("rows", whole, metadata=(("place", "offset"),))),
    }
    nodes = [Source((), tuple(table.format.schema.types), handle) for handle, table in tables.items()]
    rows, report = read_sources(Circuit(tuple(nodes)), tables, given(0, "rows", "skip"), batches)
    moments = [datetime.datetime(1970, 1, 1, microsecond=1000 * n, tzinfo=datetime.UTC) for n in range(2)]
    every = [(t, p, n, moments[n], 1) for t, p in (("a", 0), ("b", 0), ("b", 1)) for n in range(2)]
    assert [tuple(row.values()) for row in rows[0].to_pylist()] == every
    assert [tuple(row.values()) for row in rows[1].to_pylist()] == every[4:]
    assert [tuple(row.values()) for row in rows[2].to_pylist()] == [(1, 0, 1)]
    assert report.skipped == {"rows": 1} and [checksum.messages for checksum in report.inputs] == [2, 2, 2]


def test_of_a_source_that_counts_from_an_offset_on_earlier_messages_are_left_out() -> None:
    """It stands beside the one that counts whole, which reports the malformed messages of both."""
    values = pa.array([b'{"n": 1}', b"no JSON", b'{"n": 3}', b"no JSON", b'{"n": 5}'], pa.binary())
    messages = Messages.plain(pa.nulls(5, pa.binary()), values, pa.array(range(10, 15)))
    batches = [raw_batch(OffsetRange("a", partition, 10, 15), messages) for partition in (0, 1, 2)]
    form = SourceFormat("rows", pa.schema([("n", pa.int32())]))
    counts_from = ((TopicPartition("a", 0), 12), (TopicPartition("a", 1), 99))
    whole = SourceTable("rows", ("a",), form)
    marked = SourceTable(handle_from_now("rows", 2), ("a",), form, counts_from=counts_from)
    later = replace(marked, handle=handle_from_now("rows", 3))
    expected = {"rows": 3 * [1, 3, 5], marked.handle: [3, 5, 1, 3, 5], later.handle: [3, 5, 1, 3, 5]}
    for tables, skipped in (((whole, marked), 6), ((marked,), 3), ((marked, later), 3), ((marked, later, whole), 6)):
        nodes = Circuit(tuple(Source((), (pa.int32(),), table.handle) for table in tables))
        policies = {table.handle: "dead-letter" for table in tables}
        rows, report = read_sources(
            nodes, {t.handle: t for t in tables}, replace(given(0, "in", "fail"), on_error=policies), batches
        )
        found = {table.handle: rows[i].column(0).to_pylist() for i, table in enumerate(tables)}
        assert found == {table.handle: expected[table.handle] for table in tables}
        assert report.skipped == {"rows": skipped} and len(report.dead["rows"]) == skipped
        assert report.dead.keys() == {"rows"}, "they have the name that the files know"
        assert [checksum.messages for checksum in report.inputs] == [5, 5, 5], "all that was read is compared"


def test_a_timestamp_beyond_the_range_stops_the_step() -> None:
    extras = pa.array([{"timestamp": 10**17, "timestamp_type": 0}], TYPES[Extras.TIMESTAMPS])
    nothing = pa.nulls(1, pa.binary())
    batch = raw_batch(OffsetRange("a", 0, 0, 1), Messages(nothing, nothing, pa.array([0]), extras))
    columns = pa.schema([("timestamp", COLUMNS_OF_RECORDS["timestamp"])])
    tables = {"a": SourceTable("a", ("a",), RecordFormat("a", columns))}
    place = "source a, topic a, partition 0, offset 0, step 3"
    with pytest.raises(DataError, match=re.compile(f"{place}: the record's timestamp is .*--full-refresh", re.DOTALL)):
        read_sources(Circuit((Source((), tuple(columns.types), "a"),)), tables, given(3, "a", "skip"), [batch])


def test_a_message_whose_timestamp_is_beyond_the_range_is_left_to_the_policy_of_its_table() -> None:
    stamps = [{"timestamp": at, "timestamp_type": 0} for at in (1, 10**18, 3)]
    values = pa.array([b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'], pa.binary())
    extras = pa.array(stamps, TYPES[Extras.TIMESTAMPS])
    batch = raw_batch(
        OffsetRange("a", 4, 7, 10), Messages(pa.nulls(3, pa.binary()), values, pa.array([7, 8, 9]), extras)
    )
    columns = pa.schema([("n", pa.int32()), ("ts", COLUMNS_OF_RECORDS["timestamp"])])
    tables = {"t": SourceTable("t", ("a",), SourceFormat("t", columns, metadata=(("ts", "timestamp"),)))}
    nodes = Circuit((Source((), tuple(columns.types), "t"),))
    place = "source t, topic a, partition 4, offset 8, step 3"
    says = f"{place}: malformed message: the record's timestamp is 1000000000000000000 ms .*'on.error' = 'skip'"
    with pytest.raises(DataError, match=re.compile(says, re.DOTALL)):
        read_sources(nodes, tables, given(3, "t", "fail"), [batch])
    for policy in ("skip", "dead-letter"):
        rows, report = read_sources(nodes, tables, given(3, "t", policy), [batch])
        assert rows[0].column(0).to_pylist() == [1, 3] and report.skipped == {"t": 1}
        letters = [json.loads(letter.value) for letter in report.dead.get("t", ())]
        assert [(letter["offset"], letter["value"]) for letter in letters] == [(8, '{"n": 2}')][
            : policy == "dead-letter"
        ]
