"""The threads that send a sign of life each second, whatever the process's own thread does, and a worker's watch over its coordinator.

Guarantee: a worker whose coordinator is gone ends within about `silence_s`. Its process ends at once then, without any clean-up: its database is
made for that, and a thread that computes or hangs could not be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from base.term import Term
from engine.resident.frames import Frame
from engine.resident.messages import Beat, Ping
from engine.resident.transport import Connection
from io_kafka.outside import Outside

BEAT_SECONDS = 1.0
"""The time between two signs of life: a fifth of the default silence after which the other end counts as dead."""


@dataclass
class WorkerPulse:
    """Sends heartbeats to the coordinator and watches it. `end_process` is called with the reason if the coordinator is gone."""

    control: Connection
    term: Term
    beat: Callable[[], Beat]
    silence_s: float
    end_process: Callable[[str], None]
    outside: Outside
    over: bool = False
    is_started: bool = False

    def start(self) -> None:
        self.is_started = True
        self.outside.start_thread("pulse", self._run)

    def _run(self) -> None:
        heard_bytes, heard_at = -1, self.outside.monotonic()
        while not self.over:
            self.control.send_sign(Frame(self.term, self.beat()))
            self.outside.sleep(BEAT_SECONDS)
            now, arrived = self.outside.monotonic(), self.control.bytes_arrived()
            if arrived != heard_bytes:
                heard_bytes, heard_at = arrived, now
            if self.over:
                return
            if self.control.is_gone():
                self.end_process("the connection to the coordinator has ended")
                return
            if now - heard_at > self.silence_s:
                self.end_process(
                    f"the coordinator has been silent for {now - heard_at:.1f} s (limit {self.silence_s:g} s)"
                )
                return


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
