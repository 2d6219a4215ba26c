"""A case's sources and views as Stepwell sees them: what a project would define."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from stepwell.errors import Location
from stepwell.project.auto_cdc import AutoCdcQuery, ColumnChoice
from stepwell.project.record_columns import record_schema
from tests.fuzz.cases import Source, View
from tests.fuzz.terms import Cdc, Flows, Query, frame
from tests.stepwell.lowering.projects import Workbench


def show_source(bench: Workbench, source: Source) -> None:
    match source.read:
        case "table":
            bench.source(source.name, source.ddl, source.mode, source.key)
        case "files":
            bench.read(source.name, StructType.fromDDL(source.ddl), "table")
        case "reader":
            bench.read(source.records, record_schema(False), "record", topic=source.name)
            bench.spark.sql(source.sql).createOrReplaceTempView(source.name)


def flows(view: View) -> list[Callable[[SparkSession], DataFrame]]:
    """The queries that fill the view."""
    queries = view.query.queries if isinstance(view.query, Flows) else (view.query,)
    return [partial(frame_of, query, view) for query in queries]


def frame_of(query: Query, view: View, spark: SparkSession) -> DataFrame:
    if isinstance(query, Cdc):
        return auto_cdc(query, view.name)(spark)
    if view.as_frame:
        made: DataFrame = eval(frame(query), {"spark": spark, "F": F})
        return made
    return spark.sql(query.sql)


def auto_cdc(query: Cdc, target: str) -> AutoCdcQuery:
    deletes = query.deletes
    return AutoCdcQuery(
        target=target,
        location=Location("a.sql", 1),
        source=lambda spark: spark.sql(query.changes.sql),
        keys=query.keys,
        sequence=lambda spark: F.expr(query.sequence.sql),
        deletes=None if deletes is None else lambda spark: F.expr(deletes.sql),
        scd_type=query.scd_type,
        columns=_choice(query.chosen, query.names, query.excluded),
        tracked=_choice(query.tracked, [name for name in query.shown if name not in query.keys], query.excluded),
    )


def _choice(chosen: tuple[str, ...] | None, names: tuple[str, ...] | list[str], excluded: bool) -> ColumnChoice | None:
    if chosen is None:
        return None
    return ColumnChoice(tuple(name for name in names if name not in chosen), True) if excluded else ColumnChoice(chosen)
