"""Combines what the workers made of a step: the messages of every handle, in canonical order, and the reports.

Guarantee: the result does not depend on the order in which workers finished, because messages are sorted within their partition and reports
are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator.measures import PartitionRead
from coordinator.specification import PipelineSpec
from coordinator.stepping.step_answers import ExpectedStep, read_answers
from engine.operators.error_rows import ErrorRows, add_all
from engine.operators.findings import Work, add_work
from engine.operators.output import OUTPUT_MESSAGES
from engine.resident.crew import WorkerOutput
from engine.resident.messages import StepDone
from engine.run.dead_letters import DEAD_LETTER_SCHEMA
from engine.run.sources import Checksum
from engine.run.stage import name_of
from io_kafka.clients.writer import HandleOutput
from io_kafka.registry.unknown import UnknownSchemas, join_unknown
from io_kafka.step_log.digest import canonical
from io_kafka.step_log.records import InputChecksum

DEAD_LETTER = "dead-letter:"
"""What the handles of dead-letter topics begin with."""


@dataclass
class StepResult:
    """`again`: what was read for new nodes alone. `outputs` has every output handle and every dead-letter topic, also those without messages.
    `late` counts late rows that were left out, and `watermarks_us` has the watermarks after the step, both by view; of several flows of a view
    the least. `unknown`: the ids of schemas that counted as unknown. `errors`: what the step changes in the error rows of nodes, by node.
    `border_us`: see Findings. `reads` and `work` are for users (measures.py). `rows` counts input messages. Times are in milliseconds, and
    those of the slowest worker."""

    outputs: list[HandleOutput]
    inputs: list[InputChecksum] = field(default_factory=list)
    again: list[InputChecksum] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    unknown: tuple[UnknownSchemas, ...] = ()
    late: dict[str, int] = field(default_factory=dict)
    watermarks_us: dict[str, int] = field(default_factory=dict)
    watermarks_by_node_us: dict[int, int] = field(default_factory=dict)
    errors: dict[int, ErrorRows] = field(default_factory=dict)
    reads: list[PartitionRead] = field(default_factory=list)
    work: dict[str, Work] = field(default_factory=dict)
    border_us: int | None = None
    rows: int = 0
    read_ms: float = 0.0
    compute_ms: float = 0.0
    state_ms: float = 0.0


def gather(spec: PipelineSpec, expected: ExpectedStep, workers: Sequence[WorkerOutput]) -> StepResult:
    """The result of a step. Raises TaskLost if a worker has answered what cannot be right."""
    plan, answer = expected.plan, read_answers(expected, workers)
    result = StepResult(
        _outputs(spec, expected.partitions, answer.output) + _dead_letters(expected.dead_letters, answer.dead)
    )
    for done in (worker.done for worker in workers):
        for checksum in done.inputs:
            result.inputs.append(_record(checksum))
            result.rows += checksum.messages
        result.again += map(_record, done.again)
        for handle, skipped in done.skipped.items():
            result.skipped[handle] = result.skipped.get(handle, 0) + skipped
        for node, late in done.times.late.items():
            view = name_of(plan.circuit, node)
            result.late[view] = result.late.get(view, 0) + late
        result.watermarks_by_node_us.update(done.times.watermarks)
        for node, watermark in done.times.watermarks.items():
            view = name_of(plan.circuit, node)
            result.watermarks_us[view] = min(watermark, result.watermarks_us.get(view, watermark))
        add_all(result.errors, done.errors)
        result.reads += _reads(done)
        for node, work in done.work.items():
            add_work(result.work, name_of(plan.circuit, node), work)
        result.read_ms = max(result.read_ms, done.read_ms)
    borders = [worker.done.border_us for worker in workers if worker.done.border_us is not None]
    result.border_us = min(borders, default=None)
    result.unknown = join_unknown(each for worker in workers for each in worker.done.unknown)
    for read in (result.inputs, result.again):
        read.sort(key=lambda checksum: (checksum.topic, checksum.partition))
    for stage in range(plan.stages):
        times = [worker.done.stages[stage] for worker in workers]
        result.compute_ms += max(time.compute_ms for time in times)
        result.state_ms += max(time.state_ms for time in times)
    return result


def _reads(done: StepDone) -> list[PartitionRead]:
    messages = {(each.topic, each.partition): each.messages for each in done.inputs}
    return [
        PartitionRead(
            each.topic,
            each.partition,
            messages=messages[each.topic, each.partition],
            bytes=each.bytes,
            oldest_ms=None if each.oldest_ms < 0 else each.oldest_ms,
            newest_ms=None if each.newest_ms < 0 else each.newest_ms,
        )
        for each in done.readings
    ]


def _record(checksum: Checksum) -> InputChecksum:
    text = f"{checksum.checksum:016x}"
    return InputChecksum(topic=checksum.topic, partition=checksum.partition, messages=checksum.messages, checksum=text)


def _outputs(
    spec: PipelineSpec, partitions: Mapping[str, int], tables: Mapping[str, Sequence[pa.Table]]
) -> list[HandleOutput]:
    return [
        HandleOutput(
            o.handle,
            o.topic,
            partitions[o.handle],
            canonical(pa.concat_tables([OUTPUT_MESSAGES.empty_table(), *tables.get(o.handle, ())])),
        )
        for o in spec.outputs
    ]


def _dead_letters(topics: Mapping[str, str], tables: Mapping[str, Sequence[pa.Table]]) -> list[HandleOutput]:
    """One output per dead-letter topic. Sources that share a topic share its output, because a topic has one end."""
    by_topic: dict[str, list[pa.Table]] = {name: [] for name in topics.values()}
    for handle, letters in tables.items():
        by_topic[topics[handle]] += letters
    outputs = []
    for topic, parts in sorted(by_topic.items()):
        letters = pa.concat_tables([DEAD_LETTER_SCHEMA.empty_table(), *parts])
        messages = letters.add_column(0, OUTPUT_MESSAGES.field(0), pa.nulls(letters.num_rows, pa.int32()).fill_null(0))
        outputs.append(HandleOutput(f"{DEAD_LETTER}{topic}", topic, 1, canonical(messages.cast(OUTPUT_MESSAGES))))
    return outputs
