"""Rows that a definition has in Python, `spark.createDataFrame([(1, "x")], ...)`, as rows of the plan.

Spark keeps such rows in an RDD of Python objects, which no plan shows. Rows that it is given as an Arrow table stand in the plan, as those of
VALUES do. So while definitions are read, rows go that way, converted as Spark Connect converts them. No query runs for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


@contextmanager
def python_rows_in_plans() -> Iterator[None]:
    """While the body runs, `createDataFrame` of a list or an iterator makes rows of the plan. What it is given otherwise, it takes as ever."""
    made = SparkSession.createDataFrame
    SparkSession.createDataFrame = _in_plan(made)
    try:
        yield
    finally:
        SparkSession.createDataFrame = made


def _in_plan(made: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def create(session: SparkSession, data: Any, *args: Any, **kwargs: Any) -> DataFrame:
        if not isinstance(data, list | tuple | Iterator):
            return made(session, data, *args, **kwargs)
        rows = list(data)
        checked = made(session, rows, *args, **kwargs)  # it raises what is wrong with the rows, and knows their schema
        return made(session, _as_table(rows, checked.schema), checked.schema)

    return create


def _as_table(rows: list[Any], schema: StructType) -> Any:
    if not rows:
        return to_arrow_schema(schema, timezone="UTC").empty_table()
    return LocalDataToArrowConversion.convert([_as_row(row, schema) for row in rows], schema, False)


def _as_row(row: Any, schema: StructType) -> Any:
    """The row as a tuple if it is given as its only value, as in `createDataFrame([1, 2], "int")`; otherwise the row as it is given."""
    is_value = not isinstance(row, tuple | list | dict) and not hasattr(row, "__dict__")
    return (row,) if is_value and len(schema) == 1 and row is not None else row
