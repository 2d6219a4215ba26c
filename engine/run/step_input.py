"""What the coordinator gives all workers for a step. It is the same on every worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from base.options import OnError, Truncate
from engine.model.withholding import NOTHING_WITHHELD, Withholding
from io_kafka.offsets import OffsetRange


@dataclass(frozen=True, kw_only=True)
class StepInput:
    """What differs from step to step. `on_error`: the policy by source handle. `grown`: the topics that have more partitions than when the state
    began. `truncate`: the policy for truncations, of the sources for which it is not `fail`. All are as the division recorded them."""

    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: Mapping[str, OnError]
    grown: frozenset[str] = frozenset()
    bytes_max: int | None = None
    """The bound on the keys and values in `ranges`. It is None if the ranges are final, because the step has output already or was measured."""
    withholding: Withholding = NOTHING_WITHHELD
    """As the division recorded it."""
    truncate: Mapping[str, Truncate] = field(default_factory=dict)
    filled: tuple[int, int] = (0, 0)
    """The positions of the feeds of a transition before and after the step; see StepFacts."""
    again: tuple[OffsetRange, ...] = ()
    """What is read for the new nodes of a transition alone."""
    clock_us: int | None = None
    """The time of the step, as the division recorded it; None if no view reads the clock."""
    idle: frozenset[str] = frozenset()
    """The sources that watermarks leave out, as the division recorded them."""
    asks_border: bool = False
    """Whether the workers look through their whole state for the next border (Findings). It changes nothing of what the step does."""

    def bytes_max_of(self, ranges: Sequence[OffsetRange]) -> int | None:
        """The share of `bytes_max` for these of the step's ranges. Each offset has an equal share, so all ranges together stay within the
        bound."""
        if self.bytes_max is None:
            return None
        offsets = sum(span.length for span in (*self.ranges, *self.again))
        return self.bytes_max * sum(span.length for span in ranges) // max(1, offsets)
