"""How far the filling of a transition is, and how long it still takes.

The levels of feeds and the messages that are read again are parts of equal weight, in the order in which they are given. How many messages are
left is told by what the revision in force has read; of a topic that only new nodes read, nothing is known here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.model.filling import HASHES
from io_kafka.step_log.value import LogValue

WINDOW_S = 10.0
"""The pace is that of the last ten seconds: long enough that a checkpoint does not show, and short enough to follow the load."""

NOT_LEVEL_SHARE_MAX = 0.99
"""The largest part of the messages that counts as read, as long as new ones have to be read."""


@dataclass(frozen=True)
class MessagesLeft:
    """The messages that are read again: how many are read, and how many of the partitions that the revision in force reads are left."""

    done: int
    left: int

    @classmethod
    def of(cls, log: LogValue) -> MessagesLeft:
        phase = log.revisions.phase
        starts = {} if phase is None else {each.where: each.start for each in phase.intent.again}
        at = log.reads_again
        done = sum(offset - starts.get(where, offset) for where, offset in at.items())
        return cls(done, sum(max(0, log.next_offsets.get(where, offset) - offset) for where, offset in at.items()))

    @property
    def share(self) -> float:
        return self.done / (self.done + self.left) if self.done + self.left else 1.0


def share_filled(log: LogValue) -> float:
    """From 0 to 1, while a transition fills."""
    phase = log.revisions.phase
    assert phase is not None
    if not phase.intent.again:
        return log.filled / phase.intent.whole
    share = MessagesLeft.of(log).share
    messages = share if log.has_reread_all else min(share, NOT_LEVEL_SHARE_MAX)
    return (log.filled / HASHES + messages) / (phase.intent.whole / HASHES + 1)


def share_drained(log: LogValue) -> float | None:
    """Which part of what differs has left, from 0 to 1, while that leaves in several steps; otherwise None."""
    drain = log.revisions.drain
    return None if drain is None else round(log.filled_before(log.steps) / drain.whole, 4)


@dataclass
class RereadPace:
    """How the messages that are left have become fewer. `_seen`: when there were how many, oldest first."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, now_s: float, log: LogValue) -> None:
        """After each step that fills."""
        self._seen.append((now_s, MessagesLeft.of(log).left))
        while now_s - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()

    @property
    def seconds_left(self) -> float | None:
        """None if it is not known yet, or if they do not become fewer."""
        if not self._seen or not self._seen[-1][1]:
            return 0.0 if self._seen else None
        (began, before), (now, left) = self._seen[0], self._seen[-1]
        return left * (now - began) / (before - left) if before > left and now > began else None
