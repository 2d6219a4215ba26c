"""What a step runs, in its first run and in a replay: the circuit of one revision, or that of a transition between two.

The step log alone decides it (`StepLogState.program_of`). So a replay crosses the beginning of a transition, its switch and its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from io_kafka.step_log.revision_records import RevisionIntent, RevisionRecord


@dataclass(frozen=True)
class PresentProgram:
    """The step runs the circuit of this revision alone. None: that of a log of format 2, which has no revisions."""

    revision: RevisionRecord | None


@dataclass(frozen=True)
class FillingProgram:
    """The step runs the circuit of `revision`, and fills the new nodes of `intent` beside it, from the position `before` to `after`."""

    revision: RevisionRecord
    intent: RevisionIntent
    before: int
    after: int


@dataclass(frozen=True)
class SwitchingProgram:
    """The step passes on what differs from `revision`, which was in force before `intent`. `drained`: the positions before and after the step,
    if that leaves in several steps. None: everything leaves in this step, which is the first one of `intent`."""

    revision: RevisionRecord
    intent: RevisionIntent
    drained: tuple[int, int] | None = None


ProgramOfStep = PresentProgram | FillingProgram | SwitchingProgram


@dataclass(frozen=True)
class ProgramKey:
    """Which program a step runs, without how far it fills. `number`: of the revision that is in force in the step."""

    kind: Literal["present", "filling", "switching"]
    number: int


def key_of(program: ProgramOfStep) -> ProgramKey:
    match program:
        case PresentProgram(revision):
            return ProgramKey("present", 0 if revision is None else revision.number)
        case FillingProgram(revision):
            return ProgramKey("filling", revision.number)
        case SwitchingProgram(_, intent):
            return ProgramKey("switching", intent.number)
        case _:
            assert_never(program)
