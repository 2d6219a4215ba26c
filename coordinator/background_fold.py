"""The fold of a checkpoint, in a thread of its own, while the loop's thread runs steps.

Guarantees: `wake` is called after the fold has ended, however it ended; what ended it is raised in the thread that asks for the result.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.run.database_jobs import Folded
from io_kafka.outside import Outside


class BackgroundFold:
    """Runs `fold` once, from the moment it is made. Its thread calls `wake` when `fold` has ended."""

    def __init__(self, outside: Outside, fold: Callable[[], dict[int, Folded]], wake: Callable[[], None]) -> None:
        self._fold, self._wake = fold, wake
        self._result: dict[int, Folded] = {}
        self._fault: BaseException | None = None
        self._thread = outside.start_thread("fold", self._run)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Waits until the fold has ended, for at most `seconds`."""
        self._thread.join(seconds)

    def result(self) -> dict[int, Folded]:
        """The result of each worker; only once the fold is over. Raises the exception that ended the fold, if one did."""
        assert self.is_over
        if self._fault is not None:
            raise self._fault
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._fold()
        except BaseException as fault:
            self._fault = fault
        finally:
            self._wake()
