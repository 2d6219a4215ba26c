"""The threads that send a sign of life each second, whatever the process's own thread does, and a worker's watch over its coordinator.

Guarantee: a worker whose coordinator is gone ends within about `silence_s`, and within about BEAT_SECONDS if the connection has ended. Its
process ends at once then, without any clean-up: its database is made for that, and a thread that computes or hangs could not be asked.

The watch begins with the connection. Until the first sign of life the coordinator is allowed FIRST_SIGN_SECONDS_MAX: it takes registrations when
the broker has answered its questions about topics, and a broker may be slow. A task that gave up earlier would be a lost task, and three of
them end a run that only had to wait. It has no number then, and no database is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from base.term import Term
from engine.resident.frames import Frame
from engine.resident.liveness import WatchedTime
from engine.resident.messages import Beat, Ping
from engine.resident.transport import Connection
from io_kafka.outside import Outside

BEAT_SECONDS = 1.0
"""The time between two signs of life: a fifth of the default silence after which the other end counts as dead."""

FIRST_SIGN_SECONDS_MAX = 60.0
"""From the connection to the first sign of life of the coordinator."""


def gap_s_max(silence_s: float) -> float:
    """The longest time between two looks that counts as watched. After a longer one, the other end has at least two beats to be heard."""
    return max(silence_s / 2, 2 * BEAT_SECONDS)


@dataclass(kw_only=True)
class WorkerPulse:
    """Watches the coordinator, and sends heartbeats to it as soon as `is_registered`. `end_process` is called with the reason if the coordinator
    is gone. `has_spoken`: whether a frame of the coordinator has come; bytes of a handshake are none. `over`: nothing is sent or watched any
    more."""

    control: Connection
    term: Term
    beat: Callable[[], Beat]
    silence_s: float
    end_process: Callable[[str], None]
    outside: Outside
    over: bool = False
    is_registered: bool = False
    has_spoken: bool = False

    def start(self) -> None:
        self.outside.start_thread("pulse", self._run)

    def _run(self) -> None:
        clock = WatchedTime(self.outside.monotonic, gap_s_max(self.silence_s))
        heard_bytes, heard_at = 0, clock.now()
        while not self.over:
            if self.is_registered:
                self.control.send_sign(Frame(self.term, self.beat()))
            self.outside.sleep(BEAT_SECONDS)
            now, arrived = clock.now(), self.control.bytes_arrived()
            if arrived != heard_bytes:
                heard_bytes, heard_at = arrived, now
            if self.over:
                return
            why = self._why_gone(now - heard_at)
            if why is not None:
                self.over = True
                self.end_process(why)

    def _why_gone(self, silent_s: float) -> str | None:
        """Why the coordinator counts as gone; None if it does not."""
        if self.control.is_gone():
            return "the connection to the coordinator has ended"
        if not self.has_spoken and silent_s > FIRST_SIGN_SECONDS_MAX:
            return f"the coordinator has given no sign of life within {FIRST_SIGN_SECONDS_MAX:g} s"
        if self.has_spoken and silent_s > self.silence_s:
            return f"the coordinator has been silent for {silent_s:.1f} s (limit {self.silence_s:g} s)"
        return None


@dataclass
class CoordinatorPulse:
    """Sends pings to all workers. `connections` gives those of the present moment."""

    connections: Callable[[], Iterable[Connection]]
    term: Term
    outside: Outside
    over: bool = field(default=False)

    def start(self) -> None:
        self.outside.start_thread("pulse", self._run)

    def _run(self) -> None:
        while not self.over:
            for connection in self.connections():
                connection.send_sign(Frame(self.term, Ping()))
            self.outside.sleep(BEAT_SECONDS)
