"""The answers to queries about a project whose files do not change meanwhile.

A query needs to know little of a project: the kept views with their columns, and the circuit that gives them. That is kept in the state
folder, under the key of the files, so that Spark need not read the definitions, which takes a second. It is used for a query that has an
answer. What is wrong with one is then found by resolving the definitions themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from base.fault import Fault
from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit
from stepwell.inspection import query as queries
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.inspection.query_rows import collect_rows
from stepwell.lowering.driver import lower
from stepwell.planning.kept_circuit import keep_circuit
from stepwell.planning.kept_definitions import KeptDefinitions
from stepwell.planning.kept_folder import KeptFolder
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.planning.resolver import resolve
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, ServiceSilent

KEPT_FOLDER = "queries"


@dataclass(frozen=True)
class KeptViews:
    """What a query that has an answer needs of a project. The views have no plans and no outputs here."""

    views: tuple[ResolvedView, ...]
    circuit: Circuit

    @classmethod
    def of(cls, resolved: ResolvedProject, circuit: Circuit) -> KeptViews:
        return cls(tuple(replace(view, flows=(), output=None) for view in resolved.views), circuit)

    def project_of(self, project: Project, session: SparkSession) -> ResolvedProject:
        return ResolvedProject(project=project, sources=(), views=self.views, spark=session)


class Answers:
    """Answers queries over the views of one project. `key`: the query_key of the project; None if it has none. Then nothing is kept."""

    def __init__(self, project: Project, key: str | None) -> None:
        self._project, self._key = project, key
        self._folder = KeptFolder(None if key is None else project.state_folder / KEPT_FOLDER)
        self._kept: KeptViews | None = None if key is None else self._folder.get(key)
        self._definitions = KeptDefinitions.of(project) if self._kept is None else None
        self._whole: tuple[ResolvedProject, Circuit] | None = None

    def answer(
        self, session: SparkSession, client: ControlClient, asked: QueryRequest, *, only_views: bool = False
    ) -> Found:
        """`session`: the process's. `only_views`: see queries.query. Raises QueryError, NoState, CircuitChanged and other faults."""
        if self._whole is None and self._kept is not None:
            try:
                resolved = self._kept.project_of(self._project, session)
                return answer_of(resolved, self._kept.circuit, client, asked, only_views=only_views)
            except Fault:
                self._kept = None
        if self._whole is None:
            self._whole = self._resolve(session)
        return answer_of(*self._whole, client, asked, only_views=only_views)

    def _resolve(self, session: SparkSession) -> tuple[ResolvedProject, Circuit]:
        resolved = resolve(self._project, session, self._definitions or KeptDefinitions.of(self._project))
        circuit = lower(resolved)
        if self._key is not None and self._project.state_folder.is_dir():
            self._folder.put(self._key, KeptViews.of(resolved, circuit))
            self._folder.save(is_whole=True)
            keep_circuit(self._project, self._key, circuit)
        return resolved, circuit


def answer_of(
    resolved: ResolvedProject, circuit: Circuit, client: ControlClient, asked: QueryRequest, *, only_views: bool = False
) -> Found:
    """The answer of a project that is resolved. `circuit`: the one that it gives. `only_views`: see queries.query. Raises like `ask_here`."""
    if asked.of_next:
        read = partial(client.views, next_of=circuit.fingerprint)
        answer = queries.query_next(resolved, circuit, asked.sql, read, only_views=only_views)
    else:
        answer = _answer_now(resolved, circuit, asked.sql, client, only_views=only_views)
    rows = collect_rows(answer.rows, asked.limit + 1, as_json=asked.as_json)
    return {
        "step": answer.step,
        "checkpoint": answer.version.version,
        "columns": answer.rows.columns,
        "rows": rows[: asked.limit],
        "more": len(rows) > asked.limit,
    }


def _answer_now(
    resolved: ResolvedProject, circuit: Circuit, sql: str, client: ControlClient, *, only_views: bool
) -> queries.QueryAnswer:
    """Returns the answer of the revision in force."""
    try:
        read = client.views if resolved.project.on_cluster else None
        return queries.query(resolved, circuit, sql, read, only_views=only_views)
    except CircuitChanged as changed:
        try:
            transition = client.status()["transition"]
        except (NotRunning, ServiceSilent):
            transition = None
        if transition is None:
            raise
        raise CircuitChanged(
            f"the files are not those of the revision in force, and the transition to revision {transition['number']} is under way.",
            "`stepwell query --next` asks the views of that revision when it is filled. With the former files, the views of the revision in "
            "force can be asked; after the switch, those of the present files can.",
        ) from changed
