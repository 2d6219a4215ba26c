"""Decodes a step's input: the messages of the recorded ranges become the rows of the circuit's sources.

A range is read once, even if several tables read its topic. The division records the policy for messages that cannot be decoded. `fail`
stops the step with the place of the first one, before anything is written. `skip` counts them. `dead-letter` counts them too, and makes dead
letters of them (dead_letters.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.filling import is_read_again
from engine.model.from_now import handle_of_files
from engine.model.placement import Placement
from engine.model.rows import Source
from engine.rows import zset
from engine.run.dead_letters import DeadLetter, letters
from engine.run.source_table import SourceTable, name_of_source
from engine.run.step_input import StepInput
from io_kafka.clients.raw import RawBatch
from io_kafka.errors import RegistryRefused, RegistryUnreachable, SchemaGone
from io_kafka.formats.batches import NotRows, TableFormat, rows_in
from io_kafka.formats.decode import decode
from io_kafka.formats.records import RecordFormat, TimestampBeyondRange, rows_of
from io_kafka.formats.spec import Rejected
from io_kafka.messages import TopicMessages, join_messages
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.registry.unknown import UnknownSchemas, judge_by


class Checksum(NamedTuple):
    """What was read of one partition: the number of messages and their checksum."""

    topic: str
    partition: int
    messages: int
    checksum: int


class PartitionReading(NamedTuple):
    """What was read of one partition, for users: the bytes of keys, values and headers, and the oldest and the newest timestamp in
    milliseconds since 1970; -1 if that is not known."""

    topic: str
    partition: int
    bytes: int
    oldest_ms: int
    newest_ms: int


JOINED_BYTES_MAX = 1 << 20
"""The largest number of bytes of messages of several partitions that are decoded at once. More messages are decoded apart, because to join them
means to copy them."""


@dataclass
class SourceReport:
    """What one worker reports of the input that it read. `again`: what was read for new nodes alone. `skipped`: the number of messages that were
    left out, and `dead` the messages for the dead-letter topics, both by the handle that the files have. `unreported`: sources of which another
    one reports the same messages. `work_ms`: the time to decode, by Source node. `readings`: of new messages alone. `unknown`: the ids of
    schemas that counted as unknown."""

    inputs: list[Checksum] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    dead: dict[str, list[DeadLetter]] = field(default_factory=dict)
    again: list[Checksum] = field(default_factory=list)
    unreported: frozenset[str] = frozenset()
    work_ms: dict[int, float] = field(default_factory=dict, compare=False)
    readings: list[PartitionReading] = field(default_factory=list)
    unknown: list[UnknownSchemas] = field(default_factory=list)


def read_sources(
    circuit: Circuit,
    tables: Mapping[str, SourceTable],
    given: StepInput,
    batches: Sequence[RawBatch],
    again: Sequence[RawBatch] = (),
) -> tuple[dict[int, pa.Table], SourceReport]:
    """(rows of every Source node, report). `again`: what is read for new nodes alone. Raises DataError for a malformed message of a source whose
    policy is `fail`."""
    report = SourceReport(
        inputs=list(map(_checksum, batches)),
        again=list(map(_checksum, again)),
        unreported=_unreported_sources(circuit),
        readings=list(map(_reading, batches)),
    )
    rows: dict[int, pa.Table] = {}
    for index, node in circuit.nodes_of(Source).items():
        began = time.perf_counter()
        table = tables[node.handle]
        schema = zset.schema_of(node.types)
        every = again if is_read_again(node.handle) else batches
        mine = _counted_batches(table, [batch for batch in every if table.reads(batch.range.where)])
        parts = [
            zset.as_schema(_decode(index, table, records, given, report), schema)
            for topic in table.topics
            for records in _join_batches(
                [batch for batch in mine if batch.range.topic == topic], partial(given.unknown_in, table.handle)
            )
        ]
        rows[index] = pa.concat_tables(parts) if parts else schema.empty_table()
        report.work_ms[index] = 1e3 * (time.perf_counter() - began)
    return rows, report


def _unreported_sources(circuit: Circuit) -> frozenset[str]:
    """Returns the handles of sources that report no messages. A source stands there several times if views count it from different offsets on.
    Then only one handle of it reports, because the new messages of a step are the same for all of them."""
    handles = sorted(circuit.sources, key=lambda each: (len(each), each))
    reporting = {handle_of_files(handle): handle for handle in reversed(handles)}
    return frozenset(handles) - frozenset(reporting.values())


def _counted_batches(table: SourceTable, batches: Sequence[RawBatch]) -> list[RawBatch]:
    """Returns what counts for the table in these batches, without the empty ones."""
    found = []
    for batch in batches:
        first = table.first_counted(batch.range.where)
        if batch.range.start < first:
            batch = replace(batch, messages=batch.messages.split(first)[1])
        if batch.messages.length:
            found.append(batch)
    return found


def _checksum(batch: RawBatch) -> Checksum:
    return Checksum(*batch.range.where, batch.messages.length, batch.checksum)


def _reading(batch: RawBatch) -> PartitionReading:
    oldest_ms, newest_ms = batch.times or (-1, -1)
    return PartitionReading(*batch.range.where, batch.messages.content_bytes, oldest_ms, newest_ms)


def ranges_of_worker(ranges: Sequence[OffsetRange], placement: Placement, worker: int) -> list[OffsetRange]:
    """The ranges that `worker` reads."""
    return [r for r in ranges if r.length and placement.reader_of(r.topic, r.partition) == worker]


def _join_batches(
    batches: Sequence[RawBatch], unknown_in: Callable[[TopicPartition], frozenset[int] | None]
) -> Iterator[TopicMessages]:
    """The messages of these batches of one topic, of several partitions at once as long as they are few, and the same ids of schemas count as
    unknown in them: each call of the decoder costs as much as some hundred messages."""
    waiting: list[RawBatch] = []
    waiting_bytes = 0
    for batch in batches:
        batch_bytes = batch.messages.memory_bytes
        is_apart = waiting and unknown_in(batch.range.where) != unknown_in(waiting[0].range.where)
        if is_apart or (waiting and waiting_bytes + batch_bytes > JOINED_BYTES_MAX):
            yield messages_of(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(batch)
        waiting_bytes += batch_bytes
    if waiting:
        yield messages_of(waiting)


def messages_of(batches: Sequence[RawBatch]) -> TopicMessages:
    """Returns the messages of several partitions of one topic."""
    numbers = np.array([batch.range.partition for batch in batches], np.int32)
    partitions = np.repeat(numbers, [batch.messages.length for batch in batches])
    return TopicMessages(
        batches[0].range.topic, pa.array(partitions), join_messages([batch.messages for batch in batches])
    )


def _decode(node: int, table: SourceTable, records: TopicMessages, given: StepInput, report: SourceReport) -> pa.Table:
    try:
        return _rows_of(table, records, given, report)
    except DataError as fault:
        if is_read_again(table.handle):  # the revision in force can go on without the node
            fault.locate(owner=name_of_source(table.handle), step=given.step, node=node)
        raise


def _rows_of(table: SourceTable, records: TopicMessages, given: StepInput, report: SourceReport) -> pa.Table:
    with _faults_of_source(table, given, records):
        if isinstance(table.format, RecordFormat):
            return rows_of(table.format, records)
        if isinstance(table.format, TableFormat):
            return rows_in(table.format, records)
        where = TopicPartition(records.topic, records.partitions[0].as_py())
        with judge_by(given.unknown_in(table.handle, where)) as unknown:
            decoded = decode(table.format, records, given.truncate.get(table.handle, "fail"))
    if unknown:
        partitions = tuple(sorted(set(records.partitions.to_pylist())))
        report.unknown.append(UnknownSchemas(table.handle, records.topic, partitions, tuple(sorted(unknown))))
    if decoded.rejected:
        reject(
            table,
            decoded.rejected,
            given,
            report,
            lambda: letters(records, decoded.rejected, is_binary=table.is_binary),
        )
    if decoded.ignored and not is_read_again(table.handle) and table.handle not in report.unreported:
        _skip(table, decoded.ignored, report)
    return _with_weight(decoded.rows)


@contextmanager
def _faults_of_source(table: SourceTable, given: StepInput, records: TopicMessages) -> Iterator[None]:
    """Gives the faults of the formats and of the registry the name of the source, the place in it and the step."""
    try:
        yield
    except TimestampBeyondRange as fault:
        what_to_do = (
            "Correct the producer. A reader of the messages themselves cannot leave one out. To go on without this message and those before it, "
            "let startingOffsets begin behind it, and run `stepwell run --full-refresh`. A declared table with 'metadata.timestamp' can leave "
            "it out by 'on.error' = 'skip'."
        )
        raise _error_at(fault, what_to_do, table, given) from None
    except NotRows as fault:
        what_to_do = "Only Stepwell may write to this topic. Rebuild with `stepwell run --full-refresh`, which reads the table again."
        raise _error_at(fault, what_to_do, table, given) from None
    except (RegistryUnreachable, RegistryRefused) as fault:
        place = _place_of(fault, records)
        fault.message = f"{name_of_source(table.handle)}, {place}, step {given.step}: {fault.message}"
        if is_read_again(table.handle):
            raise DataError(fault.message, fault.what_to_do) from fault
        raise


def _error_at(
    fault: TimestampBeyondRange | NotRows, what_to_do: str, table: SourceTable, given: StepInput
) -> DataError:
    error = DataError(f"{fault.reason}. Nothing of the step was written.", what_to_do)
    return error.locate(owner=name_of_source(table.handle), place=fault.place, step=given.step)


def _place_of(fault: RegistryUnreachable | RegistryRefused, records: TopicMessages) -> str:
    """The place of the first message that needs what the registry does not have. Of another fault it is where the messages begin."""
    partitions, offsets = records.partitions, records.messages.offsets
    if isinstance(fault, SchemaGone):
        keys, values = records.messages.keys, records.messages.values
        head = b"\x00" + fault.number.to_bytes(4, "big")
        for at in range(len(offsets)):
            if any((column[at].as_py() or b"").startswith(head) for column in (keys, values)):
                return f"topic {records.topic}, partition {partitions[at]}, offset {offsets[at]}"
    return f"topic {records.topic}, from partition {partitions[0]}, offset {offsets[0]} on"


def _with_weight(rows: pa.Table) -> pa.Table:
    if rows.column_names[-1] == zset.WEIGHT:
        return rows
    named = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    return named.append_column(zset.WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))


def reject(
    table: SourceTable,
    rejected: Sequence[Rejected],
    given: StepInput,
    report: SourceReport,
    make_letters: Callable[[], Sequence[DeadLetter]],
) -> None:
    """Does with malformed messages of a topic what the policy of the step says. Raises DataError if it is `fail`."""
    policy = given.on_error.get(table.handle, "fail")
    if policy == "fail":
        first = rejected[0]
        more = f" ({len(rejected) - 1} more beside it)" if len(rejected) > 1 else ""
        raise DataError(
            f"malformed message: {first.reason}{more}. Nothing of the step was written.",
            "Fix the producer. To continue past such messages, set 'on.error' = 'skip' or 'dead-letter' on the table.",
        ).locate(
            owner=name_of_source(table.handle),
            place=f"topic {table.topics[0]}, partition {first.partition}, offset {first.offset}",
            step=given.step,
        )
    if is_read_again(table.handle):  # the revision in force has counted it, and has written its letter
        return
    if table.handle in report.unreported:
        return
    _skip(table, len(rejected), report)
    if policy == "dead-letter":
        report.dead.setdefault(handle_of_files(table.handle), []).extend(make_letters())


def _skip(table: SourceTable, count: int, report: SourceReport) -> None:
    handle = handle_of_files(table.handle)
    report.skipped[handle] = report.skipped.get(handle, 0) + count
