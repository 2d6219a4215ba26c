"""Where a consumer stands in one partition, and the messages of it that were delivered and not handed out yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from io_kafka.clients.consumed import Chunk
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.byte_bound import Amount, kept_messages


class Waiting(NamedTuple):
    """A chunk, its last offset, and the bytes of its keys and values."""

    chunk: Chunk
    last: int
    nbytes: int

    @classmethod
    def of(cls, chunk: Chunk) -> Waiting:
        return cls(chunk, chunk.offsets[-1].as_py(), chunk.nbytes)


@dataclass
class Place:
    """`position`: all below it is handed out. `reached`: all below it has been delivered; `waiting` holds the messages in
    [position, reached). `log_end`: where the log ended when we last came to its end, None if there was more since. `is_resting`: the
    partition is not fetched for now.
    Invariant: position <= every offset in `waiting` < reached.
    """

    position: int
    reached: int
    waiting: list[Waiting] = field(default_factory=list)
    log_end: int | None = None
    is_resting: bool = False
    ahead_bytes: int = 0
    """Of `waiting`: keys and values."""

    def deliver(self, chunk: Chunk) -> None:
        came = Waiting.of(chunk)
        first = chunk.offsets[0].as_py()
        assert self.reached <= first <= came.last, f"offset {first} was delivered after {self.reached}"
        self.waiting.append(came)
        self.ahead_bytes += came.nbytes
        self.reached = came.last + 1
        self.log_end = None

    def take(self, end: int) -> list[Chunk]:
        """The messages below `end`, which must have been reached."""
        assert self.reached >= end
        taken, above = self._below(end)
        self.waiting = above
        self.ahead_bytes = sum(each.nbytes for each in above)
        self.position = end
        return taken

    def _below(self, end: int) -> tuple[list[Chunk], list[Waiting]]:
        """What waits below `end`, and the rest."""
        below: list[Chunk] = []
        above: list[Waiting] = []
        for each in self.waiting:
            if each.last < end:
                below.append(each.chunk)
            else:
                one, other = each.chunk.split(end)
                below += [one] if len(one.offsets) else []
                above.append(Waiting.of(other))
        return below, above

    def amount_below(self, end: int) -> Amount:
        """What is here of the range [position, end)."""
        read_bytes = 0
        for each in self.waiting:
            if each.last >= end:
                read_bytes += each.chunk.split(end)[0].nbytes
                break
            read_bytes += each.nbytes
        return Amount(read_bytes, self.reached >= end)

    def end_within(self, span: OffsetRange, level: int) -> int:
        """Where the range [position, span.end) ends if it keeps at most `level` bytes of its messages, but at least one message."""
        assert span.start == self.position
        amount = self.amount_below(span.end)
        if amount.is_whole and amount.read_bytes <= level:
            return span.end
        below, _ = self._below(span.end)
        kept = kept_messages(np.concatenate([chunk.sizes for chunk in below]), level)
        offsets = np.concatenate([chunk.offsets.to_numpy() for chunk in below])
        return int(offsets[kept - 1]) + 1

    @property
    def ahead(self) -> int:
        """Messages that nobody has asked for yet."""
        return sum(len(each.chunk.offsets) for each in self.waiting)
