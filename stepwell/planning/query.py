"""A flow's query after Spark has analysed it, and the columns that the flows of a view have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from base.text.type_names import quote_for_spark
from stepwell.errors import (
    ProjectError,
    UnsupportedError,
)
from stepwell.planning.spark_errors import STREAMING_SUBQUERY
from stepwell.project.elements import FlowDefinition, OutputDefinition, SqlQuery
from stepwell.project.nullability import column_of_all
from stepwell.project.tables import (
    check_names,
)
from stepwell.project.text_types import DECLARED_KEY, as_strings, declared_type, fit_frame


@dataclass(frozen=True)
class Query:
    """An analysed query. `frame` is None for SQL that Spark analyses and then refuses (see `_past_check`)."""

    frame: DataFrame | None
    analysed: Any
    schema: StructType
    spark: SparkSession

    def optimised_plan(self) -> Any:
        if self.frame is not None:
            return self.frame._jdf.queryExecution().optimizedPlan()
        return self.spark._jsparkSession.sessionState().optimizer().execute(self.analysed)

    def as_frame(self, flow: FlowDefinition) -> DataFrame:
        what = "a temporary view with a subquery over a stream cannot be read by a streaming flow"
        return self._frame_or(what, "Make it a materialized view.", flow)

    def _frame_or(self, message: str, what_to_do: str, flow: FlowDefinition) -> DataFrame:
        """Raises UnsupportedError with these texts if there is no frame."""
        if self.frame is None:
            raise UnsupportedError(message, what_to_do, view=flow.target, location=flow.location)
        return self.frame

    def reorder(self, schema: StructType, flow: FlowDefinition) -> Query:
        """The query with its columns in the order of `schema`, which has the same column names."""
        names = {column.name.lower(): column.name for column in self.schema.fields}
        wanted = [names[column.name.lower()] for column in schema.fields]
        if wanted == self.schema.names:
            return self
        if self.frame is None:
            raise ProjectError(f"the columns of this flow are in another order than {', '.join(schema.names)}",
                               "Select them in that order.", view=flow.target, location=flow.location)  # fmt: skip
        return self._of(self.frame.select(*map(quote_for_spark, wanted)))

    def fit_texts(self, declared: Mapping[str, str], flow: FlowDefinition) -> Query:
        """The query with the texts of its columns as the view's CHAR(n) and VARCHAR(n) store them. `declared`: these columns and their types."""
        if not declared:
            return self
        names = {name.lower(): name for name in self.schema.names}
        mine = {field.name.lower(): declared_type(field) for field in self.schema.fields}
        is_sure = "Union" not in self.analysed.toJSON()  # a UNION says of its rows what the first of its queries says
        needed = {
            names[n.lower()]: type_ for n, type_ in declared.items() if not (is_sure and mine[n.lower()] == type_)
        }
        if not needed:
            return self
        what = "a flow with a subquery over a stream cannot fill a column of type CHAR or VARCHAR"
        what_to_do = "Make the target a materialized view, or declare the column as STRING."
        return self._of(fit_frame(self._frame_or(what, what_to_do, flow), needed))

    def _of(self, frame: DataFrame) -> Query:
        return Query(frame, frame._jdf.queryExecution().analyzed(), frame.schema, self.spark)


def analyse(flow: FlowDefinition, spark: SparkSession) -> Query:
    try:
        frame = flow.query(spark)
    except AnalysisException as error:
        if error.getCondition() == STREAMING_SUBQUERY and isinstance(flow.query, SqlQuery):
            return _past_check(flow, flow.query, spark)
        raise
    if not isinstance(frame, DataFrame):
        raise ProjectError(*_no_frame(frame), view=flow.target, location=flow.location)
    return Query(frame, frame._jdf.queryExecution().analyzed(), frame.schema, spark)


def _no_frame(found: object) -> tuple[str, str]:
    """What a function has returned in place of a DataFrame of Spark, and what to do."""
    if found is None:
        return "the function returns nothing", "End it with `return` and a DataFrame of Spark."
    package = type(found).__module__.partition(".")[0]
    name = type(found).__name__ if package == "builtins" else f"{type(found).__module__}.{type(found).__qualname__}"
    what_to_do = "It must return a DataFrame of Spark, such as spark.table(name) and what is made of it."
    if package in ("pandas", "polars", "pyarrow"):
        what_to_do = (
            f"A table of {package} has the rows of one moment, and a view follows its input. Write the query with DataFrames of Spark; what is "
            "computed of columns can be a function with @pandas_udf."
        )
    return f"the function returns {'an' if name[0] in 'aeiou' else 'a'} {name}", what_to_do


def _past_check(flow: FlowDefinition, query: SqlQuery, spark: SparkSession) -> Query:
    """The query of a flow that only Spark's last check refused, because IN, EXISTS or a scalar subquery reads a stream. It is resolved."""
    analysed = spark._jsparkSession.sessionState().analyzer().execute(query.parse(spark))
    if not analysed.resolved():
        raise ProjectError(
            "this flow has a subquery over a stream, and something else in it is wrong",
            "Replace the streaming table by a materialized view to see Spark's message.",
            view=flow.target,
            location=flow.location,
        )
    return Query(None, analysed, StructType.fromJson(json.loads(analysed.schema().json())), spark)


def common_schema(output: OutputDefinition, queries: list[Query]) -> StructType:
    """The view's columns: the declared ones, otherwise those of the first flow. All flows must have them, by name. What is below a column is
    nullable if it is so in any flow: nobody checks what a view declares there."""
    place: dict[str, Any] = {"view": output.name, "location": output.location}
    declared = None if output.schema is None else as_strings(output.schema)
    base = declared or queries[0].schema
    for query in queries:
        check_names(query.schema, output.name, output.location)
        found = {column.name.lower(): column for column in query.schema.fields}
        wanted = {column.name.lower(): column for column in base.fields}
        if found.keys() != wanted.keys():
            raise ProjectError(
                f"a flow has the columns {', '.join(query.schema.names)}; expected are {', '.join(base.names)}",
                "Columns are matched by name: select and name them alike.",
                **place,
            )
        for name, column in wanted.items():
            other = found[name]
            if other.dataType.simpleString() != column.dataType.simpleString():
                raise ProjectError(
                    f"column {column.name} is {other.dataType.simpleString()} in a flow and "
                    f"{column.dataType.simpleString()} in the view",
                    f"CAST({column.name} AS {column.dataType.simpleString()}) in the flow.",
                    **place,
                )
            if declared and not column.nullable and other.nullable:
                raise ProjectError(
                    f"column {column.name} is declared NOT NULL, and its query may give null",
                    "Guard it with coalesce, or leave NOT NULL out.",
                    **place,
                )
    merged = StructType()
    for column in base.fields:
        whole = column_of_all(column, (query.schema for query in queries))
        null = column.nullable if declared else whole.nullable
        type_ = declared_type(column)
        merged = merged.add(column.name, whole.dataType, null, {DECLARED_KEY: type_} if type_ else None)
    return merged


def columns_to_fit(output: OutputDefinition, schema: StructType) -> dict[str, str]:
    """The columns of a view that have a CHAR or VARCHAR, with their declared types. A view without declared columns has those of its first flow,
    as a table has that Spark makes from a query."""
    if output.kind == "sink":
        return {}  # a sink is no table
    found = ((field.name, declared_type(field)) for field in schema.fields)
    return {name: type_ for name, type_ in found if type_ is not None}
