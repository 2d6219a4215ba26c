"""The coordinator's faults. Each ends the run and tells the user what stopped it and what to do."""

from __future__ import annotations

from base.fault import ExitCode, Fault


class CoordinatorError(Fault):
    """A fault that ends the run. Nothing was written since the last committed step."""

    exit_code = ExitCode.STATE


class CircuitChanged(CoordinatorError):
    """The project is not the one that the state belongs to, and does not continue it."""


class WorkersUnknown(CoordinatorError):
    """Nothing says how many workers a new pipeline has."""

    exit_code = ExitCode.PROJECT


class TopicChanged(CoordinatorError):
    """An input or output topic is not the one that was recorded."""

    exit_code = ExitCode.KAFKA


class StateLost(CoordinatorError):
    """The step log and the databases do not belong together."""


class DatabaseMissing(StateLost):
    """No task has come to a host that holds the database of a worker."""


class RecoveryFailed(CoordinatorError):
    """One step, or one checkpoint, failed several times in a row."""
