"""Gives up a step that fills new nodes whose user functions never return, once a user wants the transition aborted.

A function of the user's that loops uses CPU, so its worker counts as one that makes progress, and its step never ends. Requests are taken
between two steps. So the abort that would help could not be taken either. The workers are given up then as if they were lost, and the abort
comes before their step is run again.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import TaskLost

ABORT_SECONDS = 20.0
"""How long an abort waits for a step. The command that asks for it waits a minute, and new workers are there some seconds later."""


class StuckFilling:
    """A step that fills new nodes, while the workers have it. `wants_abort`: whether a user wants the transition aborted. `monotonic`: a clock,
    in seconds."""

    def __init__(self, step: int, wants_abort: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        self._step, self._is_unwanted, self._monotonic = step, wants_abort, monotonic
        self._since: float | None = None

    def look(self) -> None:
        """Called again and again while the step is under way. Raises TaskLost if an abort has waited for too long."""
        if not self._is_unwanted():
            return
        now = self._monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > ABORT_SECONDS:
            raise TaskLost(
                f"step {self._step}: it fills new nodes and has not ended for {ABORT_SECONDS:g} s since the transition was to be aborted"
            )
