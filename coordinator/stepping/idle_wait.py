"""How often the input is looked at while nothing comes.

A look asks the broker for the ends of all partitions. With the threads of the Kafka client it costs 1 to 3 ms of processor time, and an idle
pipeline that looked every 5 ms used 15 % of a core. So the pause grows with the silence: a message waits for at most a twentieth of the time in
which there was none, and never for longer than PAUSE_SECONDS_MAX. Input that comes steadily is found as fast as ever.

After a longer silence a bell listens at the ends. It rings as soon as a message comes, which ends the pause. So the looks become rare, and a
message after a silence waits for nothing. They go on, because a bell may miss what only a look finds, such as a new partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from io_kafka.offsets import TopicPartition

PAUSE_SECONDS_MIN = 0.005
"""A new message should not wait noticeably."""

PAUSE_SECONDS_MAX = 0.1
"""Reached after two seconds of silence. Ten looks per second cost 1 to 3 % of a core."""

PAUSE_SHARE = 0.05
"""The pause between two looks, as a part of the silence so far."""

PAUSE_WITH_BELL_SECONDS = 0.5
"""While a bell listens. Two looks per second cost no more than the listening, and find what it misses soon enough."""


class Bell(Protocol):
    """Wakes the loop when a message comes (io_kafka/clients/doorbell.py)."""

    def listen(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Rings once, when there is a committed message at one of these offsets or after it."""

    def listens_at(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether it listens there, and has not rung."""


class QuietInput:
    """Since when there is nothing to read. Times are seconds of a monotonic clock. `bell`: None if nothing tells when a message comes."""

    def __init__(self, bell: Bell | None) -> None:
        self._bell = bell
        self._since: float | None = None
        self._has_listened = False

    def end(self) -> None:
        """Something came."""
        self._since, self._has_listened = None, False

    def pause_s(self, now: float, silent_offsets: Callable[[], Mapping[TopicPartition, int] | None]) -> float:
        """The pause after a look at `now` that found nothing. `silent_offsets`: where the next step begins to read, which is asked for only if
        a bell may listen there; None if something else than a message may make the step due, which no bell tells."""
        if self._since is None:
            self._since = now
        pause = min(max(PAUSE_SECONDS_MIN, PAUSE_SHARE * (now - self._since)), PAUSE_SECONDS_MAX)
        if self._bell is None or pause < PAUSE_SECONDS_MAX or (offsets := silent_offsets()) is None:
            return pause
        if self._bell.listens_at(offsets):
            return PAUSE_WITH_BELL_SECONDS
        if not self._has_listened:
            # Once in a silence. If it rings and there is nothing to read, it would ring again at once.
            self._has_listened = True
            self._bell.listen(offsets)
        return pause
