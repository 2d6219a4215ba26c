"""A step, and what orders steps: pause, resume and stop."""

from __future__ import annotations

from typing import ClassVar

from engine.operators.error_rows import ErrorRows
from engine.operators.findings import TimeReport, Work
from engine.resident.messages.message import Answer, Order, PeerMessage
from engine.run.sources import Checksum, PartitionReading
from engine.run.step_input import StepInput
from engine.run.tasks import StageTimes
from io_kafka.registry.unknown import UnknownSchemas


class StepDone(Answer):
    """The frame's buffers are the output of the nodes in `output` and then the dead letters of the sources in `dead`. `stages`: the times of
    each stage in order. `times`, `errors`, `work`, `border_us`: see Findings. `readings`, `unknown`: see SourceReport."""

    step: int
    output: tuple[int, ...]
    dead: tuple[str, ...]
    inputs: tuple[Checksum, ...]
    again: tuple[Checksum, ...]
    skipped: dict[str, int]
    read_ms: float
    stages: tuple[StageTimes, ...]
    times: TimeReport
    errors: dict[int, ErrorRows]
    work: dict[int, Work]
    readings: tuple[PartitionReading, ...]
    border_us: int | None
    unknown: tuple[UnknownSchemas, ...]


class StepAbandoned(Answer):
    """Another worker has failed in this step. The sender's state is unchanged."""

    step: int


class RunStep(Order[StepDone | StepAbandoned]):
    """Runs the step `given`. `serial` numbers the orders to run a step within a term: a step that failed on too large an input is run again,
    and messages of the two tries must not mix. `placement`: the number of that which the step has. `program`: the name of the program that
    the step runs; see AdoptProgram."""

    serial: int
    placement: int
    program: str
    given: StepInput


class Paused(Answer):
    step: int


class Pause(Order[Paused]):
    """The worker runs no step until it is told to go on."""


class Resumed(Answer):
    step: int


class Resume(Order[Resumed]):
    """The worker goes on after a pause."""


class Stopped(Answer):
    step: int


class Stop(Order[Stopped]):
    """Ends the worker when it has run the steps until there. `step`: the first step that the worker must not run."""

    ends_worker: ClassVar[bool] = True
    step: int


class StageRows(PeerMessage):
    """What `stage` of a step sends to one peer, exactly once and also if there are no rows. `serial` is that of the order to run the step. The
    frame's buffers are the rows of `channels`, which are positions in the plan's order of channels. `broken`: the stage has failed, so nobody
    may go on with the step."""

    serial: int
    stage: int
    channels: tuple[int, ...]
    broken: bool = False
