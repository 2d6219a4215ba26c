"""How often a run may go back to its last checkpoint.

Guarantee: a run that makes no progress ends after RECOVERIES_MAX losses in a row. Progress is a committed step. For folds it is a completed
checkpoint, because steps can be committed while every fold fails.
"""

from __future__ import annotations

from dataclasses import dataclass

RECOVERIES_MAX = 3
"""The number of losses in a row that ends a run: of workers without a new step between them, or of folds without a checkpoint between them.
Two retries outlast a passing failure of the machine; a cause that stays would fail for ever."""


@dataclass
class Recoveries:
    """`in_a_row` counts losses without a committed step between them. `steps_before` is the log's number of steps at the last loss."""

    in_a_row: int = 0
    steps_before: int = -1

    def count_loss(self, steps: int, folds_failed: int) -> str | None:
        """Counts a lost worker. `steps` is the number of steps in the log now, and `folds_failed` the number of folds that failed in a row.
        Returns None if the run may recover, and otherwise a description of what failed too often."""
        self.in_a_row = self.in_a_row + 1 if steps <= self.steps_before else 1
        self.steps_before = steps
        if self.in_a_row >= RECOVERIES_MAX:
            return f"step {steps}"
        return f"the checkpoint before step {steps}" if folds_failed >= RECOVERIES_MAX else None
