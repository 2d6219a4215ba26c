"""Loads of batch tables: once, whole, and behind what an interrupted load has left; and tables are divided before everything else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
import pytest

from coordinator.goal import Goal
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics import batch_tables
from coordinator.starting.topics.batch_tables import limits_of_tables, load_tables
from coordinator.status import StatusBoard
from coordinator.stepping.input_topics import InputTopics
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.new_nodes import NewNodes
from coordinator.topic_names import TABLE_PARTITIONS
from coordinator.transition.portions import Portions
from engine.model.filling import HASHES
from engine.model.numbers import NumberedCircuit
from engine.run.source_table import SourceTable
from io_kafka.clients.topics import TopicFacts, Topics
from io_kafka.clients.writer import PipelineWriter, TablePart
from io_kafka.errors import UnknownTopic
from io_kafka.formats.batches import MESSAGE_BYTES_MAX, MESSAGE_ROWS_MAX, TableFormat, rows_in
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.records import InputRange, TableRecord, TopicIdentity
from tests.coordinator.stepping.test_inputs import IN0, Clock, Cluster, Log, identity, spec
from tests.io_kafka.formats.test_batches import records

SCHEMA = pa.schema({"n": pa.int64()})
TOPIC = "stepwell.p.table.x"


def with_table(given: PipelineSpec) -> PipelineSpec:
    table = InputTopic(SourceTable("t", (TOPIC,), TableFormat("t", SCHEMA)), "earliest", "fail", None)
    return replace(given, inputs=(*given.inputs, table))


@dataclass
class Broker:
    """A topic of tables whose messages take two offsets each, and a writer of the step log beside it."""

    log: Log = field(default_factory=Log)
    messages: dict[tuple[int, int], bytes] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    topic_id: str = "i"
    deleted_below: dict[TopicPartition, int] = field(default_factory=dict)
    writes_left: int | None = None

    # As Topics

    def ensure(self, name: str, partitions: int, config: Mapping[str, str], *, replication: int) -> TopicFacts:
        assert name == TOPIC and config["retention.ms"] == "-1" and replication == -1
        self.ends = self.ends or dict.fromkeys(range(partitions), 0)
        return self.describe([name])[name]

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        if not self.ends:
            raise UnknownTopic(TOPIC, None)
        return {name: TopicFacts(name, self.topic_id, len(self.ends), {}) for name in names}

    def end_offsets(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(TOPIC, number): end for number, end in self.ends.items()}

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self.log.tables, "no transaction of this load has committed yet"
        self.deleted_below = dict(offsets)

    # As PipelineWriter

    @property
    def state(self) -> Log:
        return self.log

    def write_table(
        self, handle: str, topic: TopicIdentity, starts: Mapping[int, int], part: TablePart, *, is_whole: bool
    ) -> TableRecord:
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                raise KeyboardInterrupt
        ends = dict(part.ends)
        for number, values in part.messages.items():
            for value in values:
                self.messages[number, self.ends[number]] = value
                self.ends[number] += 2
                ends[number] = self.ends[number]
        ranges = tuple(
            InputRange(topic=TOPIC, partition=number, start=start, end=ends.get(number, start))
            for number, start in starts.items()
        )
        record = TableRecord(epoch=0, handle=handle, topic=topic, ranges=ranges, rows=part.rows, is_whole=is_whole)
        self.log.append(record)
        return self.log.tables[topic.topic]

    def load(self, batches: Iterable[list[int]]) -> PipelineSpec:
        def rows(handle: str) -> Iterator[pa.RecordBatch]:
            assert handle == "t"
            return (pa.record_batch({"n": pa.array(numbers, pa.int32())}) for numbers in batches)

        given = with_table(spec(Clock(), 4))
        return load_tables(given, cast(PipelineWriter, self), cast(Topics, self), rows)

    def rows(self) -> list[int]:
        """What a reader of the recorded ranges gets."""
        ranges = {r.partition: range(r.start, r.end) for r in self.log.tables[TOPIC].ranges}
        chosen = [value for (number, offset), value in self.messages.items() if offset in ranges[number]]
        return sorted(rows_in(TableFormat("t", SCHEMA), records(list(chosen)))["c0"].to_pylist())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_tables, "PART_BYTES_MAX", 1500)


BATCHES = [[n, n] for n in range(40)]
ALL_ROWS = sorted(n for batch in BATCHES for n in batch)


def test_a_table_is_read_once_and_dealt_out_to_all_partitions() -> None:
    broker = Broker()
    table = broker.load(BATCHES).inputs[-1]
    assert broker.rows() == ALL_ROWS and broker.log.tables[TOPIC].rows == 80
    assert {number for number, _ in broker.messages} == set(range(TABLE_PARTITIONS))
    assert json.loads(table.starting_offsets) == {TOPIC: {str(number): 0 for number in range(TABLE_PARTITIONS)}}
    assert table.table.partitions == {TopicPartition(TOPIC, number) for number in range(TABLE_PARTITIONS)}
    messages = dict(broker.messages)
    assert broker.load([[7]]).inputs[-1] == table and broker.messages == messages, "it was read again"
    broker.log.check()


def test_a_table_without_rows_is_loaded_too() -> None:
    broker = Broker()
    broker.load([])
    assert broker.log.tables[TOPIC].is_whole and broker.rows() == []


@pytest.mark.parametrize("writes", range(4))
def test_a_load_that_is_broken_off_begins_anew_behind_what_it_wrote(writes: int) -> None:
    broker = Broker(writes_left=writes)
    with pytest.raises(KeyboardInterrupt):
        broker.load(BATCHES)
    before = dict(broker.ends)
    broker.writes_left = None
    broker.load(BATCHES)
    assert broker.rows() == ALL_ROWS
    begun = {place.partition: end for place, end in broker.deleted_below.items()}
    assert begun == {number: end for number, end in before.items() if end}


def test_a_topic_that_is_another_one_is_noticed() -> None:
    broker = Broker()
    broker.load(BATCHES)
    broker.topic_id = "j"
    with pytest.raises(TopicChanged, match=r"has the rows of t, was deleted and created again\. Read the table again"):
        broker.load(BATCHES)
    broker.ends.clear()
    with pytest.raises(TopicChanged, match=r"has the rows of t, was deleted\. Read"):
        broker.load(BATCHES)


def test_tables_are_divided_before_everything_else() -> None:
    """Only then do topics have the dimensions that they are joined with. The rows of a message count."""
    broker = Broker()
    given = broker.load([[n] * MESSAGE_ROWS_MAX for n in range(30)])
    given = replace(given, limits=StepLimits(5 * MESSAGE_ROWS_MAX))
    of_table = {TopicPartition(TOPIC, number): end for number, end in broker.ends.items()}
    cluster = Cluster({IN0: 7, **{place: end + 100 for place, end in of_table.items()}})  # somebody else wrote behind
    found = (identity("in", 1), identity(TOPIC, TABLE_PARTITIONS))
    for goal in (Goal.SERVE, Goal.READ_AVAILABLE):
        log = replace_steps(broker.log)
        plan = NumberedCircuit(given.circuit, tuple(range(len(given.circuit.nodes))))
        board = StatusBoard("p")
        topics = InputTopics(given, cast(Topics, cluster), board, found, log, goal=goal)
        inputs = Inputs(given, plan, topics, NewNodes(plan, Portions(HASHES)), log, board=board)
        step, divided = 0, []
        while (division := inputs.choose(log, step)) is not None:
            log.append(inputs.record(log, 0, division, is_drained=True))
            divided.append(division)
            log.write(step)
            step += 1
        live = [sum(r.length for r in division.ranges if r.topic == "in") for division in divided]
        tables = [division.rows - count for division, count in zip(divided, live, strict=True)]
        assert live == [*[0] * (len(live) - 1), 7] and tables[-1] == 0
        assert all(0 < count <= 5 for count in tables[:-1]) and sum(tables) == sum(broker.ends.values())
        assert divided[-1].ranges[-1] == OffsetRange(TOPIC, 7, broker.ends[7], broker.ends[7])


def replace_steps(log: Log) -> Log:
    """A log with the tables of `log`."""
    new = Log()
    for record in log.tables.values():
        new.append(record)
    return new


def test_the_bounds_of_a_step_of_tables() -> None:
    assert limits_of_tables(StepLimits(10 * MESSAGE_ROWS_MAX)).rows == 10
    assert limits_of_tables(StepLimits(1)).rows == 1
    assert limits_of_tables(StepLimits(10 * MESSAGE_ROWS_MAX, 3 * MESSAGE_BYTES_MAX)).rows == 3
