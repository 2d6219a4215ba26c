"""The engine's faults, as a task reports them: typed, and naming the place."""

from __future__ import annotations


class EngineError(Exception):
    """Something in the data or the state that stops a step. `what_to_do` speaks to the user."""

    def __init__(self, message: str, what_to_do: str = "") -> None:
        super().__init__(message, what_to_do)
        self.message = message
        self.what_to_do = what_to_do

    def __str__(self) -> str:
        return f"{self.message} {self.what_to_do}".strip()


class DataError(EngineError):
    """The input, or a view's definition on that input, cannot be gone on with: running again would stop at the same place."""


class StaleTask(EngineError):
    """A task of another epoch, step or database: it has changed nothing. Recovery decides what is next."""


class TaskLost(EngineError):
    """Spark gave back less than all of a job's results. Recovery decides what is next."""
