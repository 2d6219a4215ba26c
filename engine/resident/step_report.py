"""What a worker made of a step, as it tells the coordinator."""

from __future__ import annotations

import pyarrow as pa

from engine.resident.frames import Buffer
from engine.resident.messages import StepDone
from engine.run.dead_letters import DEAD_LETTER_SCHEMA
from engine.run.exchange import to_buffer
from engine.run.tasks import StepOutcome


def step_done(step: int, outcome: StepOutcome) -> tuple[StepDone, tuple[Buffer, ...]]:
    output = [(node, table) for node, tables in sorted(outcome.output.items()) for table in tables]
    dead = sorted(outcome.report.dead.items())
    buffers = [to_buffer(table) for _, table in output]
    for _, letters in dead:
        columns = [[letter.key for letter in letters], [letter.value for letter in letters]]
        arrays = [pa.array(column, pa.binary()) for column in columns]
        buffers.append(to_buffer(pa.Table.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)))
    message = StepDone(
        step=step,
        output=tuple(node for node, _ in output),
        dead=tuple(handle for handle, _ in dead),
        inputs=tuple(outcome.report.inputs),
        again=tuple(outcome.report.again),
        skipped=outcome.report.skipped,
        read_ms=outcome.read_ms,
        stages=tuple(outcome.stages),
        times=outcome.findings.times,
        errors=outcome.findings.errors,
        work=outcome.findings.work,
        readings=tuple(outcome.report.readings),
        border_us=outcome.findings.border_us,
        unknown=tuple(outcome.report.unknown),
    )
    return message, tuple(buffers)
