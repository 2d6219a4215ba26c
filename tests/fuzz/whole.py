"""A case as a whole pipeline: files of a project, a real broker, real databases, workers in threads, crashes and changes of the layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from coordinator.requests import Requests
from coordinator.rescale.requests import RescaleRequest
from faults.points import Crash, CrashOrder, arm
from io_kafka.step_log.layout_records import MoveStrategy
from storage.database import Database
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads
from tests.fuzz import python_functions
from tests.fuzz.cases import Case, Source, View, without_views
from tests.fuzz.clock import reads_clock
from tests.fuzz.judge import text_of
from tests.fuzz.terms import Cdc, Flows, tables_of
from tests.fuzz.values import arrow_column

ROWS_MAX = 9
"""Of one step, so that a round of messages makes several."""


def files(case: Case, folder: Path, servers: str) -> dict[str, str]:
    """The project's files. `@` begins the name of every topic. `folder` has the files of batch tables."""
    python = [
        "from pyspark import pipelines as dp",
        "from pyspark.sql import functions as F",
        python_functions.DEFINITION,
        *(_reader(source, folder, servers) for source in case.sources if source.read != "table"),
        *(_python(view) for view in case.views if _is_python(view)),
    ]
    sql = [*map(_source, case.sources), *(_sql(view) for view in case.views if not _is_python(view))]
    return {"project.sql": "\n".join(sql), "project.py": "\n\n".join(python)}


def _is_python(view: View) -> bool:
    return view.as_frame or isinstance(view.query, Cdc)


def _source(source: Source) -> str:
    if source.read == "reader":
        return f"CREATE TEMPORARY VIEW {source.name} AS {source.sql};"
    if source.read == "files":
        return ""
    properties = {"subscribe": f"@{source.name}", "mode": source.mode, "key": ", ".join(source.key)}
    return f"CREATE STREAMING TABLE {source.name} ({source.ddl}) USING kafka TBLPROPERTIES ({_sql_properties(properties)});"


def _reader(source: Source, folder: Path, servers: str) -> str:
    if source.read == "files":
        name, reader = source.name, f"parquet({str(folder / source.name)!r})"
    else:
        options = {"kafka.bootstrap.servers": servers, "subscribe": f"@{source.name}"}
        name, reader = source.records, f"format('kafka').options(**{options!r}).load()"
    return f"@@dp.temporary_view\ndef {name}():\n    return spark.read.{reader}"


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
    if isinstance(view.query, Flows):
        flows = [
            f"CREATE FLOW {view.name}_{n} AS INSERT INTO {view.name} BY NAME {flow.sql.replace('@', '@@')};"
            for n, flow in enumerate(view.query.queries)
        ]
        return "\n".join([f"CREATE STREAMING TABLE {view.name}{published};", *flows])
    return f"CREATE MATERIALIZED VIEW {view.name}{published} AS {query};"


def _python(view: View) -> str:
    properties = {name: value for name, value in _properties(view).items() if value}
    if isinstance(view.query, Cdc):
        return _auto_cdc(view.query, view.name, properties)
    decorator = "temporary_view" if view.temporary else "materialized_view"
    arguments = "" if view.temporary or not properties else f"table_properties={properties!r}"
    return f"@@dp.{decorator}({arguments})\ndef {view.name}():\n    return {text_of(view).replace('@', '@@')}"


def _auto_cdc(query: Cdc, name: str, properties: dict[str, str]) -> str:
    """The changes are a temporary view."""
    rest = [column for column in query.names if column not in query.shown]
    history = [column for column in query.shown if column not in query.keys]
    given: dict[str, object] = {
        "keys": list(query.keys),
        "sequence_by": query.sequence.sql.replace("@", "@@"),
        "stored_as_scd_type": query.scd_type,
    }
    if query.deletes is not None:
        given["apply_as_deletes"] = query.deletes.sql.replace("@", "@@")
    if query.chosen is not None:
        given.update({"except_column_list": rest} if query.excluded else {"column_list": list(query.chosen)})
    if query.tracked is not None:
        left = [column for column in history if column not in query.tracked]
        kind = "except_column_list" if query.excluded else "column_list"
        given[f"track_history_{kind}"] = left if query.excluded else list(query.tracked)
    arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
    changes = query.changes.sql.replace("@", "@@")
    return (
        f"@@dp.temporary_view\ndef {name}_changes():\n    return spark.sql({changes!r})\n\n"
        f"dp.create_streaming_table({name!r}, table_properties={properties!r})\n"
        f"dp.create_auto_cdc_flow({name!r}, '{name}_changes', {arguments})"
    )


def write_tables(spark: SparkSession, case: Case, folder: Path) -> None:
    """The files of batch tables, each of which becomes one message."""
    for source in case.sources:
        if source.read == "files":
            rows = [m.after for step in case.steps for m in step if m.source == source.name and m.after is not None]
            columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in source.columns]
            arrays = [arrow_column(column, type_) for column, type_ in zip(columns, source.types, strict=True)]
            table = pa.Table.from_arrays(arrays, [name for name, _, _ in source.columns])
            spark.createDataFrame(table, StructType.fromDDL(source.ddl)).coalesce(1).write.parquet(
                str(folder / source.name)
            )


def for_whole(case: Case) -> Case:
    """The case without what the oracle does not know: a view that holds any row of several, one that reads the clock, the time of a record,
    and a second batch table, of which steps at the beginning have a part. A changelog without a key is in one partition, because here a step
    may end between a row and its retraction, and the order of two partitions is not known."""
    unknown = [
        name for s in case.sources if s.read == "reader" for name, of, _ in s.record_columns if of == "timestamp"
    ]
    more = {source.name for source in [s for s in case.sources if s.read == "files"][1:]}
    left_out = {
        view.name
        for view in case.views
        if view.any_of is not None
        or any(name in text_of(view) for name in unknown)
        or reads_clock(text_of(view))
        or tables_of(view.query) & more
    }
    case = without_views(case, left_out)
    apart = {source.name for source in case.sources if source.mode == "changelog" and not source.key}
    sources = tuple(replace(s, partitions=1) if s.name in apart else s for s in case.sources if s.name not in more)
    steps = tuple(
        tuple(replace(m, partition=0) if m.source in apart else m for m in step if m.source not in more)
        for step in case.steps
    )
    return replace(case, sources=sources, steps=steps)


def check_whole(play: Playground, case: Case) -> int:
    """Runs the steps' messages as rounds: each is one run, which may be broken off and end in another one, or change the number of workers.
    Returns how many steps it took. Raises what the oracle finds."""
    topics = [source for source in case.sources if source.read != "files"]
    for source in topics:
        play.topic(source.name, source.partitions)
    write_tables(play.spark, case, play.folder)
    run = case.runs[-1]
    project = files(case, play.folder, play.servers)
    resolved = play.resolve(project, {"stepwell.step.rows.max": ROWS_MAX, "stepwell.workers": run.workers[0]})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    with play.oracle(resolved) as oracle:
        for number, step in enumerate(case.steps):
            for source in topics:
                for partition in range(source.partitions):
                    mine = [m for m in step if (m.source, m.partition) == (source.name, partition)]
                    if mine:
                        play.send(source.name, [(m.key(source), m.value(source)) for m in mine], partition)
            if run.events[number] == "crash":
                _break_off(play, resolved)
            if number and run.workers[number] != run.workers[number - 1]:
                requests = Requests()
                requests.layout.put(RescaleRequest(run.workers[number], MoveStrategy("live", budget_bytes=None)))
                play.run(resolved, threads(), requests=requests)
            play.run(resolved, threads())
        story = oracle.verify(play.batch(resolved), sample=1, seed=case.seed)
    if any(source.read == "files" for source in case.sources):  # a twin would load them into topics of its own
        return len(story.steps)
    oracle.verify_twin(play.twin(resolved, story, workers=case.runs[0].workers[0]))
    return len(story.steps)


def _break_off(play: Playground, resolved: Resolved) -> None:
    """At the first step that is written, if there is one."""
    with arm(CrashOrder("output.committed", "raise")):
        try:
            play.run(resolved, threads(one_for_all=True))
        except Crash:
            Database.close_all()
