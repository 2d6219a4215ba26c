"""The fold of a checkpoint in a thread of its own, while the loop's thread runs steps."""

from __future__ import annotations

from collections.abc import Callable

from engine.run.database_jobs import Folded
from io_kafka.outside import Outside


class BackgroundFold:
    """One fold, by `fold`. `wake` is called when it is over, from its thread."""

    def __init__(self, outside: Outside, fold: Callable[[], dict[int, Folded]], wake: Callable[[], None]) -> None:
        self._fold, self._wake = fold, wake
        self._result: dict[int, Folded] = {}
        self._fault: BaseException | None = None
        self._thread = outside.start_thread("fold", self._run)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Waits for its end, so long at most."""
        self._thread.join(seconds)

    def result(self) -> dict[int, Folded]:
        """Of every worker, once it is over. Raises what ended it."""
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
