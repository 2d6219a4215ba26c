"""Functions over Arrow arrays that DuckDB lacks or computes differently from Spark. There is one module per topic.

Guarantees: the functions are deterministic, and raise `Failure` with Spark's error class. DuckDB calls a function only for the rows that reach
it, so a CASE around it guards it as in Spark. A function that has a vectorised form uses it. The others, on text and exact decimals, run in
Python row by row (0.3 to 2 us per row).
"""

from __future__ import annotations

import duckdb

from engine.expressions.functions import decimals, floats, patterns, strings, times, written
from engine.expressions.functions.function import Failure, Function

__all__ = ["FUNCTIONS", "Failure", "Function", "register"]

FUNCTIONS: tuple[Function, ...] = (
    *decimals.FUNCTIONS,
    *floats.FUNCTIONS,
    *strings.FUNCTIONS,
    *patterns.FUNCTIONS,
    *times.FUNCTIONS,
    *written.FUNCTIONS,
)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes all functions known to DuckDB."""
    for function in FUNCTIONS:
        connection.create_function(
            function.name,
            function.body,
            [duckdb.sqltype(argument) for argument in function.arguments],
            duckdb.sqltype(function.result),
            type="arrow",
            null_handling="special",
        )
