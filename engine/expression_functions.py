"""What DuckDB lacks or does otherwise than Spark, as vectorised functions over Arrow arrays.

Guarantees: a function here is deterministic, sees whole arrays, and raises `Failure` with Spark's name of the error.
DuckDB calls one only for the rows that reach it, so a CASE around it guards as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa


class Failure(ValueError):
    """What a row makes Spark raise too: the text begins with Spark's name of the error in brackets."""

    def __init__(self, error_class: str, text: str) -> None:
        super().__init__(f"[{error_class}] {text}")


@dataclass(frozen=True)
class Function:
    """`arguments` and `result` are DuckDB types. Nulls reach `body`."""

    name: str
    arguments: tuple[str, ...]
    result: str
    body: Callable[..., pa.Array]


FUNCTIONS: list[Function] = []


def register(connection: duckdb.DuckDBPyConnection) -> None:
    for function in FUNCTIONS:
        connection.create_function(
            function.name,
            function.body,
            [duckdb.sqltype(argument) for argument in function.arguments],
            duckdb.sqltype(function.result),
            type="arrow",
            null_handling="special",
        )
