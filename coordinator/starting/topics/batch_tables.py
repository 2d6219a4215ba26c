"""Batch tables: read once, before the first step of a state, into topics of Stepwell's own. From then on each is a source like any other.

    table(t), not whole ----> ... ----> table(t), whole ----> division(0)      one transaction each, with the rows that it counts
         |                                                    all tables are divided completely, then everything else
         | a crash: the next run reads the table again, behind what was written

Guarantees: a row of a table is in the input exactly once, whatever crash there was during the load. A run that finds the table in the step log
reads nothing of it again, so that replays, checkpoints and layouts depend on the topic alone. A full refresh reads it again.

A table that a changed project brings, or that is to be read again, is loaded while steps run (transition/loading.py).

Messages of a load that was interrupted, and of the generation before, are below the start of the load that counts. They are deleted when a
transaction of this load has committed: then no older run can have written later, and a run that is fenced meanwhile deletes nothing newer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from base.logger import Logger
from base.short_text import short_text
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.topic_names import TABLE_PARTITIONS, is_table_topic
from io_kafka.clients.lost_topics import lost_topics
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import PipelineWriter, TablePart
from io_kafka.clients.writer_faults import Fenced
from io_kafka.errors import KafkaFault, UnknownTopic
from io_kafka.formats.batches import MESSAGE_BYTES_MAX, MESSAGE_ROWS_MAX, messages_of
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.records import TableRecord
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.starting.topics.batch_tables")

TableRows = Callable[[str], Iterator[pa.RecordBatch]]
"""The rows of the batch table with this handle. Raises a fault that names the view which reads it."""

PART_BYTES_MAX = 32 << 20
"""Bytes of rows in one transaction of a load: some seconds on a slow link, far below the broker's transaction timeout."""

TOPIC_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Rows must not expire before they are read. Nothing removes them afterwards but the next load."""


def load_tables(
    spec: PipelineSpec, writer: PipelineWriter, topics: Topics, table_rows: TableRows | None
) -> PipelineSpec:
    """Reads the tables that the step log does not have yet. Returns the specification, whose tables begin where they were written.

    It runs after the claim and after the project was compared with that of the state, and touches no database."""
    tables = [source for source in spec.inputs if source.is_table]
    if not tables:
        return spec
    for source in tables:
        known = load_of(source, writer.state)
        if known is None or not known.is_whole:
            assert table_rows is not None, f"nobody reads {source.table.handle}"
            _load(spec, source, writer, topics, table_rows(source.table.handle))
        else:
            _check_topic(known, topics)
            _log.info("a table is loaded already", table=source.table.handle, rows=known.rows)
    return replace(spec, inputs=tuple(_place_load(source, writer.state) for source in spec.inputs))


def _load(
    spec: PipelineSpec, source: InputTopic, writer: PipelineWriter, topics: Topics, rows: Iterator[pa.RecordBatch]
) -> None:
    (name,) = source.table.topics
    facts = topics.ensure(name, TABLE_PARTITIONS, TOPIC_CONFIG, replication=spec.replication)
    topic = facts.identity
    starts = {partition.partition: end for partition, end in topics.end_offsets([name]).items()}
    handle, before, record = source.table.handle, load_of(source, writer.state), None
    _log.info("reading a table", table=handle, topic=name, again=before is not None)
    for part, is_whole in parts_of_load(rows, source.table.format.schema, facts.partitions):
        ends: dict[int, int] = {} if record is None else {r.partition: r.end for r in record.ranges}
        record = writer.write_table(handle, topic, starts, TablePart(part.messages, ends, part.rows), is_whole=is_whole)
    assert record is not None and record.is_whole
    topics.delete_below({TopicPartition(name, number): start for number, start in starts.items() if start})
    _log.info("a table is loaded", table=handle, topic=name, rows=record.rows)


def parts_of_load(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, partitions: int
) -> Iterator[tuple[TablePart, bool]]:
    """What one transaction after the other writes, and whether it is the last one. The messages are dealt out to the partitions in turn. A table
    without rows has one part without messages."""
    waiting: dict[int, list[bytes]] = {}
    waiting_bytes = rows = dealt = 0
    for batch in batches:
        for count, message in messages_of(_as_schema(batch, schema)):
            if waiting_bytes + len(message) > PART_BYTES_MAX and waiting:
                yield TablePart(waiting, {}, rows), False
                waiting, waiting_bytes = {}, 0
            waiting.setdefault(dealt % partitions, []).append(message)
            waiting_bytes += len(message)
            rows += count
            dealt += 1
    yield TablePart(waiting, {}, rows), True


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows as the circuit has them: Spark names the parts of maps and lists in another way."""
    found = pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema)


def _check_topic(known: TableRecord, topics: Topics) -> None:
    """Raises TopicChanged unless the topic of a loaded table is the one that it was written to."""
    name = known.topic.topic
    try:
        there = topics.describe([name])
    except UnknownTopic:
        there = {}
    lost = lost_topics([known.topic], there)
    if lost.names:
        raise TopicChanged(
            f"topic {name}, which has the rows of {known.handle}, was deleted{' and created again' if lost.recreated else ''}.",
            "Read the table again with `stepwell run --full-refresh`.",
        )


def _place_load(source: InputTopic, state: StepLogState) -> InputTopic:
    """The source, which reads what its load has written. Partitions that somebody adds to its topic later are none of it."""
    if not source.is_table:
        return source
    load = load_of(source, state)
    assert load is not None
    ranges = load.ranges
    (name,) = source.table.topics
    starts = json.dumps({name: {str(r.partition): r.start for r in ranges}})
    table = replace(source.table, partitions=frozenset(r.where for r in ranges))
    return replace(source, table=table, starting_offsets=starts)


def ends_of_tables(spec: PipelineSpec, state: StepLogState) -> Mapping[TopicPartition, int]:
    """Where the rows of the batch tables end."""
    return ends_of_loads(state, spec.table_topics)


def ends_of_loads(state: StepLogState, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Where the rows end in the topics of batch tables. What somebody else writes behind them does not count."""
    return {r.where: r.end for name in topics for r in state.tables[name].ranges}


def load_of(source: InputTopic, state: StepLogState) -> TableRecord | None:
    """The load that is in the topic of a batch table, as far as the step log has it."""
    (name,) = source.table.topics
    return state.tables.get(name)


def remove_lost_loads(pipeline: str, writer: PipelineWriter, topics: Topics) -> None:
    """Deletes the topics of batch tables that the step log does not name: of loads that a crash has broken off, and of tables that no revision
    reads any more. A topic that cannot be deleted now costs room alone, and is looked at again.

    The topics are listed before it is confirmed that no other run has taken over. A run that takes over later loads into topics with other
    names."""
    try:
        there = {name for name in topics.names() if is_table_topic(pipeline, name)}
        lost = sorted(there - writer.state.tables.keys())
        if lost:
            writer.log.confirm()
            topics.delete(lost)
            _log.info("topics of batch tables that nobody needs are deleted", topics=lost)
    except Fenced:
        raise
    except KafkaFault as fault:
        _log.warning("a topic of a batch table that nobody needs cannot be deleted", fault=short_text(fault))


def limits_of_tables(limits: StepLimits) -> StepLimits:
    """The bounds of a step that reads tables, whose offsets are messages of many rows."""
    rows_max = max(1, limits.rows_max // MESSAGE_ROWS_MAX)
    return StepLimits(rows_max, limits.bytes_max, MESSAGE_BYTES_MAX)
