"""Which inputs are idle, and when a step is due because one has become so, without I/O and clock.

An input is **idle** if it has brought no row for `stepwell.watermark.idle.after`, and none waits. A watermark of several inputs leaves idle ones
out of the minimum, as Flink's `withIdleness` does. What is idle in a step is recorded with its division, so a replay does not ask this module.

    active ---- looks over so long a time find nothing ----> idle ---- a look finds a row ----> active

- A row that waits counts as one that has come, whether the step reads it or not. So nothing is idle that is behind in a backlog.
- Only looks count. After a long gap between two of them, as after a pause or when no broker has answered, nobody knows in which order
  messages come. Then at least half of the time has to pass once more before another input is idle.
- A run begins with all inputs active, but for those that the last division says are idle. They stay so until they have a row.

A step without input is due if a watermark would leave out an input that it did not leave out in the last division. That happens once in each
silence of an input, and not at all if all inputs of the watermark are silent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from engine.analysis.event_time_sources import Sides, idle_inputs

GAP_SHARE_MAX = 0.5
"""A gap between two looks is long if it is a larger share of the time after which an input is idle. Without input there are ten looks a
second, and with input one before each step."""


@dataclass
class IdleInputs:
    """The idle inputs in one run of one program. `sides`: those of the watermarks that can leave inputs out, by node. `after_s`: how long an
    input is silent before it is idle; None: it is never idle. `recorded`: the inputs that the last division says are idle. Times are seconds of
    a monotonic clock."""

    sides: Mapping[int, Sides]
    after_s: float | None
    recorded: Collection[str] = ()
    _silent_s: dict[str, float] = field(init=False)
    _looked_at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        handles = frozenset[str]().union(*(side for sides in self.sides.values() for side in sides))
        self._silent_s = {
            handle: self.after_s if handle in self.recorded else 0.0 for handle in handles if self.after_s is not None
        }

    @property
    def is_used(self) -> bool:
        """Whether an input can become idle. Otherwise no look is needed."""
        return self.after_s is not None

    def take_over(self, former: IdleInputs) -> None:
        """Goes on where the same run has looked by `former`."""
        self._looked_at = former._looked_at
        self._silent_s.update({each: s for each, s in former._silent_s.items() if each in self._silent_s})

    def look(self, now: float, active: Collection[str]) -> None:
        """A look at the input has found rows of `active` alone that are not divided yet."""
        if self.after_s is None:
            return
        passed, after_s = 0.0 if self._looked_at is None else now - self._looked_at, self.after_s
        self._looked_at = now
        most = GAP_SHARE_MAX * after_s

        def silent(before: float) -> float:
            if before >= after_s:
                return before
            return before + passed if passed <= most else min(before, most)

        self._silent_s = {each: 0.0 if each in active else silent(s) for each, s in self._silent_s.items()}

    @property
    def idle(self) -> tuple[str, ...]:
        """After the last look, in order."""
        after_s = self.after_s
        return () if after_s is None else tuple(sorted(each for each, s in self._silent_s.items() if s >= after_s))

    def is_due(self, recorded: Collection[str]) -> bool:
        """Whether a step without input is due. `recorded`: what the last division says is idle."""
        idle = self.idle
        return any(idle_inputs(sides, idle) - idle_inputs(sides, recorded) for sides in self.sides.values())
