"""A project's SQL files -> definitions, by Spark's own splitter and parser.

Spark's own code splits a file at its semicolons, parses each statement and remembers its line. This module only reads
the parsed commands. `SET key = value` applies to the flows that follow it in the same file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.errors import Location, ProjectError, UnsupportedError
from stepwell.project import refusals
from stepwell.project.elements import FlowDefinition, OutputDefinition, SqlQuery

_STATEMENTS = "CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE FLOW and SET"


@dataclass
class _File:
    """What has been read so far. `conf` has the settings of the SET statements above the current statement."""

    name: str
    statement: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    outputs: list[OutputDefinition] = field(default_factory=list)
    flows: list[FlowDefinition] = field(default_factory=list)

    def flow(
        self, name: str, target: str, select: Callable[[Any], Any], location: Location, columns: tuple[str, ...] = ()
    ) -> None:
        query = SqlQuery(self.statement, select, columns)
        self.flows.append(FlowDefinition(name, target, query, location, dict(self.conf)))


def read_sql(text: str, file_name: str, spark: SparkSession) -> tuple[list[OutputDefinition], list[FlowDefinition]]:
    """The outputs and flows of one file. Raises ProjectError with the line of the statement or of the syntax error."""
    splitter = spark._jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
    file = _File(file_name)
    try:
        statements = list(_items(splitter.splitSqlFileIntoQueries(spark._jsparkSession, text, file_name)))
    except PySparkException as error:
        raise _syntax_error(error, text, file_name) from None
    for statement in statements:
        origin = statement.queryOrigin()
        line = origin.line()
        location = Location(file_name, line.get() if line.isDefined() else None)
        file.statement = origin.sqlText().get()
        plan = statement.plan()
        command = plan.getClass().getSimpleName()
        if command not in _READERS:
            raise UnsupportedError(f"{command} is not a definition", f"Known are {_STATEMENTS}.", location=location)
        _READERS[command](plan, file, location)
    return file.outputs, file.flows


def _syntax_error(error: PySparkException, text: str, file_name: str) -> ProjectError:
    """The error with its line in the file. Spark prints the statement that failed, and counts lines from the start of that statement."""
    parts = re.split(r"== SQL[^=\n]*==\n", str(error), maxsplit=1)
    printed = parts[1] if len(parts) > 1 else ""
    statement = "\n".join(line for line in printed.splitlines() if not re.fullmatch(r"-*\^+", line)).rstrip("\n")
    start = text.find(statement) if statement else -1
    inside = re.search(r"\(line (\d+), pos \d+\)", parts[0])
    line = text[:start].count("\n") + (int(inside[1]) if inside else 1) if start >= 0 else None
    location = Location(file_name, line)
    if re.search(r"\bCONSTRAINT\s+\S+\s+EXPECT\b|\bEXPECT\s*\(", statement, re.IGNORECASE):
        return refusals.expectation(location)
    return ProjectError(refusals.first_line(error), location=location)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _option(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _name(identifier: Any) -> str:
    relation = identifier.getClass().getSimpleName() == "UnresolvedRelation"
    parts = identifier.multipartIdentifier() if relation else identifier.nameParts()
    return ".".join(str(part) for part in _items(parts))


def _properties(table: Any) -> dict[str, str]:
    entries = table.properties().toSeq()
    return {entry._1(): entry._2() for entry in _items(entries)}


def _schema(columns: Any, name: str, location: Location) -> StructType | None:
    fields = []
    for column in _items(columns):
        for unsupported, what in (("defaultValue", "DEFAULT"), ("generationExpression", "GENERATED ALWAYS AS"),
                                  ("identityColumnSpec", "GENERATED AS IDENTITY")):  # fmt: skip
            if getattr(column, unsupported)().isDefined():
                raise UnsupportedError(
                    f"column {column.name()} has {what}",
                    "Compute it in a view over this table.",
                    view=name,
                    location=location,
                )
        data_type = json.loads(column.dataType().json())
        fields.append({"name": column.name(), "type": data_type, "nullable": column.nullable(), "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields}) if fields else None


def _table(kind: Any, plan: Any, file: _File, location: Location) -> str:
    name, spec = _name(plan.name()), plan.tableSpec()
    if spec.constraints().nonEmpty():
        raise UnsupportedError(
            "constraints are not enforced, so they are not accepted",
            "Leave them out; NOT NULL columns of a source are enforced.",
            view=name,
            location=location,
        )
    file.outputs.append(
        OutputDefinition(
            kind,
            name,
            location,
            schema=_schema(plan.columns(), name, location),
            format=_option(spec.provider()),
            properties=_properties(spec),
            comment=_option(spec.comment()),
        )
    )
    return name


def _streaming_table(plan: Any, file: _File, location: Location) -> None:
    _table("table", plan, file, location)


def _streaming_table_as(plan: Any, file: _File, location: Location) -> None:
    name = _table("table", plan, file, location)
    file.flow(name, name, _query, location)


def _materialized_view(plan: Any, file: _File, location: Location) -> None:
    name = _table("materialized_view", plan, file, location)
    file.flow(name, name, _query, location)


def _temporary_view(plan: Any, file: _File, location: Location) -> None:
    name = plan.name().unquotedString()
    if not plan.viewType().toString().startswith("LocalTemp"):
        raise _stored_view(name, location)
    columns = tuple(entry._1() for entry in _items(plan.userSpecifiedColumns()))
    file.outputs.append(OutputDefinition("temporary_view", name, location, comment=_option(plan.comment())))
    file.flow(name, name, _view_query, location, columns)


def _view(plan: Any, file: _File, location: Location) -> None:
    raise _stored_view(_name(plan.child()), location)


def _stored_view(name: str, location: Location) -> UnsupportedError:
    return UnsupportedError(
        "only temporary and materialized views can be defined",
        f"Write CREATE TEMPORARY VIEW {name} or CREATE MATERIALIZED VIEW {name}.",
        view=name,
        location=location,
    )


def _flow(plan: Any, file: _File, location: Location) -> None:
    operation = plan.flowOperation()
    command = operation.getClass().getSimpleName()
    if command == "AutoCdcInto":
        raise refusals.auto_cdc(_name(operation.targetTable()), location)
    if command == "UnresolvedInsert":
        operation = operation.toInsertIntoStatement(operation.table())
    elif command != "InsertIntoStatement":
        raise UnsupportedError(f"a flow with {command}", "Write CREATE FLOW f AS INSERT INTO t BY NAME SELECT ...",
                               location=location)  # fmt: skip
    target = _name(operation.table())
    if not operation.byName() or operation.overwrite() or operation.partitionSpec().nonEmpty():
        raise ProjectError(
            "a flow inserts BY NAME, without OVERWRITE and PARTITION",
            f"Write CREATE FLOW ... AS INSERT INTO {target} BY NAME SELECT ...",
            view=target,
            location=location,
        )
    file.flow(_name(plan.name()), target, _flow_query, location)


def _query(plan: Any) -> Any:
    return plan.query()


def _view_query(plan: Any) -> Any:
    return plan.plan()


def _flow_query(plan: Any) -> Any:
    return plan.flowOperation().query()


def _set(plan: Any, file: _File, location: Location) -> None:
    pair = _option(plan.kv())
    if pair is None or not pair._2().isDefined():
        raise ProjectError("SET without a value does nothing here", "Write SET key = value.", location=location)
    file.conf[pair._1()] = pair._2().get()


def _streaming_table_auto_cdc(plan: Any, file: _File, location: Location) -> None:
    raise refusals.auto_cdc(_name(plan.name()), location)


_READERS: dict[str, Callable[[Any, _File, Location], None]] = {
    "CreateStreamingTable": _streaming_table,
    "CreateStreamingTableAsSelect": _streaming_table_as,
    "CreateStreamingTableAutoCdc": _streaming_table_auto_cdc,
    "CreateMaterializedViewAsSelect": _materialized_view,
    "CreateViewCommand": _temporary_view,
    "CreateView": _view,
    "CreateFlowCommand": _flow,
    "SetCommand": _set,
}
