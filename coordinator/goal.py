"""What a run is for, which says what it reads and when it ends by itself."""

from __future__ import annotations

from enum import Enum


class Goal(Enum):
    """The goal of a run. A run with any goal ends earlier if a user stops it."""

    SERVE = "serve"
    """It reads whatever arrives, and does not end by itself."""
    READ_AVAILABLE = "read-available"
    """It reads what the topics have at its start, and ends with a checkpoint."""
    FINISH_STEPS = "finish-steps"
    """It runs the steps that are divided in the log, divides none, and ends with a checkpoint."""
    RESCALE = "rescale"
    """It makes the rescale that is wanted or under way, and ends at its checkpoint. It runs no step whose output is not in the log. A live
    rescale that it finds needs the replay first. A cold one precedes it, and the replay is left to the next run."""

    @property
    def ends_with_input(self) -> bool:
        """Whether the run ends when nothing is left of what the topics had at its start."""
        return self in (Goal.READ_AVAILABLE, Goal.FINISH_STEPS)
