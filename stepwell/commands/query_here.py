"""`stepwell query` in a process with a Spark of its own: of the command, or of the service for all commands (query_process.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from base.spark_master import MASTER_KEY
from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit
from stepwell.commands.definitions import planning_session
from stepwell.inspection import query as queries
from stepwell.inspection.asked import Asked, Found
from stepwell.inspection.query_rows import collected
from stepwell.lowering.driver import lower
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning


def ask_here(project: Project, client: ControlClient, asked: Asked) -> Found:
    """The answer, by a Spark that starts and ends with it. Raises QueryError, NoState, CircuitChanged and other faults."""
    with planning_session(in_local_mode(project)) as (session, kept):
        resolved = resolve(project, session, kept)
        return answer_of(resolved, lower(resolved), client, asked)


def answer_of(
    resolved: ResolvedProject, circuit: Circuit, client: ControlClient, asked: Asked, *, only_views: bool = False
) -> Found:
    """The answer of a project that is resolved. `circuit`: the one that it gives. `only_views`: see queries.query. Raises like `ask_here`."""
    if asked.of_next:
        read = partial(client.views, next_of=circuit.fingerprint)
        answer = queries.query_next(resolved, circuit, asked.sql, read, only_views=only_views)
    else:
        answer = _answer_now(resolved, circuit, asked.sql, client, only_views=only_views)
    rows = collected(answer.rows, asked.limit + 1, as_json=asked.as_json)
    return {
        "step": answer.step,
        "checkpoint": answer.version.version,
        "columns": answer.rows.columns,
        "rows": rows[: asked.limit],
        "more": len(rows) > asked.limit,
    }


def _answer_now(
    resolved: ResolvedProject, circuit: Circuit, sql: str, client: ControlClient, *, only_views: bool
) -> queries.Answer:
    """Of the revision in force."""
    try:
        read = client.views if resolved.project.on_cluster else None
        return queries.query(resolved, circuit, sql, read, only_views=only_views)
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
