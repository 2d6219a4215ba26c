"""The time of each step, and when a step is due because time has passed, without I/O.

The time of a step is that of the coordinator's host when the step is divided, rounded down to the resolution. It never goes back: if the host's
clock does, or a run on another host goes on, time stands still until it has caught up. The division records it, so a replay has the same one.

Without input, a step is due

- if a view computes with the clock, as soon as the time that it reads is another one, which for a view that reads only the date is once a day;
- if views only compare rows with the clock, when the time has reached the next **border**, at which a row enters or leaves a view. The workers
  tell it. After a start, and after a border has passed, nobody knows the next one: then they are asked to look through their state.

Nothing of this has to be remembered: an unknown border costs one step without input.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.model.circuit import Circuit
from engine.model.clock import ClockValue, TemporalFilter


@dataclass(frozen=True)
class ClockReading:
    """How a circuit reads the clock. `is_read`: at all. `roundings_us`: to what the times are rounded down that are read otherwise than by
    filters that know their borders."""

    is_read: bool
    roundings_us: frozenset[int] = frozenset()


def reading_of(circuit: Circuit) -> ClockReading:
    clocks = {index: node.rounding_us for index, node in enumerate(circuit.nodes) if isinstance(node, ClockValue)}
    computing = (node for node in circuit.nodes if not isinstance(node, TemporalFilter))
    return ClockReading(bool(clocks), frozenset(clocks[i] for node in computing for i in node.inputs if i in clocks))


@dataclass
class StepClock:
    """The clock of the steps in one run of one program. `resolution_us`: see `stepwell.clock.resolution`. `until_us`: the run ends with what was
    due at that time; None: it goes on. `border_us`: no row enters or leaves a view before it; None: nobody knows, or there is no border if
    `is_known`."""

    reading: ClockReading
    resolution_us: int
    until_us: int | None = None
    border_us: int | None = field(default=None, init=False)
    is_known: bool = field(default=False, init=False)

    def time(self, wall_us: int, last_us: int | None) -> int | None:
        """Returns the time of a step that is divided now. `last_us`: the time of the last division that has one. None if nothing reads the
        clock."""
        if not self.reading.is_read:
            return None
        now = wall_us if self.until_us is None else min(wall_us, self.until_us)
        return max(now // self.resolution_us * self.resolution_us, last_us or 0, 0)

    def is_due(self, wall_us: int, last_us: int | None) -> bool:
        """Whether a step without input is due."""
        now = self.time(wall_us, last_us)
        if now is None or now == last_us:
            return False
        if not self.is_known or last_us is None:
            return True
        if any(now // rounding != last_us // rounding for rounding in self.reading.roundings_us):
            return True
        return self.border_us is not None and self.border_us <= now

    def asks(self, time_us: int | None) -> bool:
        """Whether the workers have to look for the next border in a step of this time."""
        is_passed = self.border_us is not None and time_us is not None and self.border_us <= time_us
        return self.reading.is_read and (not self.is_known or is_passed)

    def note(self, time_us: int | None, border_us: int | None, *, is_whole: bool) -> None:
        """After a step of this time. `border_us`: what the workers have told. `is_whole`: they have looked through their state."""
        if time_us is None:
            return
        if is_whole:
            self.border_us, self.is_known = border_us, True
        elif self.is_known:
            told = [each for each in (self.border_us, border_us) if each is not None]
            self.border_us = min(told, default=None)
            self.is_known = self.border_us is None or self.border_us > time_us
