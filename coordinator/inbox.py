"""Bounded queues of requests that wait for an answer, between the threads that ask and the loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from base.fault import Fault

R = TypeVar("R")

Refusal = Callable[[str, str], Fault]
"""Makes the fault of a refused request, from its message and from what the user can do."""

WAITING_MAX = 16
"""How many requests of one kind wait at most. The loop takes them between two steps, so more come only from a client that repeats itself while
the service starts or recovers. A query of views may take a second of all workers' time, and its answer stays in memory until it is taken."""

START_AGAIN = "Start it again with `stepwell run`."


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
    """The requests of one kind, WAITING_MAX at most. Thread-safe. `wake` is called for each one. `refusal` makes the fault if nobody can answer,
    and `look` says how a user finds out what became of a request that was not answered in time."""

    def __init__(self, wake: Callable[[], None], refusal: Refusal, look: str) -> None:
        self._wake, self._refusal, self._look = wake, refusal, look
        self._lock = threading.Lock()
        self._waiting = deque[PendingRequest[R]]()
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
        """Adds a request as `ask` does, and returns it without waiting for the answer. Raises the fault if the run is over, or if too many
        requests wait."""
        asked = PendingRequest(request)
        with self._lock:
            if self._is_over:
                raise self._refusal("the service is ending.", START_AGAIN)
            if len(self._waiting) >= WAITING_MAX:
                raise self._refusal(
                    "the service has too many requests to answer; this one was not taken.", "Ask again."
                )
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
            taken, self._waiting = list(self._waiting), deque()
        return taken

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def first(self) -> PendingRequest[R] | None:
        """The oldest request, which stays until `answer_first`; None if none waits. Unlike `take`, it is for requests that are answered one
        after the other."""
        return self._waiting[0] if self._waiting else None

    def answer_first(self, fault: Exception | None) -> None:
        """The oldest request has its answer."""
        with self._lock:
            first = self._waiting.popleft()
        first.answer(fault)

    def forget(self, asked: PendingRequest[R]) -> None:
        """Nobody waits for the answer any more. The oldest request may be in work, and stays."""
        with self._lock:
            if asked in self._waiting and asked is not self._waiting[0]:
                self._waiting.remove(asked)

    def end(self) -> None:
        """The run is over: nobody answers any more."""
        with self._lock:
            self._is_over = True
        for asked in self.take():
            asked.answer(self._refusal("the service has ended.", START_AGAIN))
