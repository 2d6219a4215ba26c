"""How much the next step gives to new nodes: a portion of the content of feeds, or of messages that are read again.

The feeds of the first level come first, then the messages, and then the other levels. A level that has no feeds is passed in one portion,
which costs nothing. So a project that only needs another plan is in force after a few steps, however busy the machine is.

A portion is a range of positions, or a number of messages. What it costs is not known before it is given. It has a fixed part, because new
nodes read their state and send their rows however few there are, and a part that grows with it. Both are estimated from the portions before
it (portion_cost.py). Without input a portion may take `IDLE_MS`. With input it gets the share `SHARE` of the time of a step. Where that would
mostly pay the fixed part, a portion may take `USEFUL` times the fixed part instead: many small portions would take the same time from the
steps, and hardly get on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle

from coordinator.transition.draining import FIRST_PARTS, GROWTH_MAX, DrainPortions
from coordinator.transition.portion_cost import Cost

IDLE_MS = 200.0
"""A portion without input. New input waits for the portion under way."""

SHARE = 0.3
"""The part of the time of a step with input that a portion may take. A transition then does not double any latency."""

USEFUL = 2.0
"""Half of the time of a portion at least goes to what it gives."""

PARTS_MAX = 1024
"""No portion is smaller than such a part of a level, whatever the estimates say."""

MESSAGES_FIRST = 5_000
"""The first portion of messages, whose cost is not known. It takes some ten milliseconds."""

MESSAGES_MIN, MESSAGES_BESIDE_INPUT_MIN = 5_000, 1_000
"""No portion has fewer messages, whatever the estimates say. 1,000 messages take some milliseconds, which small steps do not mind."""

CATCH_UP = 2.0
"""A step with input gives new nodes at least so many times the messages that it reads itself. So they catch up, whatever the load is. Its rows
differ enough by themselves to tell the fixed part of a cost; swings would only make the longest steps longer."""

SWINGS = (0.75, 1.25)
"""Portions are in turn so many times what they should be. If all had one size, nothing would tell the fixed part of their cost."""

LEAST_SHARE = 0.05
"""The least part of the time of a step that counts for a cost that is not known yet. An estimate of the others that was made while the machine
was busy is too high; this keeps it from leaving nothing for that cost."""


@dataclass
class Portions:
    """What the portions of a transition have cost so far, by which the next ones are sized. `level`: the positions of one level. `fed_levels`:
    the levels that have feeds; None if that is not known, as after a restart. `width`: of the
    last portion. `messages`: in the last portion of them. The costs are those of a step by its rows, and of a portion by its positions
    and by its messages. `drained`: of what differs, if that leaves in several steps."""

    level: int
    fed_levels: frozenset[int] | None = None
    width: int = 0
    messages: int = 0
    of_rows: Cost = field(default_factory=Cost)
    of_positions: Cost = field(default_factory=Cost)
    of_messages: Cost = field(default_factory=Cost)
    drained: DrainPortions = field(default_factory=DrainPortions)

    def __post_init__(self) -> None:
        self._swings = cycle(SWINGS)

    def begin(self, fed_levels: frozenset[int]) -> None:
        """Another transition begins, whose portions cost something else. `fed_levels`: the levels that have feeds."""
        self.fed_levels = fed_levels
        self.width = self.messages = 0
        self.of_positions, self.of_messages = Cost(), Cost()
        self.drained.begin()

    def are_messages_next(self, position: int) -> bool:
        """Whether the content of the first level is given, so that messages are read again beside and before all others."""
        return position >= self.level

    def next_messages(self, rows: int, most: int) -> int:
        """How many messages a step reads again that reads so many rows. `most`: as many as a step may read."""
        swing = next(self._swings)
        if not self.messages:
            self.messages = MESSAGES_FIRST
        else:
            least = MESSAGES_BESIDE_INPUT_MIN if rows else MESSAGES_MIN
            self.messages = self._size(self.of_messages, swing, rows, least, GROWTH_MAX * self.messages)
        self.messages = max(1, min(most, max(self.messages, int(CATCH_UP * rows))))
        return self.messages

    def next(self, position: int, rows: int, whole: int) -> int:
        """The position after a step that reads so many rows. A portion ends with its level at the latest, because the feeds of the next level
        begin there. `whole`: the position at which everything is filled."""
        end_of_level = (position // self.level + 1) * self.level
        if not self._is_fed(position):
            return min(end_of_level, whole)
        if not self.width:
            self.width = self.level // FIRST_PARTS
        else:
            most = min(self.level, GROWTH_MAX * self.width)
            self.width = self._size(self.of_positions, next(self._swings), rows, self.level // PARTS_MAX, most)
        return min(position + self.width, end_of_level, whole)

    def _is_fed(self, position: int) -> bool:
        return self.fed_levels is None or position // self.level in self.fed_levels

    def fed_positions_between(self, before: int, after: int) -> int:
        """How many of the positions between these two belong to feeds. A portion lies within a level."""
        return after - before if self._is_fed(before) else 0

    def _size(self, cost: Cost, swing: float, rows: int, least: int, most: int) -> int:
        budget_ms = IDLE_MS if not rows else SHARE / (1 - SHARE) * self.of_rows.at(rows)
        wanted = swing * cost.size_within(max(budget_ms, USEFUL * cost.fixed))
        return max(least, int(min(wanted, most)))

    def note(self, given: int, again: int, took_ms: float, rows: int) -> None:
        """A step has given so many positions and messages and read so many rows, and the workers took so long."""
        parts = [(cost, size) for cost, size in self._parts(given, again, rows) if size]
        known = {cost: cost.at(size) for cost, size in parts if cost.count}
        expected = sum(known.values())
        for cost, size in parts:
            if len(known) == len(parts):
                # Nobody knows what has taken longer than expected. If the machine is busy, it is all of them.
                cost.note(size, took_ms * known[cost] / expected)
            elif cost not in known:
                cost.note(size, max(took_ms - expected, LEAST_SHARE * took_ms) / (len(parts) - len(known)))

    def _parts(self, given: int, again: int, rows: int) -> tuple[tuple[Cost, int], ...]:
        return (self.of_positions, given), (self.of_messages, again), (self.of_rows, rows)

    def ms_of_positions(self, positions: int) -> float | None:
        """About how long so many positions take if nothing else is to be done; None if nothing is known."""
        per_position = self.of_positions.per_unit
        return None if per_position is None else per_position * positions
