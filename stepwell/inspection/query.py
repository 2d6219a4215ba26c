"""Spark SQL over the kept views, as of the last checkpoint.

Guarantees: all views of one answer belong to one checkpoint, which is the same on every worker, and the answer says which. Nothing is
written and no database is fenced, so a query of databases on this host works with and without a running service. State of another circuit is
never read.

How it works: the committed layers of the databases are read, each in one transaction. If they are on other hosts, the workers of the running
service read them (coordinator/checkpoints/view_queries.py). While a checkpoint is being folded, the workers have
different versions for a moment. In this case all are read again. Only the views that the query names are read. To find them, the query is
first analysed over empty views.

Which databases count: those whose owned slots, at one version, are all slots once. `circuit.json` names the workers of the last settled layout.
While the layout changes, others may own slots, and a run that goes on after a crash removes the databases of those that own none any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from base.slots import why_no_partition
from base.text.type_names import quote_for_spark
from base.version import VersionId
from coordinator.starting.project.same_project import check_same_circuit
from coordinator.starting.workers.circuit_file import StateOwner, read_owner
from engine.analysis.marking import marked_circuit
from engine.analysis.release import computed_otherwise, freeze
from engine.analysis.stages import plan_stages
from engine.model.circuit import Circuit, View
from engine.run.contents import WorkerContents, read_views
from stepwell.catalyst.analysed import CLASS
from stepwell.errors import StepwellError, did_you_mean
from stepwell.inspection.interval_rows import frame_of
from stepwell.inspection.query_errors import NoState, QueryError, ReadsElsewhere
from stepwell.planning.batch_tables import BATCH_KINDS, STREAM_KINDS
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.project.definitions import quiet_spark
from storage.errors import NoDatabase
from storage.host_folder import HostFolder

FOLD_SECONDS_MAX = 30.0
"""The time for the workers to reach the same version. A fold takes well under a second if states are small, and seconds if they are large."""

LOOK_SECONDS = 0.05

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

ReadViews = Callable[[Sequence[str]], tuple[VersionId, list[pa.Table]]]
"""Reads the content of the named views, all at the version that is returned with them. A row of weight n occurs n times."""


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
    folder = resolved.project.state_folder
    owner = read_owner(folder)
    if owner is None:
        raise _no_state(resolved, folder)
    circuit = _as_in_force(circuit, owner)
    check_same_circuit(circuit, owner.fingerprint, owner.circuit)
    runnable = freeze(circuit, computed_otherwise(circuit, owner.made_with))

    def read_here(names: Sequence[str]) -> tuple[VersionId, list[pa.Table]]:
        try:
            return read_contents(folder, resolved.project.databases, runnable, owner.numbers, names)
        except NoDatabase as gone:
            raise _without_database(resolved, folder, gone) from None

    with quiet_spark():
        return _answer(resolved, circuit, sql, read_from or read_here, only_views=only_views)


def _without_database(resolved: ResolvedProject, folder: Path, gone: NoDatabase) -> StepwellError | NoDatabase:
    """What to say of a database that a run has promised and that is not there."""
    if resolved.project.settings.stepwell.store is not None:
        return _no_state(resolved, folder)
    if resolved.project.databases.names():
        return gone
    return NoState(
        f"no database is in {folder} yet: the last run ended before it had made one",
        "`stepwell run` makes the state. If there was one, `stepwell run` says what is missing.",
    )


def _no_state(resolved: ResolvedProject, folder: Path) -> NoState:
    store = resolved.project.settings.stepwell.store
    if store is None:
        return NoState(f"there is no state in {folder}", "`stepwell run` makes it.")
    return NoState(
        f"there is no state in {folder}, or not all of it. A query does not read the checkpoint store, {store}.",
        "`stepwell run` makes the state of what the store has, or of the input if it has nothing.",
    )


def _as_in_force(circuit: Circuit, owner: StateOwner) -> Circuit:
    """The circuit of the files with the marks that its views have in the state."""
    return marked_circuit(circuit, {view: marks for view, marks in owner.marks.items() if view in circuit.views})


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


# Reading state


def read_contents(
    folder: Path, databases: HostFolder, circuit: Circuit, numbers: tuple[int, ...], names: Sequence[str]
) -> tuple[VersionId, list[pa.Table]]:
    """The views' content from all workers. `folder`: the project's, which names them. `numbers`: of the circuit's nodes. Raises NoDatabase if
    one of them is gone and the others do not own all slots, and NoState if the workers do not reach the same version in time."""
    planned = plan_stages(circuit)
    read = partial(read_views, plan=planned, numbers=numbers, names=names, checks_errors=True)
    deadline = time.monotonic() + FOLD_SECONDS_MAX
    before: set[VersionId] | None = None
    while True:
        found, gone = _readable(folder, databases, read)
        for version in sorted({part.version for part in found.values()}, reverse=True):
            parts = [part for part in found.values() if part.version == version]
            if why_no_partition({i: part.owned for i, part in enumerate(parts)}) is None:
                _check_revision(folder, version)
                return version, [pa.concat_tables(part.tables[i] for part in parts) for i in range(len(names))]
        versions = {part.version for part in found.values()}
        if gone is not None and (time.monotonic() > deadline or (len(versions) < 2 and versions == before)):
            raise gone  # no fold is under way that would make the others whole
        before = versions
        if time.monotonic() > deadline:
            shown = ", ".join(f"worker {worker}: step {part.version.step}" for worker, part in found.items())
            raise NoState(
                f"the workers stand at different checkpoints ({shown}): the last run ended while one was made",
                "`stepwell run` brings them together again; `stepwell run --available-now` does, and ends.",
            )
        time.sleep(LOOK_SECONDS)


def _check_revision(folder: Path, version: VersionId) -> None:
    """Raises NoState if the version has the views of another project than `circuit.json` says: a transition has come between."""
    owner = read_owner(folder)
    if owner is not None and owner.until is not None and version.step > owner.until:
        raise NoState(
            f"the state at step {version.step} is that of the next revision, which began with step {owner.until}, and the last run ended before "
            "it could say so",
            "`stepwell run` goes on with it; `stepwell run --available-now` does, and ends.",
        )


def _readable(
    folder: Path, databases: HostFolder, read: Callable[[Path], WorkerContents]
) -> tuple[dict[str, WorkerContents], NoDatabase | None]:
    """What each worker's database holds, and the fault of one that `circuit.json` names and that is not there."""
    found: dict[str, WorkerContents] = {}
    gone: NoDatabase | None = None
    for name in sorted({*databases.names(), *_members(folder)}):
        try:
            found[name] = read(databases.databases / name)
        except NoDatabase as fault:
            if name in _members(folder):  # it has not left meanwhile
                gone = fault
    return found, gone


def _members(folder: Path) -> tuple[str, ...]:
    owner = read_owner(folder)
    return () if owner is None else owner.databases


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
