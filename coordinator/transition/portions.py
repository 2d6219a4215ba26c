"""How much the next step gives to new nodes: a portion of the content of feeds, or of messages that are read again.

The feeds of the first level come first, then the messages, and then the other levels. A portion is a range of positions, or a number of
messages. What it costs is not known before it is given, because content is not spread evenly. So its size follows from what the portions before
it took. Without input a portion may take `IDLE_MS`. With input it gets the share `SHARE` of the time of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PARTS = 256
"""The first portion is such a part of a level. Of 10 M rows it has 40,000, which take about 100 ms."""

IDLE_MS = 200.0
"""A portion without input. A range costs a few milliseconds whatever its size, and new input waits for the portion under way."""

SHARE = 0.3
"""Of the time of a step with input. A transition then does not double any latency."""

UNKNOWN_MS = 20.0
"""A portion beside input of which it is not known yet what it takes."""

PARTS_MAX = 1024
"""No portion is smaller than such a part of a level. Each has a cost of some milliseconds whatever its size, and smaller ones would only pay it
more often: the fixed cost would look like that of the positions, and the portions would shrink for ever."""

GROWTH_MAX = 4
"""By how many times a portion may be larger than the one before it."""

MESSAGES_FIRST = 5_000
"""The first portion of messages, whose cost is not known. It takes some ten milliseconds."""

MESSAGES_MIN, MESSAGES_BESIDE_INPUT_MIN = 5_000, 1_000
"""No portion has fewer messages, for the same reason as PARTS_MAX: where each step costs more than a portion may take, as on a busy machine,
portions would shrink until a step reads nearly nothing. 1,000 messages take some milliseconds, which small steps do not mind."""

CATCH_UP = 1.25
"""A step with input gives new nodes at least so many times the messages that it reads itself. So they catch up, whatever the load is."""

WEIGHT = 0.3
"""Of the last step in the averages."""


@dataclass
class Portions:
    """`level`: the positions of one level. `width`: of the last portion. `messages`: in the last portion of them. `ms_per_row`,
    `ms_per_position`, `ms_per_message`: averages; None if nothing is known."""

    level: int
    width: int = 0
    messages: int = 0
    ms_per_row: float | None = None
    ms_per_position: float | None = None
    ms_per_message: float | None = None

    def begin(self) -> None:
        """Another transition begins, whose portions cost something else."""
        self.width = self.messages = 0
        self.ms_per_position = self.ms_per_message = None

    def are_messages_next(self, position: int) -> bool:
        """Whether the content of the first level is given, so that messages are read again beside and before all others."""
        return position >= self.level

    def next_messages(self, rows: int, most: int) -> int:
        """How many messages a step reads again that reads so many rows. `most`: as many as a step may read."""
        budget_ms = IDLE_MS if not rows else self._budget_ms(rows)
        if self.ms_per_message is None or not self.messages:
            self.messages = MESSAGES_FIRST
        else:
            wanted = int(budget_ms / max(self.ms_per_message, IDLE_MS / most))
            least = MESSAGES_BESIDE_INPUT_MIN if rows else MESSAGES_MIN
            self.messages = max(least, min(wanted, GROWTH_MAX * self.messages))
        self.messages = max(1, min(most, max(self.messages, int(CATCH_UP * rows))))
        return self.messages

    def next(self, position: int, rows: int, whole: int) -> int:
        """The position after a step that reads so many rows. A portion ends with its level at the latest, because the feeds of the next level
        begin there. `whole`: the position at which everything is filled."""
        budget_ms = IDLE_MS if not rows else self._budget_ms(rows)
        if self.ms_per_position is None or not self.width:
            self.width = self.level // FIRST_PARTS
        else:
            wanted = int(budget_ms / max(self.ms_per_position, IDLE_MS / self.level))
            self.width = max(self.level // PARTS_MAX, min(wanted, GROWTH_MAX * self.width))
        end_of_level = (position // self.level + 1) * self.level
        return min(position + self.width, end_of_level, whole)

    def _budget_ms(self, rows: int) -> float:
        return UNKNOWN_MS if self.ms_per_row is None else SHARE / (1 - SHARE) * self.ms_per_row * rows

    def note(self, given: int, again: int, took_ms: float, rows: int) -> None:
        """A step has given so many positions and messages and read so many rows, and the workers took so long."""
        if not given and not again:
            if rows:
                self.ms_per_row = _average(self.ms_per_row, took_ms / rows)
            return
        of_rows = 0.0 if not rows else (1 - SHARE) * took_ms if self.ms_per_row is None else self.ms_per_row * rows
        cost = max(took_ms - of_rows, 0.05 * took_ms)
        if not given:
            self.ms_per_message = _average(self.ms_per_message, cost / again)
            return
        of_messages = 0.0 if self.ms_per_message is None else self.ms_per_message * again
        self.ms_per_position = _average(self.ms_per_position, max(cost - of_messages, 0.05 * took_ms) / given)


def _average(before: float | None, now: float) -> float:
    return now if before is None else (1 - WEIGHT) * before + WEIGHT * now
