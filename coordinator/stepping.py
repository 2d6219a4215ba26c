"""Carries out two of the core's actions, a division and a step.

    Divide    end offsets -> division -> log
    RunStep   recorded division -> tasks -> output -> transaction, which may also hold the next division; or, in a replay, a comparison

Guarantee: a step is reported to the core only after its output is committed or has been compared.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from coordinator.core import Core, Divide, RunStep
from coordinator.inputs import Inputs
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard, StepTimes
from coordinator.step_output import StepResult, gather
from engine.run.exchange import ExchangeMessage
from engine.run.step_runner import StepRunner
from engine.run.tasks import StepInput, TaskSetup
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import StepTooLarge
from io_kafka.formats import ENCODER_ID
from io_kafka.step_log.output_progress import compare_inputs
from io_kafka.step_log.records import DivisionRecord

_log = structlog.get_logger("coordinator.stepping")

IDLE_SECONDS = 0.005
"""The pause between two checks for input if there was none. A check costs 0.3 ms, and a new message should not wait noticeably."""


class Stepping:
    """The divisions and steps of one run."""

    def __init__(
        self, spec: PipelineSpec, writer: PipelineWriter, inputs: Inputs, requests: Requests, board: StatusBoard
    ) -> None:
        self._spec, self._writer, self._inputs = spec, writer, inputs
        self._requests, self._board = requests, board
        self._monotonic = spec.kafka.outside.monotonic
        self._divide_ms = (
            0.0  # the time that the division of the next step took; it may have been chosen during the step before
        )

    def divide(self, action: Divide, core: Core) -> None:
        """Commits the division of a step. If there is nothing to read it reports that to the core, and waits for IDLE_SECONDS."""
        began = self._monotonic()
        division = self._inputs.choose_or_first(self._writer.state, action.step)
        reached("division.chosen")
        if division is None:
            core.nothing_to_read()
            if not self._inputs.ends_now:
                self._requests.wait(IDLE_SECONDS)
            return
        self._writer.append([self._inputs.record(self._writer.state, self._writer.epoch, division)])
        self._inputs.recorded()
        self._divide_ms = 1e3 * (self._monotonic() - began)

    def run(self, action: RunStep, core: Core, runner: StepRunner, setup: TaskSetup) -> None:
        """Runs a step. It writes the output, or in a replay compares it with what was written."""
        step, log = action.step, self._writer.state
        record = log.divisions[step] if action.replay else self._with_policy_in_force(log.divisions[step])
        began = self._monotonic()
        reached("step.begun")
        messages = self._run_divided(record, runner, None if action.replay else self._spec.limits.bytes_max)
        result = gather(self._spec, setup.plan, setup.partitions, messages, record.dead_letters)
        computed = self._monotonic()
        reached("step.gathered")
        log = self._writer.state
        if action.replay and step in log.step_records:
            compare_inputs(step, result.inputs, log.step_records[step])
        ahead = None if action.replay else self._inputs.choose_ahead(log, step)
        chosen = self._monotonic()
        self._writer.write_step(
            step,
            result.outputs,
            encoder=ENCODER_ID,
            inputs=result.inputs,
            skipped=result.skipped,
            division_next=None if ahead is None else self._inputs.record(log, self._writer.epoch, ahead),
        )
        reached("replay.compared" if action.replay else "step.complete")
        times = step_times(result, self._divide_ms, 1e3 * (computed - began), 1e3 * (self._monotonic() - chosen))
        self._board.stepped(step, result.rows, times, replayed=action.replay, skipped=result.skipped)
        core.stepped(step, self._writer.state)
        if ahead is not None:
            self._inputs.recorded()
            self._divide_ms = 1e3 * (chosen - computed)

    def _run_divided(self, record: DivisionRecord, runner: StepRunner, bytes_max: int | None) -> list[ExchangeMessage]:
        """Runs the step. A step whose messages have more than `bytes_max` bytes is divided again, over less input, and then run. With None the
        division stays as it is, because the step has output already."""
        given = StepInput(
            record.step, record.division.ranges, dict(record.on_error), frozenset(record.grown), bytes_max
        )
        try:
            return runner.run(given)
        except StepTooLarge as fault:
            less = record.cut(self._writer.epoch, fault.ends)
            self._writer.append([less])
            _log.info("a step was larger than stepwell.step.bytes.max", step=record.step, rows=less.division.rows)
            return runner.run(replace(given, ranges=less.division.ranges, bytes_max=None))

    def _with_policy_in_force(self, record: DivisionRecord) -> DivisionRecord:
        """The division of a step that has no output yet, with the project's present policy for malformed messages. It is recorded again if an
        earlier run recorded another policy. No database holds rows of the step under that policy, because all were opened since."""
        if (record.on_error, record.dead_letters) == (self._spec.on_error, self._spec.dead_letter_topics):
            return record
        again = record.with_policy(self._writer.epoch, self._spec.on_error, self._spec.dead_letter_topics)
        self._writer.append([again])
        return again


def step_times(result: StepResult, divide_ms: float, job_ms: float, write_ms: float) -> StepTimes:
    """The parts of a step's time. The job's time beyond the parts of its slowest worker is shuffle and scheduling."""
    known = result.read_ms + result.compute_ms + result.state_ms
    return StepTimes(
        divide=round(divide_ms, 2),
        read=round(result.read_ms, 2),
        compute=round(result.compute_ms, 2),
        state=round(result.state_ms, 2),
        shuffle=round(max(0.0, job_ms - known), 2),
        write=round(write_ms, 2),
    )
