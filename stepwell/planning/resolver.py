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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from stepwell.catalyst.analysed import Analysed
from stepwell.errors import (
    Location,
    OwnMistake,
    ProjectError,
    ProjectErrors,
    StepwellError,
    did_you_mean,
    raise_all,
)
from stepwell.planning.actions import ProjectReading, refuse_actions
from stepwell.planning.batch_tables import BatchTables
from stepwell.planning.catalog_names import OwnNames
from stepwell.planning.kept_definitions import KeptDefinitions
from stepwell.planning.leaves import boundary
from stepwell.planning.plans import FlowPlan, ResolvedProject, ResolvedView, flow_plan
from stepwell.planning.python_rows import python_rows_in_plans
from stepwell.planning.query import Query, analyse, columns_to_fit, common_schema
from stepwell.planning.reads import NotStreaming, Reads
from stepwell.planning.shown_names import ShownNames
from stepwell.planning.spark_errors import Blocked, MissingTable, error_of_time_zone, translate_errors, with_conf
from stepwell.project import auto_cdc, refusals
from stepwell.project.auto_cdc import AutoCdcQuery
from stepwell.project.clashes import clashes
from stepwell.project.definitions import Definitions, active, enter_folder, load_definitions, quiet_spark
from stepwell.project.elements import KIND_NAMES, FlowDefinition, OutputDefinition, SqlQuery, words
from stepwell.project.kafka_reader import kafka_reads
from stepwell.project.loading import Project
from stepwell.project.settings import check_time_zone
from stepwell.project.tables import (
    SourceSpec,
    check_names,
    check_stored_by,
    kept_key,
    output_notes,
    output_spec,
    source_spec,
)
from stepwell.spark.fixed import TIME_ZONE_KEY
from stepwell.spark.session import connection_lost


def resolve(project: Project, spark: SparkSession, kept: KeptDefinitions | None = None) -> ResolvedProject:
    """Loads and resolves everything that the project defines. `kept`: plans that may be used again; without it everything is planned afresh.
    Raises ProjectError, or ProjectErrors for several errors."""
    resolved, errors = resolve_with_errors(project, spark, kept)
    raise_all(errors)
    return resolved


def resolve_with_errors(
    project: Project, spark: SparkSession, kept: KeptDefinitions | None = None
) -> tuple[ResolvedProject, list[ProjectError]]:
    """Resolves like `resolve`, but returns what could be resolved and the errors of the rest. For `dry-run`. Raises ProjectError if even the
    definitions cannot be read."""
    reads, kept = Reads(project), kept or KeptDefinitions.nothing()
    reading = ProjectReading(project.root, lambda: reads.view_now(), lambda: reads.streaming_now is not None)
    with quiet_spark(), kafka_reads(reads.provide), refuse_actions(reading), python_rows_in_plans():
        definitions = load_definitions(project, spark, kept.read_sql)
        kept.begin(definitions, has_python=any(file.suffix != ".sql" for file in project.definition_files()))
        with active(definitions.spark), enter_folder(project.root):
            resolved, errors = _Resolver(project, definitions, reads, kept).run()
    kept.save(is_whole=not errors)
    return resolved, errors


class _Resolver:
    """The state of one resolution. Keys are lower-case names."""

    def __init__(self, project: Project, definitions: Definitions, reads: Reads, kept: KeptDefinitions) -> None:
        self.project = project
        self.definitions = definitions
        self.reads = reads
        self.kept = kept
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
        self.names = ShownNames(definitions.spark)
        self.stack: list[OutputDefinition] = []  # the outputs that are being resolved, outermost first
        self.inlined: set[str] = set()  # the temporary views in kept plans

    def run(self) -> tuple[ResolvedProject, list[ProjectError]]:
        with error_of_time_zone(self.project):
            check_time_zone(str(self.spark.conf.get(TIME_ZONE_KEY)))
        for output in self.definitions.outputs:
            with contextlib.suppress(Blocked):
                if output.kind == "temporary_view":
                    self._check_temporary(output)
                else:
                    self._resolve(output)
        place = {name: index for index, name in enumerate(self.outputs)}
        self.sources.sort(key=lambda spec: place[spec.handle.lower()])
        used = {leaf for view in self.views for leaf in view.reads}
        tables = {handle: table for handle, table in sorted(self.tables.found.items()) if handle in used}
        sources = self.sources + [spec for handle, spec in sorted(self.reads.sources.items()) if handle in used]
        sources += [table.spec for table in tables.values()]
        resolved = ResolvedProject(
            project=self.project,
            sources=tuple(sources),
            views=in_order(self.views, place),
            spark=self.spark,
            notes=self._notes(),
            tables=tables,
        )
        outputs = [view.output for view in self.views if view.output is not None]
        return resolved, self.errors + clashes(self.project.name, sources, outputs)

    def _notes(self) -> dict[str, tuple[str, ...]]:
        notes = {"": self.definitions.notes}
        for output in self.definitions.outputs:
            flows = self.definitions.flows_of(output.name)
            of_flows = (note for flow in flows for note in (*flow.notes, *_notes_of_query(flow)))
            notes[output.name] = tuple(dict.fromkeys((*output_notes(output), *of_flows)))
        return {name: found for name, found in notes.items() if found}

    def _resolve(self, output: OutputDefinition) -> None:
        """Resolves the boundary `output`. Raises Blocked if that is impossible."""
        name = output.name.lower()
        if name in self.schemas:
            return
        if name in self.failed:
            raise Blocked
        with self._guard(output):
            if output.is_source:
                spec = source_spec(output, self.definitions, self.project.settings, self.project.root)
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
        is_read = self.names.knows(name, False) or self.names.knows(name, True) or name in self.inlined
        if is_read or name in self.failed:
            return
        flow = self.definitions.flows_of(output.name)[0]
        with self._guard(output):
            if self.kept.find(output, self._schema_of) is not None:
                return
            try:
                query = self._evaluate(flow, streaming=False)
            except NotStreaming:
                self._evaluate(flow, streaming=True)
            else:
                analysed = Analysed.read(query.analysed.toJSON())
                self.kept.keep(output, query.schema, [analysed], (), self.schemas)

    @contextlib.contextmanager
    def _guard(self, output: OutputDefinition) -> Iterator[None]:
        """Records an error of `output` once. The outputs that read it are blocked without an error of their own."""
        name = output.name.lower()
        self.stack.append(output)
        try:
            yield
        except Blocked:
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
            raise Blocked from error
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
        kept = self.kept.find(output, self._schema_of)
        if kept is not None:
            self.inlined |= kept.inlined
            schema, plans = kept.schema, kept.plans
            check_names(schema, output.name, output.location)
            check_stored_by(output, schema)
        else:
            schema, plans = self._plan_flows(output, flows)
            self.kept.keep(output, schema, [plan.analysed for plan in plans], plans, self.schemas)
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

    def _plan_flows(
        self, output: OutputDefinition, flows: list[FlowDefinition]
    ) -> tuple[StructType, tuple[FlowPlan, ...]]:
        """The columns of a view and the plans of its flows, made by Spark."""
        streaming = output.kind != "materialized_view"
        queries = [self._evaluate(flow, streaming) for flow in flows]
        schema = common_schema(output, queries)
        declared = columns_to_fit(output, schema)
        check_names(schema, output.name, output.location)
        check_stored_by(output, schema)
        plans = (self._plan(flow, query, schema, declared, output) for flow, query in zip(flows, queries, strict=True))
        return schema, tuple(plans)

    def _schema_of(self, output: OutputDefinition) -> StructType | None:
        """The columns of a source or view that another one reads. None within a circle, which planning reports."""
        if output in self.stack:
            return None
        self._resolve(output)
        return self.schemas[output.name.lower()]

    def _plan(
        self,
        flow: FlowDefinition,
        query: Query,
        schema: StructType,
        declared: Mapping[str, str],
        output: OutputDefinition,
    ) -> FlowPlan:
        with (
            translate_errors(flow, self.project, output.name, users_code=False),
            with_conf(self.spark, flow.spark_conf),
        ):
            query = query.reorder(schema, flow).fit_texts(declared, flow)
            plan = flow_plan(
                flow.name,
                query.analysed,
                query.optimised_plan,
                self.spark,
                view=output.name,
                location=flow.location,
                tables=self.tables,
                streaming=output.kind != "materialized_view",
            )
            leaves = tuple(self._declared_name(leaf) for leaf in plan.leaves)
            return replace(plan, leaves=leaves, is_made=isinstance(flow.query, AutoCdcQuery))

    def _declared_name(self, leaf: str) -> str:
        """The name of a leaf as it was declared, because Spark ignores case."""
        is_own = leaf in self.reads.sources or leaf in self.tables.found
        return leaf if is_own else self.outputs[leaf.lower()].name

    def _evaluate(self, flow: FlowDefinition, streaming: bool) -> Query:
        """The flow's query, analysed. What it reads is resolved on the way: each attempt registers one more name."""
        with error_of_time_zone(self.project, flow):
            check_time_zone(flow.spark_conf.get(TIME_ZONE_KEY, "UTC"))
        missing: set[str] = set()
        self._foresee(flow, streaming)
        while True:
            self.names.show(streaming)
            self.reads.streaming_now = streaming
            try:
                with (
                    translate_errors(flow, self.project, flow.target, users_code=True),
                    with_conf(self.spark, flow.spark_conf),
                ):
                    query = analyse(flow, self.spark)
                    if (name := self.own_names.read_from_catalog(query.analysed)) is not None:
                        raise MissingTable(name, flow.location)
                    return query
            except MissingTable as error:
                if error.name.lower() in missing:  # it has been registered, but Spark still does not find it
                    raise ProjectError(
                        f"{error.name} cannot be read here",
                        f"A view of the project is read by its name alone: write {error.name} without catalog and database.",
                        view=flow.target,
                        location=error.location,
                    ) from None
                missing.add(error.name.lower())
                self._provide(error.name, streaming, flow, error.location)

    def _foresee(self, flow: FlowDefinition, streaming: bool) -> None:
        """Makes the boundaries that are resolved and that occur in the text of a flow. Each attempt with a missing name would cost an analysis,
        and a word that is no name of a table does no harm."""
        for word in words(flow.query.statement) if isinstance(flow.query, SqlQuery) else ():
            if word in self.schemas and not self.names.knows(word, streaming):
                self.names.register(word, streaming, self._boundary(self.outputs[word], streaming))

    def _boundary(self, output: OutputDefinition, streaming: bool) -> DataFrame:
        return boundary(output.name, self.schemas[output.name.lower()], streaming, self.spark)

    def _provide(self, name: str, streaming: bool, reader: FlowDefinition, location: Location) -> None:
        """Resolves and registers `name` for a flow that reads it."""
        output = self.outputs.get(name.lower())
        place: dict[str, Any] = {"view": reader.target, "location": location}
        if output is None or output.kind == "sink":
            readable = [known.name for known in self.definitions.outputs if known.kind != "sink"]
            what = "is a sink, which cannot be read" if output else "is not defined in this project"
            bare = name.partition(".")[2] if name.lower().startswith("live.") else None
            advice = did_you_mean(name, readable, "tables") if bare is None else refusals.without_live(bare)
            raise ProjectError(f"{name} {what}", advice, **place)
        if output in self.stack:
            circle = [known.name for known in self.stack[self.stack.index(output) :]] + [output.name]
            raise ProjectError(
                f"a cycle: {' -> '.join(circle)}", "Each reads the next; take one of them out of the circle.", **place
            )
        if output.kind == "temporary_view":
            flow = self.definitions.flows_of(output.name)[0]
            if output.name.lower() in self.failed:
                raise Blocked
            with self._guard(output):
                frame = self._evaluate(flow, streaming).as_frame(flow)
        else:
            self._resolve(output)
            frame = self._boundary(output, streaming)
        self.names.register(output.name.lower(), streaming, frame)


def in_order(views: Sequence[ResolvedView], place: Mapping[str, int]) -> tuple[ResolvedView, ...]:
    """The views in the order of their definitions, but each after those that it reads. `place`: of each definition, by its name in
    small letters.

    The order in which they were resolved would not do, because it depends on which plans were kept."""
    by_name = {view.name.lower(): view for view in views}
    found: dict[str, ResolvedView] = {}

    def add(name: str) -> None:
        if name in found or name not in by_name:
            return
        for read in sorted((leaf.lower() for leaf in by_name[name].reads), key=lambda leaf: place.get(leaf, -1)):
            add(read)
        found[name] = by_name[name]

    for name in sorted(by_name, key=lambda name: place[name]):
        add(name)
    return tuple(found.values())


def _notes_of_query(flow: FlowDefinition) -> tuple[str, ...]:
    return (auto_cdc.NOTES[flow.query.scd_type],) if isinstance(flow.query, AutoCdcQuery) else ()
