"""What a settled step tells the measures of the run."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow.compute as pc

from coordinator.measures import ProjectShown, StepMeasured, TopicWritten
from coordinator.specification import PipelineSpec
from coordinator.status import StepTimes
from coordinator.stepping.step_output import DEAD_LETTER, StepResult
from engine.model.numbers import NumberedCircuit
from io_kafka.clients.writer import StepOutput


def measures_of(result: StepResult, times: StepTimes, took_ms: float, *, replayed: bool) -> StepMeasured:
    return StepMeasured(
        took_ms=took_ms,
        parts_ms=asdict(times),
        reads=result.reads,
        written=[_messages_of(output) for output in result.outputs],
        work=result.work,
        replayed=replayed,
    )


def project_shown(spec: PipelineSpec, answers: NumberedCircuit) -> ProjectShown:
    """`answers`: the circuit of the project whose views have answers."""
    sources = {f"source {each.table.handle}": each.table.topics for each in spec.inputs}
    outputs = {f"output {each.handle}": (each.topic,) for each in spec.outputs}
    return ProjectShown(answers.circuit, {**sources, **outputs})


def _messages_of(output: StepOutput) -> TopicWritten:
    lengths = (pc.sum(pc.binary_length(output.messages.column(name))).as_py() for name in ("key", "value"))
    size = sum(length or 0 for length in lengths)
    return TopicWritten(output.topic, output.messages.num_rows, size, output.handle.startswith(DEAD_LETTER))
