"""How many bytes one cut of slots may move: a function of what steps and cuts have taken so far."""

from __future__ import annotations

import statistics
from collections import deque

from io_kafka.step_log.layout_records import LayoutIntent

COLD_CUT_BYTES = 64 << 20
"""Of one cut while no step runs. Destination and source hold them in memory."""

HOT_CUT_BYTES = 1 << 40
"""Of one cut of a hot change, whose state was copied before: everything. What is new since has to fit into memory."""

LIVE_CUT_BYTES_MIN = 256 << 10
"""Of one cut between two steps, whatever the steps take: less would make a change endless."""

LIVE_CUT_SHARE = 0.15
"""The part of a step's time that a cut may add to it. So a service that is always busy keeps 87 % of its rate. With 0.3 it kept 65 %."""

STEPS_REMEMBERED = 50
"""Whose median is the time of a step."""

STEP_MS_FIRST = 100.0
"""The time of a step before one was run."""

BYTES_PER_MS_FIRST = 50_000.0
"""The rate of cuts before one was measured, which is below what a slow disk reaches."""

RATE_WEIGHT = 0.5
"""Of the last cut in the rate, against all before it, if it was faster. If it was slower it counts alone, because one cut that takes too long
is worse than several that are too short."""


class CutBudget:
    """Outlives a change and a recovery, because the disks and the steps stay what they are."""

    def __init__(self) -> None:
        self._step_ms: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._bytes_per_ms = BYTES_PER_MS_FIRST

    def stepped(self, took_ms: float) -> None:
        """A step has taken so long, from its division to its output."""
        self._step_ms.append(took_ms)

    def moved(self, moved_bytes: int, took_ms: float) -> None:
        """A cut has taken so long. A small one says more of messages than of bytes, so it does not count."""
        if moved_bytes >= LIVE_CUT_BYTES_MIN:
            rate = moved_bytes / max(took_ms, 0.1)
            self._bytes_per_ms = min(rate, self._bytes_per_ms + RATE_WEIGHT * (rate - self._bytes_per_ms))

    def bytes_max(self, change: LayoutIntent) -> int:
        """The bound of the next cut of this change."""
        if change.mode != "live":
            return COLD_CUT_BYTES if change.mode == "cold" else HOT_CUT_BYTES
        step_ms = statistics.median(self._step_ms or [STEP_MS_FIRST])
        added_ms = LIVE_CUT_SHARE * step_ms if change.budget_ms is None else change.budget_ms
        timed = max(LIVE_CUT_BYTES_MIN, int(self._bytes_per_ms * added_ms))
        return timed if change.budget_bytes is None else min(timed, change.budget_bytes)
