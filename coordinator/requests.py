"""The requests of other threads to the loop: pause, resume, stop and checkpoint; and their questions.

Guarantee: the loop gets every request once, in order, at a boundary between two steps. A request wakes a loop that waits.
"""

from __future__ import annotations

import threading

from coordinator.checkpoints.questions import Questions
from coordinator.rescale.requests import Asked, LayoutRequest, RescaleRefused


class Requests:
    """A queue of requests. Thread-safe. `wake` ends the loop's current wait without a request. `questions`: see questions.py."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wanted: list[str] = []
        self._layout: list[Asked] = []
        self._is_over = False
        self.questions = Questions(self.wake)

    def ask(self, what: str) -> None:
        """Adds a request: "pause", "resume", "stop" or "checkpoint"."""
        assert what in ("pause", "resume", "stop", "checkpoint")
        with self._lock:
            self._wanted.append(what)
        self._event.set()

    def ask_layout(self, request: LayoutRequest, seconds: float) -> None:
        """Asks for something that concerns the layout, and waits until the loop has accepted it. Raises RescaleRefused."""
        asked = self.ask_without_waiting(request)
        if not asked.done.wait(seconds):
            raise RescaleRefused(
                f"the service has not answered within {seconds:g} s: it starts or recovers.",
                "`stepwell layout show` tells whether the change has begun.",
            )
        if asked.fault is not None:
            raise asked.fault

    def ask_without_waiting(self, request: LayoutRequest) -> Asked:
        """As `ask_layout`, whose answer the caller does not wait for. Raises RescaleRefused if the run is over."""
        asked = Asked(request)
        with self._lock:
            if self._is_over:
                raise RescaleRefused("the service is ending.", "Start it again with `stepwell run`.")
            self._layout.append(asked)
        self._event.set()
        return asked

    def take_layout(self) -> list[Asked]:
        """What was asked of the layout since the last call, in order."""
        with self._lock:
            taken, self._layout = self._layout, []
        return taken

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        with self._lock:
            self._is_over = True
        for asked in self.take_layout():
            asked.answer(RescaleRefused("the service has ended.", "Start it again with `stepwell run`."))
        self.questions.end()

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
