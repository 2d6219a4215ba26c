"""Resolved projects made straight from queries by Spark, without a project's files. What the queries read is opaque to
the optimiser, and plans are read, as in a real project."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from base.options import Mode
from stepwell.errors import Location
from stepwell.planning.leaves import boundary
from stepwell.planning.plans import FlowPlan, ResolvedProject, ResolvedView, flow_plan
from stepwell.project.nullability import column_of_all
from stepwell.project.tables import OutputSpec, SourceSpec
from stepwell.project.text_types import as_strings, limits_of

Query = str | Callable[[SparkSession], DataFrame]
FILE = "transformations/views.sql"

TABLES = {
    "t": "a bigint, b bigint, s string, d double, ts timestamp, arr array<int>",
    "u": "a bigint, c bigint, s string, d double",
    "m": "p decimal(5,2), q decimal(20,4), f float, i int",
}


def output(handle: str, mode: Mode, key: tuple[str, ...] = ()) -> OutputSpec:
    return OutputSpec(handle=handle, topic=handle, mode=mode, key=key, partitions=None, location=Location(FILE, 1))


class Workbench:
    """Tables and views are added one after the other; each is a table for the queries after it. `view` number n stands
    in line n of the file."""

    def __init__(self, spark: SparkSession, streaming: bool = False) -> None:
        self.spark = spark.newSession()
        self.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
        self.streaming = streaming
        self.sources: list[SourceSpec] = []
        self.views: list[ResolvedView] = []

    def beside(self) -> Workbench:
        """Another project over the same sources: a session and its tables cost more than most queries."""
        other = copy(self)
        other.sources, other.views = list(self.sources), []
        return other

    def tables(self, *names: str) -> Workbench:
        """Append sources of `TABLES`, all by default."""
        for name in names or TABLES:
            self.source(name, TABLES[name])
        return self

    def source(self, handle: str, ddl: str, mode: Mode = "append", key: tuple[str, ...] = ()) -> Workbench:
        declared = StructType.fromDDL(ddl)
        schema, limits = as_strings(declared), limits_of(declared)
        place = Location("transformations/sources.sql", len(self.sources) + 1)
        self.sources.append(
            SourceSpec(handle, (handle,), mode, key, schema, "earliest", "fail", None, place, limits=limits)
        )
        self._show(handle, schema)
        return self

    def read(self, handle: str, schema: StructType, format: Literal["record", "table"], topic: str = "") -> Workbench:
        """The records of a topic that a definition reads, or a batch table."""
        place = Location("transformations/sources.py", len(self.sources) + 1)
        topics = (topic or handle,)
        self.sources.append(
            SourceSpec(handle, topics, "append", (), schema, "earliest", "fail", None, place, format=format)
        )
        self._show(handle, schema)
        return self

    def view(
        self, name: str, *queries: Query, output: OutputSpec | None = None, key: tuple[str, ...] = ()
    ) -> Workbench:
        place = Location(FILE, len(self.views) + 1)
        frames = [self.spark.sql(query) if isinstance(query, str) else query(self.spark) for query in queries]
        flows = tuple(self._flow(name, frame, place) for frame in frames)
        reads = tuple(dict.fromkeys(leaf for flow in flows for leaf in flow.leaves))
        flow_schemas = [frame.schema for frame in frames]
        schema = StructType([column_of_all(column, flow_schemas) for column in flow_schemas[0].fields])
        self.views.append(
            ResolvedView(name, "materialized_view", schema, flows, reads, output, output.key if output else key, place)
        )
        self._show(name, schema)
        return self

    def again(self, view: ResolvedView) -> Workbench:
        """A view that another project with the same tables has planned."""
        self.views.append(view)
        self._show(view.name, view.schema)
        return self

    def project(self) -> ResolvedProject:
        return ResolvedProject(
            project=cast(Any, None), sources=tuple(self.sources), views=tuple(self.views), spark=self.spark
        )

    def _flow(self, name: str, frame: DataFrame, place: Location) -> FlowPlan:
        execution = frame._jdf.queryExecution()
        analysed, optimise = execution.analyzed(), execution.optimizedPlan
        return flow_plan(name, analysed, optimise, self.spark, view=name, location=place, streaming=self.streaming)

    def _show(self, name: str, schema: StructType) -> None:
        boundary(name, schema, self.streaming, self.spark).createOrReplaceTempView(name)
