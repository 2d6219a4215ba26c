"""What other threads ask of the loop: a few flags and a way to wake it. The loop takes them between steps."""

from __future__ import annotations

import threading


class Requests:
    """Thread-safe. `wake` cancels the loop's wait for input: the seed's token."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wanted: list[str] = []

    def ask(self, what: str) -> None:
        """`what`: pause, resume, stop or checkpoint."""
        assert what in ("pause", "resume", "stop", "checkpoint")
        with self._lock:
            self._wanted.append(what)
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    def take(self) -> list[str]:
        """All requests since the last time, in order."""
        with self._lock:
            taken, self._wanted = self._wanted, []
            self._event.clear()
        return taken

    def wait(self, seconds: float) -> bool:
        """Until somebody asks, wakes, or the time is over; whether somebody did."""
        return self._event.wait(seconds)
