"""A case as a whole pipeline: files of a project, a real broker, real databases, workers in threads, crashes and changes of the layout."""

from __future__ import annotations

from dataclasses import replace

from coordinator.layout_requests import ChangeRequest
from coordinator.requests import Requests
from faults.points import Crash, Order, arm
from storage.database import Database
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads
from tests.fuzz import python_functions
from tests.fuzz.cases import Case, Source, View
from tests.fuzz.judge import text_of

ROWS_MAX = 9
"""Of one step, so that a round of messages makes several."""


def files(case: Case) -> dict[str, str]:
    """The project's files. `@` begins the name of every topic."""
    python = [
        "from pyspark import pipelines as dp",
        "from pyspark.sql import functions as F",
        python_functions.DEFINITION,
        *(_python(view) for view in case.views if view.as_frame),
    ]
    sql = [*map(_source, case.sources), *(_sql(view) for view in case.views if not view.as_frame)]
    return {"project.sql": "\n".join(sql), "project.py": "\n\n".join(python)}


def _source(source: Source) -> str:
    properties = {"subscribe": f"@{source.name}", "mode": source.mode, "key": ", ".join(source.key)}
    return f"CREATE STREAMING TABLE {source.name} ({source.ddl}) USING kafka TBLPROPERTIES ({_sql_properties(properties)});"


def _properties(view: View) -> dict[str, str]:
    if view.mode is None:
        return {}
    return {
        "topic": f"@{view.name}",
        "mode": view.mode,
        "key": ", ".join(view.key),
        "partitions": str(view.partitions),
    }


def _sql_properties(properties: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items() if value)


def _sql(view: View) -> str:
    query = text_of(view).replace("@", "@@")
    if view.temporary:
        return f"CREATE TEMPORARY VIEW {view.name} AS {query};"
    published = f" TBLPROPERTIES ({_sql_properties(_properties(view))})" if view.mode is not None else ""
    return f"CREATE MATERIALIZED VIEW {view.name}{published} AS {query};"


def _python(view: View) -> str:
    properties = {name: value for name, value in _properties(view).items() if value}
    decorator = "temporary_view" if view.temporary else "materialized_view"
    arguments = "" if view.temporary or not properties else f"table_properties={properties!r}"
    return f"@@dp.{decorator}({arguments})\ndef {view.name}():\n    return {text_of(view).replace('@', '@@')}"


def check_whole(play: Playground, case: Case) -> int:
    """Runs the steps' messages as rounds: each is one run, which may be broken off and end in another one, or change the number of workers.
    Returns how many steps it took. Raises what the oracle finds."""
    for source in case.sources:
        play.topic(source.name, source.partitions)
    run = case.runs[-1]
    resolved = play.resolve(files(case), {"stepwell.step.rows.max": ROWS_MAX, "stepwell.workers": run.workers[0]})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    with play.oracle(resolved) as oracle:
        for number, step in enumerate(case.steps):
            for source in case.sources:
                for partition in range(source.partitions):
                    mine = [m for m in step if (m.source, m.partition) == (source.name, partition)]
                    if mine:
                        play.send(source.name, [(m.key(source), m.value(source)) for m in mine], partition)
            if run.events[number] == "crash":
                _break_off(play, resolved)
            if number and run.workers[number] != run.workers[number - 1]:
                requests = Requests()
                requests.ask_without_waiting(ChangeRequest(run.workers[number], "hot", budget_bytes=None))
                play.run(resolved, threads(), requests=requests)
            play.run(resolved, threads())
        story = oracle.verify(play.batch(resolved), sample=1, seed=case.seed)
    oracle.verify_twin(play.twin(resolved, story, workers=case.runs[0].workers[0]))
    return len(story.steps)


def _break_off(play: Playground, resolved: Resolved) -> None:
    """At the first step that is written, if there is one."""
    with arm(Order("output.committed", "raise")):
        try:
            play.run(resolved, threads(one_for_all=True))
        except Crash:
            Database.close_all()
