"""A project's SQL files -> definitions, by Spark's own splitter and parser.

Spark's own code splits a file at its semicolons, parses each statement and remembers its line. This module only reads
the parsed commands. `SET key = value` applies to the flows that follow it in the same file.

Every part of a command is read: it is supported, noted because it has no effect, or refused. tests/stepwell/test_definitions_api.py compares the
parts that Spark's commands have with those that are known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from stepwell.catalyst.scala import scala_items
from stepwell.errors import Location, ProjectError, UnsupportedError
from stepwell.project import refusals, stored
from stepwell.project.auto_cdc import AutoCdcQuery, ColumnChoice, java_column
from stepwell.project.elements import FlowDefinition, Kind, OutputDefinition, SqlQuery
from stepwell.project.flow_conf import check_conf, conf_notes
from stepwell.project.text_files import invisible

_STATEMENTS = "CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE FLOW and SET"
_DEFAULT_COLLATION = "UTF8_BINARY"
_SPARKS_OWN = "__"
"""Options of a table that Spark's parser adds, such as the privileges that writing needs, have names that begin so."""


@dataclass
class SqlFile:
    """What has been read so far of a file. `statement` is the current one, and `conf` has the settings of the SET statements above it. `notes`
    are about statements that define nothing."""

    name: str
    statement: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    outputs: list[OutputDefinition] = field(default_factory=list)
    flows: list[FlowDefinition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def flow(
        self,
        name: str,
        target: str,
        query: SqlQuery | AutoCdcQuery,
        location: Location,
        comment: str | None = None,
    ) -> None:
        check_conf(self.conf, view=target, location=location)
        notes = conf_notes(self.conf)
        self.flows.append(
            FlowDefinition(
                name=name,
                target=target,
                query=query,
                location=location,
                spark_conf=dict(self.conf),
                comment=comment,
                notes=notes,
            )
        )

    def query(self, select: Callable[[Any], Any], columns: tuple[str, ...] = ()) -> SqlQuery:
        return SqlQuery(self.statement, select, columns)


def read_sql(text: str, file_name: str, spark: SparkSession) -> SqlFile:
    """What one file defines. Raises ProjectError with the line of the statement or of the syntax error."""
    splitter = getattr(spark._jvm, "org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext")
    file = SqlFile(file_name)
    try:
        statements = scala_items(splitter.splitSqlFileIntoQueries(spark._jsparkSession, text, file_name))
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
            raise refusals.unknown_clause(file.statement, location) or UnsupportedError(
                f"{command} is not a definition", f"Known are {_STATEMENTS}.", location=location
            )
        _READERS[command](plan, file, location)
    return file


def _syntax_error(error: PySparkException, text: str, file_name: str) -> ProjectError:
    """The error with its line in the file. Spark prints the statement that failed, and counts lines from the start of that statement."""
    parts = re.split(r"== SQL[^=\n]*==\n", str(error), maxsplit=1)
    printed = parts[1] if len(parts) > 1 else ""
    statement = "\n".join(line for line in printed.splitlines() if not re.fullmatch(r"-*\^+", line)).rstrip("\n")
    start = text.find(statement) if statement else -1
    inside = re.search(r"\(line (\d+), pos \d+\)", parts[0])
    line = text[:start].count("\n") + (int(inside[1]) if inside else 1) if start >= 0 else None
    location = Location(file_name, line)
    if (refused := refusals.unknown_clause(statement, location)) is not None:
        return refused
    hidden = invisible(statement, text[:start].count("\n") + 1) if start >= 0 else None
    what_to_do = "" if hidden is None else f"{hidden[0].upper()}{hidden[1:]}: delete it, or write a blank."
    return ProjectError(refusals.first_line(error), what_to_do, location=location)


def _option(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _name(identifier: Any) -> str:
    relation = identifier.getClass().getSimpleName() == "UnresolvedRelation"
    parts = identifier.multipartIdentifier() if relation else identifier.nameParts()
    return ".".join(str(part) for part in scala_items(parts))


def _properties(table: Any) -> dict[str, str]:
    return {entry._1(): entry._2() for entry in scala_items(table.properties())}


def _schema(columns: Any, name: str, location: Location) -> StructType | None:
    fields = []
    for column in scala_items(columns):
        for unsupported, what in (("defaultValue", "DEFAULT"), ("generationExpression", "GENERATED ALWAYS AS"),
                                  ("identityColumnSpec", "GENERATED AS IDENTITY")):  # fmt: skip
            if getattr(column, unsupported)().isDefined():
                raise refusals.filled_column(column.name(), what, name, location)
        data_type = json.loads(column.dataType().json())
        fields.append({"name": column.name(), "type": data_type, "nullable": column.nullable(), "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields}) if fields else None


def _table(kind: Kind, plan: Any, file: SqlFile, location: Location) -> str:
    """Adds the table of the statement, and returns its name. IF NOT EXISTS changes nothing: a definition is no command. Spark's parser itself
    refuses OPTIONS, LOCATION, STORED AS, ROW FORMAT and buckets."""
    name, spec = _name(plan.name()), plan.tableSpec()
    if spec.constraints().nonEmpty():
        raise UnsupportedError(
            "constraints are not enforced, so they are not accepted",
            "Leave them out; NOT NULL columns of a source are enforced.",
            view=name,
            location=location,
        )
    _refuse_collation(_option(spec.collation()), name, location)
    stored_by, notes = _arrangement(plan.partitioning())
    file.outputs.append(
        OutputDefinition(
            kind,
            name,
            location,
            schema=_schema(plan.columns(), name, location),
            format=_option(spec.provider()),
            properties=_properties(spec),
            comment=_option(spec.comment()),
            stored_by=stored_by,
            notes=notes,
        )
    )
    return name


def _refuse_collation(collation: str | None, name: str, location: Location) -> None:
    if collation is not None and collation.upper() != _DEFAULT_COLLATION:
        raise UnsupportedError(
            f"DEFAULT COLLATION {collation} is not supported",
            refusals.COLLATE_TODAY,
            view=name,
            location=location,
        )


def _arrangement(transforms: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the columns of PARTITIONED BY and CLUSTER BY, the note about them). A field of a column counts as the column."""
    names = (
        str(reference.fieldNames()[0]) for transform in scala_items(transforms) for reference in transform.references()
    )
    columns = tuple(dict.fromkeys(names))
    return columns, (stored.arranged_note(columns, "PARTITIONED BY or CLUSTER BY"),) if columns else ()


def _streaming_table(plan: Any, file: SqlFile, location: Location) -> None:
    _table("table", plan, file, location)


def _streaming_table_as(plan: Any, file: SqlFile, location: Location) -> None:
    name = _table("table", plan, file, location)
    file.flow(name, name, file.query(_query), location)


def _streaming_table_auto_cdc(plan: Any, file: SqlFile, location: Location) -> None:
    name = _table("table", plan, file, location)
    file.flow(name, name, _auto_cdc(plan, name, file, location, lambda command: command), location)


def _materialized_view(plan: Any, file: SqlFile, location: Location) -> None:
    name = _table("materialized_view", plan, file, location)
    file.flow(name, name, file.query(_query), location)


def _temporary_view(plan: Any, file: SqlFile, location: Location) -> None:
    name = plan.name().unquotedString()
    if not plan.viewType().toString().startswith("LocalTemp"):
        raise UnsupportedError(
            "a global temporary view is not supported",
            f"Write CREATE TEMPORARY VIEW {name}.",
            view=name,
            location=location,
        )
    _add_view(name, plan, _view_query, file, location, notes=[])


def _view(plan: Any, file: SqlFile, location: Location) -> None:
    note = "CREATE VIEW makes no view in a catalog: here it is a temporary view, which this pipeline alone can read"
    _add_view(_name(plan.child()), plan, _query, file, location, notes=[note])


def _add_view(
    name: str, plan: Any, select: Callable[[Any], Any], file: SqlFile, location: Location, *, notes: list[str]
) -> None:
    """A view that is inlined where it is read. OR REPLACE and IF NOT EXISTS change nothing: a definition is no command."""
    _refuse_collation(_option(plan.collation()), name, location)
    properties = [entry._1() for entry in scala_items(plan.properties())]
    notes += stored.properties_note(properties)
    columns = tuple(entry._1() for entry in scala_items(plan.userSpecifiedColumns()))
    comment = _option(plan.comment())
    file.outputs.append(OutputDefinition("temporary_view", name, location, comment=comment, notes=tuple(notes)))
    file.flow(name, name, file.query(select, columns), location)


def _flow(plan: Any, file: SqlFile, location: Location) -> None:
    operation = plan.flowOperation()
    name, comment = _name(plan.name()), _option(plan.comment())
    command = operation.getClass().getSimpleName()
    if command == "AutoCdcInto":
        target = _name(operation.targetTable())
        query = _auto_cdc(operation, target, file, location, lambda statement: statement.flowOperation())
        file.flow(name, target, query, location, comment)
        return
    if command == "UnresolvedInsert":
        operation = operation.toInsertIntoStatement(operation.table())
    elif command != "InsertIntoStatement":
        raise UnsupportedError(f"a flow with {command}", "Write CREATE FLOW f AS INSERT INTO t BY NAME SELECT ...",
                               location=location)  # fmt: skip
    target = _name(operation.table())
    if not _plain_insert(operation):
        raise ProjectError(
            "a flow inserts BY NAME, without OVERWRITE, REPLACE, PARTITION, options and WITH SCHEMA EVOLUTION",
            f"Write CREATE FLOW ... AS INSERT INTO {target} BY NAME SELECT ...",
            view=target,
            location=location,
        )
    file.flow(name, target, file.query(_flow_query), location, comment)


def _plain_insert(insert: Any) -> bool:
    table = insert.table()
    options = table.options() if table.getClass().getSimpleName() == "UnresolvedRelation" else ()
    others = (
        insert.overwrite(),
        insert.ifPartitionNotExists(),
        insert.withSchemaEvolution(),
        insert.partitionSpec().nonEmpty(),
        insert.userSpecifiedCols().nonEmpty(),
        insert.replaceCriteriaOpt().isDefined(),
        any(not str(name).startswith(_SPARKS_OWN) for name in options),
    )
    return insert.byName() and not any(others)


def _auto_cdc(plan: Any, target: str, file: SqlFile, location: Location, command: Callable[[Any], Any]) -> AutoCdcQuery:
    """The query of an AUTO CDC clause. `plan` has its parts, and `command` finds it in the parsed statement. The statement is parsed again for
    each part that is analysed (see SqlQuery)."""

    def part(read: Callable[[Any], Any]) -> SqlQuery:
        return file.query(lambda statement: read(command(statement)))

    sequence = part(lambda parts: parts.sequenceByExpr())
    deletes = part(lambda parts: parts.deleteCondition().get())
    query = AutoCdcQuery(
        target=target,
        location=location,
        source=part(lambda parts: parts.source()),
        keys=_names(plan.keys()),
        sequence=lambda spark: java_column(sequence.parse(spark), spark),
        deletes=(lambda spark: java_column(deletes.parse(spark), spark))
        if plan.deleteCondition().isDefined()
        else None,
        scd_type=int(plan.storedAsScdType()),
        columns=_choice(plan.includeColumns(), plan.excludeColumns()),
        tracked=_choice(plan.trackHistoryColumns(), plan.trackHistoryExceptColumns()),
    )
    query.check()
    return query


def _names(attributes: Any) -> tuple[str, ...]:
    """The names of unresolved attributes, of which the grammar allows one part each."""
    return tuple(".".join(map(str, scala_items(attribute.nameParts()))) for attribute in scala_items(attributes))


def _choice(included: Any, excluded: Any) -> ColumnChoice | None:
    if included.isDefined():
        return ColumnChoice(_names(included.get()))
    return ColumnChoice(_names(excluded.get()), True) if excluded.isDefined() else None


def _query(plan: Any) -> Any:
    return plan.query()


def _view_query(plan: Any) -> Any:
    return plan.plan()


def _flow_query(plan: Any) -> Any:
    return plan.flowOperation().query()


def _set(plan: Any, file: SqlFile, location: Location) -> None:
    pair = _option(plan.kv())
    if pair is None or not pair._2().isDefined():
        raise ProjectError("SET without a value does nothing here", "Write SET key = value.", location=location)
    file.conf[pair._1()] = pair._2().get()


def _use(plan: Any, file: SqlFile, location: Location) -> None:
    file.notes.append(f"{location}: USE and SET CATALOG have no effect: the tables of a pipeline are in no catalog")


_READERS: dict[str, Callable[[Any, SqlFile, Location], None]] = {
    "CreateStreamingTable": _streaming_table,
    "CreateStreamingTableAsSelect": _streaming_table_as,
    "CreateStreamingTableAutoCdc": _streaming_table_auto_cdc,
    "CreateMaterializedViewAsSelect": _materialized_view,
    "CreateViewCommand": _temporary_view,
    "CreateView": _view,
    "CreateFlowCommand": _flow,
    "SetCommand": _set,
    "SetNamespaceCommand": _use,
    "SetCatalogCommand": _use,
    "SetCatalogAndNamespace": _use,
}
