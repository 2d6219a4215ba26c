"""Loads the batch tables that a changed project brings, or that are to be loaded again, while the pipeline runs.

    a topic that no other load has -> its rows -> the transition's intent names it, with the ends of its partitions -> read again for new nodes

Guarantees: nothing of a load counts before the intent is recorded, and then all of it does. A load that is broken off leaves a topic that no
record names. It is deleted at once, or after a crash by a later run (`remove_lost_loads`). A table that is loaded again has its former load
beside it until the transition is settled, so an abort needs nothing.

A load may take minutes, so it uses neither the writer nor the state of the loop, and may run in another thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from base.fault import Fault
from base.logger import Logger
from base.short_text import short_text
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.batch_tables import TOPIC_CONFIG, TableRows, parts_of_load
from coordinator.topic_names import TABLE_PARTITIONS
from io_kafka.clients.table_writer import TableWriter
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault
from io_kafka.step_log.records import InputRange, TableRecord

_log = Logger("coordinator.transition.loading")


def load_beside_steps(
    spec: PipelineSpec, tables: Sequence[InputTopic], epoch: int, topics: Topics, table_rows: TableRows | None
) -> tuple[TableRecord, ...]:
    """Loads these batch tables of `spec`, each into the topic that its source names, and returns what the intent has to say of them. Raises
    faults of Kafka, and what `table_rows` raises; then no topic of a load is left."""
    made: list[TableRecord] = []
    try:
        for source in tables:
            assert table_rows is not None, f"nobody reads {source.table.handle}"
            made.append(_load(spec, source, epoch, topics, table_rows))
    except Fault:
        remove_loads(tables, topics)
        raise
    return tuple(made)


def remove_loads(tables: Sequence[InputTopic], topics: Topics) -> None:
    """Deletes the topics of loads that nothing needs, as far as that is possible now."""
    try:
        topics.delete(topic for source in tables for topic in source.table.topics)
    except KafkaFault as fault:
        _log.warning("the topic of a load that is not needed cannot be deleted", fault=short_text(fault))


def _load(spec: PipelineSpec, source: InputTopic, epoch: int, topics: Topics, table_rows: TableRows) -> TableRecord:
    handle, (name,) = source.table.handle, source.table.topics
    facts = topics.ensure(name, TABLE_PARTITIONS, TOPIC_CONFIG, replication=spec.replication)
    if facts.partitions != TABLE_PARTITIONS:
        raise TopicChanged(
            f"topic {name} for the rows of {handle} was made with {facts.partitions} partitions by somebody else.",
            "Only Stepwell may make its topics. Try again: the table is loaded into another topic then.",
        )
    _log.info("reading a table beside the steps", table=handle, topic=name)
    writer, rows = TableWriter(spec.kafka, name), 0
    for part, _ in parts_of_load(table_rows(handle), source.table.format.schema, facts.partitions):
        writer.write(part.messages)
        rows = part.rows
    ranges = tuple(
        InputRange(topic=name, partition=number, start=0, end=writer.ends.get(number, 0))
        for number in range(facts.partitions)
    )
    _log.info("a table is loaded beside the steps", table=handle, topic=name, rows=rows)
    return TableRecord(epoch=epoch, handle=handle, topic=facts.identity, ranges=ranges, rows=rows, is_whole=True)
