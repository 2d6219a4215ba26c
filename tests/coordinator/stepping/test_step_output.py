"""The combined output of a step does not depend on the order of its workers or on their number, and nonsense is a loss of its sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from coordinator.specification import OutputTopic, PipelineSpec
from coordinator.stepping.step_answers import ExpectedStep
from coordinator.stepping.step_output import StepResult, gather
from engine.analysis.stages import plan_stages
from engine.errors import TaskLost
from engine.model.circuit import Circuit, Output
from engine.model.rows import Source
from engine.operators.error_rows import ErrorRows
from engine.operators.output import OUTPUT_MESSAGES
from engine.resident.crew import WorkerOutput
from engine.resident.step_report import step_done
from engine.run.dead_letters import DeadLetter
from engine.run.exchange import to_buffer
from engine.run.sources import Checksum, SourceReport
from engine.run.tasks import StageTimes, StepOutcome
from io_kafka.offsets import OffsetRange
from io_kafka.registry.unknown import UnknownSchemas

TYPES = (pa.int64(),)
PLAN = plan_stages(Circuit((Source((), TYPES, "in"), Output((0,), (), "out", "append", ("n",)))))
SPEC = cast(PipelineSpec, SimpleNamespace(outputs=(OutputTopic("out", "out-topic", 2, compacted=False),)))


def expected(read: Mapping[tuple[str, int], int], dead: Mapping[str, str]) -> ExpectedStep:
    """Of step 4. `read`: the number of offsets of each partition."""
    ranges = tuple(OffsetRange(topic, partition, 0, length) for (topic, partition), length in read.items())
    return ExpectedStep(
        step=4, plan=PLAN, partitions={"out": 2}, ranges=ranges, again=(), dead_letters=dead, counted=frozenset({0})
    )


def output_of(worker: int, rows: list[tuple[int, bytes]], report: SourceReport) -> WorkerOutput:
    """As a worker sends it."""
    columns = [[p for p, _ in rows], [None] * len(rows), [value for _, value in rows]]
    table = pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, OUTPUT_MESSAGES, strict=True)], schema=OUTPUT_MESSAGES
    )
    times = [StageTimes(compute_ms=1.0 + worker, state_ms=2.0)] * PLAN.stages
    outcome = StepOutcome({1: [table]} if rows else {}, report, read_ms=5.0 - worker, stages=times)
    return WorkerOutput(worker, *step_done(4, outcome))


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
    step = expected({("in", 1): 3, ("in", 0): 4, ("also", 7): 1, ("also", 8): 0}, {"in": "dead"})
    one, other = (gather(SPEC, step, order) for order in (outputs, outputs[::-1]))
    assert content(one) == content(other)
    assert [(c.topic, c.partition, c.messages) for c in one.inputs] == [("also", 7, 1), ("in", 0, 4), ("in", 1, 3)]
    assert (one.inputs, one.skipped, one.rows) == (other.inputs, {"in": 3}, 8)
    (_, _, rows), (_, dead_topic, dead) = content(one)
    assert [(row["partition"], row["value"]) for row in rows] == [(0, b"a"), (0, b"b"), (1, b"c"), (1, b"d")]
    assert dead_topic == "dead"
    assert [(row["key"], row["value"]) for row in dead] == [(None, b"between"), (None, b"late"), (b"k", b"early")]
    assert (one.read_ms, one.compute_ms, one.state_ms) == (5.0, 3.0 * PLAN.stages, 2.0 * PLAN.stages), "of the slowest"


def test_error_rows_of_all_workers_are_added() -> None:
    outputs = [output_of(worker, [], SourceReport([Checksum("in", worker, 4, 0xA)])) for worker in (0, 1)]
    told = [ErrorRows(2, (1 << 64) - 1, "one"), ErrorRows(-1, 3, "")]
    outputs = [
        replace(output, done=output.done.model_copy(update={"errors": {0: errors}}))
        for output, errors in zip(outputs, told, strict=True)
    ]
    found = gather(SPEC, expected({("in", 0): 4, ("in", 1): 4}, {}), outputs).errors
    assert found == {0: ErrorRows(1, 2, "one")}


def test_an_output_without_messages_is_in_the_result() -> None:
    """Its partitions have digests like the others."""
    silent = [output_of(0, [], SourceReport())]
    assert content(gather(SPEC, expected({}, {"in": "dead"}), silent)) == [
        ("out", "out-topic", []),
        ("dead-letter:dead", "dead", []),
    ]


STEP = expected({("in", 0): 4, ("in", 1): 4}, {"in": "dead"})
HONEST = output_of(
    0, [(1, b"a")], SourceReport([Checksum("in", 0, 4, 0xA)], {"in": 1}, {"in": [DeadLetter(None, b"d")]})
)
OTHER = output_of(1, [(0, b"b")], SourceReport([Checksum("in", 1, 4, 0xB)]))


def lie(buffers: Sequence[Any] | None = None, **changes: Any) -> WorkerOutput:
    """What worker 0 says instead."""
    done = HONEST.done.model_copy(update=changes)
    return replace(HONEST, done=done, buffers=HONEST.buffers if buffers is None else tuple(buffers))


def messages(*partitions: int | None) -> pa.Buffer:
    rows = [{"partition": partition, "key": None, "value": b"v"} for partition in partitions]
    return to_buffer(pa.Table.from_pylist(rows, schema=OUTPUT_MESSAGES))


ROWS, DEAD = HONEST.buffers
LIES = {
    "no table": (lie([b"rubbish", DEAD]), "worker 0 has sent messages of step 4, which cannot be read"),
    "no dead letters": (lie([ROWS, b""]), "worker 0 has sent messages of step 4, which cannot be read"),
    "other columns": (lie([DEAD, DEAD]), "which have other columns than expected: key binary, value binary, not"),
    "a partition beyond the topic": (lie([messages(0, 2), DEAD]), "partitions that output out does not have"),
    "a partition below it": (lie([messages(-1), DEAD]), "partitions that output out does not have"),
    "no partition": (lie([messages(None), DEAD]), "partitions that output out does not have"),
    "too few tables": (lie([ROWS]), "it names 2 tables and has 1"),
    "too many tables": (lie([ROWS, DEAD, DEAD]), "it names 2 tables and has 3"),
    "no such node": (lie(output=(9,)), "node 9 is no output"),
    "a node from the end": (lie(output=(-1,)), "node -1 is no output"),
    "a node that is no output": (lie(output=(0,)), "node 0 is no output"),
    "dead letters of nobody": (lie(dead=("nobody",)), "nobody has no dead-letter topic"),
    "skipped of nobody": (lie(skipped={"nobody": 1}), "1 messages of nobody were skipped"),
    "less than none skipped": (lie(skipped={"in": -1}), "-1 messages of in were skipped"),
    "another number of stages": (lie(stages=()), f"it ran 0 stages of {PLAN.stages}"),
    "less than no message": (lie(inputs=(Checksum("in", 0, -4, 0),)), "it has read Checksum"),
    "a checksum that is none": (lie(inputs=(Checksum("in", 0, 4, -1),)), "it has read Checksum"),
    "error rows that nobody counts": (
        lie(errors={1: ErrorRows(1, 1, "")}),
        "error rows of node 1, which are not counted",
    ),
    "a sum of error rows that is none": (lie(errors={0: ErrorRows(1, -1, "")}), "error rows of node 0"),
    "too long a text of an error": (lie(errors={0: ErrorRows(1, 1, "x" * 5000)}), "error rows of node 0"),
    "a border where no view reads the clock": (lie(border_us=5), "the next border is 5, in a step of the time None"),
    "unknown schemas of nobody": (
        lie(unknown=(UnknownSchemas("nobody", "in", (0,), (5,)),)),
        "schemas are unknown in what it has not read",
    ),
    "unknown schemas where it has not read": (
        lie(unknown=(UnknownSchemas("in", "in", (0, 1), (5,)),)),
        "schemas are unknown in what it has not read",
    ),
    "an unknown schema that is none": (
        lie(unknown=(UnknownSchemas("in", "in", (0,), (1 << 32,)),)),
        "of ids of schemas",
    ),
    "no unknown schema": (lie(unknown=(UnknownSchemas("in", "in", (0,), ()),)), "of ids of schemas"),
    "input of another step": (
        lie(inputs=(Checksum("in", 7, 4, 0),)),
        "worker 0 has read topic in, partition 7 in step 4",
    ),
    "input that it had not to read": (
        lie(inputs=(Checksum("in", 0, 4, 0xA), Checksum("in", 1, 4, 0xB))),
        "worker 1 has read topic in, partition 1 in step 4, which .* was read by another worker too",
    ),
    "input that nobody reads": (lie(inputs=()), "no worker has read topic in, partition 0 in step 4"),
}


def test_the_honest_answer_is_taken() -> None:
    result = gather(SPEC, STEP, [HONEST, OTHER])
    assert (result.rows, result.skipped, len(result.outputs)) == (8, {"in": 1}, 2)


def test_the_next_border_is_the_earliest_of_any_worker_and_after_the_step() -> None:
    timed = replace(STEP, clock_us=4)
    assert (
        gather(
            SPEC, timed, [lie(border_us=7), replace(OTHER, done=OTHER.done.model_copy(update={"border_us": 6}))]
        ).border_us
        == 6
    )
    assert gather(SPEC, timed, [HONEST, OTHER]).border_us is None
    with pytest.raises(TaskLost, match="the next border is 4"):
        gather(SPEC, timed, [lie(border_us=4), OTHER])


@pytest.mark.parametrize(("answer", "said"), LIES.values(), ids=LIES.keys())
def test_an_answer_that_cannot_be_right_is_a_loss_of_its_worker(answer: WorkerOutput, said: str) -> None:
    with pytest.raises(TaskLost, match=said):
        gather(SPEC, STEP, [answer, OTHER])
