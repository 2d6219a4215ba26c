"""The type of a function that expressions may call, and how to make one from a function over single values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


class Failure(ValueError):
    """An error for a row on which Spark raises too. The text begins with Spark's error class in brackets."""

    def __init__(self, error_class: str, text: str) -> None:
        super().__init__(f"[{error_class}] {text}")


SHOWN_CHARACTERS_MAX = 60  # of a value in an error: enough to find it, and a value of some MB does not flood the error


def value_text(value: object) -> str:
    """A value of the data as text for an error, shortened."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}... ({len(text)} characters)"


def shown_cell(column: pa.Array | pa.ChunkedArray, at: int = 0) -> str:
    """One value of a column, as `value_text`."""
    try:
        return value_text(column[at].as_py())
    except (ValueError, OverflowError):  # a date or timestamp beyond Python's years
        return " ".join(column.slice(at, 1).to_string().split())


def shown_row(names: Sequence[str], columns: Sequence[pa.Array | pa.ChunkedArray], at: int) -> str:
    """The values of one row with the names of their columns."""
    parts = [f"{name!r}: {shown_cell(column, at)}" for name, column in zip(names, columns, strict=True)]
    return f"{{{', '.join(parts)}}}"


@dataclass(frozen=True)
class Function:
    """A function that DuckDB calls for whole columns. `arguments` and `result` are DuckDB types. `body` is called with nulls too."""

    name: str
    arguments: tuple[str, ...]
    result: str
    body: Callable[..., pa.Array]


ARROW = {
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR[]": pa.list_(pa.string()),
}


def row_function(name: str, arguments: str, result: str, of_row: Callable[..., Any]) -> Function:
    """A function that calls `of_row` row by row; the result is null if an argument is null. `of_row` gets and returns dates and timestamps as
    integers (days, microseconds)."""
    types = tuple(arguments.split())
    integers = [{"DATE": pa.int32(), "TIMESTAMP": pa.int64()}.get(type_) for type_ in types]
    arrow = ARROW[result]
    carrier = {"DATE": pa.int32(), "TIMESTAMP": pa.int64()}.get(result, arrow)

    def body(*columns: pa.ChunkedArray) -> pa.Array:
        lists = [
            (column if integer is None else column.cast(integer)).to_pylist()
            for column, integer in zip(columns, integers, strict=True)
        ]
        if len(lists) == 1:
            values = [None if value is None else of_row(value) for value in lists[0]]
        else:
            values = [None if None in row else of_row(*row) for row in zip(*lists, strict=True)]
        return pa.array(values, carrier).cast(arrow) if carrier is not arrow else pa.array(values, arrow)

    # DuckDB reads the number of parameters from the signature.
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(len(types))]
    )
    return Function(name, types, result, body)


def null_on_error(function: Callable[..., object]) -> Callable[..., object]:
    """A function of single values with null in place of its errors."""

    def attempt(*values: object) -> object:
        try:
            return function(*values)
        except Failure:
            return None

    return attempt
