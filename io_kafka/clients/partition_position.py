"""A consumer's position in one partition, and the messages that were delivered and not handed out yet.

Guarantee: messages are handed out once, in order, and without gap from the position at which the place was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from io_kafka.clients.timestamps import Timestamps
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.byte_bound import Amount, kept_messages


class Waiting(NamedTuple):
    """Messages that were delivered together, their last offset, and the bytes of their keys and values."""

    messages: Messages
    last: int
    nbytes: int

    @classmethod
    def of(cls, messages: Messages) -> Waiting:
        return cls(messages, messages.offsets[-1].as_py(), messages.content_bytes)


@dataclass
class PartitionPosition:
    """All messages below `position` were handed out. All messages below `reached` were delivered, and `waiting` holds those in
    [position, reached). `log_end` is the end of the log when it was last reached, or None if more came since. While `is_paused`, the
    partition is not fetched.

    Invariant: position <= every offset in `waiting` < reached.
    """

    position: int
    reached: int
    waiting: list[Waiting] = field(default_factory=list)
    log_end: int | None = None
    is_paused: bool = False
    ahead_bytes: int = 0
    """The bytes of keys and values in `waiting`."""
    timestamps: Timestamps = field(default_factory=Timestamps)

    def deliver(self, messages: Messages, first_ms: int = -1, last_ms: int = -1) -> None:
        """The timestamps are those of the first and the last message; -1 if it has none."""
        came = Waiting.of(messages)
        first = messages.offsets[0].as_py()
        assert self.reached <= first <= came.last, f"offset {first} was delivered after {self.reached}"
        self.waiting.append(came)
        self.timestamps.note(first, first_ms, came.last, last_ms)
        self.ahead_bytes += came.nbytes
        self.reached = came.last + 1
        self.log_end = None

    def take(self, end: int) -> list[Messages]:
        """Hands out the messages below `end`, which must have been reached."""
        assert self.reached >= end
        taken, above = self._below(end)
        self.waiting = above
        self.ahead_bytes = sum(each.nbytes for each in above)
        self.position = end
        return taken

    def _below(self, end: int) -> tuple[list[Messages], list[Waiting]]:
        """The waiting messages below `end`, and the others."""
        below: list[Messages] = []
        above: list[Waiting] = []
        for each in self.waiting:
            if each.last < end:
                below.append(each.messages)
            else:
                one, other = each.messages.split(end)
                if not one.length:
                    above.append(each)
                    continue
                below.append(one)
                above.append(Waiting(other, each.last, each.nbytes - one.content_bytes))
        return below, above

    def amount_below(self, end: int) -> Amount:
        """How much of the range [position, end) was delivered."""
        read_bytes = 0
        for each in self.waiting:
            if each.last >= end:
                read_bytes += each.messages.split(end)[0].content_bytes
                break
            read_bytes += each.nbytes
        return Amount(read_bytes, self.reached >= end)

    def end_within(self, span: OffsetRange, level: int) -> int:
        """The end of the range [position, span.end) after a cut to at most `level` bytes of messages, but at least one message."""
        assert span.start == self.position
        amount = self.amount_below(span.end)
        if amount.is_whole and amount.read_bytes <= level:
            return span.end
        below, _ = self._below(span.end)
        kept = kept_messages(np.concatenate([messages.content_sizes for messages in below]), level)
        offsets = np.concatenate([messages.offsets.to_numpy() for messages in below])
        return int(offsets[kept - 1]) + 1

    @property
    def ahead(self) -> int:
        """The number of messages that were delivered and not handed out."""
        return sum(each.messages.length for each in self.waiting)
