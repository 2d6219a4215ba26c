"""The requests of other threads to the loop: pause, resume, stop, hand-over and checkpoint; those that concern the layout and the revision,
which wait for an answer; and their questions.

Guarantees: the loop gets every request once, in order, at a boundary between two steps. A request wakes a loop that waits. One that waits for
an answer gets one, also if the run ends before the loop has taken it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, get_args

from base.fault import Fault
from coordinator.automatic.requests import AutoRequest
from coordinator.checkpoints.questions import Questions
from coordinator.rescale.requests import LayoutRequest, RescaleRefused
from coordinator.revisions.requests import RevisionRequest, TransitionRefused, TurnTransition

R = TypeVar("R")

RequestName = Literal["pause", "resume", "stop", "hand-over", "checkpoint"]
"""What users ask of the loop without an answer. `hand-over` is a stop before a run that opens the databases of this one: it does not wait until
the last checkpoint is stored, which the next run sees to."""

Refusal = Callable[[str, str], Fault]
"""Makes the fault of a refused request, from its message and from what the user can do."""


@dataclass(eq=False)
class PendingRequest(Generic[R]):
    """A request that waits for its answer."""

    request: R
    done: threading.Event = field(default_factory=threading.Event)
    fault: Exception | None = None

    def answer(self, fault: Exception | None) -> None:
        self.fault = fault
        self.done.set()


class Inbox(Generic[R]):
    """The requests of one kind. Thread-safe. `wake` is called for each one. `refusal` makes the fault if nobody can answer, and `look` says
    how a user finds out what became of a request that was not answered in time."""

    def __init__(self, wake: Callable[[], None], refusal: Refusal, look: str) -> None:
        self._wake, self._refusal, self._look = wake, refusal, look
        self._lock = threading.Lock()
        self._waiting: list[PendingRequest[R]] = []
        self._is_over = False

    def ask(self, request: R, seconds: float) -> None:
        """Waits until the loop has accepted the request. Raises the fault with which it was refused."""
        asked = self.put(request)
        if not asked.done.wait(seconds):
            raise self._refusal(
                f"the service has not answered within {seconds:g} s: it starts or recovers.", self._look
            )
        if asked.fault is not None:
            raise asked.fault

    def put(self, request: R) -> PendingRequest[R]:
        """Adds a request as `ask` does, and returns it without waiting for the answer. Raises the fault if the run is over."""
        asked = PendingRequest(request)
        with self._lock:
            if self._is_over:
                raise self._refusal("the service is ending.", "Start it again with `stepwell run`.")
            self._waiting.append(asked)
        self._wake()
        return asked

    def has(self, matches: Callable[[R], bool]) -> bool:
        """Whether a request is waiting that matches."""
        with self._lock:
            return any(matches(asked.request) for asked in self._waiting)

    def take(self) -> list[PendingRequest[R]]:
        """What was asked since the last call, in order."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        with self._lock:
            self._is_over = True
        for asked in self.take():
            asked.answer(self._refusal("the service has ended.", "Start it again with `stepwell run`."))


class Requests:
    """All that other threads ask of the loop. Thread-safe. `wake` ends the loop's current wait without a request. `layout`: what is asked of the
    layout; `automatic`: other bounds of the number of workers; `revision`: a transition, or something of the one under way. These refuse with
    RescaleRefused and TransitionRefused. `questions`: see questions.py."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._wanted: list[RequestName] = []
        self.layout = Inbox[LayoutRequest](
            self.wake, RescaleRefused, "`stepwell layout show` tells whether the change has begun."
        )
        self.automatic = Inbox[AutoRequest](
            self.wake, RescaleRefused, "`stepwell layout show` tells between which numbers of workers Stepwell chooses."
        )
        self.revision = Inbox[RevisionRequest](
            self.wake, TransitionRefused, "`stepwell revision show` tells what has become of it."
        )
        self.questions = Questions(self.wake)

    def ask(self, what: RequestName) -> None:
        """Adds a request."""
        assert what in get_args(RequestName)
        with self._lock:
            self._wanted.append(what)
        self._event.set()

    @property
    def abort_waits(self) -> bool:
        """Whether somebody wants the transition aborted, and that was not taken yet."""
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
