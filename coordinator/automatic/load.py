"""The load of a pipeline, as samples of a fixed length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SAMPLE_SECONDS = 10.0
"""Long enough for some steps of a pipeline with a backlog, and short enough to notice a load that grows within half a minute."""


@dataclass(frozen=True)
class StepClass:
    """The steps of a sample whose numbers of rows have equally many binary digits. `rows`, `busy_ms`: sums over them."""

    steps: int
    rows: int
    busy_ms: float

    def with_step(self, rows: int, busy_ms: float) -> StepClass:
        return StepClass(self.steps + 1, self.rows + rows, self.busy_ms + busy_ms)


NO_STEPS = StepClass(0, 0, 0.0)


@dataclass(frozen=True)
class LoadSample:
    """The load of the pipeline in a span of time."""

    seconds: float
    """The length of the span."""
    busy_s: float
    """The time in which steps ran. Steps that overlap count once."""
    rows: int
    """The rows of the steps that ended in it."""
    arrived: int
    """The rows that came to the input topics."""
    lag: int
    """The rows that were there at its end and in no step."""
    workers: int
    """How many there were at its end."""
    classes: Mapping[int, StepClass] = field(default_factory=dict)
    """The steps of the span, by the number of binary digits of their rows."""
    is_changing: bool = False
    """A rescale was wanted or under way in it."""
    is_disturbed: bool = False
    """Something else than the load decides what it says: the run began, recovered, replayed, paused, or followed a transition."""

    @property
    def busy_share(self) -> float:
        return min(1.0, self.busy_s / self.seconds)

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def arrived_per_s(self) -> float:
        return self.arrived / self.seconds

    @property
    def is_of_load(self) -> bool:
        """Whether it tells what the workers can do."""
        return not (self.is_changing or self.is_disturbed)
