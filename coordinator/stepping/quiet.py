"""How often the input is looked at while nothing comes.

A look asks the broker for the ends of all partitions. With the threads of the Kafka client it costs 1 to 3 ms of processor time, and an idle
pipeline that looked every 5 ms used 15 % of a core. So the pause grows with the silence: a message waits for at most a twentieth of the time in
which there was none, and never for longer than PAUSE_SECONDS_MAX. Input that comes steadily is found as fast as ever.
"""

from __future__ import annotations

PAUSE_SECONDS_MIN = 0.005
"""A new message should not wait noticeably."""

PAUSE_SECONDS_MAX = 0.1
"""Reached after two seconds of silence. Ten looks per second cost 2 to 3 % of a core."""

PAUSE_SHARE = 0.05
"""Of the silence so far."""


class QuietInput:
    """Since when there is nothing to read. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._since: float | None = None

    def end(self) -> None:
        """Something came."""
        self._since = None

    def pause_s(self, now: float) -> float:
        """The pause after a look at `now` that found nothing."""
        if self._since is None:
            self._since = now
        return min(max(PAUSE_SECONDS_MIN, PAUSE_SHARE * (now - self._since)), PAUSE_SECONDS_MAX)
