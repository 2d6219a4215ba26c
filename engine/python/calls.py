"""Calls the user's functions over the columns of a table.

Guarantees: a result is what Spark gives for the row. A function that raises, or that gives what is not of its type, is a FunctionError with
the function, its file and line, and the arguments of the first row on which it fails alone. To find that row a function is called again on
parts of the rows, which happens only if a row fails.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.expressions.functions.function import shown_cell
from engine.model.python_call import OF_GROUPS, OF_SERIES, PythonCall
from engine.python import pickled_results, spark_worker
from engine.python.errors import FunctionError, FunctionUnusable, WrongResult
from engine.python.null_patterns import rows_by_pattern

BATCH_ROWS_MAX = 10_000
"""Rows of a batch that a function over batches is given: Spark's default (spark.sql.execution.arrow.maxRecordsPerBatch)."""

ARGUMENTS_SHOWN_MAX = 12
"""In an error: a row with more can be found by these."""

_WHAT_TO_DO = "Correct the row, or let the function handle such values. Nothing of the step was written."
_IMPORT_TODAY = (
    "Install it on every host. A module of the project itself is sent along with the function if it is imported at the head of the file in "
    "which the function stands, and not within the function."
)
_NOT_THE_USERS = ("pyspark", "pyarrow")
"""The packages whose lines say nothing to the user: they call the function and convert its results."""


_OF_THE_ROW = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    WrongResult,
    pa.ArrowNotImplementedError,
)
"""What a function raises because of the values that it is given, or what its result is. Arrow says of some results that it has no conversion,
such as that of a list into a number."""


def is_of_the_row(error: BaseException) -> bool:
    """Whether the exception says that the values are wrong. One that nobody knows might be about anything."""
    return (isinstance(error, _OF_THE_ROW) or spark_worker.is_refusal(error)) and not isinstance(error, OSError)


def results(call: PythonCall, table: pa.Table) -> pa.ChunkedArray:
    """The result for each row, of exactly the call's type. Raises FunctionError."""
    arguments = _arguments(call, table)
    made = _results_or_error(call, arguments)
    if isinstance(made, BaseException):
        raise _function_error(call, arguments, made) from made
    return made


def try_results(call: PythonCall, table: pa.Table) -> pa.ChunkedArray | None:
    """Returns what `results` returns; None if the function fails on one of the rows. Raises FunctionUnusable."""
    arguments = _arguments(call, table)
    made = _results_or_error(call, arguments)
    if not isinstance(made, BaseException):
        return made
    if is_of_the_row(made):
        return None
    raise _function_error(call, arguments, made) from made


def _results_or_error(call: PythonCall, arguments: pa.Table) -> pa.ChunkedArray | BaseException:
    """The results, or why there are none. A lack of memory is raised."""
    try:
        made = _evaluate(call, arguments)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        return error
    if len(made) != arguments.num_rows:
        return WrongResult(f"{len(made)} results for {arguments.num_rows} rows")
    return made


def _arguments(call: PythonCall, table: pa.Table) -> pa.Table:
    """The columns of the arguments. Without arguments a column stands for the number of rows."""
    columns = [table.column(column) for column in call.arguments] or [
        pa.chunked_array([pa.nulls(table.num_rows, pa.int8())])
    ]
    names = [f"_{place}" for place in range(len(columns))]
    return pa.Table.from_arrays(columns, names=names).combine_chunks()


def _evaluate(call: PythonCall, arguments: pa.Table) -> pa.ChunkedArray:
    if call.form in OF_GROUPS:
        return _of_groups(call, arguments)
    runner = spark_worker.runner_of(call, tuple(arguments.schema.types))
    if call.form == "pickled row":
        return _of_rows(call, runner, arguments)
    if call.form in OF_SERIES:
        return _of_series(call, runner, arguments)
    batches = arguments.to_batches(max_chunksize=BATCH_ROWS_MAX)
    made = _by_halves(runner, batches) if call.form == "row" else [batch.column(0) for batch in runner(iter(batches))]
    return pa.chunked_array([chunk.cast(call.type) for chunk in made], type=call.type)


def _of_series(call: PythonCall, runner: spark_worker.Runner, arguments: pa.Table) -> pa.ChunkedArray:
    """The results of a function over pandas objects: see null_patterns.py."""
    parts = rows_by_pattern(arguments.columns)
    tables = [arguments] if len(parts) == 1 else [arguments.take(pa.array(part)) for part in parts]
    batches = [batch for table in tables for batch in table.to_batches(max_chunksize=BATCH_ROWS_MAX)]
    made = pa.chunked_array([batch.column(0).cast(call.type) for batch in runner(iter(batches))], type=call.type)
    if len(parts) == 1 or len(made) != arguments.num_rows:
        return made
    return made.take(pa.array(np.argsort(np.concatenate(parts))))


def _by_halves(runner: spark_worker.Runner, batches: Sequence[pa.RecordBatch]) -> list[pa.Array]:
    """The results of a function of one row. Spark makes one array of a batch's results, and whether it accepts one (a 0 for BOOLEAN) can depend
    on the others. Which rows are in a batch depends on the layout, so a row counts that Spark accepts alone."""
    made: list[pa.Array] = []
    for batch in batches:
        try:
            made += [result.column(0) for result in runner(iter([batch]))]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            if batch.num_rows == 1:
                raise
            half = batch.num_rows // 2
            made += _by_halves(runner, [batch.slice(0, half), batch.slice(half)])
    return made


def _of_rows(call: PythonCall, runner: spark_worker.Runner, arguments: pa.Table) -> pa.ChunkedArray:
    """By way of pickles, whose results have their own conversion."""
    rows = spark_worker.rows_of(arguments.columns, dict(call.settings))
    convert = pickled_results.converter(call.type)
    return pa.chunked_array([pa.array([convert(value) for value in runner(iter(rows))], type=call.type)])


def _of_groups(call: PythonCall, arguments: pa.Table) -> pa.ChunkedArray:
    """One result for each list of structs. No list is null or empty."""
    (groups,) = arguments.columns
    types = tuple(field.type for field in groups.type.value_type)
    runner = spark_worker.runner_of(call, types)
    names = [f"_{place}" for place in range(len(types))]

    def batches() -> Iterator[list[pa.RecordBatch]]:
        for group in groups:
            yield [pa.RecordBatch.from_arrays(group.values.flatten(), names=names)]

    made = [batch.column(0).cast(call.type) for batch in runner(batches())]
    return pa.chunked_array(made, type=call.type)


def _function_error(call: PythonCall, arguments: pa.Table, error: BaseException) -> FunctionError:
    row = _first_failing(call, arguments)
    error = error if row is None else row[1]
    where = "" if row is None else f" for {_text_of(call, row[0])}"
    place = call.functions[-1].place
    name = f"the function {call.name}" + (f" ({place})" if place else "")
    if isinstance(error, ModuleNotFoundError):
        message, what_to_do = f"{name} needs the module {error.name}, which a worker does not find.", _IMPORT_TODAY
    elif (line := _line_of(call, _own_exception(error))) is not None:
        message, what_to_do = f"{name} raised {_exception_text(_own_exception(error))} (at {line}){where}.", _WHAT_TO_DO
    else:
        message = f"{name} gave a result that is not of its type{where}: {_exception_text(error)}."
        if isinstance(error, WrongResult):
            message = f"{name} returned {error}{where}."
        what_to_do = f"Convert it within the function to what the declared type needs. {_WHAT_TO_DO}"
    kind = FunctionError if is_of_the_row(error) else FunctionUnusable
    return kind(message, what_to_do, function=call.name, raised=type(error).__name__)


def _own_exception(error: BaseException) -> BaseException:
    """What the function itself raised. PySpark raises an exception of its own in place of a StopIteration."""
    before = error.__context__
    return before if isinstance(before, StopIteration) and spark_worker.is_refusal(error) else error


def _exception_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _first_failing(call: PythonCall, rows: pa.Table) -> tuple[pa.Table, BaseException] | None:
    """The first row that fails alone, found by halving, with what it raises. None if no row does."""
    while rows.num_rows > 1:
        half = rows.num_rows // 2
        front = rows.slice(0, half)
        rows = front if _error_on(call, front) is not None else rows.slice(half)
    error = _error_on(call, rows)
    return None if error is None else (rows, error)


def _error_on(call: PythonCall, rows: pa.Table) -> BaseException | None:
    try:
        if len(_evaluate(call, rows)) != rows.num_rows:
            return WrongResult(f"another number of results than {rows.num_rows}")
    except (Exception, SystemExit) as error:
        return error
    return None


def _line_of(call: PythonCall, error: BaseException) -> str | None:
    """The innermost line of the file in which a function of the call stands; otherwise that of other code of the user's. None if only Spark's
    and our own code was running."""
    files = {function.place.rpartition(":")[0] for function in call.functions}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    for frame in reversed(frames):
        for file in files:
            if file and Path(frame.filename).match(file):
                return f"{file}:{frame.lineno}"
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _is_ours(filename: str) -> bool:
    parts = Path(filename).parts
    return Path(filename).is_relative_to(_ENGINE_FOLDER) or any(
        part.removesuffix(".zip") in _NOT_THE_USERS for part in parts
    )


_ENGINE_FOLDER = Path(__file__).parents[1]


def _text_of(call: PythonCall, row: pa.Table) -> str:
    if call.form in OF_GROUPS:
        return f"the group {shown_cell(row.column(0))}"
    positional = len(call.arguments) - len(call.keywords)
    names: Sequence[str] = [*[""] * positional, *(f"{name}=" for name in call.keywords)]
    cells: Iterator[str] = (f"{name}{shown_cell(column)}" for name, column in zip(names, row.columns, strict=False))
    found = list(islice(cells, ARGUMENTS_SHOWN_MAX))
    return f"the arguments ({', '.join(found)}{', ...' if len(names) > len(found) else ''})"
