"""Work that the loop has done in the background, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from io_kafka.outside import Outside

T = TypeVar("T")


class BackgroundWork(Generic[T]):
    """`work` must not touch what the loop changes: it gets values. `wake` is called when it is over, also if it has failed."""

    def __init__(self, outside: Outside, name: str, work: Callable[[], T], wake: Callable[[], None]) -> None:
        self._work, self._wake = work, wake
        self._found: list[T] = []
        self._fault: Exception | None = None
        self.is_over = False
        outside.start_thread(name, self._run)

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except Exception as fault:  # it is raised in the loop, where it belongs
            self._fault = fault
        self.is_over = True
        self._wake()

    def result(self) -> T:
        """What the work has returned, once it is over. Raises its fault."""
        assert self.is_over, "the work is under way"
        if self._fault is not None:
            raise self._fault
        return self._found[0]
