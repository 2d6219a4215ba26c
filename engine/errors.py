"""The engine's faults, as a task reports them: typed, and naming the place."""

from __future__ import annotations

from base.fault import ExitCode, Fault


class EngineError(Fault):
    """Something in the data or the state that stops a step."""

    exit_code = ExitCode.DATA


class DataError(EngineError):
    """The input, or a view's definition on that input, cannot be gone on with: running again would stop at the same place."""


class StaleTask(EngineError):
    """A task of another epoch, step or database: it has changed nothing. Recovery decides what is next."""


class TaskLost(EngineError):
    """Spark gave back less than all of a job's results. Recovery decides what is next."""
