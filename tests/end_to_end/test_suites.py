"""The benchmark suites as whole pipelines: all queries of a suite in one project over topics, with kills, compared with Spark."""

from __future__ import annotations

import json
import random
import zlib
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.sql import comparing, feeds
from bench.sql.lowering import known
from bench.sql.suites import SUITES, Suite
from coordinator.status import StatusBoard
from coordinator.stepping.views_in_error import ViewsInError
from examples.batch import published
from tests.end_to_end.harness import Playground, Resolved, service
from tests.end_to_end.test_kill import kill_at

PARTITIONS = 3
LOADS, CHANGES = 2, 3
VIEWS_MAX = 15
"""Of one project that is killed. TPC-DS is seven of them, because a start that plans all of its queries takes a minute."""

SCALES = {"nexmark": 0.004, "tpch": 0.002, "tpcds": 0.001}

CHANGELOG = " TBLPROPERTIES ('topic' = '@{name}', 'mode' = 'changelog')"


def _projects() -> list[Any]:
    found = []
    for name in SUITES:
        mine = sorted(form for of, form in known() if of == name)
        for at in range(0, len(mine), VIEWS_MAX):
            found.append(pytest.param(name, mine[at : at + VIEWS_MAX], True, id=f"{name}-{at // VIEWS_MAX}"))
        found.append(pytest.param(name, mine, False, id=f"{name}-whole"))
    return found


@pytest.mark.soak
@pytest.mark.parametrize(("name", "chosen", "kills"), _projects())
def test_a_suite_is_kept_up_to_date_through_kills(
    play: Playground, tmp_path: Path, name: str, chosen: list[str], kills: bool
) -> None:
    """The load and then each change is sent; the service is killed at a random record of each, and a run takes what is left. All queries of a
    suite are one project too."""
    suite, chance = SUITES[name](), random.Random(name + chosen[0])
    tables = {table: _in_ms(rows) for table, rows in feeds.generated(name, SCALES[name], tmp_path / "rows").items()}
    feed = feeds.make(tables, tmp_path / "states", LOADS, CHANGES)
    for table in tables:
        play.topic(table, PARTITIONS)
    conf = {
        "stepwell.step.rows.max": 2500,
        "stepwell.workers": 2,
        "stepwell.checkpoint.interval": "1s",
        "stepwell.takeover.silence": "1s",  # the holder before a service is a run of this process, which lives on
    }
    resolved = play.resolve(_files(suite, chosen), conf)
    for number, change in enumerate(feed.changes):
        _send(play, change, tables)
        if kills and chance.random() < 0.7:
            with service(resolved, tmp_path / "service.log") as process:
                records = chance.randint(1, 2) if number < LOADS else 1  # a change is one step
                kill_at(play, resolved, process, chance.choice(["division", "step"]), records)
        in_error = _run(play, resolved)
        assert _compare(play, resolved, suite, feed.states[number]) == in_error
    play.check_steps(resolved)


def _run(play: Playground, resolved: Resolved) -> set[str]:
    """Takes what is there. Returns the views that have no answer over it: some queries of TPC-DS divide by what is 0 in so small a load."""
    board = StatusBoard(resolved.spec.name)
    with suppress(ViewsInError):
        play.run(resolved, board=board)
    return set(board.show()["in_error"])


def _over(play: Playground, state: Path) -> SparkSession:
    """A session whose tables have the rows of a state."""
    spark = play.spark.newSession()
    for file in state.glob("*.parquet"):
        spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    return spark


def _in_ms(rows: pa.Table) -> pa.Table:
    """Messages have timestamps in milliseconds, as Spark's to_json writes them. Views are compared by their messages."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(i, field, pc.floor_temporal(rows.column(i), unit="millisecond"))
    return rows.combine_chunks()


def _files(suite: Suite, chosen: list[str]) -> dict[str, str]:
    tables = suite.tables.replace("'subscribe' = '", "'subscribe' = '@")
    views = {
        f"{name}.sql": f"CREATE MATERIALIZED VIEW {name}{CHANGELOG.format(name=name)} AS\n{suite.queries[name].replace('@', '@@')}"
        for name in chosen
    }
    return {"tables.sql": tables, **views}


def _send(play: Playground, change: Mapping[str, pa.Table], tables: Mapping[str, pa.Table]) -> None:
    """As envelopes. All messages of a row have one partition, so that a row never goes before it came."""
    for table, rows in change.items():
        names = tables[table].column_names
        weights = np.asarray(rows.column(rows.num_columns - 1))
        messages: defaultdict[int, list[str]] = defaultdict(list)
        for row, weight in zip(rows.drop_columns([rows.column_names[-1]]).to_pylist(), weights, strict=True):
            text = json.dumps(dict(zip(names, row.values(), strict=True)), default=_text)
            envelope = (
                f'{{"before":null,"after":{text},"op":"c"}}'
                if weight > 0
                else f'{{"before":{text},"after":null,"op":"d"}}'
            )
            messages[zlib.crc32(text.encode()) % PARTITIONS].append(envelope)
        for partition, values in messages.items():
            play.send(table, values, partition)


def _text(value: Any) -> Any:
    match value:
        case Decimal():
            return float(value)
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
    raise TypeError(type(value))


def _compare(play: Playground, resolved: Resolved, suite: Suite, state: Path) -> set[str]:
    """Compares the views with Spark's answer over the rows so far. Returns those for which Spark raises."""
    spark = _over(play, state)
    wrong: dict[str, Any] = {}
    without: set[str] = set()
    for view in resolved.project.views:
        assert view.output is not None
        messages = [m.as_input for m in play.read(view.output.topic, prefixed=False)]
        rows = published(spark, view, messages).toArrow()
        ours = rows.append_column("weight", pa.array(np.ones(rows.num_rows, np.int64)))
        query = suite.queries[view.name]
        try:
            expected = comparing.answer(query, spark)
        except (PySparkException, Py4JJavaError) as error:
            assert "DIVIDE_BY_ZERO" in str(error)
            without.add(view.name)
            continue
        found = comparing.difference(ours, expected, query, spark.sql)
        if found:
            wrong[view.name] = found
    assert not wrong, "\n".join(f"{view}: {what}" for view, what in wrong.items())
    return without
