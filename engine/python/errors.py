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
    """A function raised because something around it is missing or does not answer: a module, a file, a connection. It may be there the next
    time, so its rows cannot be counted as error rows: when they are retracted they might not raise."""

    is_of_rows = False


OF_THE_SURROUNDINGS = (ImportError, OSError)
"""What a function raises then. Errors of network libraries are OSErrors too."""


class WrongResult(Exception):
    """A result that Spark refuses too. It becomes a FunctionError where the row is known."""
