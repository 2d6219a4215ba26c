"""An edit of the columns of an output while a pipeline runs, from the files to the messages: the topic then has what that of a run of the new
project has from the beginning, and Spark's batch answer of the new project."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.plan_parts import OutputPlan
from coordinator.revisions.planned import Planned, plan_change
from examples.batch import batch_answer
from tests.small_jobs import small
from tests.stepwell.test_planned import facts_of
from tests.stepwell.test_tables_that_change import Pipeline, Sent, as_messages, planned

READ = (
    "CREATE STREAMING TABLE people (k STRING, x INT, n INT, y STRING) USING kafka TBLPROPERTIES ('subscribe' = 'people'"
)
KEYED, PLAIN = f"{READ}, 'mode' = 'upsert', 'key' = 'k');\n", f"{READ});\n"
BINARY = ("avro", "protobuf")
DOUBLE_IF_LARGE = "k, CASE WHEN x > 100 THEN CAST(x AS DOUBLE) END AS t"
ALL = "k, x, y"


def project(form: str, mode: str, columns: str, *, where: str = "") -> str:
    key = ", 'key' = 'k'" if mode == "upsert" else ""
    registry = ", 'schema.registry.url' = 'http://nowhere:1'" if form in BINARY else ""
    properties = f"'topic' = 'out', 'mode' = '{mode}', 'format' = '{form}'{key}{registry}"
    source = PLAIN if mode == "append" else KEYED
    return f"{source}CREATE MATERIALIZED VIEW v TBLPROPERTIES ({properties}) AS SELECT {columns} FROM people {where};\n"


def message(k: str, x: int | None = None, n: int | None = None, y: str | None = None) -> Sent:
    return json.dumps({"k": k}), json.dumps({"k": k, "x": x, "n": n, "y": y})


def gone(k: str) -> Sent:
    return json.dumps({"k": k}), None


Topic = dict[bytes, bytes]


def made_by(pipeline: Pipeline, begin: int = 0) -> Topic:
    """What the messages of an upsert topic make."""
    made: Topic = {}
    for step in pipeline.written[begin:]:
        rows = step["v"].to_pylist()
        assert len({row["key"] for row in rows}) == len(rows), "a step says two things of a key"
        for row in rows:
            made.pop(row["key"], None)
            if row["value"] is not None:
                made[row["key"]] = row["value"]
    return made


def written_at_last(pipeline: Pipeline) -> list[Mapping[str, bytes]]:
    rows: list[Mapping[str, bytes]] = pipeline.written[-1]["v"].to_pylist()
    return rows


FIRST = [
    message("a", 1, 2, "old"),
    message("b", 3, 3),
    message("c", 500, 6, "old"),
    message("d", 7, 8, "d"),
    message("h", 5, 5, "old"),
]
SECOND = [message("a", 1, 2), message("e", 9, None, "new"), message("d", 7, 8, "other"), message("h", 5, 5)]
AT_SWITCH = [message("b", 4, 3, "at switch"), message("f", 600, 1), gone("c")]
LATER = [message("a", 2, 2), gone("b"), message("g", 700)]

WAYS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "a column of another type is NULL": (["json", "csv", *BINARY], ["k, x AS t", DOUBLE_IF_LARGE]),
    "a column of another type is a text": (["json", "csv", *BINARY], ["k, x AS t", "k, IF(x > 100, 'high', NULL) AS t"]),
    "a column is back": (["json", "csv", *BINARY], [ALL, "k, x", ALL]),
    "a column is back later": (["json", "csv", *BINARY], [ALL, "k, x", "k, x, n AS m", f"{ALL}, n AS m"]),
    "a column is back with another type": (["json", "csv", *BINARY], [ALL, "k, x", "k, x, n AS y"]),
    "another column has a former number": (["csv", "protobuf"], [ALL, "k, x", "k, x, upper(y) AS z"]),
    "columns exchange their places": (["csv", "protobuf"], ["k, x, n", "k, n, x"]),
    "a column comes between others": (["csv", "protobuf"], ["k, x", "k, n, x"]),
    "a column between others goes": (["csv", "protobuf"], ["k, n, x", "k, x"]),
    "the key has another place": (["csv", "protobuf"], ["k, y", "y, k"]),
    "another column of a text": (["text"], ["k, CAST(coalesce(x, 0) AS STRING) AS t", "k, coalesce(y, 'none') AS u"]),
    "a row is filtered out too": (["json", "csv", *BINARY], ["k, x AS t", f"{DOUBLE_IF_LARGE} -- WHERE n > 2"]),
}  # fmt: skip
"""By name, the formats, and the columns of each project. What follows `--` is the filter of the last one."""


@pytest.mark.parametrize("form", ["json", "avro", "protobuf", "csv", "text"])
def test_after_a_change_of_its_columns_an_upsert_topic_has_what_a_new_one_has(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """Byte for byte, because the former rows cannot be compared with those of now."""
    for name, (forms, projects) in WAYS.items():
        if form in forms:
            _goes(spark, tmp_path / name, form, projects)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_is_written_once_more_may_leave_in_several_steps(spark: SparkSession, tmp_path: Path, form: str) -> None:
    _goes(spark, tmp_path, form, WAYS["a row is filtered out too"][1], parts=4)


def _goes(spark: SparkSession, folder: Path, form: str, projects: Sequence[str], *, parts: int = 0) -> None:
    session = small(spark)
    made = []
    for number, columns in enumerate(projects):
        selected, _, where = columns.partition(" -- ")
        made.append(planned(session, folder / str(number), project(form, "upsert", selected, where=where)))
    pipeline, fresh = Pipeline(made[0][0], "fail"), Pipeline(made[-1][0], "fail")
    sent = [FIRST]
    pipeline.step(FIRST)
    for document, _ in made[1:-1]:
        pipeline.become(document)
        sent.append(SECOND)
        pipeline.step(SECOND)
    pipeline.become(made[-1][0], AT_SWITCH, parts=parts)
    pipeline.step(LATER)
    sent += [AT_SWITCH, LATER]
    for each in sent:
        fresh.step(each)
    assert made_by(pipeline) == made_by(fresh)
    assert made_by(fresh)
    if form == "json":
        answer = batch_answer(made[-1][1], {"people": as_messages([each for step in sent for each in step])})["v"]
        rows = Counter(
            tuple(json.loads(value).get(name) for name in answer.columns) for value in made_by(pipeline).values()
        )
        assert rows == Counter(tuple(row) for row in answer.collect())


def test_rows_that_say_the_same_are_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """A column that goes, a new one, and a former one under another name in a format without names."""
    for number, (form, before, now, keys) in enumerate(
        (
            ("json", ALL, "k, x", ""),
            ("json", "k, x", "k, x, upper(y) AS z", "acdh"),
            ("protobuf", ALL, "k, x", ""),
            ("protobuf", "k, x", "k, x, upper(y) AS z", "acdh"),
            ("csv", "k, x", "k, x AS z", ""),
            ("csv", "k, x", "k, n", "acd"),
            ("json", "k, x", "k, n, x", "abcdh"),
        )
    ):
        pipeline = Pipeline(_planned(spark, tmp_path / f"{number} was", project(form, "upsert", before)), "fail")
        pipeline.step(FIRST)
        pipeline.become(_planned(spark, tmp_path / f"{number} now", project(form, "upsert", now)))
        assert len(written_at_last(pipeline)) == len(keys), (form, before, now)


def _planned(spark: SparkSession, folder: Path, sql: str) -> PlanDocument:
    return planned(small(spark), folder, sql)[0]


@dataclass(frozen=True)
class Change:
    """`says`: a part of what is refused, or of what the output receives if nothing is. `chosen`: by the user."""

    form: str
    mode: str
    columns: Sequence[str]
    says: str
    is_refused: bool = True
    chosen: Chosen = NOTHING_CHOSEN


RETYPED, EXCHANGED = ["k, x", "k, CAST(x AS DOUBLE) AS x"], ["k, x, n", "k, x AS n, n AS x"]
FROM_NOW = Chosen(append_from_now=("v",))
PLANS = {
    "another type": Change("json", "upsert", RETYPED, "all rows once more, because column x was INT, and is DOUBLE now", False),
    "another type in a changelog": Change("json", "changelog", RETYPED, "column x was INT, and is DOUBLE now. A changelog"),
    "another type in append": Change("json", "append", RETYPED, "column x was INT, and is DOUBLE now. An append topic"),
    "another type from now on": Change("json", "append", RETYPED, "only what the view puts out", False, FROM_NOW),
    "a column is back": Change("json", "upsert", [ALL, "k, x", ALL], "all rows once more, because column y is back", False),
    "a column is back in a changelog": Change("json", "changelog", [ALL, "k, x", ALL], "column y is back"),
    "a column is back in append": Change("avro", "append", [ALL, "k, x", ALL], "column y is back"),
    "a column goes": Change("json", "changelog", [ALL, "k, x"], "what differs", False),
    "another order": Change("csv", "upsert", ["k, x, y", "k, y, x"], "column 2 was INT, and is STRING now", False),
    "another number": Change("csv", "append", ["k, x", "k, x, y"], "a message had 2 columns, and has 3 now"),
    "another order by number": Change("protobuf", "changelog", ["k, x, n", "k, n, x"], "field 2 was x, and is n now"),
    "a column at the end": Change("protobuf", "changelog", ["k, x", "k, x, n"], "what differs", False),
    "another name": Change("json", "append", ["k, x", "k, x AS z"], "nothing; in new messages x is z now", False),
    "another name by number": Change("protobuf", "append", ["k, x", "k, x AS z"], "nothing; in new messages x is z now", False),
    "another name by place": Change("csv", "append", ["k, x", "k, x AS z"], "nothing; x is z now, and messages have no names", False),
    "another name by place, upsert": Change("csv", "upsert", ["k, x", "k, x AS z"], "nothing; x is z now, and messages have no names", False),
    "another name, upsert": Change("json", "upsert", ["k, x", "k, x AS z"], "all rows once more, because x is z now", False),
    "names that are exchanged": Change("json", "append", EXCHANGED, "held if rows would have to be taken back", False),
    "names that are exchanged, from now on": Change("json", "append", EXCHANGED, "only what the view puts out", False, FROM_NOW),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_what_a_plan_says_of_other_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    change = PLANS[name]
    made = [
        _planned(spark, tmp_path / str(number), project(change.form, change.mode, columns))
        for number, columns in enumerate(change.columns)
    ]
    pipeline = Pipeline(made[0], "fail")
    for each in made[1:-1]:
        pipeline.become(each)
    found = plan_change(pipeline.document, made[-1], facts_of(pipeline.document), change.chosen)
    refused = [str(each) for each in found.refusals]
    assert bool(refused) == change.is_refused
    assert change.says in (refused[0] if refused else _output(found).receives)
    if refused:
        assert "another topic" in refused[0] and ("--append v=from-now" in refused[0]) == (change.mode == "append")


def _output(found: Planned) -> OutputPlan:
    return next(each for each in found.outputs if each.topic == "out")


def test_an_append_topic_whose_column_has_another_name_receives_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing has to be taken back, so nothing holds the change."""
    for form in ("json", "avro", "protobuf", "csv"):
        before, now = (
            _planned(spark, tmp_path / form / name, project(form, "append", f"k, x AS {name}")) for name in ("x", "z")
        )
        pipeline = Pipeline(before, "fail")
        pipeline.step(FIRST)
        pipeline.become(now)
        assert written_at_last(pipeline) == []
        pipeline.step(LATER[:1])
        assert len(written_at_last(pipeline)) == 1
