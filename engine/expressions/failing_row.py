"""Finds the expression and the row that fail, because DuckDB's errors do not name them.

DuckDB evaluates all expressions of a node over all rows in one query. After an error the query runs again: over no row, then for each expression
alone, then over halves of the rows. This costs about two more evaluations of the rows, and it happens only if a row fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from engine.expressions.functions.function import shown_cell
from engine.expressions.generic import with_short_names
from engine.model.node import Expression

SQL_CHARACTERS_SHOWN_MAX = 300  # of an expression in an error: a long one is known by its beginning
COLUMNS_SHOWN_MAX = 6  # of a row in an error: the columns that the expression reads
_COLUMN = re.compile(r"\bc([0-9]+)\b")

Run = Callable[[Expression | None, Sequence[Expression], pa.Table], object]
"""Evaluates a predicate and outputs over rows, and raises if one of the expressions fails."""


class FailingRow(NamedTuple):
    expression: Expression
    row: pa.Table
    """The first row on which the expression fails, as a table of one row."""
    error: Exception
    """The error that the expression raises on this row alone."""


def find(
    run: Run, predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table, error: Exception
) -> FailingRow | None:
    """The expression and the row that fail. None if no row is the cause: the query fails without rows, or no expression fails on a single
    row. `error` is what the whole query raised."""
    if _error_of(run, predicate, outputs, table.slice(0, 0)) is not None:
        return None
    if predicate is None and len(outputs) == 1:
        return _first(lambda rows: _error_of(run, None, outputs, rows), outputs[0], table, error)
    if predicate is not None and (fault := _error_of(run, predicate, (), table)) is not None:
        return _first(lambda rows: _error_of(run, predicate, (), rows), predicate, table, fault)
    for output in outputs:
        if (fault := _error_of(run, predicate, (output,), table)) is not None:
            return _first(lambda rows, output=output: _error_of(run, predicate, (output,), rows), output, table, fault)  # type: ignore[misc]
    return None


def _error_of(
    run: Run, predicate: Expression | None, outputs: Sequence[Expression], rows: pa.Table
) -> Exception | None:
    try:
        run(predicate, outputs, rows)
    except Exception as error:
        return error
    return None


def _first(
    raised: Callable[[pa.Table], Exception | None], expression: Expression, table: pa.Table, error: Exception
) -> FailingRow | None:
    """The first row that fails, found by halving the table, which raises `error`."""
    known: Exception | None = error
    while table.num_rows > 1:
        half = table.num_rows // 2
        front = table.slice(0, half)
        known = raised(front)
        table = front if known is not None else table.slice(half)
    fault = raised(table) if known is None else known
    return None if fault is None else FailingRow(expression, table, fault)


def describe(fault: FailingRow) -> str:
    """The expression and the values of the columns that it reads, shortened."""
    sql = with_short_names(fault.expression.sql)
    sql = sql if len(sql) <= SQL_CHARACTERS_SHOWN_MAX else f"{sql[:SQL_CHARACTERS_SHOWN_MAX]}..."
    read = sorted({int(number) for number in _COLUMN.findall(fault.expression.sql)} & set(range(fault.row.num_columns)))
    values = [f"c{column} = {shown_cell(fault.row.column(column))}" for column in read[:COLUMNS_SHOWN_MAX]]
    values += ["..."] if len(read) > COLUMNS_SHOWN_MAX else []
    return f"expression {sql}" + (f" with {', '.join(values)}" if values else "")
