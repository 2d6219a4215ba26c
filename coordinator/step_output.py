"""Combines what the tasks of a step sent to the driver: the messages of every handle, in canonical order, and the reports.

Guarantee: the result does not depend on the order in which tasks finished, because messages are sorted within their partition and reports
are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator.specification import PipelineSpec
from engine.analysis.stages import Plan
from engine.model.circuit import Output
from engine.operators.output import OUTPUT_MESSAGES
from engine.run.exchange import ExchangeMessage, from_bytes
from engine.run.reports import RegionReport, unpacked
from engine.run.sources import SourceReport
from io_kafka.clients.writer import StepOutput
from io_kafka.step_log.digest import canonical
from io_kafka.step_log.records import InputChecksum


@dataclass
class StepResult:
    """`outputs` has every output handle and every dead-letter topic, also those without messages. `rows` counts input messages. Times are in
    milliseconds, and those of the slowest worker."""

    outputs: list[StepOutput]
    inputs: list[InputChecksum] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    read_ms: float = 0.0
    compute_ms: float = 0.0
    state_ms: float = 0.0


def gather(
    spec: PipelineSpec,
    plan: Plan,
    partitions: Mapping[str, int],
    messages: Sequence[ExchangeMessage],
    dead_letters: Mapping[str, str],
) -> StepResult:
    """The result of a step. `partitions` are the numbers of partitions of the output topics, by handle. `dead_letters` are the dead-letter
    topics by source, as the step's division records them."""
    sources, regions = _reports(messages)
    result = StepResult(_outputs(spec, plan, partitions, messages) + _dead_letters(dead_letters, sources))
    for report in sources:
        for topic, partition, count, checksum in report.inputs:
            text = f"{checksum:016x}"
            result.inputs.append(InputChecksum(topic=topic, partition=partition, messages=count, checksum=text))
            result.rows += count
        for handle, skipped in report.skipped.items():
            result.skipped[handle] = result.skipped.get(handle, 0) + skipped
        result.read_ms = max(result.read_ms, report.read_ms)
    result.inputs.sort(key=lambda checksum: (checksum.topic, checksum.partition))
    stages = sorted({report.stage for report in regions})
    result.compute_ms = sum(max(r.compute_ms for r in regions if r.stage == stage) for stage in stages)
    result.state_ms = sum(max(r.state_ms for r in regions if r.stage == stage) for stage in stages)
    return result


def _reports(messages: Sequence[ExchangeMessage]) -> tuple[list[SourceReport], list[RegionReport]]:
    reports = [unpacked(data) for message in messages for data in message.reports]
    return (
        [report for report in reports if isinstance(report, SourceReport)],
        [report for report in reports if isinstance(report, RegionReport)],
    )


def _outputs(
    spec: PipelineSpec,
    plan: Plan,
    partitions: Mapping[str, int],
    messages: Sequence[ExchangeMessage],
) -> list[StepOutput]:
    parts: dict[str, list[pa.Table]] = {output.handle: [] for output in spec.outputs}
    for message in messages:
        for index, data in message.output.items():
            node = plan.circuit.nodes[index]
            assert isinstance(node, Output)
            parts[node.handle].append(from_bytes(data))
    return [
        StepOutput(
            o.handle,
            o.topic,
            partitions[o.handle],
            canonical(pa.concat_tables([OUTPUT_MESSAGES.empty_table(), *parts[o.handle]])),
        )
        for o in spec.outputs
    ]


def _dead_letters(topics: Mapping[str, str], sources: Sequence[SourceReport]) -> list[StepOutput]:
    """One output per dead-letter topic. Sources that share a topic share its output, because a topic has one end."""
    by_topic: dict[str, list[tuple[bytes | None, bytes]]] = {name: [] for name in topics.values()}
    for report in sources:
        for handle, letters in report.dead.items():
            by_topic[topics[handle]] += letters
    outputs = []
    for topic, letters in sorted(by_topic.items()):
        columns = [[0] * len(letters), [key for key, _ in letters], [value for _, value in letters]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, OUTPUT_MESSAGES, strict=True)]
        outputs.append(
            StepOutput(
                f"dead-letter:{topic}", topic, 1, canonical(pa.Table.from_arrays(arrays, schema=OUTPUT_MESSAGES))
            )
        )
    return outputs
