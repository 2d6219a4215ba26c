"""How many bytes one cut of slots may move, how many a portion has that is copied before, and how many steps come between two cuts: functions of
what steps and cuts have taken so far.

A cut of a portion moves what is new since its copy. So a portion is as large as the bound of a cut allows for that, by the share of new bytes in
the portions before it."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

from io_kafka.step_log.layout_records import MoveStrategy

COLD_CUT_BYTES = 64 << 20
"""The bytes that one cut may move while no step runs. Destination and source hold them in memory."""

WHOLE_CUT_BYTES = 1 << 40
"""The bytes that one cut may move whose slots were chosen before: everything. Of slots that were copied, that is what is new since, which has to
fit into memory."""

LIVE_CUT_BYTES_MIN = 256 << 10
"""The bytes that one cut between two steps may move in any case, whatever the steps take. Less would make a rescale endless."""

LIVE_CUT_SHARE = 0.3
"""The part of a step's time that one cut may take. The step that follows it ends later by that and by the overlap that was lost. With 0.4
the 99th percentile of a step during a rescale was 1.33 and 1.42 times that before it; 1.5 is the most that it may be."""

LIVE_SHARE = 0.12
"""The part of the time of a service that is always busy that all cuts of a rescale may take."""

PORTION_BYTES_FIRST = 16 << 20
"""The bytes of a portion before one has moved."""

PORTION_BYTES_MIN, PORTION_BYTES_MAX = 8 << 20, 24 << 20
"""A cut costs some ten milliseconds however little it moves, so smaller portions would make a rescale longer. Larger ones take longer to copy,
and more would be new then; and a destination holds them in memory."""

NEW_SHARE_MIN = 0.001
"""The least part of a portion's bytes that counts as new. Where nothing is new, a portion is as large as it may be."""

STEPS_BETWEEN_MAX = 1000
"""The largest number of steps between two cuts. A rescale is to go on even if nearly the whole of a step is its write, which says little of what
a cut costs then."""

STEPS_REMEMBERED = 50
"""How many steps are remembered. The medians over them are the time of a step and that of its write."""

STEP_MS_FIRST = 100.0
"""The time of a step before one was run."""

BYTES_PER_MS_FIRST = 50_000.0
"""The rate of cuts before one was measured, which is below what a slow disk reaches."""

RATE_WEIGHT = 0.25
"""The weight of the last cut in the rate, against all before it, if it was faster. If it was slower, it counts alone, because one cut that takes
too long is worse than several that are too short. With 0.5 the forecast grew so fast that some cuts took four times what they should. The part
of a portion that is new is estimated with the same weight."""


@dataclass(frozen=True, kw_only=True)
class CutMeasured:
    """What was measured of one cut. `slots`: how many have moved. `moved_bytes`: those that the cut itself has moved. `copied_bytes`: of its
    portion, those that were copied before; None if its slots were not copied. `version`: the last complete one at that moment."""

    slots: int
    moved_bytes: int
    took_ms: float
    copied_bytes: int | None
    version: int


@dataclass(frozen=True)
class _CutsSinceStep:
    """The cuts since the last step, or since a moment at which no step came. `took_ms`: all of them together. `steps_due`: how many steps come
    before the next cut, as the last one has left it."""

    count: int = 0
    took_ms: float = 0.0
    steps_due: int = 0


NO_CUTS = _CutsSinceStep()


@dataclass(frozen=True)
class _MovedSince:
    """How many bytes cuts have moved since this version was complete."""

    version: int
    moved_bytes: int


class CutBudget:
    """What steps and cuts have taken so far. It outlives a rescale and a recovery, because the disks and the steps stay what they are."""

    def __init__(self) -> None:
        self._step_ms: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._write_ms: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._bytes_per_ms = BYTES_PER_MS_FIRST
        self._new_share: float | None = None  # the part of a portion that was new when it moved
        self._since_step = NO_CUTS
        self._since_version = _MovedSince(-1, 0)

    def note_step(self, took_ms: float, write_ms: float) -> None:
        """A step has taken so long, from its division to the end of the write of its output; and that write alone."""
        self._step_ms.append(took_ms)
        self._write_ms.append(write_ms)
        self._since_step = NO_CUTS

    def note_cut(self, cut: CutMeasured) -> int:
        """A cut was made. Returns how many steps come before the next one of a live rescale."""
        if cut.copied_bytes is not None:
            self._note_portion(cut.copied_bytes, cut.moved_bytes)
        self._note_rate(cut)
        of = self._since_version
        before = of.moved_bytes if of.version == cut.version else 0
        self._since_version = _MovedSince(cut.version, before + cut.moved_bytes)
        # If steps were due and none has come, there was nothing to read, and cuts delay nobody then.
        since = NO_CUTS if self._since_step.steps_due else self._since_step
        count, took_ms = since.count + 1, since.took_ms + cut.took_ms
        self._since_step = _CutsSinceStep(count, took_ms, self._steps_between(took_ms, count))
        return self._since_step.steps_due

    def moved_bytes_since(self, version: int) -> int:
        """How many bytes cuts have moved since this version, which is the last complete one."""
        return self._since_version.moved_bytes if self._since_version.version == version else 0

    def _note_rate(self, cut: CutMeasured) -> None:
        """A small cut says more of messages than of bytes, so it does not count."""
        if cut.moved_bytes >= LIVE_CUT_BYTES_MIN:
            rate = cut.moved_bytes / max(cut.took_ms, 0.1)
            self._bytes_per_ms = min(rate, self._bytes_per_ms + RATE_WEIGHT * (rate - self._bytes_per_ms))

    def _note_portion(self, copied_bytes: int, moved_bytes: int) -> None:
        """A portion has moved, of which so much was copied before, and so much was new."""
        share = max(NEW_SHARE_MIN, moved_bytes / max(1, copied_bytes))
        before = self._new_share
        self._new_share = share if before is None or share > before else before + RATE_WEIGHT * (share - before)

    def portion_bytes(self, strategy: MoveStrategy) -> int:
        """About how many bytes a portion of such a rescale is to have."""
        if self._new_share is None:
            wanted = PORTION_BYTES_FIRST
        else:
            wanted = min(PORTION_BYTES_MAX, max(PORTION_BYTES_MIN, int(self.bytes_max(strategy) / self._new_share)))
        return wanted if strategy.budget_bytes is None else min(wanted, strategy.budget_bytes)

    def bytes_max(self, strategy: MoveStrategy) -> int:
        """The bound of the next cut of such a rescale."""
        if strategy.mode == "cold":
            return COLD_CUT_BYTES
        added_ms = LIVE_CUT_SHARE * self._step_median_ms if strategy.budget_ms is None else strategy.budget_ms
        timed = max(LIVE_CUT_BYTES_MIN, int(self._bytes_per_ms * added_ms))
        return timed if strategy.budget_bytes is None else min(timed, strategy.budget_bytes)

    def _steps_between(self, cuts_ms: float, cuts: int) -> int:
        """How many steps come before the next cut, if so many cuts since the last step have taken `cuts_ms` together. Then cuts take at most
        LIVE_SHARE of the time of a busy service. 0 if there is time for one more cut before the next step."""
        write_ms = statistics.median(self._write_ms or [0.0])
        alone_ms = max(self._step_median_ms - write_ms, 0.1)  # the rest of a step overlaps the one after it
        of_one_step_ms = alone_ms * LIVE_SHARE / (1 - LIVE_SHARE)
        if cuts_ms + cuts_ms / cuts <= of_one_step_ms:
            return 0
        return min(STEPS_BETWEEN_MAX, math.ceil(cuts_ms / of_one_step_ms))

    @property
    def _step_median_ms(self) -> float:
        return statistics.median(self._step_ms or [STEP_MS_FIRST])
