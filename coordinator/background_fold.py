"""The fold of a checkpoint in a thread of its own, while the loop's thread runs steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine import database_jobs
from engine.database_jobs import Folded
from engine.tasks import TaskSetup


class BackgroundFold:
    """One fold. `wake` is called when it is over, from its thread."""

    def __init__(self, context: Any, setup: TaskSetup, wake: Callable[[], None]) -> None:
        self._context, self._setup, self._wake = context, setup, wake
        self._result: dict[int, Folded] = {}
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fold", daemon=True)
        self._thread.start()

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
            self._result = database_jobs.fold_all(self._context, self._setup)
        except BaseException as fault:
            self._fault = fault
        finally:
            self._wake()
