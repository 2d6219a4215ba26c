"""`stepwell query`: Spark SQL over the kept views, as of the last checkpoint. In local mode it works with and without a running service; on a
cluster the service's workers have the databases, so it must run. It must run too for the views of the next revision (--next).

A query that computes nothing is answered without Spark (query_plain.py). With any other, a service that runs is asked first: it has a process
in which Spark has started already (query_keeper.py). Whatever it does not answer, the command answers by itself (query_here.py). This module
loads neither Spark nor the engine, because an answer of the service needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from stepwell.commands.common import JsonOption, SetOption, SpecOption, note, project_of, report_faults, show
from stepwell.inspection.plain_query import plain_query
from stepwell.inspection.query_errors import NoState, QueryError
from stepwell.inspection.query_request import Found, QueryRequest
from stepwell.planning.query_key import query_key
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, RevisionRefused

ROWS_DEFAULT = 1000
"""More rows than this are seldom read. --limit changes the number."""

ROWS_OF_SERVICE_MAX = 10_000
"""An answer with more rows is made by the command itself. On its way from the service it would be in the memory of three processes."""

REFUSALS = {refusal.__name__: refusal for refusal in (QueryError, NoState)}
"""What the service says of a query. Any other fault is found, and told, by the command itself."""


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
        asked = QueryRequest(sql, limit, of_next=of_next, as_json=as_json)
        key = query_key(project)
        found = _without_spark(project, asked, key) or _of_service(client, asked, key)
        if found is None:
            from stepwell.commands.query_here import ask_here  # takes more than a second

            found = ask_here(project, key, client, asked)
        show(found, as_json=as_json, text=None if as_json else _table(found["columns"], found["rows"]))
        if not as_json:
            note(
                ("the next revision, " if of_next else "")
                + _as_of(found["step"], found["checkpoint"])
                + (f"; more than {limit} rows, see --limit" if found["more"] else "")
            )


def _without_spark(project: Project, asked: QueryRequest, key: str | None) -> Found | None:
    """The answer to a query that needs no Spark; None if it may need it, or if the databases are on other hosts."""
    plain = None if asked.of_next or project.on_cluster else plain_query(asked.sql)
    if plain is None:
        return None
    from stepwell.commands.query_plain import ask_plainly  # loads the engine

    return ask_plainly(project, key, asked, plain)


def _of_service(client: ControlClient, asked: QueryRequest, key: str | None) -> Found | None:
    """The answer of the running service; None if it gives none. Raises QueryError and NoState."""
    if asked.limit > ROWS_OF_SERVICE_MAX:
        return None
    answer = client.query({**asdict(asked), "key": key})
    if answer is None:
        return None
    if (refused := answer.get("refused")) is not None:
        raise REFUSALS[refused["kind"]](refused["message"], refused["what_to_do"])
    found: Found = answer["found"]
    return found


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


def _table(columns: list[str], rows: Sequence[Sequence[str | None]]) -> Table:
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
