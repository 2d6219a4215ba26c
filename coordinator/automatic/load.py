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
    """`seconds`: its length. `busy_s`: the time in which steps ran; steps that overlap count once. `rows`: those of the steps that ended in it.
    `arrived`: the rows that came to the input topics. `lag`: the rows that were there at its end and in no step. `classes`: its steps by the
    number of binary digits of their rows. `workers`: how many there were at its end. `is_changing`: a rescale was wanted or under way in it.
    `is_disturbed`: something else than the load decides what it says: the run began, recovered, replayed, paused, or followed a transition."""

    seconds: float
    busy_s: float
    rows: int
    arrived: int
    lag: int
    workers: int
    classes: Mapping[int, StepClass] = field(default_factory=dict)
    is_changing: bool = False
    is_disturbed: bool = False

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
