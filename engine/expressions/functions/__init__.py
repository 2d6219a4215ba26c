"""Functions over Arrow arrays that DuckDB lacks or computes differently from Spark. There is one module per topic.

Guarantees: the functions are deterministic, and raise `Failure` with Spark's error class. DuckDB calls a function only for the rows that reach
it, so a CASE around it guards it as in Spark. A function that has a vectorised form uses it. The others, on text and exact decimals, run in
Python row by row (0.3 to 2 us per row).
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from engine.expressions.functions import (
    arrays,
    decimals,
    encodings,
    floats,
    hashes,
    json_texts,
    months,
    patterns,
    printf,
    sequences,
    strings,
    text_measures,
    times,
    trigonometry,
    urls,
    written,
    zoned,
)  # fmt: skip
from engine.expressions.functions.function import Failure, Function
from engine.expressions.functions.generic_function import GenericFunction, body_of
from engine.expressions.generic import duck_name, functions_named
from engine.expressions.types import duck_type

__all__ = ["FUNCTIONS", "GENERIC", "Failure", "Function", "register", "register_generic"]

FUNCTIONS: tuple[Function, ...] = (
    *decimals.FUNCTIONS,
    *floats.FUNCTIONS,
    *trigonometry.FUNCTIONS,
    *strings.FUNCTIONS,
    *patterns.FUNCTIONS,
    *times.FUNCTIONS,
    *written.FUNCTIONS,
    *months.FUNCTIONS,
    *json_texts.FUNCTIONS,
    *hashes.FUNCTIONS,
    *encodings.FUNCTIONS,
    *text_measures.FUNCTIONS,
    *urls.FUNCTIONS,
    *zoned.FUNCTIONS,
)

GENERIC: Mapping[str, GenericFunction] = {
    **json_texts.GENERIC,
    **arrays.GENERIC,
    **hashes.GENERIC,
    **printf.GENERIC,
    **sequences.GENERIC,
    **text_measures.GENERIC,
}
"""The functions that take any type (see engine/expressions/generic.py), by name."""


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


def register_generic(connection: duckdb.DuckDBPyConnection, sql: str, known: set[str]) -> None:
    """Makes the functions known that the SQL names for its types, unless they are in `known`, to which they are added."""
    for name, signature in functions_named(sql):
        if name not in known:
            connection.create_function(
                duck_name(name),
                body_of(GENERIC[signature.function], signature),
                [duckdb.sqltype(duck_type(argument)) for argument in signature.arguments],
                duckdb.sqltype(duck_type(signature.result)),
                type="arrow",
                null_handling="special",
            )
            known.add(name)
