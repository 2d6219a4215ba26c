"""What a run is for, which says what it reads and when it ends by itself.

Other modules ask what they want to know, and compare no goal. Each property names every goal, so that mypy refuses a new one until each
question has its answer.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never


class Goal(Enum):
    """The goal of a run. A run with any goal ends earlier if a user stops it."""

    SERVE = "serve"
    """The run reads whatever arrives, and does not end by itself."""
    READ_AVAILABLE = "read-available"
    """The run reads what the topics have at its start, and ends with a checkpoint."""
    FINISH_STEPS = "finish-steps"
    """The run finishes the steps that are divided in the log, divides none, and ends with a checkpoint."""
    RESCALE = "rescale"
    """The run makes the rescale that is wanted or under way, and ends at its checkpoint. It runs no step whose output is not in the log. A live
    rescale that it finds needs the replay first. A cold one precedes it, and the replay is left to the next run."""

    @property
    def ends_by_itself(self) -> bool:
        """Whether the run ends without a stop."""
        match self:
            case Goal.SERVE:
                return False
            case Goal.READ_AVAILABLE | Goal.FINISH_STEPS | Goal.RESCALE:
                return True
            case _:
                assert_never(self)

    @property
    def ends_with_input(self) -> bool:
        """Whether the run ends when nothing is left of what the topics had at its start."""
        match self:
            case Goal.READ_AVAILABLE | Goal.FINISH_STEPS:
                return True
            case Goal.SERVE | Goal.RESCALE:
                return False
            case _:
                assert_never(self)

    @property
    def ends_with_rescale(self) -> bool:
        """Whether the run ends when no rescale is wanted or under way. Such a run has no purpose without its rescale."""
        match self:
            case Goal.RESCALE:
                return True
            case Goal.SERVE | Goal.READ_AVAILABLE | Goal.FINISH_STEPS:
                return False
            case _:
                assert_never(self)

    @property
    def divides_input(self) -> bool:
        """Whether the run divides input into new steps."""
        match self:
            case Goal.SERVE | Goal.READ_AVAILABLE:
                return True
            case Goal.FINISH_STEPS | Goal.RESCALE:
                return False
            case _:
                assert_never(self)

    @property
    def runs_new_steps(self) -> bool:
        """Whether the run goes on after the replay: with steps whose output is not in the log, and with what leads to another program. Without
        that it begins no transition, and does not lead to another project than that of the state."""
        match self:
            case Goal.SERVE | Goal.READ_AVAILABLE | Goal.FINISH_STEPS:
                return True
            case Goal.RESCALE:
                return False
            case _:
                assert_never(self)

    @property
    def precedes_revision(self) -> bool:
        """Whether the next revision of the project is recorded when the run has ended."""
        match self:
            case Goal.FINISH_STEPS:
                return True
            case Goal.SERVE | Goal.READ_AVAILABLE | Goal.RESCALE:
                return False
            case _:
                assert_never(self)
