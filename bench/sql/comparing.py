"""Compares what a view holds with Spark's batch answer, with exactly the freedom that docs/sql.md allows.

Rows are compared as a multiset. A double may differ by a relative error of 1e-12, because Spark's own sum of doubles depends on its
partitions. If a query ends in LIMIT k, Spark may choose any of the rows that tie at the end. Then our rows must be k rows of the answer
without the LIMIT, and their sort keys must be those of Spark's rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

DOUBLE_ERROR_MAX = 1e-12
"""The relative error of a double."""

DIGITS = 9
"""Significant digits by which rows with doubles are recognised in the answer without its LIMIT."""

Row = tuple[Any, ...]

_LAST_LIMIT = re.compile(r"\bLIMIT\s+\d+(?=\s*(\) AS renamed\([^)]*\))?\s*$)", re.IGNORECASE)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an answer."""
    columns = [_comparable(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def held_rows(held: pa.Table) -> list[Row]:
    """The rows of a consolidated Z-set, each as often as its weight says. Raises AssertionError for a negative weight."""
    weights = held.column(held.num_columns - 1).to_pylist()
    assert all(weight > 0 for weight in weights), "the view holds a row with a negative weight"
    rows = zip(rows_of(held.select(range(held.num_columns - 1))), weights, strict=True)
    return [row for row, weight in rows for _ in range(weight)]


def difference(ours: pa.Table, answer: pa.Table, query: str, frame: Callable[[str], DataFrame]) -> str:
    """Says how the view's content differs from Spark's answer to `query`; empty if it does not. `frame` evaluates a query over the same
    tables."""
    held, expected = held_rows(ours), rows_of(answer)
    found = _difference(held, expected)
    without_limit = _LAST_LIMIT.sub("", query)
    if not found or without_limit == query:
        return found
    if len(held) != len(expected):
        return f"{len(held)} rows in place of {len(expected)}; {found}"
    whole = frame(without_limit)
    keys = _sort_keys(whole)
    there = Counter(_rounded(row) for row in rows_of(whole.toArrow()))
    if Counter(_rounded(row) for row in held) - there:
        return f"a row that is not in the answer without LIMIT; {found}"
    return _difference([tuple(row[k] for k in keys) for row in held], [tuple(row[k] for k in keys) for row in expected])


def _difference(held: Sequence[Row], expected: Sequence[Row]) -> str:
    if len(held) != len(expected):
        return f"{len(held)} rows in place of {len(expected)}"
    for ours, theirs in zip(sorted(held, key=_order), sorted(expected, key=_order), strict=True):
        if not all(_same(a, b) for a, b in zip(ours, theirs, strict=True)):
            return f"{ours} in place of {theirs}"
    return ""


def _sort_keys(whole: DataFrame) -> list[int]:
    """The output columns by which a query sorts at its end. A sort key that is not an output column is left out."""
    plan = whole._jdf.queryExecution().analyzed()
    ids = [plan.output().apply(i).exprId().id() for i in range(plan.output().size())]
    while plan.getClass().getSimpleName() in ("Project", "SubqueryAlias"):
        plan = plan.children().head()
    if plan.getClass().getSimpleName() != "Sort":
        return []
    order = [plan.order().apply(i).child() for i in range(plan.order().size())]
    named = [key.exprId().id() for key in order if key.getClass().getSimpleName() == "AttributeReference"]
    return [ids.index(key) for key in named if key in ids]


def answer(query: str, spark: SparkSession) -> pa.Table:
    """Spark's batch answer."""
    return spark.sql(query).toArrow()


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist()
    return [repr(value) for value in values] if pa.types.is_nested(column.type) else values


def _order(row: Row) -> tuple[Any, ...]:
    """Exact columns decide first, so that a last digit of a double does not change the order of rows that differ elsewhere."""
    exact = tuple(repr(value) for value in row if not isinstance(value, float))
    return (*exact, *(f"{value:.9e}" for value in row if isinstance(value, float)))


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=DOUBLE_ERROR_MAX)
    return bool(ours == theirs) and type(ours) is type(theirs)


def _rounded(row: Row) -> Row:
    return tuple(f"{value:.{DIGITS}e}" if isinstance(value, float) else value for value in row)
