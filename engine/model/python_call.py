"""A call of the user's functions in Python, as plain data.

A function is known by its digest (stepwell/planning/function_digest.py). Its pickle is not part of its identity, because equal functions can
have different pickles in two processes. Nor are its name and its line, which change without the function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

PythonForm = Literal[
    "pickled row", "row", "pandas", "pandas iterator", "arrow", "arrow iterator",
    "pandas group", "pandas group iterator", "arrow group", "arrow group iterator",
]  # fmt: skip
"""What a function is given, and gives: the values of one row (by way of Arrow, or of Spark's pickles, which convert a result of another type
otherwise), pandas objects of a batch, Arrow arrays of a batch, or an iterator over the batches. A function of a group is given all rows of it,
and gives one value."""

OF_GROUPS: frozenset[PythonForm] = frozenset(
    {"pandas group", "pandas group iterator", "arrow group", "arrow group iterator"}
)

OF_SERIES: frozenset[PythonForm] = frozenset({"pandas", "pandas iterator"})
"""What is given pandas objects of a batch, whose types depend on whether the batch has NULLs."""


@dataclass(frozen=True)
class PythonFunction:
    """One function of the user's in Python, which its digest identifies. `pickled`: the function and the type that it declares, as Spark's
    workers read them. `place`: its file and line, for errors."""

    digest: str
    name: str = field(compare=False)
    place: str = field(compare=False)
    pickled: bytes = field(compare=False, repr=False)


@dataclass(frozen=True)
class PythonCall:
    """One call of the user's functions, one of which gets what the one before it returned. `functions`: the first is given the columns
    `arguments` of the input, and each other one what the one before it returned. `keywords`: for the last of the arguments, the names of the
    parameters that they stand for. A function of a group has one argument: a column of lists of structs, of which a list is a group, and a
    struct has the arguments for a row of it. `settings`: the settings of Spark's that decide how values are converted, sorted."""

    functions: tuple[PythonFunction, ...]
    form: PythonForm
    arguments: tuple[int, ...]
    keywords: tuple[str, ...]
    type: pa.DataType
    settings: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The names of the functions as SQL has them, the outermost function first: `f(g)`."""
        names = [function.name for function in reversed(self.functions)]
        return "(".join(names) + ")" * (len(names) - 1)
