"""Steps of a crew: a step goes to all workers, and what they made of it comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from engine.errors import TaskLost
from engine.resident import faults
from engine.resident.crew.workers import Workers
from engine.resident.frames import Buffer
from engine.resident.messages import Failed, Pause, Resume, RunStep, StepAbandoned, StepDone
from engine.run.step_input import StepInput
from io_kafka.errors import StepTooLarge


@dataclass(frozen=True)
class WorkerOutput:
    """What one worker made of a step. `buffers`: see StepDone."""

    worker: int
    done: StepDone
    buffers: tuple[Buffer, ...]


class CrewSteps:
    """The orders to run steps, and their results. At most one step is under way."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._is_given = False
        self._serial = -1
        self._is_paused = False

    def give(self, given: StepInput) -> None:
        """Gives a step to all workers. `collect` takes its results."""
        placement = self._workers.placement
        assert not self._is_given, f"step {given.step} is given before the step before was collected"
        assert placement is not None, "a step before the workers have joined each other"
        if self._is_paused:
            self._workers.ask(Resume())
            self._is_paused = False
        self._is_given = True
        self._serial += 1
        self._workers.send(
            RunStep(serial=self._serial, placement=placement.number, program=self._workers.program, given=given)
        )

    def collect(self, step: int, meanwhile: Callable[[], None] | None = None) -> list[WorkerOutput]:
        """The results of the step that was given. Waits until every worker has answered. If several failed, a StepTooLarge goes first, then the
        fault of the lowest worker. Recoverable faults and mistakes are raised as soon as they arrive. `meanwhile`: see Roster.wait_for."""
        assert self._is_given, f"step {step} was not given"
        numbers, roster = self._workers.numbers, self._workers.roster
        roster.wait_for(RunStep, f"step {step}", numbers, meanwhile)
        self._is_given = False
        taken = {number: self._take(number, step) for number in numbers}
        failed = [answer for answer in taken.values() if isinstance(answer, Exception)]
        if failed:
            raise next((fault for fault in failed if isinstance(fault, StepTooLarge)), failed[0])
        outputs = [answer for answer in taken.values() if isinstance(answer, WorkerOutput)]
        if len(outputs) < len(taken):
            raise TaskLost(f"step {step}: workers abandoned it, and none has said why")
        roster.note_step_time(max(_seconds_of(output.done) for output in outputs))
        return outputs

    def _take(self, number: int, step: int) -> WorkerOutput | Exception | None:
        popped = self._workers.roster.take_outcome(number, RunStep)
        if isinstance(popped, Failed):
            return faults.from_wire(popped.fault, number)
        answer, buffers = popped
        if answer.step != step:
            raise TaskLost(f"worker {number} answered step {step} with {answer}")
        match answer:
            case StepDone():
                return WorkerOutput(number, answer, buffers)
            case StepAbandoned():
                return None
            case _:
                assert_never(answer)

    def pause(self, step: int) -> None:
        """Every worker stands before `step` and runs none until the next one is given. Raises TaskLost if one stands elsewhere."""
        if self._is_paused:
            return
        steps = {number: answer.step for number, answer in self._workers.ask(Pause()).items()}
        if set(steps.values()) != {step}:
            raise TaskLost(f"the workers should stand before step {step}; they stand before {steps}")
        self._is_paused = True


def _seconds_of(done: StepDone) -> float:
    """How long a worker took for a step, without what it waited for its peers."""
    return 1e-3 * (done.read_ms + sum(stage.compute_ms + stage.state_ms for stage in done.stages))
