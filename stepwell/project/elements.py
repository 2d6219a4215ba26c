"""The definitions of a project as plain data: outputs, and the flows that fill them.

Guarantees of `check`: names are unique (Spark ignores case in them) and have one part, and every flow has a target that
accepts flows. Nothing is resolved here. A query is a function or a parsed plan that `plans` evaluates later, so files
may be in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from stepwell.errors import Location, ProjectError, did_you_mean
from stepwell.project.auto_cdc import AutoCdcQuery

_WORD = re.compile(r"\w+")
_NAME_IN_CATALOG = re.compile(r"\w+", re.ASCII)
_NOT_IN_CATALOG = re.compile(r"\W", re.ASCII)

Kind = Literal["materialized_view", "table", "temporary_view", "sink"]

KIND_NAMES: dict[Kind, str] = {
    "materialized_view": "materialized view",
    "table": "streaming table",
    "temporary_view": "temporary view",
    "sink": "sink",
}


@dataclass(frozen=True)
class OutputDefinition:
    """A named output, which flows fill. `properties` are a table's TBLPROPERTIES or a sink's options. `stored_by` are the columns by which the
    definition wants files to be arranged. `notes` are for `dry-run`."""

    kind: Kind
    name: str
    location: Location
    schema: StructType | None = None
    format: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    stored_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_source(self) -> bool:
        """Whether messages fill it, and no flow."""
        return self.kind == "table" and any(name.lower() == "subscribe" for name in self.properties)


@dataclass(frozen=True)
class SqlQuery:
    """The query inside `statement`. `columns` renames its columns if the statement lists names.

    It is parsed again for each analysis, because the analyser marks in a plan which rules had no effect on its nodes. A
    plan that failed because a table was missing would therefore fail again after the table has been registered.
    """

    statement: str
    select: Callable[[Any], Any]  # the command's plan -> the query's plan
    columns: tuple[str, ...] = ()

    def parse(self, spark: SparkSession) -> Any:
        return self.select(spark._jsparkSession.sessionState().sqlParser().parsePlan(self.statement))

    def __call__(self, spark: SparkSession) -> DataFrame:
        dataset = getattr(spark._jvm, "org.apache.spark.sql.classic.Dataset")
        frame = DataFrame(dataset.ofRows(spark._jsparkSession, self.parse(spark)), spark)
        return frame.toDF(*self.columns) if self.columns else frame


def words(statement: str) -> frozenset[str]:
    """All words of a statement, also those in texts and comments, in small letters. Every plain name in it is one."""
    return frozenset(_WORD.findall(statement.lower()))


@dataclass(frozen=True)
class PythonQuery:
    """A query that is a decorated Python function."""

    function: Callable[[], DataFrame]

    def __call__(self, spark: SparkSession) -> DataFrame:
        return self.function()


@dataclass(frozen=True, kw_only=True)
class FlowDefinition:
    """One query that fills `target`. `spark_conf` applies while the query is analysed. `comment` is what the definition says of itself. `notes`
    are for `dry-run`."""

    name: str
    target: str
    query: SqlQuery | PythonQuery | AutoCdcQuery
    location: Location
    spark_conf: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Definitions:
    """Everything that the files define, in the order in which they were read. `spark` is the session to which the
    queries are bound. Its temporary views belong to the project. `notes` are about statements that define nothing."""

    outputs: tuple[OutputDefinition, ...]
    flows: tuple[FlowDefinition, ...]
    spark: SparkSession
    notes: tuple[str, ...] = ()

    def flows_of(self, name: str) -> list[FlowDefinition]:
        return [flow for flow in self.flows if flow.target.lower() == name.lower()]


def check(outputs: Sequence[OutputDefinition], flows: Sequence[FlowDefinition]) -> list[ProjectError]:
    """The errors in names and targets. Empty if there are none."""
    by_name: dict[str, OutputDefinition] = {}
    errors = _check_outputs(outputs, by_name)
    return errors + _check_flows(flows, by_name)


def _check_outputs(outputs: Sequence[OutputDefinition], by_name: dict[str, OutputDefinition]) -> list[ProjectError]:
    errors: list[ProjectError] = []
    for output in outputs:
        if "." in output.name:
            errors.append(
                ProjectError(
                    f"the name {output.name} has more than one part",
                    f"Tables live in Kafka and in Stepwell, in no catalog: call it {output.name.rsplit('.', 1)[-1]}.",
                    view=output.name,
                    location=output.location,
                )
            )
        elif (why := _why_no_name(output)) is not None:
            errors.append(ProjectError(*why, view=output.name or None, location=output.location))
        first = by_name.setdefault(output.name.lower(), output)
        if first is not output:
            errors.append(
                ProjectError(f"{output.name} is defined at {first.location} already", "Rename one of them.",
                             view=output.name, location=output.location)
            )  # fmt: skip
    return errors


def _why_no_name(output: OutputDefinition) -> tuple[str, str] | None:
    """(what is wrong with the name, what to do); None if Spark allows it. Its catalog checks the names of views and tables. It does not have
    temporary views, which a query names in backticks, and sinks."""
    name = output.name
    if not name:
        return f"the name of a {KIND_NAMES[output.kind]} is empty", "Give it one."
    if "`" in name:
        return f"the name {name} has a backtick in it", "Leave the backtick out."
    if output.kind not in ("materialized_view", "table") or _NAME_IN_CATALOG.fullmatch(name):
        return None
    other = _NOT_IN_CATALOG.sub("_", name)
    advice = "" if set(other) == {"_"} else f" Call it {other}."
    return (
        f"{name} is no name of a {KIND_NAMES[output.kind]}",
        f"As in Spark's catalog, such a name has the letters a to z, digits and _ alone.{advice}",
    )


def name_in_python(text: str) -> str:
    """The name that a definition in Python gives. Spark reads it as SQL does, so it may stand in backticks."""
    bare = text[1:-1]
    return bare if text == f"`{bare}`" and "`" not in bare else text


def _check_flows(flows: Sequence[FlowDefinition], by_name: dict[str, OutputDefinition]) -> list[ProjectError]:
    errors: list[ProjectError] = []
    flow_names: dict[str, FlowDefinition] = {}
    for flow in flows:
        place: dict[str, Any] = {"view": flow.target, "location": flow.location}
        twin = flow_names.setdefault(flow.name.lower(), flow)
        target = by_name.get(flow.target.lower())
        if target is None:
            names = [output.name for output in by_name.values()]
            errors.append(
                ProjectError(
                    f"flow {flow.name} fills {flow.target}, which is not defined",
                    did_you_mean(flow.target, names, "targets")
                    + " CREATE STREAMING TABLE or dp.create_sink makes one.",
                    **place,
                )
            )
        elif isinstance(flow.query, AutoCdcQuery) and (refusal := _check_auto_cdc(flow, target, flows)):
            errors.append(refusal)
        elif flow.name != flow.target and target.kind in ("materialized_view", "temporary_view"):
            errors.append(
                ProjectError(
                    f"flow {flow.name} fills a {KIND_NAMES[target.kind]}, which has its own query",
                    "Make the target a streaming table, or UNION ALL the queries in one view.",
                    **place,
                )
            )
        elif twin is not flow and target.location != flow.location:  # a table defined twice is reported above
            errors.append(
                ProjectError(f"a flow named {flow.name} is defined at {twin.location} already", "Rename one.", **place)
            )
    return errors


def _check_auto_cdc(
    flow: FlowDefinition, target: OutputDefinition, flows: Sequence[FlowDefinition]
) -> ProjectError | None:
    """AUTO CDC fills a streaming table, and fills it alone. Otherwise rows of other flows would stand beside those that it replaces."""
    if target.kind != "table":
        return ProjectError(
            f"AUTO CDC fills a {KIND_NAMES[target.kind]}, and it can fill a streaming table only",
            f"Write dp.create_streaming_table(name), or CREATE STREAMING TABLE, for another name than {target.name}.",
            view=flow.target,
            location=flow.location,
        )
    others = [other for other in flows if other.target.lower() == flow.target.lower() and other is not flow]
    if not others:
        return None
    return ProjectError(
        f"AUTO CDC fills {flow.target}, and so does flow {others[0].name} ({others[0].location})",
        "A table that AUTO CDC fills has one flow. Let a temporary view UNION ALL the changes, and make it the source.",
        view=flow.target,
        location=flow.location,
    )
