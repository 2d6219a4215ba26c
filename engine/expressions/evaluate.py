"""Evaluation of a circuit's expressions over whole Arrow tables.

Guarantees: the result depends on the rows and the expressions alone. DuckDB uses one thread, keeps the order of the rows and works in UTC. An
expression that raises in Spark raises here, with Spark's error class.

One DuckDB query evaluates the predicate and all projections of a Map, because a query costs about 0.15 ms whatever it does, and 1 ms when it is
prepared. DuckDB does not see projections that are just a column, unless there are others and a predicate. DuckDB's optimiser is off: its rules
move and fold expressions, but `CASE WHEN d <> 0 THEN n / d END` relies on the order in which they are written.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence

import duckdb
import pyarrow as pa

from engine.errors import DataError
from engine.expressions import failing_row
from engine.expressions import functions as expression_functions
from engine.expressions.failing_row import FailingRow
from engine.expressions.types import buffer_type, duck_type, relabel
from engine.model.node import Expression

WEIGHT = "weight"


class ExpressionError(DataError):
    """An expression raised on a row for which Spark raises too. The caller adds the view and the step."""

    is_of_rows = True

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
    result = _evaluate(predicate, projections, table, _query)
    assert result is not None
    return result


def try_evaluate(predicate: Expression | None, projections: tuple[Expression, ...], table: pa.Table) -> pa.Table | None:
    """Returns what `evaluate` returns; None if an expression fails on one of the rows. It does not look for the row, which would cost two more
    evaluations."""
    return _evaluate(predicate, projections, table, _attempt)


def failing_rows(
    predicate: Expression | None, projections: tuple[Expression, ...], table: pa.Table
) -> pa.ChunkedArray | None:
    """For each row, whether `evaluate` of it alone would raise: by one query, in which DuckDB tries each row of a vector that fails. None if the
    expressions cannot be tried so."""
    tried = [each for each in projections if each.column is None]
    texts = [_without_volatile_errors(each.sql) for each in tried]
    items = [
        f"v{i} := CAST({sql} AS {duck_type(each.type)})" for i, (each, sql) in enumerate(zip(tried, texts, strict=True))
    ]
    fails = f"TRY(struct_pack({', '.join(items)})) IS NULL" if items else "false"
    if predicate is not None:
        chosen = _without_volatile_errors(predicate.sql)
        fails = f"CASE WHEN TRY(struct_pack(v := {chosen})) IS NULL THEN true WHEN {chosen} THEN {fails} ELSE false END"
    try:
        with expression_functions.no_lack_of_memory():
            (found,) = _compute(None, [Expression(fails, pa.bool_())], table)
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(f"an expression over {table.num_rows} rows: {error}") from error
    except duckdb.Error:
        return None  # TRY takes no function whose results may differ
    return found


def _without_volatile_errors(sql: str) -> str:
    """The SQL with a function in place of `error`, which TRY does not take. Texts and names are left as they are."""
    return _ERROR_CALL.sub(lambda match: match[0] if match[1] is None else f"{RAISE}(", sql)


RAISE = "raise_error"
"""A macro that fails for each text that is not NULL, as `error` does, and has no type of its own."""

_ERROR_CALL = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\b(error)\(""")

_Columns = list[pa.ChunkedArray]


def _evaluate(
    predicate: Expression | None,
    projections: tuple[Expression, ...],
    table: pa.Table,
    query: Callable[[Expression | None, Sequence[Expression], pa.Table], _Columns | None],
) -> pa.Table | None:
    outputs = [*projections]
    names = [f"c{index}" for index in range(len(projections))]
    if table.num_columns and table.column_names[-1] == WEIGHT:
        width = table.num_columns - 1
        outputs.append(Expression(WEIGHT, table.schema.field(width).type, width))
        names.append(WEIGHT)
    asked = outputs if predicate is not None else [output for output in outputs if output.column is None]
    found = query(predicate, asked, table) if asked else []
    if found is None:
        return None
    if predicate is None:
        values = iter(found)
        found = [next(values) if output.column is None else table.column(output.column) for output in outputs]
    fields = [pa.field(name, output.type, nullable=name != WEIGHT) for name, output in zip(names, outputs, strict=True)]
    return pa.table(found, schema=pa.schema(fields))


def _attempt(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> _Columns | None:
    found = _outputs_or_error(predicate, outputs, table)
    return None if isinstance(found, Exception) else found


def _query(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> _Columns:
    found = _outputs_or_error(predicate, outputs, table)
    if not isinstance(found, Exception):
        return found
    fault = failing_row.find(_run, predicate, outputs, table, found)
    if fault is None:
        raise AssertionError(f"an expression that DuckDB cannot run: {found}") from found
    raise _expression_error(fault) from fault.error


def _outputs_or_error(
    predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table
) -> _Columns | Exception:
    """The outputs, or what was raised. A lack of memory is raised."""
    try:
        return _run(predicate, outputs, table)
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(f"an expression over {table.num_rows} rows: {error}") from error
    except MemoryError:
        raise
    except Exception as error:
        return error


def _run(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    if predicate is not None and all(output.column is not None for output in outputs):
        # Only the predicate is computed, and the columns stay in Arrow: DuckDB would copy them twice.
        (kept,) = _compute(None, [predicate], table)
        rows = table.filter(kept)
        return [rows.column(output.column) for output in outputs]
    return _compute(predicate, outputs, table)


def _compute(predicate: Expression | None, outputs: Sequence[Expression], table: pa.Table) -> list[pa.ChunkedArray]:
    """The outputs of the rows for which the predicate is true, by one query over the columns that it reads."""
    items = [f"CAST({output.sql} AS {duck_type(output.type)}) AS r{index}" for index, output in enumerate(outputs)]
    query = ", ".join(items) or "1", "" if predicate is None else f" WHERE {predicate.sql}"
    # Two columns of one name (a self-join's both weights) cannot happen: a circuit's columns are named by position.
    read = set(_COLUMN.findall(" ".join(query)))
    names = [name for name in table.column_names if name in read]
    columns = [relabel(column, buffer_type(column.type)) for column in (table.column(name) for name in names)]
    visible = pa.table(columns, names=names) if columns else pa.table({"none": pa.nulls(table.num_rows)})
    result = _connection().run(query, visible)
    return [
        relabel(column.cast(buffer_type(output.type)), output.type)
        for column, output in zip(result.columns[: len(outputs)], outputs, strict=True)
    ]


_COLUMN = re.compile(rf"\b(?:c[0-9]+|{WEIGHT})\b")
"""A column in SQL. A literal may look like one, and then a column is read that nothing needs."""

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
# DuckDB advises a call that prepares the statement again, which costs more than the copy that it saves, with 1,000 rows as with 60,000.
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)


STATEMENTS_MAX = 512
"""Statements that a connection keeps prepared. To prepare one and to register its rows takes ten times as long as to run it over 1,000 rows;
a project of some hundred views has fewer. The statement that was not used for the longest time makes room."""

_Query = tuple[str, str]
"""The items of a SELECT, and its WHERE clause or nothing."""


class _StatementTable:
    """The table that a prepared statement reads. DuckDB asks for its schema when it prepares the statement, and for its rows when it runs."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self.table: pa.Table | None = None

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None, "a statement runs without its rows"
        return self.table.__arrow_c_stream__(requested_schema)


class _Connection:
    """A connection of one thread, with the statements that it has prepared, the one that was used last at the end."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(config=_SETTINGS)
        self._duck.execute("PRAGMA disable_optimizer")
        self._duck.execute(
            f"CREATE MACRO {RAISE}(said) AS CASE WHEN CAST('no number: ' || said AS TINYINT) IS NULL THEN NULL END"
        )
        self._known: set[str] = set()  # the functions that were registered
        self._statements: OrderedDict[tuple[_Query, pa.Schema], tuple[str, _StatementTable]] = OrderedDict()
        self._prepared = 0

    def run(self, query: _Query, table: pa.Table) -> pa.Table:
        """The result of the query over the table."""
        key = query, table.schema
        if key not in self._statements:
            self._statements[key] = self._prepare(query, table)
        name, rows = self._statements[key]
        self._statements.move_to_end(key)
        rows.table = table
        try:
            return self._duck.execute(f"EXECUTE {name}").to_arrow_table()
        finally:
            rows.table = None  # a statement keeps no rows in memory

    def _prepare(self, query: _Query, table: pa.Table) -> tuple[str, _StatementTable]:
        if len(self._statements) >= STATEMENTS_MAX:
            _, (oldest, _) = self._statements.popitem(last=False)
            self._duck.execute(f"DEALLOCATE {oldest}")
            self._duck.unregister(f"{oldest}_rows")
        self._prepared += 1
        name, rows = f"s{self._prepared}", _StatementTable(table)
        expression_functions.register(self._duck, " ".join(query), self._known)
        self._duck.register(f"{name}_rows", rows)
        try:
            self._duck.execute(f"PREPARE {name} AS SELECT {query[0]} FROM {name}_rows{query[1]}")
        except BaseException:
            self._duck.unregister(f"{name}_rows")
            raise
        return name, rows

    def close(self) -> None:
        self._duck.close()


_connections: dict[tuple[int, int], _Connection] = {}
"""The connections by process and thread. Workers may be threads of one process in tests, and only one thread at a time may use a
connection."""


def _connection() -> _Connection:
    """This thread's connection. A forked process makes its own and does not close the one that it inherited: DuckDB's threads do not survive a
    fork, and closing would wait for them."""
    owner = os.getpid(), threading.get_ident()
    if (known := _connections.get(owner)) is not None:
        return known
    connection = _connections[owner] = _Connection()
    atexit.register(_close, owner)  # else its binding tells whoever ends the process of leaks
    return connection


def _close(owner: tuple[int, int]) -> None:
    if owner[0] == os.getpid() and (known := _connections.pop(owner, None)) is not None:
        known.close()


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
    error_class, text = _class_and_text(str(fault.error))
    return ExpressionError(error_class, f"{text} ({failing_row.describe(fault)})")


def _class_and_text(text: str) -> tuple[str, str]:
    text = text.split(_PLACE_IN_SQL)[0]
    if named := _NAMED.search(text):
        return named[1], named[2].strip()
    for pattern, error_class in _TRANSLATIONS:
        if pattern.search(text):
            return error_class, text
    return UNFORESEEN, text
