"""What a step costs, as a function of its rows: about a + b * rows milliseconds.

So the rows per second of a pipeline whose steps are small say little: a step of 100 rows takes hardly less time than one of 1,000, and a
pipeline that is always busy with small steps may have time for ten times the rows. DS2, and with it Flink's autoscaler, divides the rate by the
share of busy time, and would hold it for overloaded. Here the costs are judged at the largest steps, in which a backlog is read.

The estimate is robust: it is made of medians, and a single slow step changes none. A rescale that nothing needed is dear, while a portion of a
transition may well follow each step, so those have a moving estimate by least squares (transition/portion_cost.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from coordinator.automatic.load import LoadSample

STEPS_MIN = 10
"""How many steps a size needs to count, if some size has as many. The largest steps are rare and decide most, so a few slow ones must not
decide."""

SPREAD_MIN = 1.5
"""Between the sizes of two steps that together say what a row costs. Of closer ones the noise of their times says more."""

EXTRAPOLATION_MAX = 4.0
"""How much larger than the largest steps that were seen the steps may be at which they are judged: beyond that, the line is a guess."""


@dataclass(frozen=True)
class StepCosts:
    """`points`: (rows, milliseconds) of a typical step of each size, ascending; there is at least one."""

    points: tuple[tuple[float, float], ...]

    @property
    def rows_max(self) -> float:
        """The rows of the largest steps that were seen."""
        return self.points[-1][0]

    @property
    def ms_per_row(self) -> float | None:
        """The cost of one more row; None if all steps have about the same size. The median over all pairs of sizes, weighted by how far they
        are apart, as Theil and Sen have it."""
        slopes = [
            ((ms_b - ms_a) / (rows_b - rows_a), rows_b - rows_a)
            for i, (rows_a, ms_a) in enumerate(self.points)
            for rows_b, ms_b in self.points[i + 1 :]
            if rows_b >= SPREAD_MIN * rows_a
        ]
        if not slopes:
            return None
        rows, ms = self.points[-1]
        return min(max(0.0, _weighted_median(slopes)), ms / rows)

    def rows_part(self, rows: float) -> float:
        """Which part of the cost of such a step is that of its rows, and not of the step itself; 0 if that is not known."""
        per_row = self.ms_per_row
        return 0.0 if per_row is None else per_row * rows / self.ms_at(rows)

    def ms_at(self, rows: float) -> float:
        """Returns the milliseconds of a step with so many rows. If the cost of a row is not known, they are those of the largest step in
        proportion."""
        most, ms = self.points[-1]
        per_row = self.ms_per_row
        return ms * rows / most if per_row is None else max(ms + per_row * (rows - most), per_row * rows, 1e-6)

    def reaches(self, step_rows_max: int) -> bool:
        """Whether steps of the largest size are no more than EXTRAPOLATION_MAX as large as those that were seen. Otherwise the workers have
        room, however busy they are: near the end of it steps grow."""
        return EXTRAPOLATION_MAX * self.rows_max >= step_rows_max

    def rows_per_s(self, step_rows_max: int) -> float:
        """What the workers manage with the largest steps, of which a step may have so many rows."""
        rows = self.rows_max
        if self.ms_per_row is not None:
            rows = max(rows, min(step_rows_max, EXTRAPOLATION_MAX * rows))
        return 1e3 * rows / self.ms_at(rows)


def costs_of(samples: Iterable[LoadSample]) -> StepCosts | None:
    """The costs that these samples show; None if they have no step with rows."""
    sizes: dict[int, list[tuple[float, float, int]]] = {}
    for sample in samples:
        for size, steps in sample.classes.items():
            if steps.rows > 0:
                mean = (steps.rows / steps.steps, steps.busy_ms / steps.steps, steps.steps)
                sizes.setdefault(size, []).append(mean)
    often = {size: means for size, means in sizes.items() if sum(steps for *_, steps in means) >= STEPS_MIN}
    points = [
        (median(rows for rows, _, _ in means), max(1e-6, median(ms for _, ms, _ in means)))
        for _, means in sorted((often or sizes).items())
    ]
    return StepCosts(tuple(points)) if points else None


def _weighted_median(weighted: Sequence[tuple[float, float]]) -> float:
    half = sum(weight for _, weight in weighted) / 2
    passed = 0.0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    return max(value for value, _ in weighted)
