"""What changes in a second, from the looks that people take: there is no timer, so a page that nobody has open costs nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from coordinator.measures import Measurements
from engine.operators.findings import Work

WINDOW_SECONDS = 20.0
"""Rates are over about this time: steady, and soon right after a change."""

LOOKS_MAX = 60


@dataclass(frozen=True)
class Rate:
    """In a second: rows of changes, and the part of it that the workers have worked, where 1 is one worker all the time."""

    rows: float
    busy: float


@dataclass(frozen=True)
class _Look:
    at: float
    work: dict[str, Work]


class Rates:
    """One thread may use it at a time."""

    def __init__(self, began_at: float) -> None:
        """`began_at`: of the run, on the clock of the looks."""
        self._looks: deque[_Look] = deque([_Look(began_at, {})], maxlen=LOOKS_MAX)

    def look(self, at: float, measured: Measurements) -> dict[str, Rate]:
        """By the name for users. The first look has the rates since the run began. A new run measures from zero again, and then its
        own numbers count."""
        while len(self._looks) > 1 and self._looks[1].at <= at - WINDOW_SECONDS:
            self._looks.popleft()
        before = self._looks[0]
        elapsed = max(at - before.at, 1e-3)
        rates = {}
        for name, (ms, rows) in measured.work.items():
            old = before.work.get(name, Work())
            rates[name] = Rate((rows - old.rows) / elapsed, 1e-3 * (ms - old.ms) / elapsed)
        if self._looks[-1].at < at - 1.0 or len(self._looks) == 1:
            self._looks.append(_Look(at, measured.work))
        return rates
