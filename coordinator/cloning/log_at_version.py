"""What the step log of a pipeline said when one of its stored versions was made: the state that belongs to the databases of the version.

The databases are frozen between two steps, and the log goes on while they are folded. So the moment is one of these two:

1. The first record after which the next step is that of the version. Between two steps nothing is added to the state that is not in the log's
   state too, unless a transition was under way.
2. The first record after which the version is the last complete one and no transition is under way: it was settled with the version, which has
   none of its tables. Steps that are in the log by then are left out.

An earlier version before the same step may have tables of a transition that has ended since. It is the last complete one only while that is
still under way, so it has no such moment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from base.version import VersionId
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.state import StepLogState
from io_kafka.step_log.value import LogValue


@dataclass
class MomentOf:
    """Looks for the moment of a version of this generation, in the order of the records. `first`: the first state before its step, whatever was
    under way; None if the log begins later."""

    generation: int
    version: VersionId
    first: StepLogState | None = field(default=None, init=False)
    _is_passed: bool = field(default=False, init=False)

    def is_reached(self, state: StepLogState) -> bool:
        """Whether this is the moment. `state`: after the next record."""
        step = self.version.step
        if state.generation != self.generation or state.steps < step:
            return False
        is_first, self._is_passed = not self._is_passed and state.steps == step, True
        if is_first:
            self.first = state
        if state.revisions.phase is not None or state.first > step:
            return False
        return is_first or state.checkpoints[-1:] == (self.version,)


def positions_before(step: int, log: LogValue, read: Collection[str]) -> dict[TopicPartition, int]:
    """Where a step with `first <= step` was to begin, of the topics that are `read`. Its division and later ones do not count."""
    positions = dict(log.next_offsets)
    for number in range(log.division_next - 1, step - 1, -1):
        positions.update({r.where: r.start for r in log.divisions[number].ranges})
    return {where: position for where, position in sorted(positions.items()) if where.topic in read}


def withholds_before(step: int, log: LogValue) -> bool:
    """Whether outputs may withhold rows in the state before this step. They withhold them in the steps that count error rows, and release them
    in the step after that."""
    if (before := log.divisions.get(step - 1)) is not None:
        return bool(before.counted)
    if (after := log.divisions.get(step)) is not None:
        return bool(after.counted or after.released)
    return bool(log.counted)
