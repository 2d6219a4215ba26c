"""A view over some of whose rows an expression raises has no answer, in Spark neither. Its output is withheld, and all other views go on.

After every run each view is compared with Spark's batch answer: a view for which Spark raises must be in error, and every other one must be
equal. The views have one of each kind of node that counts error rows, views over them, and outputs of all modes.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator.goal import Goal
from coordinator.status import StatusBoard
from coordinator.stepping.views_in_error import ViewsInError
from engine.errors import DataError
from engine.operators.table import operator_of
from examples.batch import batch_answer, compare, published
from faults.points import Crash, CrashOrder, arm
from stepwell.inspection.query import query
from stepwell.lowering.driver import lower
from storage.database import Database
from tests.end_to_end import formats
from tests.end_to_end.harness import Playground, Resolved, Value, renamed, step_records, wait_until
from tests.end_to_end.test_placement import contents
from tests.end_to_end.threads import threads
from tests.engine.every_kind import OF_EVENT_TIME, every_kind

VIEWS = """
CREATE STREAMING TABLE numbers (id INT, k STRING, n BIGINT, text STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@in', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE events (k STRING, n BIGINT) USING kafka TBLPROPERTIES ('subscribe' = '@events');

CREATE MATERIALIZED VIEW parsed TBLPROPERTIES ('topic' = '@parsed', 'mode' = 'changelog') AS
  SELECT id, CAST(text AS INT) AS number FROM numbers;
CREATE MATERIALIZED VIEW ratios TBLPROPERTIES ('topic' = '@ratios', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, 120 DIV sum(n) AS ratio, count(*) AS rows FROM numbers GROUP BY k;
CREATE MATERIALIZED VIEW most TBLPROPERTIES ('topic' = '@most', 'mode' = 'changelog') AS
  SELECT count(*) AS keys, max(ratio) AS most FROM ratios;
CREATE MATERIALIZED VIEW large TBLPROPERTIES ('topic' = '@large', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n * 4000000000000000000) AS total FROM numbers WHERE n BETWEEN -1 AND 1 GROUP BY k;
CREATE MATERIALIZED VIEW above TBLPROPERTIES ('topic' = '@above', 'mode' = 'changelog') AS
  SELECT id, n FROM numbers WHERE n > (SELECT n FROM numbers WHERE k = 'one');
CREATE MATERIALIZED VIEW shares TBLPROPERTIES ('topic' = '@shares', 'mode' = 'changelog') AS
  SELECT id, n DIV (SELECT sum(n) FROM numbers) AS share FROM numbers;
CREATE MATERIALIZED VIEW pairs TBLPROPERTIES ('topic' = '@pairs', 'mode' = 'changelog') AS
  SELECT a.id, b.id AS other FROM numbers a JOIN numbers b ON a.k = b.k AND a.id < b.id AND 7 DIV (a.n - b.n) >= 0;
CREATE STREAMING TABLE inverse TBLPROPERTIES ('topic' = '@inverse', 'mode' = 'append') AS
  SELECT k, n, 10 DIV n AS inverse FROM STREAM(events);
CREATE MATERIALIZED VIEW looked_up TBLPROPERTIES ('topic' = '@looked_up', 'mode' = 'changelog') AS
  SELECT a.id, (SELECT b.text FROM numbers b WHERE b.k = a.k AND b.k IN ('one', 'two')) AS text FROM numbers a;
CREATE MATERIALIZED VIEW near TBLPROPERTIES ('topic' = '@near', 'mode' = 'changelog') AS
  SELECT id, count(*) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN CURRENT ROW AND 9223372036854775790 FOLLOWING) AS near FROM numbers;
CREATE MATERIALIZED VIEW running TBLPROPERTIES ('topic' = '@running', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, sum(n * 4000000000000000000) OVER (PARTITION BY k ORDER BY id) AS total FROM numbers WHERE n BETWEEN -1 AND 1;
CREATE MATERIALIZED VIEW partners TBLPROPERTIES ('topic' = '@partners', 'mode' = 'changelog') AS
  SELECT a.id, b.id AS other FROM numbers a LEFT JOIN numbers b ON a.k = b.k AND a.id < b.id AND 7 DIV (a.n - b.n) >= 0;
CREATE MATERIALIZED VIEW alone TBLPROPERTIES ('topic' = '@alone', 'mode' = 'changelog') AS
  SELECT a.id FROM numbers a WHERE NOT EXISTS (SELECT 1 FROM numbers b WHERE a.k = b.k AND a.id < b.id AND 7 DIV (a.n - b.n) > 7);
CREATE MATERIALIZED VIEW followed TBLPROPERTIES ('topic' = '@followed', 'mode' = 'changelog') AS
  SELECT a.id FROM numbers a WHERE a.id < 3 AND EXISTS (SELECT 1 FROM numbers b WHERE b.id = a.id + 3 AND 7 DIV (a.n - b.n) >= 0);
CREATE MATERIALIZED VIEW chain TBLPROPERTIES ('topic' = '@chain', 'mode' = 'changelog') AS
  WITH RECURSIVE steps(id, d) AS (
    SELECT 1, 0L UNION ALL SELECT b.id, 12 DIV b.n FROM steps JOIN numbers b ON b.id = steps.id + 1)
  SELECT id, d FROM steps;
CREATE MATERIALIZED VIEW down TBLPROPERTIES ('topic' = '@down', 'mode' = 'changelog') AS
  WITH RECURSIVE steps(n) MAX RECURSION LEVEL 15 AS (
    SELECT n FROM numbers WHERE n > 0 UNION ALL SELECT n - 1 FROM steps WHERE n > 1)
  SELECT n FROM steps;
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@sums', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, count(*) AS rows, max(text) AS text FROM numbers GROUP BY k;
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

@@udf("bigint")
def positive(n):
    if n < 0:
        raise ValueError("below zero")
    return n

@@dp.materialized_view(table_properties={"topic": "@checked", "mode": "changelog"})
def checked():
    return SparkSession.active().read.table("numbers").select("id", positive("n").alias("n"))
"""


def project(play: Playground, views: str = "", **conf: Any) -> Resolved:
    """Over topics that it makes. `views`: names, if some of the views are enough; to plan all of them takes longer than to run a few."""
    partitions = conf.pop("partitions", 1)
    play.topic("in", partitions)
    play.topic("events", partitions)
    wanted = {"numbers", "events", *views.split()}
    statements = re.finditer(r"(?s)CREATE \w+ \w+ (\w+).*?;\n", VIEWS)
    files = {"views.sql": "".join(each[0] for each in statements if not views or each[1] in wanted)}
    if not views or "checked" in wanted:
        files["functions.py"] = PYTHON
    return play.resolve(files, {"stepwell.step.rows.max": 3, "stepwell.workers": 1, **conf})


def number(key: int, k: str, n: int, text: str | None = "1") -> tuple[Value, Value]:
    return {"id": key}, {"id": key, "k": k, "n": n, "text": text}


def run(play: Playground, resolved: Resolved, **options: Any) -> Mapping[str, str]:
    """Takes what is there. Returns the views in error, with the texts."""
    board = StatusBoard(resolved.spec.name)
    try:
        play.run(resolved, threads(), board, **options)
    except ViewsInError as fault:
        assert all(view in str(fault) for view in board.show()["in_error"])
    else:
        assert not board.show()["in_error"]
    in_error: Mapping[str, str] = board.show()["in_error"]
    return in_error


def answered(play: Playground, resolved: Resolved) -> set[str]:
    """Compares all views that have an answer in Spark. Returns the others."""
    sources = {topic for source in resolved.project.sources for topic in source.topics}
    there = play.read_all(sources | {output.topic for output in resolved.spec.outputs})
    messages = {topic: [m.as_input for m in those] for topic, those in there.items()}
    errors: dict[str, Exception] = {}
    expected = batch_answer(resolved.project, {topic: messages[topic] for topic in sources}, errors)
    for view in resolved.project.views:
        if view.output is not None and view.name not in errors:
            found = compare(view.name, published(play.spark, view, messages[view.output.topic]), expected[view.name])
            assert found.equal, str(found)
    return set(errors)


def both(play: Playground, resolved: Resolved, other: Resolved, *, crashes: bool = False) -> set[str]:
    """Takes what is there, on two numbers of workers. Returns the views in error, which are those that have no answer in Spark. `crashes`: the
    other run ends when some steps with errors are written, and in no checkpoint. Then they are replayed. Spark is asked in the other rounds."""
    in_error = run(play, resolved)
    if crashes:
        with arm(CrashOrder("output.committed", "raise", visit=3)), pytest.raises(Crash):
            play.run(other, threads(one_for_all=True))
        Database.close_all()
        assert len(play.log(other).errors) > 5
    assert run(play, other).keys() == in_error.keys()
    assert crashes or answered(play, resolved) == in_error.keys()
    return set(in_error)


def written_alike(play: Playground, resolved: Resolved, other: Resolved) -> None:
    play.check_steps(resolved)
    assert contents(play, resolved) == contents(play, other)


ROUND_PAIRS = {"pairs", "partners", "alone", "followed"}
"""The views with a condition that fails for two equal numbers."""
EVERY = ROUND_PAIRS | {
    "parsed", "ratios", "most", "large", "above", "shares", "looked_up", "checked", "near", "running", "chain", "down",
}  # fmt: skip


def test_every_kind_of_node_counts_its_errors_until_they_end(play: Playground) -> None:
    """On any number of workers, and also in a replay after a crash, which leaves out the rows that were left out before."""
    partitions = 3
    resolved = project(play, partitions=partitions, **{"stepwell.step.rows.max": 5})
    counting = {
        type(node) for node in every_kind().nodes if operator_of(node).output.counts_errors(node)
    } - OF_EVENT_TIME
    assert {type(node) for node in resolved.spec.circuit.nodes} >= counting, "a kind of node is in no view"
    other = renamed(resolved, "-other", 2)

    def send(*numbers: tuple[Value, Value]) -> None:
        for partition in range(partitions):
            mine = [number for number in numbers if number[0]["id"] % partitions == partition]  # type: ignore[index,call-overload,operator]
            play.send("in", mine, partition)
            play.send("events", [{"k": "e", "n": 1}] * len(mine), partition)

    send(number(1, "a", 2), number(2, "b", 3), number(3, "one", 1))
    assert not run(play, resolved) and not run(play, other)
    send(
        number(4, "a", 2, "x"),  # no INT; and a pair of equal numbers
        number(5, "one", 5),  # the second row of a subquery
        *(number(key, "c", 1) for key in (6, 7, 8)),  # 12 * 10^18 is no BIGINT
        number(9, "z", 0),  # the sum of a group is 0, and a recursion meets a 0
        number(13, "m", 20),  # a bound of a frame is no BIGINT, and a recursion has 20 levels
        number(10, "d", -36),  # the sum of all rows is 0
    )
    assert both(play, resolved, other, crashes=True) == EVERY
    gone = {"id": 13}, None
    send(number(10, "d", 6), number(5, "two", 5), number(8, "e", 1), number(11, "y", 0, "y"), gone)
    assert both(play, resolved, other) == ROUND_PAIRS | {"parsed", "ratios", "most", "chain"}
    send(number(4, "a", 1), number(9, "z", 4), number(7, "f", 1), number(11, "y", 1))
    assert not both(play, resolved, other)
    written_alike(play, resolved, other)
    steps = step_records(play, resolved).values()
    assert sum(bool(step.errors) for step in steps) >= 3 and not all(step.errors for step in steps)


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "partitions", "workers"), [(1, 1, 3), (2, 3, 2), (3, 2, 5)])
def test_views_have_the_answers_that_spark_has(play: Playground, seed: int, partitions: int, workers: int) -> None:
    """Rows come, change and go, at random. Some of them are in error, and the errors end."""
    dice = random.Random(seed)
    resolved = project(play, partitions=partitions)
    other = renamed(resolved, "-other", workers)
    present: set[int] = set()
    for at in range(12):
        quiet = at % 3 == 0
        messages: list[tuple[Value, Value]] = []
        for _ in range(dice.randrange(4, 9)):
            key = dice.randrange(12)
            if present and dice.random() < 0.3:
                key = dice.choice(sorted(present))
                messages.append(({"id": key}, None))
                present.discard(key)
            else:
                n = dice.choice([-2, -1, 0, 1, 1, 2])
                messages.append(number(key, dice.choice(["a", "b", "one"]), n, dice.choice(["1", "2", "x"])))
                present.add(key)
        if quiet:  # all that is there has an answer
            for key in sorted(present | {0, 1}):
                messages.append(number(key, f"k{key}", key + 2))
            present |= {0, 1}
        for partition in range(partitions):
            play.send("in", [m for m in messages if m[0]["id"] % partitions == partition], partition)  # type: ignore[index,operator,call-overload]
        play.send("events", [{"k": "e", "n": at + 1}])
        assert not (both(play, resolved, other) and quiet)
    written_alike(play, resolved, other)


def test_the_other_views_go_on_and_nothing_of_the_view_in_error_is_written(play: Playground) -> None:
    resolved = project(play, "ratios most sums checked")
    play.send("in", [number(1, "a", 2), number(2, "b", 3)])
    assert not run(play, resolved)
    before = {name: len(play.read(name)) for name in ("ratios", "most", "sums")}
    play.send("in", [number(3, "a", -2), number(4, "c", 5)])
    in_error = run(play, resolved)
    assert in_error.keys() == {"ratios", "most", "checked"}
    assert "DIVIDE_BY_ZERO" in in_error["ratios"] and "ValueError: below zero" in in_error["checked"]
    assert answered(play, resolved) == in_error.keys()
    now = {name: len(play.read(name)) for name in before}
    assert (now["ratios"], now["most"]) == (before["ratios"], before["most"]) and now["sums"] > before["sums"]
    assert run(play, resolved).keys() == in_error.keys(), "a run without new rows says it again"
    circuit = lower(resolved.project)
    with pytest.raises(DataError, match=r"view ratios, step \d+: an expression raises for some of its rows"):
        query(resolved.project, circuit, "SELECT * FROM ratios")
    assert len(query(resolved.project, circuit, "SELECT * FROM sums").rows.collect()) == 3
    play.send("in", [({"id": 3}, None)])
    assert not run(play, resolved)
    assert not answered(play, resolved)
    assert not play.log(resolved).counted, "the steps are as before"
    assert len(query(resolved.project, circuit, "SELECT * FROM ratios").rows.collect()) == 3


WITHOUT_MESSAGE = """
CREATE STREAMING TABLE numbers (id INT, k STRING, n BIGINT, text STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@in', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW labels TBLPROPERTIES ('topic' = '@labels', 'format' = 'text', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, concat(id, ' ', text) AS text FROM numbers;
CREATE MATERIALIZED VIEW by_text TBLPROPERTIES ('topic' = '@by_text', 'mode' = 'upsert', 'key' = 'text', 'key.format' = 'string') AS
  SELECT text, sum(n) AS n, count(*) AS rows FROM numbers GROUP BY text;
CREATE MATERIALIZED VIEW over TBLPROPERTIES ('topic' = '@over', 'mode' = 'changelog') AS SELECT text, 12 DIV n AS share FROM by_text;
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@sums', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, count(*) AS rows, max(text) AS text FROM numbers GROUP BY k;
"""


def of_label(message: bytes) -> bytes:
    return json.dumps({"id": int(message.split()[0]), "text": message.decode()}).encode()


@pytest.mark.long
def test_a_row_for_which_a_format_has_no_message_withholds_that_output_alone(play: Playground) -> None:
    play.topic("in", 2)
    resolved = play.resolve({"views.sql": WITHOUT_MESSAGE}, {"stepwell.step.rows.max": 3, "stepwell.workers": 1})
    other = renamed(resolved, "-other", 3)

    def send(*numbers: tuple[Value, Value]) -> None:
        for key, value in numbers:
            play.send("in", [(key, value)], key["id"] % 2)  # type: ignore[index,call-overload,operator]

    def runs(*in_error: str) -> Mapping[str, str]:
        found = run(play, resolved)
        assert run(play, other).keys() == found.keys() == set(in_error)
        return found

    def check(*names: str) -> None:
        values = {view.name: of_label if view.name == "labels" else bytes for view in resolved.project.views}
        assert formats.check(play, resolved, {}, {}, {name: values[name] for name in names}).keys() == set(names)

    send(number(1, "a", 2, "x"), number(2, "b", 3, "y"), number(3, "a", 1, "x"))
    runs()
    check("labels", "by_text", "over", "sums")
    before = {name: play.read(name) for name in ("labels", "by_text")}
    send(number(4, "a", 2, None), number(2, "b", 6, "z"), number(5, "c", 1, None), number(6, "c", 5, "u"))
    found = runs("output labels", "output by_text")
    assert (
        "column text is NULL in a row, and a message without a value would delete its key: {'id': "
        in found["output labels"]
    )
    assert "column text is NULL in a row, and a key in the format string cannot say so" in found["output by_text"]
    check("over", "sums")
    assert {name: play.read(name) for name in before} == before
    rows = query(resolved.project, lower(resolved.project), "SELECT * FROM labels WHERE text IS NULL").rows.collect()
    assert len(rows) == 2, "the view has an answer"
    send(number(4, "a", 0, "w"))  # the sum of its text is 0, too
    assert "DIVIDE_BY_ZERO" in runs("output labels", "output by_text", "over")["over"]
    send(({"id": 5}, None), number(4, "a", 2, "w"))
    runs()
    check("labels", "by_text", "over", "sums")
    written_alike(play, resolved, other)


@pytest.mark.long
def test_an_error_that_can_never_end_stops_one_view_alone(play: Playground) -> None:
    """No row of an append topic can be taken back. A row in error stays, and so does the error."""
    resolved = project(play, "inverse sums")
    for n in (1, 0, 2):
        play.send("events", [{"k": "e", "n": n}])
        play.send("in", [number(n, "a", n + 1)])
        assert run(play, resolved).keys() == (set() if n == 1 else {"inverse"}) == answered(play, resolved)
    assert len(play.read("inverse")) == 1


@pytest.mark.long
def test_a_service_goes_on_and_shows_the_view_until_it_has_an_answer(play: Playground) -> None:
    resolved = project(play, "ratios most shares sums")
    with play.running(resolved, threads()) as service:
        play.send("in", [number(1, "a", 0)])
        service.wait_until(lambda status: set(status["in_error"]) == {"ratios", "most", "shares"})
        play.send("in", [number(2, "a", 1)])
        service.wait_until(lambda status: not status["in_error"])
        wait_until(lambda: bool(play.read("ratios")))
    assert not answered(play, resolved)


@pytest.mark.long
def test_what_is_withheld_survives_a_change_of_the_layout(play: Playground) -> None:
    resolved = project(play, "ratios most sums parsed", partitions=2)
    play.send("in", [number(key, "abc"[key % 3], key) for key in range(6)], 0)
    assert "ratios" not in run(play, resolved)
    play.send("in", [number(10, "a", -3), number(11, "b", 7), number(12, "d", 9)], 1)
    assert {"ratios", "most"} <= run(play, resolved).keys()
    for workers in (3, 2):
        play.run(
            replace(resolved, spec=replace(resolved.spec, workers_now=workers)),
            threads(),
            goal=Goal.RESCALE,
        )
        play.send("in", [number(20 + workers, "e", workers)], 0)
        assert {"ratios", "most"} <= run(play, resolved).keys()
    play.send("in", [({"id": 10}, None)], 1)
    assert not run(play, resolved)
    assert not answered(play, resolved)
