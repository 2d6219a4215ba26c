"""How often a run may go back to its last checkpoint.

Guarantee: a run that makes no progress ends after RECOVERIES_MAX losses in a row. Progress is a step that was committed or, for folds, a
checkpoint: a fold that fails again and again does not keep steps from being committed.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERIES_MAX = 3
"""Times in a row that a lost task is recovered from without a new step, or a lost fold without a checkpoint, in between."""


@dataclass
class Recoveries:
    """`in_a_row`: losses without a committed step between them. `steps_before`: the log's steps at the last loss."""

    in_a_row: int = 0
    steps_before: int = -1

    def lost(self, steps: int, folds_failed: int) -> str | None:
        """A task was lost when the log had this many steps, and so many folds have failed in a row. Returns what failed, in words, if it
        failed too often to try again."""
        self.in_a_row = self.in_a_row + 1 if steps <= self.steps_before else 1
        self.steps_before = steps
        if self.in_a_row >= RECOVERIES_MAX:
            return f"step {steps}"
        return f"the checkpoint before step {steps}" if folds_failed >= RECOVERIES_MAX else None
