"""The engine's faults, as a worker reports them. Each has its place as fields.

The code that raises an error knows what is wrong. The code that ran the operator adds the view and the step (`EngineError.locate`). Whether
they are known already is decided by the fields and never by the text, which may hold any value of the user's data.
"""

from __future__ import annotations

from typing import ClassVar, Self

from base.fault import ExitCode, Fault, with_advice


class EngineError(Fault):
    """Something in the data or the state that stops a step.

    `owner`: what it belongs to, for example "view totals". `place`: where in the input it is, for example "topic t, partition 0, offset 4".
    `step`: the number of the step. `node`: that of the circuit's node which raised it. Each is None until it is known."""

    exit_code = ExitCode.DATA

    def __init__(self, message: str, what_to_do: str = "") -> None:
        super().__init__(message, what_to_do)
        self.owner: str | None = None
        self.place: str | None = None
        self.step: int | None = None
        self.node: int | None = None

    def locate(self, *, owner: str, step: int, place: str | None = None, node: int | None = None) -> Self:
        """Gives the error these fields and returns it. Fields that are known already stay."""
        self.owner = owner if self.owner is None else self.owner
        self.place = place if self.place is None else self.place
        self.step = step if self.step is None else self.step
        self.node = node if self.node is None else self.node
        return self

    def __str__(self) -> str:
        where = [part for part in (self.owner, self.place, None if self.step is None else f"step {self.step}") if part]
        text = with_advice(self.message, self.what_to_do)
        return f"{', '.join(where)}: {text}" if where else text


class DataError(EngineError):
    """The step cannot be computed from this input and the views' definitions. Running it again would stop at the same place.

    `is_of_rows`: whether it is the error of single rows, which a step may leave out and count (operators/error_rows.py)."""

    is_of_rows: ClassVar[bool] = False


class StaleTask(EngineError):
    """The worker's state is not at the step that it was asked for. Nothing was changed. Recovery decides what is next."""


class TaskLost(EngineError):
    """A worker died, hangs or contradicts itself. The crew is replaced."""
