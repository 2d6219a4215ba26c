"""The coordinator's faults: what stops a pipeline, in words for its user."""

from __future__ import annotations

from base.fault import ExitCode, Fault


class CoordinatorError(Fault):
    """A fault that ends the run. Nothing was written since the last committed step."""

    exit_code = ExitCode.STATE


class CircuitChanged(CoordinatorError):
    """The project lowers to another circuit than the one that the state belongs to."""


class LayoutChanged(CoordinatorError):
    """Another number of workers or shards than the state was made with."""


class TopicChanged(CoordinatorError):
    """An input or output topic is not the one that was recorded."""

    exit_code = ExitCode.KAFKA


class StateLost(CoordinatorError):
    """The step log and the databases do not belong together."""


class RecoveryFailed(CoordinatorError):
    """The same step failed again and again."""
