"""How many rows a second each number of workers manages: what was learnt, and what is expected of the numbers that were not tried.

Only relations are learnt: how much faster one number of workers is than another. They are measured right before and after a change, at steps
of the same size. What a row costs changes with the data and the state, and it changes for all numbers of workers alike, so a new measurement
of the present number moves all others in proportion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

UNTRIED_PART = 0.7
"""How much of a worker's present share one more worker is expected to bring, if nothing was learnt. A share is what linear growth would be;
exchanges and the one writer cost the rest (decision 0044). A guess that is too low makes a change too large, and one that is too high makes
two of one."""

LEARNT_SECONDS = 24 * 3600.0
"""For how long a number of workers that was not used since is remembered: the machine or the load may be another one on the next day."""

NUMBERS_MAX = 64
"""How many numbers of workers are remembered, the last used ones. An estimate between two of them is as good."""


@dataclass(frozen=True)
class Capacities:
    """`rows_per_s`: by number of workers. `used_at`: when each was measured last. Both have the same keys, and all rates are above 0."""

    rows_per_s: Mapping[int, float] = field(default_factory=dict)
    used_at: Mapping[int, float] = field(default_factory=dict)

    @property
    def tried_max(self) -> int:
        """The greatest number of workers that is remembered; 0 if none is."""
        return max(self.rows_per_s, default=0)

    def rows_per_s_of(self, workers: int) -> float | None:
        """Rows per second; None as long as nothing is known. Between two numbers that were tried it is on the line through them. Below all of
        them each worker counts its share, because a few workers never lose more by being fewer. Above all of them each one adds UNTRIED_PART
        of a share, or less if the last ones that were added brought less."""
        known = self.rows_per_s
        if workers in known or not known:
            return known.get(workers)
        below = sorted(number for number in known if number < workers)
        above = [number for number in known if number > workers]
        if not below:
            least = min(above)
            return known[least] * workers / least
        low = below[-1]
        if above:
            high = min(above)
            return known[low] + (known[high] - known[low]) * (workers - low) / (high - low)
        each = UNTRIED_PART * known[low] / low
        if len(below) > 1:
            brought = (known[low] - known[below[-2]]) / (low - below[-2])
            each = min(each, (each + max(0.0, brought)) / 2)
        return known[low] + (workers - low) * each

    def with_measured(self, workers: int, rows_per_s: float, now: float) -> Capacities:
        """The present number of workers manages so much now."""
        assert rows_per_s > 0, f"{workers} workers that manage {rows_per_s} rows/s"
        before = self.rows_per_s_of(workers)
        scale = 1.0 if before is None else rows_per_s / before
        rates = {number: rate * scale for number, rate in self.rows_per_s.items()} | {workers: rows_per_s}
        return Capacities(rates, {**self.used_at, workers: now})._within_bounds(now)

    def with_relation(self, origin: int, workers: int, gain: float, now: float) -> Capacities:
        """So many workers were found to be `gain` times as fast as `origin`."""
        assert gain > 0, f"{workers} workers that are {gain} times as fast as {origin}"
        before = self.rows_per_s_of(origin)
        if before is None:
            return self
        rates = {**self.rows_per_s, origin: before, workers: before * gain}
        return Capacities(rates, {**self.used_at, origin: self.used_at.get(origin, now), workers: now})._within_bounds(
            now
        )

    def without_above(self, workers: int) -> Capacities:
        """Nothing is remembered of more workers than that."""
        rates = {number: rate for number, rate in self.rows_per_s.items() if number <= workers}
        return Capacities(rates, {number: self.used_at[number] for number in rates})

    def _within_bounds(self, now: float) -> Capacities:
        last = sorted(self.used_at, key=lambda number: self.used_at[number])[-NUMBERS_MAX:]
        kept = {number for number in last if now - self.used_at[number] <= LEARNT_SECONDS}
        return replace(
            self,
            rows_per_s={number: rate for number, rate in self.rows_per_s.items() if number in kept},
            used_at={number: at for number, at in self.used_at.items() if number in kept},
        )

    def check(self) -> None:
        assert self.rows_per_s.keys() == self.used_at.keys(), "a rate without its time"
        assert len(self.rows_per_s) <= NUMBERS_MAX
        assert all(rate > 0 and number >= 1 for number, rate in self.rows_per_s.items())
        assert all(a < b for a, b in pairwise(sorted(self.rows_per_s)))
