"""Whether the timestamps of messages follow the event times that a query reads, as far as its watermark tells.

A cut by time is right only then. A topic whose history was loaded later has the times of its loading: event time then passes many times faster
than the timestamps. One partition would be read to its end before the next one begins, and all rows of the others would be late.

    unknown ---- two watermarks after cuts ----> follow ---- event time runs away ----> differ

`differ` stays until the backlog is over. In `unknown` the steps are small, so little is read in an order that turns out to be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PACE_MAX = 4
"""Event time may pass so many times faster than timestamps: events come in bursts, and a burst that waited is sent at once."""

SLACK_MS_MIN = 10_000
"""Differences below it say nothing: messages of one moment come in any order."""

TRIALS_MAX = 4
"""After so many cuts without a watermark that moves nothing contradicts the timestamps, and steps need not be small any more."""


@dataclass
class TimeRelation:
    """Whether timestamps follow event time, for one watermark over one backlog. `delay_ms`: the delay of the watermark."""

    delay_ms: int
    _first: tuple[int, int] | None = None
    _points: int = 0
    _cuts: int = 0
    differs: bool = field(default=False, init=False)

    @property
    def is_known(self) -> bool:
        return self.differs or self._points > 1 or self._cuts >= TRIALS_MAX

    def note_cut(self) -> None:
        """A division was cut by time."""
        self._cuts += 1

    def begin_again(self) -> None:
        """The watermark has moved for another reason. What follows is compared with what it is then."""
        self._first = None

    def note(self, cut_ms: int, watermark_ms: int) -> None:
        """All messages before `cut_ms` were read, and the watermark is this now. A watermark that has not begun says nothing."""
        if watermark_ms <= 0:
            return
        self._points += 1
        if self._first is None:
            self._first = cut_ms, watermark_ms
            return
        passed_ms, moved_ms = cut_ms - self._first[0], watermark_ms - self._first[1]
        slack_ms = max(SLACK_MS_MIN, self.delay_ms // 2)
        self.differs = self.differs or moved_ms > PACE_MAX * max(0, passed_ms) + slack_ms
