"""What can be wrong with a function of the user's."""

from __future__ import annotations

from engine.errors import DataError


class FunctionError(DataError):
    """A function raised, or gave what is not of its type. `function`: its name. `raised`: the class of the exception."""

    is_of_rows = True

    def __init__(self, message: str, what_to_do: str, *, function: str, raised: str) -> None:
        super().__init__(f"[PYTHON_FUNCTION] {message}", what_to_do)
        self.function = function
        self.raised = raised


class FunctionUnusable(FunctionError):
    """A function raised what need not be about the row: a module, a file, or a connection may be missing. It may be there the next time, so
    the row cannot be counted as an error row: when it is retracted the function might not raise."""

    is_of_rows = False


class WrongResult(Exception):
    """A result that Spark refuses too. It becomes a FunctionError where the row is known."""
