"""A project's definitions -> Catalyst's optimised plans, one per flow, in dependency order.

Guarantees: every leaf of a plan is a source (a declared one, or a topic that a definition reads), another view, or rows
written in the definition, and the tree says which of them it is. No plan holds an expression whose value depends on
when, where or in which order it runs. Anything else is an error that names view, file and line. One run finds the
errors of all views.

How it works: queries see a source, materialized view or table as a temporary view over a `LogicalRDD` without rows. The
optimiser cannot look into it, so it is a boundary between plans, which is shared and not inlined. Temporary views are
inlined.

What a query reads is known only when it is analysed. Spark reports a missing table, that table is resolved first, and
the analysis is tried again. So files may be in any order, and a query that needs itself is reported as a cycle.

Each boundary has two forms. The plain form is for the flows of materialized views. The form marked as streaming is for
the flows of streaming tables and sinks (`spark.readStream.table`, `STREAM(t)`). Catalyst's plans of the two differ only
in that mark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from stepwell.catalyst.read import read
from stepwell.catalyst.tree import TreeNode
from stepwell.errors import (
    FilesGone,
    Location,
    OwnMistake,
    ProjectError,
    ProjectErrors,
    StepwellError,
    UnsupportedError,
    did_you_mean,
    raise_all,
)
from stepwell.planning.batch_tables import BatchTable, BatchTables, TableLeaves
from stepwell.planning.catalog_names import OwnNames
from stepwell.planning.leaves import boundary, mark_leaves
from stepwell.planning.reads import NotStreaming, Reads
from stepwell.project import auto_cdc, refusals
from stepwell.project.auto_cdc import AutoCdcQuery
from stepwell.project.definitions import Definitions, active, in_folder, load_definitions, quiet_spark, where_in
from stepwell.project.elements import KIND_NAMES, FlowDefinition, Kind, OutputDefinition, PythonQuery, SqlQuery
from stepwell.project.flow_conf import in_force
from stepwell.project.kafka_options import disagreements
from stepwell.project.kafka_reader import kafka_reads
from stepwell.project.loading import Project
from stepwell.project.settings import check_time_zone
from stepwell.project.tables import (
    OutputSpec,
    SourceSpec,
    check_names,
    check_stored_by,
    is_source,
    kept_key,
    output_notes,
    output_spec,
    source_spec,
)
from stepwell.spark.fixed import TIME_ZONE_KEY
from stepwell.spark.session import connection_lost

# Spark's only name of the error "is not a temp view of streaming logical plan".
_NOT_STREAMING = "_LEGACY_ERROR_TEMP_1008"
_NO_FILES = "PATH_NOT_FOUND"
# Of a name of three parts whose first is no catalog.
_NO_CATALOG = "REQUIRES_SINGLE_PART_NAMESPACE"
_STREAMING_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"


@dataclass(frozen=True)
class FlowPlan:
    """The resolved query of one flow.

    `tree` is the optimised plan. A LogicalRDD in it has the name of the source or view that it reads in its field
    `rdd`. A LocalRelation has its rows in its field `data`, a pyarrow.Table with columns c0, c1, ... (at least one).
    `leaves` has those names, one per LogicalRDD, in pre-order: a node, then the trees in its fields, then its children.
    `json` and `analysed_json` are Spark's own `toJSON`. `text` is the optimised plan for people. `is_made`: nobody wrote the query, because the
    definition says what it wants in another way; what lowering notes about queries then means nothing to its author.
    """

    name: str
    tree: TreeNode
    leaves: tuple[str, ...]
    json: str
    analysed_json: str
    text: str
    location: Location
    is_made: bool = False


@dataclass(frozen=True)
class ResolvedView:
    """A materialized view, a streaming table with flows, or a sink. Its content is the sum (UNION ALL) of its flows,
    which all have the columns of `schema` in that order. `reads` has the sources and views that it reads."""

    name: str
    kind: Kind
    schema: StructType
    flows: tuple[FlowPlan, ...]
    reads: tuple[str, ...]
    output: OutputSpec | None
    key: tuple[str, ...]
    location: Location


@dataclass(frozen=True)
class ResolvedProject:
    """`views` are in dependency order: a view comes after all views that it reads. `spark` is the session of the plans. `notes` are for
    `dry-run`, by the name of the output; those under the empty name are about none. `tables`: the batch tables among the sources, by handle."""

    project: Project
    sources: tuple[SourceSpec, ...]
    views: tuple[ResolvedView, ...]
    spark: SparkSession
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: Mapping[str, BatchTable] = field(default_factory=dict)


def resolve(project: Project, spark: SparkSession) -> ResolvedProject:
    """Loads and resolves everything that the project defines. Raises ProjectError, or ProjectErrors for several errors."""
    resolved, errors = survey(project, spark)
    raise_all(errors)
    return resolved


def survey(project: Project, spark: SparkSession) -> tuple[ResolvedProject, list[ProjectError]]:
    """Like `resolve`, for `dry-run`: returns what could be resolved, and the errors of the rest. Raises ProjectError if even the definitions
    cannot be read."""
    reads = Reads(project)
    with quiet_spark(), kafka_reads(reads.provide):
        definitions = load_definitions(project, spark)
        with active(definitions.spark), in_folder(project.root):
            return _Resolver(project, definitions, reads).run()


def flow_plan(
    name: str,
    analysed: Any,
    optimise: Callable[[], Any],
    spark: SparkSession,
    view: str,
    location: Location,
    tables: BatchTables | None = None,
    streaming: bool = True,
) -> FlowPlan:
    """The plan of one query. `analysed` is the JVM's analysed plan. `optimise` returns the optimised one, and is called only if nothing
    in `analysed` is refused. `tables` takes the batch tables that it reads; `streaming`: whether it may read them as streams. Raises
    UnsupportedError or ProjectErrors."""
    analysed_json = analysed.toJSON()
    refusals.check_analysed(analysed, analysed_json, view, location)
    read_here = TableLeaves() if tables is None else tables.in_plan(analysed, view, location, streaming=streaming)
    optimised = read_here.optimised(analysed, optimise, spark)
    tree = read(optimised)
    refusals.check_sessions(analysed, analysed_json, optimised, tree, view, location)
    leaves = mark_leaves(tree, optimised, spark, view, location, read_here.handles)
    return FlowPlan(name, tree, tuple(leaves), optimised.toJSON(), analysed_json, optimised.toString(), location)


class _Blocked(Exception):
    """A view cannot be resolved because a view that it reads cannot. The error of that other view has been recorded already."""


class _Resolver:
    """The state of one resolution. Keys are lower-case names."""

    def __init__(self, project: Project, definitions: Definitions, reads: Reads) -> None:
        self.project = project
        self.definitions = definitions
        self.reads = reads
        reads.view_now = lambda: self.stack[-1].name if self.stack else None
        self.spark = definitions.spark
        self.outputs = {output.name.lower(): output for output in definitions.outputs}
        self.schemas: dict[str, StructType] = {}  # of the boundaries resolved so far
        self.sources: list[SourceSpec] = []
        self.tables = BatchTables(project.name, definitions.spark)
        self.own_names = OwnNames({o.name for o in definitions.outputs if o.kind != "sink"}, definitions.spark)
        self.views: list[ResolvedView] = []
        self.failed: set[str] = set()
        self.errors: list[ProjectError] = []
        self.frames: dict[tuple[str, bool], DataFrame] = {}  # (name, streaming) -> the form that queries see
        self.shown: dict[str, bool] = {}  # name -> whether the streaming form is registered now
        self.stack: list[OutputDefinition] = []  # the outputs that are being resolved, outermost first

    def run(self) -> tuple[ResolvedProject, list[ProjectError]]:
        with _error_of_time_zone(self.project):
            check_time_zone(str(self.spark.conf.get(TIME_ZONE_KEY)))
        for output in self.definitions.outputs:
            with contextlib.suppress(_Blocked):
                if output.kind == "temporary_view":
                    self._check_temporary(output)
                else:
                    self._resolve(output)
        used = {leaf for view in self.views for leaf in view.reads}
        tables = {handle: table for handle, table in sorted(self.tables.found.items()) if handle in used}
        sources = self.sources + [spec for handle, spec in sorted(self.reads.sources.items()) if handle in used]
        sources += [table.spec for table in tables.values()]
        resolved = ResolvedProject(self.project, tuple(sources), tuple(self.views), self.spark, self._notes(), tables)
        return resolved, self.errors + disagreements(sources)

    def _notes(self) -> dict[str, tuple[str, ...]]:
        notes = {"": self.definitions.notes}
        for output in self.definitions.outputs:
            flows = self.definitions.flows_of(output.name)
            of_flows = (note for flow in flows for note in (*flow.notes, *_notes_of_query(flow)))
            notes[output.name] = tuple(dict.fromkeys((*output_notes(output), *of_flows)))
        return {name: found for name, found in notes.items() if found}

    def _resolve(self, output: OutputDefinition) -> None:
        """Resolves the boundary `output`. Raises _Blocked if that is impossible."""
        name = output.name.lower()
        if name in self.schemas:
            return
        if name in self.failed:
            raise _Blocked
        with self._guard(output):
            if is_source(output):
                spec = source_spec(output, self.definitions, self.project.settings)
                check_stored_by(output, spec.schema)
                self.sources.append(spec)
                self.schemas[name] = spec.schema
            else:
                view = self._view(output)
                self.views.append(view)
                self.schemas[name] = view.schema

    def _check_temporary(self, output: OutputDefinition) -> None:
        """Analyses a temporary view that nothing reads, because it must be correct too. If it reads streams, it is analysed as streaming."""
        name = output.name.lower()
        if (name, False) in self.frames or (name, True) in self.frames or name in self.failed:
            return
        flow = self.definitions.flows_of(output.name)[0]
        with self._guard(output):
            try:
                self._evaluate(flow, streaming=False)
            except NotStreaming:
                self._evaluate(flow, streaming=True)

    @contextlib.contextmanager
    def _guard(self, output: OutputDefinition) -> Iterator[None]:
        """Records an error of `output` once. The outputs that read it are blocked without an error of their own."""
        name = output.name.lower()
        self.stack.append(output)
        try:
            yield
        except _Blocked:
            self.failed.add(name)
            raise
        except Exception as error:
            if connection_lost(error) or (isinstance(error, StepwellError) and not isinstance(error, ProjectError)):
                raise  # not an error of this view
            self.failed.add(name)
            match error:
                case ProjectErrors():
                    self.errors.extend(error.errors)
                case ProjectError():
                    self.errors.append(error)
                case _:
                    self.errors.append(OwnMistake.of(error, output.name, output.location))
            raise _Blocked from error
        finally:
            self.stack.pop()

    def _view(self, output: OutputDefinition) -> ResolvedView:
        flows = self.definitions.flows_of(output.name)
        if not flows:
            raise ProjectError(
                f"this {KIND_NAMES[output.kind]} has no flow and is not a source",
                "Fill it (AS SELECT, CREATE FLOW, @dp.append_flow), or add 'subscribe' = 'topic' and USING kafka.",
                view=output.name,
                location=output.location,
            )
        streaming = output.kind != "materialized_view"
        queries = [self._evaluate(flow, streaming) for flow in flows]
        schema = _common_schema(output, queries)
        check_names(schema, output.name, output.location)
        check_stored_by(output, schema)
        plans = tuple(self._plan(flow, query, schema, output) for flow, query in zip(flows, queries, strict=True))
        return ResolvedView(
            name=output.name,
            kind=output.kind,
            schema=schema,
            flows=plans,
            reads=tuple(dict.fromkeys(leaf for plan in plans for leaf in plan.leaves)),
            output=output_spec(output, schema, self.project.settings),
            key=kept_key(output, schema, self.project.settings),
            location=output.location,
        )

    def _plan(self, flow: FlowDefinition, query: _Query, schema: StructType, output: OutputDefinition) -> FlowPlan:
        with _translated(flow, self.project, output.name, users_code=False), _conf(self.spark, flow.spark_conf):
            query = query.in_order(schema, flow)
            plan = flow_plan(
                flow.name,
                query.analysed,
                query.optimised,
                self.spark,
                output.name,
                flow.location,
                self.tables,
                streaming=output.kind != "materialized_view",
            )
            leaves = tuple(self._declared(leaf) for leaf in plan.leaves)
            return replace(plan, leaves=leaves, is_made=isinstance(flow.query, AutoCdcQuery))

    def _declared(self, leaf: str) -> str:
        """The name of a leaf as it was declared, because Spark ignores case."""
        is_own = leaf in self.reads.sources or leaf in self.tables.found
        return leaf if is_own else self.outputs[leaf.lower()].name

    def _evaluate(self, flow: FlowDefinition, streaming: bool) -> _Query:
        """The flow's query, analysed. What it reads is resolved on the way: each attempt registers one more name."""
        with _error_of_time_zone(self.project, flow):
            check_time_zone(flow.spark_conf.get(TIME_ZONE_KEY, "UTC"))
        missing: set[str] = set()
        while True:
            self._show(streaming)
            self.reads.streaming_now = streaming
            try:
                with _translated(flow, self.project, flow.target, users_code=True), _conf(self.spark, flow.spark_conf):
                    query = _analyse(flow, self.spark)
                    if (name := self.own_names.read_from_catalog(query.analysed)) is not None:
                        raise _Missing(name, flow.location)
                    return query
            except _Missing as error:
                if error.name.lower() in missing:  # it has been registered, but Spark still does not find it
                    raise ProjectError(
                        f"{error.name} cannot be read here",
                        f"A view of the project is read by its name alone: write {error.name} without catalog and database.",
                        view=flow.target,
                        location=error.location,
                    ) from None
                missing.add(error.name.lower())
                self._provide(error.name, streaming, flow, error.location)

    def _show(self, streaming: bool) -> None:
        """Registers every known name in the form that this kind of flow sees. Names without that form are unregistered."""
        for name in [name for name, shown in self.shown.items() if shown != streaming]:
            frame = self.frames.get((name, streaming))
            if frame is None:
                self.spark.catalog.dropTempView(name)
                del self.shown[name]
            else:
                frame.createOrReplaceTempView(name)
                self.shown[name] = streaming

    def _provide(self, name: str, streaming: bool, reader: FlowDefinition, location: Location) -> None:
        """Resolves and registers `name` for a flow that reads it."""
        output = self.outputs.get(name.lower())
        place: dict[str, Any] = {"view": reader.target, "location": location}
        if output is None or output.kind == "sink":
            readable = [known.name for known in self.definitions.outputs if known.kind != "sink"]
            what = "is a sink, which cannot be read" if output else "is not defined in this project"
            raise ProjectError(f"{name} {what}", did_you_mean(name, readable, "tables"), **place)
        if output in self.stack:
            circle = [known.name for known in self.stack[self.stack.index(output) :]] + [output.name]
            raise ProjectError(
                f"a cycle: {' -> '.join(circle)}", "Each reads the next; take one of them out of the circle.", **place
            )
        if output.kind == "temporary_view":
            flow = self.definitions.flows_of(output.name)[0]
            if output.name.lower() in self.failed:
                raise _Blocked
            with self._guard(output):
                frame = self._evaluate(flow, streaming).as_frame(flow)
        else:
            self._resolve(output)
            frame = boundary(output.name, self.schemas[output.name.lower()], streaming, self.spark)
        self.frames[output.name.lower(), streaming] = frame
        frame.createOrReplaceTempView(output.name.lower())
        self.shown[output.name.lower()] = streaming


class _Missing(Exception):
    """A query reads a table that Spark does not know yet. `location` is the place of the query's reference."""

    def __init__(self, name: str, location: Location) -> None:
        super().__init__(name)
        self.name = name
        self.location = location


@dataclass(frozen=True)
class _Query:
    """An analysed query. `frame` is None for SQL that Spark analyses and then refuses (see `_past_check`)."""

    frame: DataFrame | None
    analysed: Any
    schema: StructType
    spark: SparkSession

    def optimised(self) -> Any:
        if self.frame is not None:
            return self.frame._jdf.queryExecution().optimizedPlan()
        return self.spark._jsparkSession.sessionState().optimizer().execute(self.analysed)

    def as_frame(self, flow: FlowDefinition) -> DataFrame:
        if self.frame is None:
            raise UnsupportedError(
                "a temporary view with a subquery over a stream cannot be read by a streaming flow",
                "Make it a materialized view.",
                view=flow.target,
                location=flow.location,
            )
        return self.frame

    def in_order(self, schema: StructType, flow: FlowDefinition) -> _Query:
        """The query with its columns in the order of `schema`, which has the same column names."""
        names = {column.name.lower(): column.name for column in self.schema.fields}
        wanted = [names[column.name.lower()] for column in schema.fields]
        if wanted == self.schema.names:
            return self
        if self.frame is None:
            raise ProjectError(f"the columns of this flow are in another order than {', '.join(schema.names)}",
                               "Select them in that order.", view=flow.target, location=flow.location)  # fmt: skip
        frame = self.frame.select(*(f"`{name.replace('`', '``')}`" for name in wanted))
        return _Query(frame, frame._jdf.queryExecution().analyzed(), frame.schema, self.spark)


def _analyse(flow: FlowDefinition, spark: SparkSession) -> _Query:
    try:
        frame = flow.query(spark)
    except AnalysisException as error:
        if error.getCondition() == _STREAMING_SUBQUERY and isinstance(flow.query, SqlQuery):
            return _past_check(flow, flow.query, spark)
        raise
    if not isinstance(frame, DataFrame):
        raise ProjectError(
            f"the function returns {type(frame).__name__}", "It must return a DataFrame.",
            view=flow.target, location=flow.location,
        )  # fmt: skip
    return _Query(frame, frame._jdf.queryExecution().analyzed(), frame.schema, spark)


def _past_check(flow: FlowDefinition, query: SqlQuery, spark: SparkSession) -> _Query:
    """The query of a flow that only Spark's last check refused, because IN, EXISTS or a scalar subquery reads a stream. It is resolved."""
    analysed = spark._jsparkSession.sessionState().analyzer().execute(query.parse(spark))
    if not analysed.resolved():
        raise ProjectError(
            "this flow has a subquery over a stream, and something else in it is wrong",
            "Replace the streaming table by a materialized view to see Spark's message.",
            view=flow.target,
            location=flow.location,
        )
    return _Query(None, analysed, StructType.fromJson(json.loads(analysed.schema().json())), spark)


def _common_schema(output: OutputDefinition, queries: list[_Query]) -> StructType:
    """The view's columns: the declared ones, otherwise those of the first flow. All flows must have them, by name."""
    place: dict[str, Any] = {"view": output.name, "location": output.location}
    declared = output.schema
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
    nullable = {name for query in queries for name in _nullable_names(query.schema)}
    merged = StructType()
    for column in base.fields:
        merged = merged.add(
            column.name, column.dataType, column.nullable if declared else column.name.lower() in nullable
        )
    return merged


def _notes_of_query(flow: FlowDefinition) -> tuple[str, ...]:
    return (auto_cdc.NOTES[flow.query.scd_type],) if isinstance(flow.query, AutoCdcQuery) else ()


def _nullable_names(schema: StructType) -> set[str]:
    return {column.name.lower() for column in schema.fields if column.nullable}


@contextlib.contextmanager
def _conf(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """Applies the settings of the flow's SET statements while the body runs. A flow's settings of how Spark runs are left out."""
    conf = in_force(conf)
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@contextlib.contextmanager
def _error_of_time_zone(project: Project, flow: FlowDefinition | None = None) -> Iterator[None]:
    try:
        yield
    except StepwellError as error:
        location = flow.location if flow else Location(project.spec_file.name)
        raise ProjectError(
            error.message, error.what_to_do, view=flow.target if flow else None, location=location
        ) from None


@contextlib.contextmanager
def _translated(flow: FlowDefinition, project: Project, view: str, *, users_code: bool) -> Iterator[None]:
    """Translates errors of Spark and of the user's code into Stepwell's errors, with the line where they arose.

    `users_code` says whether the body runs the user's code. If it does not, then an exception that is not Spark's is a bug in Stepwell,
    and is not translated."""
    try:
        yield
    except (StepwellError, _Missing, _Blocked):
        raise
    except Exception as error:
        if connection_lost(error) or not (users_code or isinstance(error, PySparkException)):
            raise
        location = flow.location
        if isinstance(flow.query, PythonQuery):
            found = where_in(error, project.root / location.file, location.file)
            location = found if found.line is not None else location
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        parameters = (error.getMessageParameters() if isinstance(error, PySparkException) else None) or {}
        if condition == "TABLE_OR_VIEW_NOT_FOUND":
            name = str(parameters["relationName"]).replace("`", "")
            raise _Missing(name, location) from None
        if condition == _NO_FILES:
            raise FilesGone(
                refusals.first_line(error),
                "Their rows are read once, at the first start. Spark needs the files to plan the project, also at a later start: put them back.",
                view=view,
                location=location,
            ) from None
        if condition == _NO_CATALOG:
            name = str(parameters.get("identifier")).replace("`", "")
            raise ProjectError(
                f"{name} is not defined in this project, and Spark has no catalog {name.partition('.')[0]}",
                f"Put spark.sql.catalog.{name.partition('.')[0]} and its settings under configuration: in {project.spec_file.name}.",
                view=view,
                location=location,
            ) from None
        if condition == _NOT_STREAMING:
            raise NotStreaming(
                f"{parameters.get('quoted')} is read as a stream, and this is not a streaming flow",
                "Read it with spark.read.table(name) or FROM name; or make this a streaming table (@dp.table).",
                view=view,
                location=location,
            ) from None
        if condition == _STREAMING_SUBQUERY:
            raise UnsupportedError(
                "a Python query has a subquery over a stream",
                "Write this flow in SQL, or the subquery as a join: left_semi for IN, left_anti for NOT EXISTS.",
                view=view,
                location=location,
            ) from None
        raise refusals.python_error(error, location, view) from error
