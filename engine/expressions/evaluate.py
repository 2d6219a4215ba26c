"""Evaluation of a circuit's expressions over whole Arrow tables.

Guarantees: the result depends on the rows and the expressions alone. DuckDB uses one thread, keeps the order of the rows and works in UTC. An
expression that raises in Spark raises here, with Spark's error class.

One DuckDB query evaluates the predicate and all projections of a Map, because a query costs about 0.5 ms whatever it does. Without a predicate,
DuckDB does not see projections that are just a column. DuckDB's optimiser is off: its rules move and fold expressions, but
`CASE WHEN d <> 0 THEN n / d END` relies on the order in which they are written.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import threading
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from engine.errors import DataError
from engine.expressions import failing_row
from engine.expressions import functions as expression_functions
from engine.expressions.failing_row import FailingRow
from engine.expressions.types import duck_type, inside, relabel
from engine.model.circuit import Expression

WEIGHT = "weight"


class ExpressionError(DataError):
    """An expression raised on a row for which Spark raises too. The caller adds the view and the step."""

    def __init__(self, error_class: str, text: str) -> None:
        super().__init__(f"[{error_class}] {text}", "Correct the row, or guard against it in the view (CASE, nullif).")
        self.error_class = error_class
        self.text = text


def evaluate(predicate: Expression | None, projections: tuple[Expression, ...], table: pa.Table) -> pa.Table:
    """The `projections` of the rows for which `predicate` is true, as columns `c0`, `c1`, ...

    `table` has the columns `c0`, `c1`, ..., and may have a last column `weight`, which is then the last column of the result too. Raises
    `ExpressionError`, which names the expression and the values of the first row on which it fails. SQL that fails without any row is a defect
    of Stepwell and raises an AssertionError.
    """
    outputs = [*projections]
    names = [f"c{index}" for index in range(len(projections))]
    if table.num_columns and table.column_names[-1] == WEIGHT:
        width = table.num_columns - 1
        outputs.append(Expression(WEIGHT, table.schema.field(width).type, width))
        names.append(WEIGHT)
    if predicate is not None:
        columns = _query(predicate, outputs, table)
    else:
        computed = [output for output in outputs if output.column is None]
        values = iter(_query(None, computed, table)) if computed else iter(())
        columns = [next(values) if output.column is None else table.column(output.column) for output in outputs]
    fields = [pa.field(name, output.type, nullable=name != WEIGHT) for name, output in zip(names, outputs, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _query(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    try:
        return _run(predicate, outputs, table)
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(f"an expression over {table.num_rows} rows: {error}") from error
    except MemoryError:
        raise
    except Exception as error:
        fault = failing_row.find(_run, predicate, outputs, table, error)
        if fault is None:
            raise AssertionError(f"an expression that DuckDB cannot run: {error}") from error
        raise _expression_error(fault) from fault.error


def _run(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    # Two columns of one name (a self-join's both weights) cannot happen: a circuit's columns are named by position.
    columns = [relabel(column, inside(column.type)) for column in table.columns]
    visible = pa.table(columns, names=table.column_names) if columns else pa.table({"none": pa.nulls(table.num_rows)})
    items = [f"CAST({output.sql} AS {duck_type(output.type)}) AS r{index}" for index, output in enumerate(outputs)]
    where = "" if predicate is None else f" WHERE {predicate.sql}"
    connection, known = _connection()
    sql = f"SELECT {', '.join(items) or '1'} FROM input_rows{where}"
    expression_functions.register_generic(connection, sql, known)
    relation = "input_rows"
    connection.register(relation, visible)
    try:
        result = connection.sql(sql).to_arrow_table()
    finally:
        connection.unregister(relation)
    return [
        relabel(column.cast(inside(output.type)), output.type)
        for column, output in zip(result.columns[: len(outputs)], outputs, strict=True)
    ]


# No zone is set: inside, timestamps have none. An extension that is not built in would be fetched over the network (the
# attempt alone takes seconds), and its version would be no function of ours: never.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "preserve_insertion_order": True,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# DuckDB's binding (nanobind) prints a list of leaks if its objects outlive the interpreter. Objects that the collector has frozen, as a
# service does while steps run, are not freed at the end of the process, so they are thawed there, however the process ends.
atexit.register(gc.unfreeze)
_connections: dict[tuple[int, int], tuple[duckdb.DuckDBPyConnection, set[str]]] = {}
"""The connections by process and thread, with the names of the generic functions that each knows. Workers may be threads of one process in
tests, and only one thread at a time may use a connection."""


def _connection() -> tuple[duckdb.DuckDBPyConnection, set[str]]:
    """This thread's connection. A forked process makes its own and does not close the one that it inherited: DuckDB's threads do not survive a
    fork, and closing would wait for them."""
    owner = os.getpid(), threading.get_ident()
    if (known := _connections.get(owner)) is not None:
        return known
    connection = duckdb.connect(config=_SETTINGS)
    connection.execute("PRAGMA disable_optimizer")
    expression_functions.register(connection)
    _connections[owner] = connection, set()
    atexit.register(_close, owner)  # else its binding tells whoever ends the process of leaks
    return _connections[owner]


def _close(owner: tuple[int, int]) -> None:
    if owner[0] == os.getpid() and (known := _connections.pop(owner, None)) is not None:
        known[0].close()


# What DuckDB says, and Spark's name for it. An error that our own SQL or functions raise begins with the name in brackets.
_NAMED = re.compile(r"\[([A-Z][A-Z_0-9.]+)\] ?(.*)", re.DOTALL)
_TRANSLATIONS = (
    (re.compile(r"[Dd]ivision by zero"), "DIVIDE_BY_ZERO"),
    (re.compile(r"Map keys must be unique"), "DUPLICATED_MAP_KEY"),
    (re.compile(r"Map keys can not be NULL"), "NULL_MAP_KEY"),
    (re.compile(r"Overflow in \w+ of DECIMAL|to (type )?DECIMAL"), "NUMERIC_VALUE_OUT_OF_RANGE"),
    (re.compile(r"Overflow in \w+ of INT(8|16)\b"), "BINARY_ARITHMETIC_OVERFLOW"),
    (re.compile(r"Overflow in "), "ARITHMETIC_OVERFLOW"),
    (re.compile(r"[Tt]imestamp .*range|Date .*range|out of range for (DATE|TIMESTAMP)"), "DATETIME_OVERFLOW"),
    (re.compile(r"out of range|Casting value .* failed"), "CAST_OVERFLOW"),
    (re.compile(r"Could not convert|Conversion Error"), "CAST_INVALID_INPUT"),
)  # fmt: skip


_PLACE_IN_SQL = "\n\nLINE "  # with it DuckDB begins to show its query, of which the error names the one expression
UNFORESEEN = "INTERNAL_ERROR"
"""Spark's error class for errors without a class of their own."""


def _expression_error(fault: FailingRow) -> ExpressionError:
    """The error of the row, with Spark's error class. An error without a class stops the step as an error of the data too, because only the user
    can change the row or the view."""
    error_class, text = _named(str(fault.error))
    return ExpressionError(error_class, f"{text} ({failing_row.described(fault)})")


def _named(text: str) -> tuple[str, str]:
    text = text.split(_PLACE_IN_SQL)[0]
    if named := _NAMED.search(text):
        return named[1], named[2].strip()
    for pattern, error_class in _TRANSLATIONS:
        if pattern.search(text):
            return error_class, text
    return UNFORESEEN, text
