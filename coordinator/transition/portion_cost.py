"""What something costs by its size: a fixed part, and a part for each unit.

Both follow from weighted least squares over what was noted, in which a new observation counts `WEIGHT`, and all earlier ones together the rest.
So the estimates follow a load that changes, and need no memory. A wrong one costs little here, because the next portion corrects it. The
automatic choice of workers cannot afford a slow step that misleads it, so it has another estimator (automatic/step_costs.py). If all sizes were
about the same, nothing tells the two parts apart, and the cost counts as proportional. If larger ones were seen to cost no more, all of it
counts as fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

WEIGHT = 0.15
"""The weight of the last observation. About ten of them then make the estimate, which is a second of steps or less."""

SPREAD_MIN = 0.02
"""Sizes whose relative variance is below this are about the same. Those of portions swing by a quarter, which is 0.06."""

FLAT = 1e-3
"""A slope below such a part of the mean cost per unit is noise."""


@dataclass(eq=False)
class Cost:
    """The means of size, cost, size squared and size times cost, and the number of observations."""

    count: int = 0
    size: float = 0.0
    cost: float = 0.0
    square: float = 0.0
    product: float = 0.0

    def note(self, size: float, cost: float) -> None:
        self.count += 1
        weight = max(WEIGHT, 1 / self.count)
        self.size += weight * (size - self.size)
        self.cost += weight * (cost - self.cost)
        self.square += weight * (size * size - self.square)
        self.product += weight * (size * cost - self.product)

    @property
    def per_unit(self) -> float | None:
        """The mean cost of a unit, with its part of what is fixed. None if nothing was noted."""
        return self.cost / self.size if self.count else None

    @property
    def _slope(self) -> float | None:
        """The cost of one unit more; None if it cannot be told."""
        variance = self.square - self.size * self.size
        if self.count < 2 or variance < SPREAD_MIN * self.size * self.size:
            return None
        slope = (self.product - self.size * self.cost) / variance
        most = self.cost / self.size  # a fixed part is never negative
        return min(slope, most) if slope > FLAT * most else 0.0

    @property
    def fixed(self) -> float:
        """Zero if it cannot be told."""
        slope = self._slope
        return 0.0 if slope is None else max(0.0, self.cost - slope * self.size)

    def at(self, size: float) -> float:
        """The cost of something of this size."""
        if not self.count:
            return 0.0
        slope = self._slope
        return self.cost / self.size * size if slope is None else self.fixed + slope * size

    def size_within(self, cost: float) -> float:
        """The largest size that costs about so much; infinite if nothing tells that a larger one costs more."""
        if not self.count:
            return inf
        slope = self._slope
        if slope is None:
            return self.size * cost / self.cost
        return inf if slope == 0.0 else max(0.0, (cost - self.fixed) / slope)
