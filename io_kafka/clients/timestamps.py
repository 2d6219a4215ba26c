"""The timestamps of the messages that were delivered and not handed out yet, as far as the delay of the pipeline needs them.

Only the first and the last message of each delivery are looked at, so that it costs nothing for a message. What is told of a range is
therefore approximate. The oldest timestamp is never too late, if timestamps ascend in the partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Times(NamedTuple):
    """The oldest and the newest timestamp of some messages, in milliseconds since 1970."""

    oldest_ms: int
    newest_ms: int


class _Delivered(NamedTuple):
    first: int
    last: int
    times: Times


@dataclass
class Timestamps:
    """The timestamps of one partition. `_delivered` ascends, and each entry reaches to or beyond the end of what was taken."""

    _delivered: list[_Delivered] = field(default_factory=list)

    def note(self, first: int, first_ms: int, last: int, last_ms: int) -> None:
        """The offsets and the timestamps of the first and the last message of a delivery. A negative timestamp is none."""
        known = [each for each in (first_ms, last_ms) if each >= 0]
        if known:
            self._delivered.append(_Delivered(first, last, Times(min(known), max(known))))

    def take(self, end: int) -> Times | None:
        """Returns the times of the messages below `end` that were not taken yet; None if there are no such messages, or if they have no
        times."""
        taken = [each for each in self._delivered if each.first < end]
        if not taken:
            return None
        self._delivered = [each for each in self._delivered if each.last >= end]
        whole = [each.times.newest_ms for each in taken if each.last < end]
        oldest = min(each.times.oldest_ms for each in taken)
        return Times(oldest, max(whole, default=oldest))
