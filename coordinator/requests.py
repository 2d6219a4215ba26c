"""The requests of other threads to the loop: pause, resume, stop and checkpoint; and their questions.

Guarantee: the loop gets every request once, in order, at a boundary between two steps. A request wakes a loop that waits.
"""

from __future__ import annotations

import threading

from coordinator.questions import Questions


class Requests:
    """A queue of requests. Thread-safe. `wake` ends the loop's current wait without a request. `questions`: see questions.py."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wanted: list[str] = []
        self.questions = Questions(self.wake)

    def ask(self, what: str) -> None:
        """Adds a request: "pause", "resume", "stop" or "checkpoint"."""
        assert what in ("pause", "resume", "stop", "checkpoint")
        with self._lock:
            self._wanted.append(what)
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    def take(self) -> list[str]:
        """All requests since the last call, in order."""
        with self._lock:
            taken, self._wanted = self._wanted, []
            self._event.clear()
        return taken

    def wait(self, seconds: float) -> bool:
        """Waits for a request or for `wake`, for at most `seconds`. Returns whether one came."""
        return self._event.wait(seconds)
