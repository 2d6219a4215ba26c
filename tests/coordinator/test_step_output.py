"""The combined output of a step does not depend on the order of its workers or on their number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from coordinator.specification import OutputTopic, PipelineSpec
from coordinator.step_output import StepResult, check_read, gather
from engine.analysis.stages import plan
from engine.model.circuit import Circuit, Output, Source
from engine.operators.output import OUTPUT_MESSAGES
from engine.resident.crew import WorkerOutput
from engine.resident.worker import _done
from engine.run.sources import Checksum, DeadLetter, SourceReport
from engine.run.tasks import StageTimes, StepOutcome
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.records import InputChecksum

TYPES = (pa.int64(),)
PLAN = plan(Circuit((Source((), TYPES, "in"), Output((0,), (), "out", "append", ("n",)))))
SPEC = cast(PipelineSpec, SimpleNamespace(outputs=(OutputTopic("out", "out-topic", 2, compacted=False),)))


def output_of(worker: int, rows: list[tuple[int, bytes]], report: SourceReport) -> WorkerOutput:
    """As a worker sends it."""
    columns = [[p for p, _ in rows], [None] * len(rows), [value for _, value in rows]]
    table = pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, OUTPUT_MESSAGES, strict=True)], schema=OUTPUT_MESSAGES
    )
    times = [StageTimes(compute_ms=1.0 + worker, state_ms=2.0, exchange_ms=7.0)]
    outcome = StepOutcome({1: [table]} if rows else {}, report, read_ms=5.0 - worker, stages=times)
    return WorkerOutput(worker, *_done(4, outcome))


def content(result: StepResult) -> list[tuple[str, str, list[dict[str, Any]]]]:
    return [(output.handle, output.topic, output.messages.to_pylist()) for output in result.outputs]


def test_the_result_does_not_depend_on_the_order_of_workers() -> None:
    letters = {"in": [DeadLetter(None, b"late"), DeadLetter(b"k", b"early")]}
    between = {"in": [DeadLetter(None, b"between")]}
    outputs = [
        output_of(0, [(1, b"d"), (0, b"b")], SourceReport([Checksum("in", 1, 3, 0xB)], {"in": 2}, letters)),
        output_of(1, [(0, b"a"), (1, b"c")], SourceReport([Checksum("in", 0, 4, 0xA)], {"in": 1}, between)),
        output_of(2, [], SourceReport([Checksum("also", 7, 1, 0xC)])),
    ]
    one, other = (gather(SPEC, PLAN, {"out": 2}, order, {"in": "dead"}) for order in (outputs, outputs[::-1]))
    assert content(one) == content(other)
    assert [(c.topic, c.partition, c.messages) for c in one.inputs] == [("also", 7, 1), ("in", 0, 4), ("in", 1, 3)]
    assert (one.inputs, one.skipped, one.rows) == (other.inputs, {"in": 3}, 8)
    (_, _, rows), (_, dead_topic, dead) = content(one)
    assert [(row["partition"], row["value"]) for row in rows] == [(0, b"a"), (0, b"b"), (1, b"c"), (1, b"d")]
    assert dead_topic == "dead"
    assert [(row["key"], row["value"]) for row in dead] == [(None, b"between"), (None, b"late"), (b"k", b"early")]
    assert (one.read_ms, one.compute_ms, one.state_ms) == (5.0, 3.0, 2.0), "of the slowest worker"


def test_an_output_without_messages_is_in_the_result() -> None:
    """Its partitions have digests like the others."""
    silent = [output_of(0, [], SourceReport())]
    assert content(gather(SPEC, PLAN, {"out": 2}, silent, {"in": "dead"})) == [
        ("out", "out-topic", []),
        ("dead-letter:dead", "dead", []),
    ]


@pytest.mark.parametrize("read", [[0], [0, 2, 2], [0, 1, 2], []])
def test_a_range_that_was_not_read_once_is_noticed(read: list[int]) -> None:
    ranges = [OffsetRange("in", 0, 5, 8), OffsetRange("in", 1, 4, 4), OffsetRange("in", 2, 0, 1)]
    given = [InputChecksum(topic="in", partition=partition, messages=1, checksum="0") for partition in read]
    with pytest.raises(AssertionError, match=r"step 7 has input of .* nothing was written"):
        check_read(7, ranges, given)


def test_an_empty_range_is_read_by_nobody() -> None:
    inputs = [InputChecksum(topic="in", partition=2, messages=1, checksum="0")]
    check_read(7, [OffsetRange("in", 1, 4, 4), OffsetRange("in", 2, 0, 1)], inputs)
