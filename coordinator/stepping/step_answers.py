"""Validates the workers' results of a step.

Guarantee: what `read_answers` returns has the form that the step needs: tables of messages for outputs of the circuit, with partitions that the
topics have, and reports of exactly what the worker was to read at most. Everything else is a loss of the worker (TaskLost). So a worker that
answers nonsense ends no run: its process is replaced and the step runs again, a bounded number of times.

Whether the messages are right cannot be seen here. A replay compares their digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from engine.analysis.stages import StagePlan
from engine.errors import TaskLost
from engine.model.circuit import Output
from engine.model.from_now import handle_of_files
from engine.model.rows import Source
from engine.operators.error_rows import EXAMPLE_CHARACTERS_MAX
from engine.operators.output import OUTPUT_MESSAGES
from engine.resident.crew import WorkerOutput
from engine.resident.messages import StepDone
from engine.resident.received import received_table
from engine.run.dead_letters import DEAD_LETTER_SCHEMA
from engine.run.sources import Checksum
from io_kafka.offsets import OffsetRange
from io_kafka.registry.answers import ID_MAX

CHECKSUM_MAX = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True)
class ExpectedStep:
    """What is known of a step before it runs. `partitions`: the numbers of partitions of the output topics, by handle. `dead_letters`: the
    dead-letter topics by source, `ranges` the input, `again` what is read for new nodes, `counted` the nodes whose error rows are counted, and
    `clock_us` the time, all as the step's division records them."""

    step: int
    plan: StagePlan
    partitions: Mapping[str, int]
    ranges: Sequence[OffsetRange]
    again: Sequence[OffsetRange]
    dead_letters: Mapping[str, str]
    counted: frozenset[int]
    clock_us: int | None = None


@dataclass
class AnswerTables:
    """Output messages by output handle, and dead letters by source handle."""

    output: dict[str, list[pa.Table]] = field(default_factory=dict)
    dead: dict[str, list[pa.Table]] = field(default_factory=dict)


def read_answers(expected: ExpectedStep, workers: Sequence[WorkerOutput]) -> AnswerTables:
    """The tables of all workers. Raises TaskLost."""
    answer = AnswerTables()
    for worker in workers:
        why = _why_wrong(expected, worker)
        if why is not None:
            raise TaskLost(f"the answer of worker {worker.worker} to step {expected.step} cannot be right: {why}")
        _read_tables(expected, worker, answer)
    _check_inputs(expected.step, expected.ranges, [(each.worker, each.done.inputs) for each in workers])
    _check_inputs(expected.step, expected.again, [(each.worker, each.done.again) for each in workers])
    return answer


def _why_wrong(expected: ExpectedStep, worker: WorkerOutput) -> str | None:
    """Why the answer of a worker cannot be right, whatever the step has computed; None if it can."""
    done = worker.done
    if len(done.stages) != expected.plan.stages:
        return f"it ran {len(done.stages)} stages of {expected.plan.stages}"
    return _why_tables_wrong(expected, worker) or _why_reports_wrong(expected, done) or _why_reads_wrong(expected, done)


def _why_tables_wrong(expected: ExpectedStep, worker: WorkerOutput) -> str | None:
    """Why the worker cannot have sent these tables: each is of an output of the circuit, or of a source with a dead-letter topic."""
    done, nodes = worker.done, expected.plan.circuit.nodes
    tables = len(done.output) + len(done.dead)
    if len(worker.buffers) != tables:
        return f"it names {tables} tables and has {len(worker.buffers)}"
    for index in done.output:
        if not 0 <= index < len(nodes) or not isinstance(nodes[index], Output):
            return f"node {index} is no output"
    for handle in done.dead:
        if handle not in expected.dead_letters:
            return f"{handle} has no dead-letter topic"
    return None


def _why_reports_wrong(expected: ExpectedStep, done: StepDone) -> str | None:
    """Why what the worker says of the nodes and of the time cannot be right."""
    nodes = expected.plan.circuit.nodes
    for node, number in (*done.times.late.items(), *done.times.watermarks.items()):
        if not 0 <= node < len(nodes) or number < 0:
            return f"it says {number} of the event time of node {node}"
    for node, rows in done.errors.items():
        is_sum = 0 <= rows.checksum <= CHECKSUM_MAX and len(rows.example) <= EXAMPLE_CHARACTERS_MAX
        if node not in expected.counted or not is_sum:
            return f"it has error rows of node {node}, which are not counted or of another form"
    for node, work in done.work.items():
        if not 0 <= node < len(nodes) or not work.ms >= 0 or work.rows < 0:
            return f"it says {work} of node {node}"
    if done.border_us is not None and (expected.clock_us is None or done.border_us <= expected.clock_us):
        return f"it says that the next border is {done.border_us}, in a step of the time {expected.clock_us}"
    return None


def _why_reads_wrong(expected: ExpectedStep, done: StepDone) -> str | None:
    """Why what the worker says of the messages that it has read cannot be right. Which of them it was to read is checked later, for all workers
    together (`_check_inputs`)."""
    handles = {node.handle for node in expected.plan.circuit.nodes if isinstance(node, Source)}
    sources = set(map(handle_of_files, handles))
    for handle, skipped in done.skipped.items():
        if handle not in sources or skipped < 0:
            return f"{skipped} messages of {handle} were skipped"
    read = {(checksum.topic, checksum.partition) for checksum in done.inputs}
    for reading in done.readings:
        if (reading.topic, reading.partition) not in read or reading.bytes < 0:
            return f"it says {reading} of what it has not read"
    read |= {(checksum.topic, checksum.partition) for checksum in done.again}
    for each in done.unknown:
        if each.source not in handles or not {(each.topic, number) for number in each.partitions} <= read:
            return f"it says that schemas are unknown in what it has not read: {each}"
        if not each.ids or not all(0 <= number <= ID_MAX for number in each.ids):
            return f"it says {each} of ids of schemas"
    for checksum in (*done.inputs, *done.again):
        if checksum.messages < 0 or not 0 <= checksum.checksum <= CHECKSUM_MAX:
            return f"it has read {checksum}"
    return None


def _read_tables(expected: ExpectedStep, worker: WorkerOutput, answer: AnswerTables) -> None:
    """Adds the tables of one worker."""
    done, what = worker.done, f"worker {worker.worker} has sent messages of step {expected.step}"
    for index, buffer in zip(done.output, worker.buffers, strict=False):
        node = expected.plan.circuit.nodes[index]
        assert isinstance(node, Output)
        table = received_table(buffer, OUTPUT_MESSAGES, what, every_value=True)
        if not _has_partitions(table, expected.partitions[node.handle]):
            raise TaskLost(f"{what}, which name partitions that output {node.handle} does not have")
        answer.output.setdefault(node.handle, []).append(table)
    for handle, buffer in zip(done.dead, worker.buffers[len(done.output) :], strict=True):
        answer.dead.setdefault(handle, []).append(received_table(buffer, DEAD_LETTER_SCHEMA, what, every_value=True))


def _has_partitions(messages: pa.Table, partitions: int) -> bool:
    column = messages.column("partition")
    if column.null_count:
        return False
    if not len(column):
        return True
    ends = pc.min_max(column)
    return bool(ends["min"].as_py() >= 0 and ends["max"].as_py() < partitions)


def _check_inputs(step: int, ranges: Sequence[OffsetRange], read: Sequence[tuple[int, Sequence[Checksum]]]) -> None:
    """Every range was read by one worker, and nothing else was. `read`: by worker."""
    unread = {(span.topic, span.partition) for span in ranges if span.length}
    for worker, checksums in read:
        for checksum in checksums:
            where = (checksum.topic, checksum.partition)
            if where not in unread:
                raise TaskLost(
                    f"worker {worker} has read topic {where[0]}, partition {where[1]} in step {step}, which is not in the "
                    "step's division or was read by another worker too"
                )
            unread.remove(where)
    for topic, partition in sorted(unread):
        raise TaskLost(f"no worker has read topic {topic}, partition {partition} in step {step}")
