"""The requests of other threads to the loop: pause, resume, stop, hand-over and checkpoint; those that concern the layout and the revision,
which wait for an answer; and their questions.

Guarantees: the loop receives the requests in order, at a boundary between two steps. A request wakes a loop that waits. One that waits for an
answer receives one, also if the run ends before the loop has taken it. The number of requests that wait is bounded: an inbox refuses more, and
a request without an answer that is made again before the loop has taken it counts once.
"""

from __future__ import annotations

import threading
from typing import Literal, get_args

from coordinator.automatic.requests import AutoRequest
from coordinator.checkpoints.view_queries import ViewQueries
from coordinator.inbox import Inbox
from coordinator.rescale.requests import LayoutRequest, RescaleRefused
from coordinator.revisions.requests import RevisionRequest, TransitionRefused, TurnTransition

RequestName = Literal["pause", "resume", "stop", "hand-over", "checkpoint"]
"""What users ask of the loop without an answer. `hand-over` is a stop before a run that opens the databases of this one: it does not wait until
the last checkpoint is stored, which the next run sees to."""


class Requests:
    """All that other threads ask of the loop. Thread-safe. `wake` ends the loop's current wait without a request. `layout`: what is asked of the
    layout; `automatic`: other bounds of the number of workers; `revision`: a transition, or something of the one under way. These refuse with
    RescaleRefused and TransitionRefused. `questions`: see view_queries.py."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wanted: list[RequestName] = []
        self.layout = Inbox[LayoutRequest](
            self.wake, RescaleRefused, "`stepwell layout show` shows whether the change has begun."
        )
        self.automatic = Inbox[AutoRequest](
            self.wake, RescaleRefused, "`stepwell layout show` shows between which numbers of workers Stepwell chooses."
        )
        self.revision = Inbox[RevisionRequest](
            self.wake, TransitionRefused, "`stepwell revision show` shows what has become of it."
        )
        self.questions = ViewQueries(self.wake)

    def ask(self, what: RequestName) -> None:
        """Adds a request. None is refused, and each name waits once: the last one of pause and resume is in force, and the first one of all
        others."""
        assert what in get_args(RequestName)
        with self._lock:
            if what in ("pause", "resume"):
                self._wanted = [each for each in self._wanted if each != what]
            if what not in self._wanted:
                self._wanted.append(what)
        self._event.set()

    @property
    def abort_waits(self) -> bool:
        """Whether a user wants the transition aborted, and the loop has not taken that yet."""
        return self.revision.has(lambda request: isinstance(request, TurnTransition) and request.what == "abort")

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        self.layout.end()
        self.automatic.end()
        self.revision.end()
        self.questions.end()

    def wake(self) -> None:
        self._event.set()

    def take(self) -> list[RequestName]:
        """All requests since the last call, in order."""
        with self._lock:
            taken, self._wanted = self._wanted, []
            self._event.clear()
        return taken

    def wait(self, seconds: float) -> bool:
        """Waits for a request or for `wake`, for at most `seconds`. Returns whether one came."""
        return self._event.wait(seconds)
