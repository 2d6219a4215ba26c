"""What a settled step tells the measures of the run, and which part of it took how long."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow.compute as pc

from coordinator.measures import ProjectShown, StepMeasured, TopicWritten
from coordinator.specification import PipelineSpec
from coordinator.status import StepTimes
from coordinator.stepping.step_output import DEAD_LETTER, StepResult
from engine.model.numbers import NumberedCircuit
from io_kafka.clients.writer import HandleOutput


def measures_of(result: StepResult, times: StepTimes, took_ms: float, *, replayed: bool) -> StepMeasured:
    return StepMeasured(
        took_ms=took_ms,
        parts_ms=asdict(times),
        reads=result.reads,
        written=[_messages_of(output) for output in result.outputs],
        work=result.work,
        replayed=replayed,
    )


def step_times(result: StepResult, divide_ms: float, workers_ms: float, write_ms: float) -> StepTimes:
    """The parts of a step's time. `workers_ms`: from the order to the answers of all workers. What is beyond the parts of the slowest worker is
    the exchange and the way to the workers and back."""
    known = result.read_ms + result.compute_ms + result.state_ms
    return StepTimes(
        divide=round(divide_ms, 2),
        read=round(result.read_ms, 2),
        compute=round(result.compute_ms, 2),
        state=round(result.state_ms, 2),
        exchange=round(max(0.0, workers_ms - known), 2),
        write=round(write_ms, 2),
    )


def project_shown(spec: PipelineSpec, answers: NumberedCircuit) -> ProjectShown:
    """`answers`: the circuit of the project whose views have answers."""
    sources = {f"source {each.table.handle}": each.table.topics for each in spec.inputs}
    outputs = {f"output {each.handle}": (each.topic,) for each in spec.outputs}
    return ProjectShown(answers.circuit, {**sources, **outputs})


def _messages_of(output: HandleOutput) -> TopicWritten:
    lengths = (pc.sum(pc.binary_length(output.messages.column(name))).as_py() for name in ("key", "value"))
    size = sum(length or 0 for length in lengths)
    return TopicWritten(output.topic, output.messages.num_rows, size, output.handle.startswith(DEAD_LETTER))
