"""`stepwell query`: Spark SQL over the kept views, as of the last checkpoint. In local mode it works with and without a running service; on a
cluster the service's workers have the databases, so it must run. It must run too for the views of the next revision (--next)."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import typer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.markup import escape
from rich.table import Table

from base.spark_master import MASTER_KEY
from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit
from stepwell.commands.common import JsonOption, SetOption, SpecOption, note, project_of, report_faults, show
from stepwell.commands.definitions import planning_session
from stepwell.inspection import query as queries
from stepwell.lowering.driver import lower
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, RevisionRefused

ROWS_DEFAULT = 1000
"""More rows than this are seldom read. --limit changes the number."""


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help='For example "SELECT * FROM a_view ORDER BY 1".')],
    *,
    spec: SpecOption = None,
    conf: SetOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = ROWS_DEFAULT,
    of_next: Annotated[
        bool,
        typer.Option(
            "--next", help="Ask the views of the revision that `stepwell apply` leads to, when they are filled."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the kept views in Spark SQL, as of the last checkpoint."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        client = ControlClient(project.state_folder)
        if of_next:
            _refuse_next_now(client)
        elif project.on_cluster:
            client.endpoint()  # without a service there is no answer, and Spark need not start
        with planning_session(in_local_mode(project)) as (session, kept):
            resolved = resolve(project, session, kept)
            circuit = lower(resolved)
            if of_next:
                answer = queries.query_next(resolved, circuit, sql, partial(client.views, next_of=circuit.fingerprint))
            else:
                answer = _answer_now(resolved, circuit, sql, client)
            rows = _collected(answer.rows, limit + 1, as_json=as_json)
        more, rows = len(rows) > limit, rows[:limit]
        found = {
            "step": answer.step,
            "checkpoint": answer.version.version,
            "columns": answer.rows.columns,
            "rows": rows,
            "more": more,
        }
        show(found, as_json=as_json, text=None if as_json else _table(answer.rows.columns, rows))
        if not as_json:
            note(
                ("the next revision, " if of_next else "")
                + _as_of(answer.step, answer.version.version)
                + (f"; more than {limit} rows, see --limit" if more else "")
            )


def _refuse_next_now(client: ControlClient) -> None:
    """Raises what needs no plan, which takes seconds."""
    try:
        transition = client.status()["transition"]
    except NotRunning as gone:
        raise NotRunning(
            f"{gone.message.rstrip('.')}. `stepwell query --next` asks the running service.", gone.what_to_do
        ) from None
    if transition is None:
        raise RevisionRefused(
            "no transition is under way, so there is no next revision.",
            "`stepwell apply --hold` begins one, and stops before the switch.",
        )


def _answer_now(resolved: ResolvedProject, circuit: Circuit, sql: str, client: ControlClient) -> queries.Answer:
    """Of the revision in force."""
    try:
        return queries.query(resolved, circuit, sql, client.views if resolved.project.on_cluster else None)
    except CircuitChanged as changed:
        try:
            transition = client.status()["transition"]
        except NotRunning:
            transition = None
        if transition is None:
            raise
        raise CircuitChanged(
            f"the files are not those of the revision in force, and the transition to revision {transition['number']} is under way.",
            "`stepwell query --next` asks the views of that revision when it is filled. With the former files, the views of the revision in "
            "force can be asked; after the switch, those of the present files can.",
        ) from changed


def in_local_mode(project: Project) -> Project:
    """The same project, planned and asked by Spark on this host: on the cluster, the service may hold all task slots."""
    spark = {key: value for key, value in project.settings.spark.items() if key != MASTER_KEY}
    return replace(project, settings=replace(project.settings, spark=spark)) if project.on_cluster else project


def _collected(rows: DataFrame, limit: int, *, as_json: bool) -> list[Any]:
    """The rows. For programs they are objects, encoded like the messages of output topics. For people they are texts, cast by Spark.

    They are fetched as Arrow, because an Arrow stream marks its end. `collect` would treat a broken connection as the end of the rows."""
    unique = rows.toDF(*(f"{name}_{i}" if name in rows.columns[:i] else name for i, name in enumerate(rows.columns)))
    try:
        if as_json:
            encoded = F.to_json(F.struct(*(unique[f"`{c}`"] for c in unique.columns)), {"ignoreNullFields": "false"})
            return [json.loads(text) for text in unique.select(encoded).limit(limit).toArrow().column(0).to_pylist()]
        found = unique.select(*map(_text, unique.dtypes)).limit(limit).toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    except PySparkException as error:
        raise queries.QueryError(str(error).split("\n")[0]) from None
    except (EOFError, OSError, pa.ArrowInvalid, Py4JError) as error:
        raise queries.QueryError(f"Spark broke off while it sent the answer: {error!r}", "Ask again.") from error


def _text(column: tuple[str, str]) -> Any:
    name, kind = column
    value = F.col(f"`{name}`")
    return (F.hex(value) if kind == "binary" else value.cast("string")).alias(name)


def _table(columns: list[str], rows: list[tuple[str | None, ...]]) -> Table:
    table = Table()
    for column in columns:
        table.add_column(escape(column), overflow="fold")
    for row in rows:
        table.add_row(*("[dim]NULL[/]" if value is None else escape(value) for value in row))
    return table


def _as_of(step: int | None, version: int) -> str:
    if step is None:
        return "as of the start: there is no checkpoint yet (`stepwell checkpoint` makes one)"
    return f"as of step {step} (checkpoint {version})"
