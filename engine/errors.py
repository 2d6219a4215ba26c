"""The engine's faults, as a task reports them: typed, and with the place as fields.

An operator raises a fault with what it knows; `engine/run/region.py` adds the view and the step. Whether they are there already is a matter of the
fields and never of the text, which may quote any value from the data.
"""

from __future__ import annotations

from typing import Any, Self


class EngineError(Exception):
    """Something in the data or the state that stops a step. `what_to_do` speaks to the user.

    `owner`: whose fault it is, as in "view totals"; `place`: where in its input, as in "topic t, partition 0, offset 4"; `step`. They are None
    until somebody knows them."""

    def __init__(self, message: str, what_to_do: str = "") -> None:
        super().__init__(message, what_to_do)
        self.message = message
        self.what_to_do = what_to_do
        self.owner: str | None = None
        self.place: str | None = None
        self.step: int | None = None

    def located(self, *, owner: str, step: int, place: str | None = None) -> Self:
        """The same error with these fields, of which those that are known already stay."""
        self.owner = owner if self.owner is None else self.owner
        self.place = place if self.place is None else self.place
        self.step = step if self.step is None else self.step
        return self

    def __str__(self) -> str:
        where = [part for part in (self.owner, self.place, None if self.step is None else f"step {self.step}") if part]
        return " ".join(
            part for part in (f"{', '.join(where)}:" if where else "", self.message, self.what_to_do) if part
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """With all fields, whatever arguments a subclass takes: an error travels from a task to the driver."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[EngineError], args: tuple[Any, ...], fields: dict[str, Any]) -> EngineError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class DataError(EngineError):
    """The input, or a view's definition on that input, cannot be gone on with: running again would stop at the same place."""


class StaleTask(EngineError):
    """A task of another epoch, step or database: it has changed nothing. Recovery decides what is next."""


class TaskLost(EngineError):
    """Spark gave back less than all of a job's results. Recovery decides what is next."""
