"""Spark SQL over the kept views, as of the last checkpoint.

Guarantees: all views of one answer belong to one checkpoint, and the answer says which. Nothing is written. State of another circuit is never
read.

How it works: the databases of this host are read (view_contents.py). If they are on other hosts, the workers of the running service read them
(coordinator/checkpoints/view_queries.py). Only the views that the query names are read. To find them, the query is first analysed over empty
views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from base.text.type_names import quote_for_spark
from base.version import VersionId
from engine.model.circuit import Circuit, View
from stepwell.catalyst.analysed import CLASS
from stepwell.errors import did_you_mean
from stepwell.inspection.interval_rows import frame_of
from stepwell.inspection.query_errors import QueryError, ReadsElsewhere
from stepwell.inspection.view_contents import ReadViews, StateHere
from stepwell.planning.batch_tables import BATCH_KINDS, STREAM_KINDS
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.project.definitions import quiet_spark

FEW_BYTES_MAX = 4 << 20
"""The bytes of the views that a query reads, up to which it is small. Spark needs less than a second for it, and most of that for what makes
large queries fast."""

OF_FEW_BYTES = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings of a query over so little, unless the project has chosen others. To compile it takes longer than to run it without,
and each exchange would have 200 tasks, of which each takes 5 ms."""

_COMMANDS = (
    "org.apache.spark.sql.catalyst.plans.logical.Command",
    "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement",
)
"""The plan nodes that Spark's parser makes of a statement that is not a query. Spark would execute it at once."""


_ELSEWHERE = frozenset({*BATCH_KINDS, *STREAM_KINDS})
"""The plan nodes that read files, or tables of Spark's catalogs."""


@dataclass(frozen=True)
class QueryAnswer:
    """The answer to a query. `rows` is a DataFrame, which is valid until the session ends."""

    version: VersionId
    rows: DataFrame

    @property
    def step(self) -> int | None:
        """The last step that the answer includes; None if it includes no step."""
        return self.version.step - 1 if self.version.step else None


def query(
    resolved: ResolvedProject,
    circuit: Circuit,
    sql: str,
    read_from: ReadViews | None = None,
    *,
    only_views: bool = False,
) -> QueryAnswer:
    """Runs `sql` over the kept views. `read_from` reads them; None stands for the databases on this host. `only_views`: anything else, such as
    a file, is not read. Raises QueryError, ReadsElsewhere, NoState, CircuitChanged, StorageError."""
    state = StateHere.of(resolved.project, circuit)
    with quiet_spark():
        return _answer(resolved, circuit, sql, read_from or state.read, only_views=only_views)


def query_next(
    resolved: ResolvedProject, circuit: Circuit, sql: str, read_from: ReadViews, *, only_views: bool = False
) -> QueryAnswer:
    """Runs `sql` over the views of the next revision, which the running service reads. The service refuses another circuit than that of the
    next revision. Raises QueryError, ReadsElsewhere, and what `read_from` raises."""
    with quiet_spark():
        return _answer(resolved, circuit, sql, read_from, only_views=only_views)


def _answer(resolved: ResolvedProject, circuit: Circuit, sql: str, read: ReadViews, *, only_views: bool) -> QueryAnswer:
    session = resolved.spark.newSession()  # it has none of the project's temporary views, which have no content
    kept = {node.name.lower() for node in circuit.nodes_of(View).values() if node.kept}
    views = {view.name.lower(): view for view in resolved.views if view.name.lower() in kept}
    named, plan = _views_named(session, sql, views, resolved)
    if only_views and _ELSEWHERE.intersection(CLASS.findall(plan._jdf.queryExecution().analyzed().toJSON())):
        raise ReadsElsewhere("the query reads more than the kept views")
    version, tables = read([views[name].name for name in named])
    if sum(table.nbytes for table in tables) <= FEW_BYTES_MAX:
        for key in OF_FEW_BYTES.keys() - resolved.project.settings.spark.keys():
            session.conf.set(key, OF_FEW_BYTES[key])
    for name, table in zip(named, tables, strict=True):
        frame = frame_of(session, table, views[name].schema.toNullable())
        frame.createOrReplaceTempView(quote_for_spark(views[name].name))
    return QueryAnswer(version, _analyse(session, sql))


# Naming views


def _views_named(
    session: SparkSession, sql: str, views: Mapping[str, ResolvedView], resolved: ResolvedProject
) -> tuple[list[str], DataFrame]:
    """The kept views, by lower-case name, that the query reads, and the query over empty ones. Raises QueryError if it reads anything else that
    has a name alone."""
    _check_is_query(session, sql)
    known: list[str] = []
    while True:
        try:
            return known, session.sql(sql)
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                raise QueryError(_first_line(error), _columns_of(known, views)) from None
            name = str((error.getMessageParameters() or {}).get("relationName", "")).replace("`", "")
        if name.lower() not in views or name.lower() in known:
            raise _not_kept(name, resolved, views)
        known.append(name.lower())
        view = views[name.lower()]
        session.createDataFrame([], view.schema.toNullable()).createOrReplaceTempView(quote_for_spark(view.name))


def _check_is_query(session: SparkSession, sql: str) -> None:
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except ParseException as error:
        raise QueryError(_first_line(error), "See Spark's SQL reference for SELECT.") from None
    loader = session._jvm.java.lang.Class
    if any(loader.forName(kind).isInstance(plan) for kind in _COMMANDS):
        raise QueryError("only a query can be asked", 'Write a SELECT: stepwell query "SELECT * FROM a_view".')


def _analyse(session: SparkSession, sql: str) -> DataFrame:
    try:
        return session.sql(sql)
    except PySparkException as error:
        raise QueryError(_first_line(error)) from None


def _not_kept(name: str, resolved: ResolvedProject, views: Mapping[str, ResolvedView]) -> QueryError:
    by_name = {view.name.lower(): view for view in resolved.views}
    view = by_name.get(name.lower())
    if view is not None and view.output is not None:
        return QueryError(
            f"{view.name} is not kept: it is published in mode append to topic {view.output.topic}, which holds its rows",
            f"Read that topic; or add a view over it, without a topic: CREATE MATERIALIZED VIEW "
            f"{_in_sql(view.name + '_kept')} AS SELECT * FROM {_in_sql(view.name)}.",
        )
    if any(source.handle.lower() == name.lower() for source in resolved.sources):
        return QueryError(
            f"{name} is a source: its rows are in its topic, not in the state",
            f"Add a view over it, without a topic: CREATE MATERIALIZED VIEW all_{name} AS SELECT * FROM {_in_sql(name)}.",
        )
    return QueryError(f"there is no view {name}", did_you_mean(name, [v.name for v in views.values()], "kept views"))


def _in_sql(name: str) -> str:
    """A name as a query writes it: in backticks if it begins with a digit."""
    return name if name.isidentifier() else quote_for_spark(name)


def _columns_of(names: Collection[str], views: Mapping[str, ResolvedView]) -> str:
    return "\n  ".join(f"{views[name].name} has {', '.join(views[name].schema.names)}." for name in names)


def _first_line(error: PySparkException) -> str:
    """Spark's message without the plan, which does not help the user who wrote the query."""
    return str(error).split("\nJVM stacktrace")[0].split(";\n")[0].strip()
