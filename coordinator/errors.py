"""The coordinator's faults: what stops a pipeline, in words for its user."""

from __future__ import annotations


class CoordinatorError(Exception):
    """Text and what to do next; nothing was written since the last committed step."""

    def __init__(self, message: str, what_to_do: str) -> None:
        super().__init__(message, what_to_do)
        self.message = message
        self.what_to_do = what_to_do

    def __str__(self) -> str:
        return f"{self.message} {self.what_to_do}"


class CircuitChanged(CoordinatorError):
    """The project lowers to another circuit than the one that the state belongs to."""


class LayoutChanged(CoordinatorError):
    """Another number of workers or shards than the state was made with."""


class TopicChanged(CoordinatorError):
    """An input or output topic is not the one that was recorded."""


class StateLost(CoordinatorError):
    """The step log and the databases do not belong together."""


class RecoveryFailed(CoordinatorError):
    """The same step failed again and again."""
