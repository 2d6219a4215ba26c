"""What DuckDB lacks or does otherwise than Spark, as functions over Arrow arrays. One module a topic; `register` gives them to DuckDB.

Guarantees: a function here is deterministic, and raises `Failure` with Spark's name of the error. DuckDB calls one only for the rows
that reach it, so a CASE around it guards as in Spark. Where the work is Python's, row by row, it is because text or exact
decimals need it (0.3 to 2 us a row); what has a vectorised form uses it.
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
    for function in FUNCTIONS:
        connection.create_function(
            function.name,
            function.body,
            [duckdb.sqltype(argument) for argument in function.arguments],
            duckdb.sqltype(function.result),
            type="arrow",
            null_handling="special",
        )
