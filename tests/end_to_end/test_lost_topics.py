"""A topic that is lost, and that the next project does not name any more: the change is made, and nothing else is lost."""

from __future__ import annotations

import pytest

from coordinator.goal import Goal
from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import TransitionRefused, TurnTransition
from coordinator.starting.errors import TopicChanged
from faults.points import Crash, CrashOrder, arm
from io_kafka.errors import UnknownTopic
from io_kafka.step_log.revision_state import Clearing, Detached, Filling
from storage.database import Database
from tests.end_to_end.harness import Playground, Resolved, Value, wait_until
from tests.end_to_end.test_transitions import ORDER_SECONDS, apply, wait_until_settled

CONF = {"stepwell.step.rows.max": 40}
WAY_OUT = "take what names the topic out of the project, and start with `stepwell run --apply`"

A = """
CREATE STREAMING TABLE a (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@a');
CREATE MATERIALIZED VIEW va TBLPROPERTIES ('topic' = '@{ta}', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS total, count(*) AS n FROM a GROUP BY k;
"""
B = """
CREATE STREAMING TABLE b (k STRING, m INT) USING kafka TBLPROPERTIES ({reads});
CREATE MATERIALIZED VIEW vb TBLPROPERTIES ('topic' = '@tb', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, max(m) AS top FROM b GROUP BY k;
CREATE MATERIALIZED VIEW vab TBLPROPERTIES ('topic' = '@tab', 'mode' = 'changelog') AS
  SELECT a.k, count(*) AS pairs FROM a JOIN b ON a.k = b.k GROUP BY a.k;
"""
C = """
CREATE MATERIALIZED VIEW vc TBLPROPERTIES ('topic' = '@tc', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, min(total) AS least FROM va GROUP BY k;
"""
SUBSCRIBE = "'subscribe' = '@b'"
BY_PATTERN = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, functions as F

@@dp.materialized_view(table_properties={"topic": "@values", "mode": "upsert", "key": "value"})
def by_value() -> DataFrame:
    rows = spark.read.format("kafka").option("subscribePattern", "@b.*").load().selectExpr("CAST(value AS STRING) AS value")
    return rows.groupBy("value").agg(F.count("*").alias("n"))
"""


def project(
    play: Playground, *, b: str | None = SUBSCRIBE, ta: str | None = "ta", more: str = "", workers: int = 1
) -> Resolved:
    """`b`: how the second table reads; None without it. `ta`: the topic of the first view; None without the view."""
    text = A.format(ta=ta) if ta is not None else ""
    text += more + ("" if b is None else B.format(reads=b))
    return play.resolve({"project.sql": text}, {**CONF, "stepwell.workers": workers})


def rows(name: str, first: int, count: int) -> list[Value]:
    return [{"k": "abcde"[i % 5], name: i} for i in range(first, first + count)]


def begun(play: Playground, **options: object) -> Resolved:
    """A pipeline that has stopped at a checkpoint, with messages that came afterwards."""
    play.topic("a", 2)
    play.topic("b", 2)
    for partition in range(2):
        play.send("a", rows("n", 100 * partition, 30), partition)
        play.send("b", rows("m", 50 * partition, 20), partition)
    before = project(play, **options)  # type: ignore[arg-type]
    play.run(before)
    play.check(before)
    play.send("a", rows("n", 300, 25), 1)
    return before


def lose(play: Playground, name: str, *, is_made_again: bool, full: bool = False) -> None:
    play.delete_topic(name)
    if is_made_again:
        play.topic(name, 2)
        if full:
            play.send(name, rows("m", 900, 10))


LONG = pytest.mark.long
MADE_AGAIN = [False, True]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=LONG)])
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
def test_the_table_of_an_input_that_is_gone_can_be_dropped(play: Playground, workers: int, is_made_again: bool) -> None:
    before = begun(play, workers=workers)
    lose(play, "b", is_made_again=is_made_again, full=True)
    with pytest.raises((UnknownTopic, TopicChanged)) as refused:
        play.run(before)
    assert WAY_OUT in refused.value.what_to_do
    now = project(play, b=None, more=C, workers=workers)
    shown = play.run(now, on_change="apply")
    assert (shown["transition_last"]["outcome"], shown["revision"]) == ("switched", 2)
    assert play.check(now) == {"va": 5, "vc": 5}
    play.send("a", rows("n", 400, 25), 0)
    play.run(now)
    assert play.check(now) == {"va": 5, "vc": 5}


@LONG
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
def test_a_pattern_that_matched_a_topic_that_is_gone_can_be_dropped(play: Playground, is_made_again: bool) -> None:
    play.topic("b")
    play.topic("b2")
    play.send("b", ["x", "y", "x"])
    play.topic("a")
    play.send("a", rows("n", 0, 30))
    text = A.format(ta="ta")
    before = play.resolve({"project.sql": text, "by_pattern.py": BY_PATTERN}, CONF)
    play.run(before)
    lose(play, "b", is_made_again=is_made_again)
    with pytest.raises(TopicChanged) as refused:
        play.run(before)
    assert WAY_OUT in refused.value.what_to_do
    play.send("a", rows("n", 30, 30))
    (play.folder / "transformations" / "by_pattern.py").unlink()
    now = play.resolve({"project.sql": text + C}, CONF)
    assert play.run(now, on_change="apply")["transition_last"]["outcome"] == "switched"
    assert play.check(now) == {"va": 5, "vc": 5}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=LONG)])
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
@pytest.mark.parametrize("ta", ["ta2", pytest.param(None, marks=LONG)])
def test_the_view_of_an_output_that_is_gone_can_be_dropped_or_get_another_topic(
    play: Playground, workers: int, is_made_again: bool, ta: str | None
) -> None:
    before = begun(play, workers=workers)
    lose(play, "ta", is_made_again=is_made_again)
    with pytest.raises(TopicChanged) as refused:
        play.run(before)
    assert WAY_OUT in refused.value.what_to_do
    table = "" if ta is not None else A[: A.index("CREATE MATERIALIZED")]
    now = project(play, ta=ta, more=table, workers=workers)
    shown = play.run(now, on_change="apply")
    assert (shown["transition_last"]["outcome"], shown["revision"]) == ("switched", 2)
    expected = {"vb": 5, "vab": 5} if ta is None else {"va": 5, "vb": 5, "vab": 5}
    assert play.check(now) == expected
    play.send("b", rows("m", 900, 25), 0)
    play.run(now)
    assert play.check(now) == expected
    if is_made_again:
        assert play.read("ta") == []
    else:
        assert play.prefix + "ta" not in play.topics.names()


@LONG
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
def test_a_table_can_read_another_topic_in_place_of_the_lost_one(play: Playground, is_made_again: bool) -> None:
    begun(play)
    play.topic("other")
    play.send("other", rows("m", 7, 9))
    lose(play, "b", is_made_again=is_made_again, full=True)
    now = project(play, b="'subscribe' = '@other'")
    assert play.run(now, on_change="apply")["transition_last"]["outcome"] == "switched"
    assert play.check(now) == {"va": 5, "vb": 5, "vab": 5}


@pytest.mark.parametrize("name", ["b", "ta"])
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
def test_a_lost_topic_that_is_still_named_stops_the_start(play: Playground, name: str, is_made_again: bool) -> None:
    begun(play)
    lose(play, name, is_made_again=is_made_again)
    now = project(play, more=C)
    for _ in range(2):
        with pytest.raises((UnknownTopic, TopicChanged)) as refused:
            play.run(now, on_change="apply")
        assert WAY_OUT in refused.value.what_to_do
    assert play.log(now).revisions.phase is None


def left(play: Playground, before: Resolved, point: str) -> None:
    """A run that reads messages of both inputs, and that a crash ends at this point."""
    play.send("b", rows("m", 200, 5), 0)
    with arm(CrashOrder(point, "raise")), pytest.raises(Crash):
        play.run(before)
    Database.close_all()


@pytest.mark.parametrize("point", [pytest.param("checkpoint.paused", marks=LONG), "step.begun"])
@pytest.mark.parametrize("name", ["b", "ta"])
@pytest.mark.parametrize("is_made_again", MADE_AGAIN)
def test_a_topic_that_divided_steps_need_stops_the_start(
    play: Playground, point: str, name: str, is_made_again: bool
) -> None:
    """Steps since the last checkpoint have read it; or a step is divided, and would read what another topic has there, or write to it. A replay
    reads no output."""
    before = begun(play)
    left(play, before, point)
    assert bool(play.log(before).pending) == (point == "step.begun")
    lose(play, name, is_made_again=is_made_again)
    if is_made_again and name == "b":
        for partition in range(2):
            play.send(name, rows("m", 5000, 60), partition)
    now = project(play, b=None) if name == "b" else project(play, ta="ta2")
    if (name, point) == ("ta", "checkpoint.paused"):
        play.run(now, on_change="apply")
        assert play.check(now) == {"va": 5, "vb": 5, "vab": 5}
        return
    for _ in range(2):
        with pytest.raises((UnknownTopic, TopicChanged)) as refused:
            play.run(now, on_change="apply")
        assert WAY_OUT not in refused.value.what_to_do
    assert play.log(now).revisions.phase is None
    play.run(now, full_refresh=True)
    play.check(now)


POINTS = [
    "revision.intended",
    "switch.ready",
    "switch.recorded",
    "program.adopted",
    "step.begun",
    "step.complete",
    "clear.inside",
    "revision.settled",
]


@LONG
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", ["b", "ta"])
@pytest.mark.parametrize("is_lost_before", [True, False])
def test_a_crash_on_the_way_is_gone_on_with(play: Playground, point: str, name: str, is_lost_before: bool) -> None:
    """The topic is deleted before the change is made, or too early, while it is being made."""
    before = begun(play)
    if is_lost_before:
        lose(play, name, is_made_again=False)
    else:  # no step reads it on the way
        play.run(before)
    now = project(play, b=None, more=C) if name == "b" else project(play, ta="ta2", more=C)
    with arm(CrashOrder(point, "raise")), pytest.raises(Crash):
        play.run(now, on_change="apply")
    Database.close_all()
    if not is_lost_before:
        lose(play, name, is_made_again=True, full=True)
    play.run(now, on_change="apply")
    play.run(now)
    assert play.log(now).revisions.phase is None
    assert play.check(now) == ({"va": 5, "vc": 5} if name == "b" else {"va": 5, "vb": 5, "vab": 5, "vc": 5})


@LONG
@pytest.mark.parametrize("name", ["b", "ta"])
def test_a_topic_deleted_while_the_transition_is_held(play: Playground, name: str) -> None:
    before = begun(play)
    now = project(play, b=None) if name == "b" else project(play, ta="ta2")
    with play.running(before) as run:
        apply(run, now, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
    lose(play, name, is_made_again=True, full=True)
    assert isinstance(play.log(now).revisions.phase, Filling)
    with play.running(now, on_change="apply") as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        play.send("a", rows("n", 500, 10), 0)
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
    play.run(now)
    play.check(now)


@pytest.mark.parametrize("name", ["b", pytest.param("ta", marks=LONG)])
def test_an_abort_says_that_the_former_project_cannot_go_on(play: Playground, name: str) -> None:
    """Another change can be made then."""
    before = begun(play)
    now = project(play, b=None, ta="ta2", more=C)
    with play.running(before) as run:
        apply(run, now, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
    lose(play, name, is_made_again=False)
    with play.running(now, on_change="keep") as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        run.thread.join(60)
    assert isinstance(run.fault, TopicChanged), run.fault
    assert f"deleted or created again: {play.prefix}{name}. Nothing else is lost" in str(run.fault)
    last = project(play, b=None, ta="ta3", more=C.replace("min(", "max("))
    assert play.run(last, on_change="apply")["transition_last"]["outcome"] == "switched"
    assert play.check(last) == {"va": 5, "vc": 5}


@LONG
def test_nothing_is_taken_back_from_a_lost_topic(play: Playground) -> None:
    begun(play)
    lose(play, "tb", is_made_again=False)
    now = project(play, b=None)
    with pytest.raises(TransitionRefused, match=r"nothing can be taken back from topic .*tb, which was deleted"):
        play.run(now, on_change="apply", chosen=Chosen(retract=("vb",)))
    play.run(now, on_change="apply")
    assert play.check(now) == {"va": 5}


def test_a_new_node_that_fails_leaves_the_project_standing_still(play: Playground) -> None:
    """A run that reads what is there ends then, and one that serves waits for the user. After an abort another change can be made."""
    begun(play)
    play.topic("other")
    play.send("other", [*rows("m", 7, 9), "rubbish"])
    lose(play, "b", is_made_again=False)
    now = project(play, b="'subscribe' = '@other'")
    for _ in range(2):
        with play.running(now, on_change="apply", goal=Goal.READ_AVAILABLE) as run:
            wait_until(lambda thread=run.thread: not thread.is_alive())  # type: ignore[misc]
        assert run.fault is None and isinstance(play.log(now).revisions.phase, Detached), run.fault
    with play.running(now, on_change="apply") as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "detached")
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        wait_until(lambda: run.fault is not None)
    assert "the revision in force cannot go on" in str(run.fault)
    play.topic("third")
    play.send("third", rows("m", 7, 9))
    last = project(play, b="'subscribe' = '@third'")
    play.run(last, on_change="apply")
    assert play.check(last) == {"va": 5, "vb": 5, "vab": 5}


@LONG
def test_an_abort_that_a_crash_breaks_off_leaves_a_way_out(play: Playground) -> None:
    begun(play)
    lose(play, "b", is_made_again=False)
    now = project(play, b=None)
    with arm(CrashOrder("switch.ready", "raise")), pytest.raises(Crash):
        play.run(now, on_change="apply")
    Database.close_all()
    with arm(CrashOrder("turn.written", "raise")), play.running(now, on_change="keep") as run:
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        wait_until(lambda: run.fault is not None)
    assert isinstance(run.fault, Crash)
    Database.close_all()
    assert isinstance(play.log(now).revisions.phase, Clearing)
    other = project(play, b=None, more=C)
    play.run(other, on_change="apply")
    assert play.check(other) == {"va": 5, "vc": 5}
