"""A project changes while it runs, and new nodes need messages that were read before: they are read again beside the new ones."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordinator.revisions.requests import TransitionRefused, TurnTransition
from faults.points import ONCE_VARIABLE, RECOVERY, VARIABLE, CrashOrder, Point, arm
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import DivisionRecord, decode
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, Running, service, wait_until
from tests.end_to_end.test_transitions import (
    BREAKS,
    NEVER,
    ORDER_SECONDS,
    apply,
    apply_although_broken_off,
    ask_to_begin,
    is_in_force,
    wait_until_settled,
)
from tests.sampling import sampled
from tests.transition_moments import COMPARED, MOMENTS, OF_WORKERS, TURNED

STREAM = """
CREATE STREAMING TABLE clicks (customer STRING, page STRING, n INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@clicks');
CREATE STREAMING TABLE people (customer STRING, country STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@people', 'mode' = 'upsert', 'key' = 'customer');
CREATE MATERIALIZED VIEW by_page TBLPROPERTIES ('topic' = '@by_page', 'mode' = 'upsert', 'key' = 'page') AS
  SELECT page, sum(n) AS n FROM clicks {where} GROUP BY page;
CREATE MATERIALIZED VIEW many TBLPROPERTIES ('topic' = '@many', 'mode' = 'changelog') AS
  SELECT page, n FROM by_page WHERE n > {bound};
CREATE STREAMING TABLE large TBLPROPERTIES ('topic' = '@large') AS SELECT customer, n FROM STREAM clicks WHERE n > {large};
{more}
"""
BEFORE = {"where": "", "bound": 100, "large": 40, "more": ""}
BY_COUNTRY = """
CREATE MATERIALIZED VIEW by_country TBLPROPERTIES ('topic' = '@by_country', 'mode' = 'upsert', 'key' = 'country') AS
  SELECT country, max(n) AS top, count(*) AS c FROM clicks LEFT JOIN people USING (customer) GROUP BY country;
"""
SALES = """
CREATE STREAMING TABLE sales (customer STRING, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@sales');
CREATE MATERIALIZED VIEW spent TBLPROPERTIES ('topic' = '@spent', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT c.customer, sum(amount) AS amount, count(*) AS c FROM (SELECT DISTINCT customer FROM clicks) c JOIN sales USING (customer)
  GROUP BY c.customer;
"""


def project(**changes: object) -> dict[str, str]:
    return {"project.sql": STREAM.format(**{**BEFORE, **changes})}


def clicks(first: int, count: int) -> list[dict[str, object]]:
    return [{"customer": f"c{i * 7 % 13}", "page": f"p{i % 5}", "n": i * 31 % 50} for i in range(first, first + count)]


def people(first: int, count: int) -> list[tuple[str, str]]:
    return [
        (f'{{"customer": "c{i}"}}', f'{{"customer": "c{i}", "country": "{"AB"[i % 2]}"}}')
        for i in range(first, first + count)
    ]


def wait_until_it_stands_still(run: Running) -> dict[str, Any]:
    """The transition, as soon as it stands still."""
    run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") in ("held", "detached"))
    found: dict[str, Any] = run.board.show()["transition"]
    return found


def ask(run: Running, what: Any) -> None:
    run.requests.revision.ask(TurnTransition(what), ORDER_SECONDS)


def divisions(play: Playground, resolved: Resolved) -> list[DivisionRecord]:
    """All that the log has."""
    found = []
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        if json.loads(message.value)["kind"] == "division":
            record = decode(message.value, resolved.spec.log_topic, message.offset)
            assert isinstance(record, DivisionRecord)
            found.append(record)
    return found


CONF = {"stepwell.step.rows.max": 40}
"""So that there are many steps, and messages are read again in many portions."""


@pytest.mark.long
@pytest.mark.parametrize("workers", sampled([3, 1], 2))
def test_views_over_a_stream_are_changed_and_come(play: Playground, workers: int) -> None:
    """Aggregates, an outer join with a table from state, an append output that only gains rows, and a source that is new."""
    play.topic("clicks", 3)
    play.topic("people", 2)
    play.topic("sales", 2)
    for partition in range(3):
        play.send("clicks", clicks(100 * partition, 100), partition)
    play.send("people", people(0, 9))
    play.send("sales", [{"customer": f"c{i % 13}", "amount": i} for i in range(100)])
    conf = {**CONF, "stepwell.workers": workers}
    before = play.resolve(project(), conf)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 7)
        now = play.resolve(project(where="WHERE n > 10", large=20, more=BY_COUNTRY + SALES), conf)
        apply(run, now, hold=True)
        assert wait_until_it_stands_still(run)["phase"] == "held"
        play.send(
            "clicks", clicks(300, 100), 1
        )  # the new nodes have it from the steps, and not from what is read again
        where = f"{play.prefix}clicks/1"
        run.wait_until(lambda shown: shown["lag"].get(where) == 0)
        ask(run, "switch")
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        play.send("clicks", clicks(400, 50))
        play.send("sales", [{"customer": "c1", "amount": 1000}])
    again = [r for record in divisions(play, now) for r in record.again]
    assert len([r for r in again if r.start < r.end]) > 5, "it is read in portions"
    play.run(now)
    play.check(now)
    play.check_steps(now)


OF_READING: tuple[Point, ...] = (
    "revision.intended",
    "switch.ready",
    "switch.recorded",
    "stages.inside",
    "output.committed",
)


@pytest.mark.parametrize(
    ("workers", "points", "visits"),
    [
        pytest.param(3, OF_READING, (1, 3), marks=pytest.mark.soak),
        pytest.param(1, BREAKS, (1, 2, 5), marks=pytest.mark.soak),
        pytest.param(3, BREAKS, (1, 2, 5), marks=pytest.mark.soak),
    ],
)
def test_what_is_read_again_is_read_alike_after_a_crash(
    play: Playground, workers: int, points: tuple[Point, ...], visits: tuple[int, ...]
) -> None:
    """Without a checkpoint, so all steps since the beginning of the transition are replayed."""
    conf = {**CONF, "stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}
    play.topic("clicks", 2)
    play.topic("people", 1)
    play.send("people", people(0, 9))
    play.send("clicks", clicks(0, 150))
    former = play.resolve(project(), conf)
    play.run(former)
    for number, point in enumerate(points):
        play.send("clicks", clicks(10 * number, 60), number % 2)
        more = BY_COUNTRY if number else ""
        now = play.resolve(project(where=f"WHERE n > {number}", bound=100 + number, more=more), conf)
        broken = apply_although_broken_off(
            play, former, now, *(CrashOrder(point, "raise", visit=visit) for visit in visits)
        )
        assert broken or point in NEVER, f"{point} is not reached"
        play.run(now)
        play.run(now)
        assert play.log(now).revisions.phase is None and is_in_force(play, now), point
        play.check(now, ["by_page", "many", "large"])
        former = now
    play.check_steps(former)


def crashing(play: Playground, number: int, conf: dict[str, Any]) -> Resolved:
    """The next project, of which the changed view and others read messages again, and some that have come."""
    play.send("clicks", clicks(10 * number, 60), number % 2)
    more = BY_COUNTRY if number else ""
    return play.resolve(project(where=f"WHERE n > {number}", bound=100 + number, more=more), conf)


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
def test_a_transition_is_broken_off_at_every_moment(play: Playground, workers: int) -> None:
    """And then the run that goes on with it, in its recovery. A worker that is broken off is only lost."""
    conf = {**CONF, "stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}
    play.topic("clicks", 2)
    play.topic("people", 1)
    play.send("people", people(0, 9))
    play.send("clicks", clicks(0, 150))
    former = play.resolve(project(), conf)
    play.run(former)
    moments = {moment: each for moment, each in MOMENTS.items() if moment not in (TURNED, COMPARED)}
    recovery = [point for point in RECOVERY if point != "replay.compared"]  # to the others each recovery comes
    for number, (moment, (after, point)) in enumerate(moments.items()):
        now = crashing(play, number, conf)
        order = CrashOrder(point, "raise", after=after)
        apply_although_broken_off(play, former, now, order, CrashOrder(recovery[number % len(recovery)], "raise"))
        assert order.visits, moment
        play.run(now)
        play.run(now)
        assert play.log(now).revisions.phase is None and is_in_force(play, now), moment
        play.check(now, ["by_page", "many", "large"])
        former = now
    play.check_steps(former)


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
def test_a_service_is_killed_at_every_moment_of_a_transition(play: Playground, tmp_path: Path, workers: int) -> None:
    """The next one has the same files, and goes on with what is recorded."""
    conf = {**CONF, "stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}
    play.topic("clicks", 2)
    play.topic("people", 1)
    play.send("people", people(0, 9))
    play.send("clicks", clicks(0, 150))
    play.run(play.resolve(project(), conf))
    of_coordinators = [each for each in MOMENTS if each not in (*OF_WORKERS, TURNED)]
    options, log = ("--available-now", "--apply", "--take-over"), tmp_path / "service.log"
    for number, moment in enumerate(of_coordinators):
        after, point = MOMENTS[moment]
        now = crashing(play, number, conf)
        obeyed = tmp_path / str(number)
        obeyed.mkdir()
        orders = {VARIABLE: f"{'' if after is None else f'{after}>'}{point}=kill", ONCE_VARIABLE: str(obeyed)}
        ended = []
        for variables in (orders, {}):
            with service(now, log, *options, **variables) as process:
                ended.append(process.wait(WAIT_SECONDS_MAX))
        assert ended == [-signal.SIGKILL, 0] and list(obeyed.iterdir()), f"{moment}: {log.read_text()[-2000:]}"
        assert play.log(now).revisions.phase is None and is_in_force(play, now), moment
        play.check(now, ["by_page", "many", "large"])
    play.check_steps(now)


def test_messages_that_expire_while_they_are_read_again_leave_the_old_project(play: Playground) -> None:
    play.topic("clicks")
    play.topic("people")
    play.send("clicks", clicks(0, 400))
    before = play.resolve(project(), CONF)
    play.run(before)
    now = play.resolve(project(where="WHERE n > 10"), CONF)
    with arm(CrashOrder("revision.intended", "raise")), play.running(before) as run:
        ask_to_begin(run, now)
        run_ended(run)
    play.topics.delete_below({TopicPartition(play.prefix + "clicks", 0): 300})
    with play.running(before) as run:
        shown = wait_until_it_stands_still(run)
        assert shown["phase"] == "detached" and "is to be read again is gone" in shown["error"], shown
        assert f"{play.prefix}clicks" in shown["error"] and "offset 0" in shown["error"]
        play.send("clicks", clicks(400, 20))
        run.wait_until(lambda shown: shown["lag"] and not any(shown["lag"].values()))
        with pytest.raises(TransitionRefused, match="is under way"):
            apply(run, now)
        ask(run, "abort")
        wait_until_settled(run)
        with pytest.raises(TransitionRefused, match="300 offsets are missing"):
            apply(run, now)
    assert not is_in_force(play, now) and is_in_force(play, before)


def test_a_message_that_cannot_be_read_for_new_nodes_leaves_the_old_project(play: Playground) -> None:
    """It is in a topic that only the next project reads. Left out by a policy, it is counted once."""
    play.topic("clicks")
    play.topic("people")
    play.topic("sales")
    play.send("clicks", clicks(0, 60))
    play.send("sales", [{"customer": "c1", "amount": 3}, "no JSON", {"customer": "c2", "amount": 4}])
    before, now = play.resolve(project(), CONF), play.resolve(project(more=SALES), CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now)
        shown = wait_until_it_stands_still(run)
        assert shown["phase"] == "detached", shown
        assert "source sales, which is read again" in shown["error"] and "offset 1" in shown["error"], shown["error"]
        ask(run, "abort")
        wait_until_settled(run)
        skipping = SALES.replace("@sales'", "@sales', 'on.error' = 'skip'")
        now = play.resolve(project(more=skipping), CONF)
        apply(run, now)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
    play.run(now)
    play.check(now)


def test_a_message_that_is_read_again_gets_no_second_dead_letter(play: Playground) -> None:
    """The revision in force has written its letter. After the switch, a message of its own gets one."""
    play.topic("clicks")
    play.topic("people")
    play.send("clicks", [*clicks(0, 60), "no JSON", *clicks(60, 60)])
    lettered = STREAM.replace("'@clicks'", "'@clicks', 'on.error' = 'dead-letter'")
    before, now = (
        play.resolve({"project.sql": lettered.format(**{**BEFORE, **changes})}, CONF)
        for changes in ({}, {"where": "WHERE n > 10"})
    )
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 3)
        apply(run, now)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
        play.send("clicks", ["no JSON either"])
    play.run(now)
    play.check(now)
    assert len(play.read("clicks.dead-letter")) == 2


@pytest.mark.long
def test_a_topic_that_grows_meanwhile_is_read_whole(play: Playground) -> None:
    play.topic("clicks")
    play.topic("people")
    play.send("clicks", clicks(0, 100))
    before = play.resolve(project(), CONF).at_pace(growth_seconds=0.0)
    now = play.resolve(project(where="WHERE n > 10"), CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now, hold=True)
        assert wait_until_it_stands_still(run)["phase"] == "held"
        play.grow("clicks", 3)
        play.send("clicks", clicks(100, 70), 2)
        where = f"{play.prefix}clicks/2"
        run.wait_until(lambda shown: shown["lag"].get(where) == 0)
        ask(run, "switch")
        wait_until_settled(run)
    play.run(now)
    play.check(now)


@pytest.mark.long
def test_large_messages_are_read_again_within_the_bound_of_bytes(play: Playground) -> None:
    conf = {"stepwell.step.bytes.max": 40_000}
    play.topic("clicks")
    play.topic("people")
    play.send("clicks", [{**row, "page": f"p{i % 5}" + "x" * 3000} for i, row in enumerate(clicks(0, 120))])
    before = play.resolve(project(), conf)
    now = play.resolve(project(where="WHERE n > 10"), conf)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now)
        wait_until_settled(run)
    last = {record.step: sum(r.end - r.start for r in record.again) for record in divisions(play, now)}
    assert sum(last.values()) == 120 and 0 < max(last.values()) * 3000 < 40_000, "as it is after it was cut"
    play.run(now)
    play.check(now)


@pytest.mark.long
def test_a_table_gets_a_column_that_its_messages_have(play: Playground) -> None:
    """Its topic is read again, because its state lacks the column. A view that reads another column keeps its state."""
    play.topic("clicks")
    play.topic("people", 2)
    play.send("clicks", clicks(0, 60))
    rows = [
        (f'{{"customer": "c{i}"}}', f'{{"customer": "c{i}", "country": "{"AB"[i % 2]}", "age": {i % 3}}}')
        for i in range(13)
    ]
    play.send("people", [*rows, (rows[0][0], None)])
    before = play.resolve(project(more=BY_COUNTRY), CONF)
    files = project(more=BY_COUNTRY + """
CREATE MATERIALIZED VIEW ages TBLPROPERTIES ('topic' = '@ages', 'mode' = 'upsert', 'key' = 'age') AS
  SELECT age, count(*) AS c FROM people GROUP BY age;
""")  # fmt: skip
    files["project.sql"] = files["project.sql"].replace("country STRING)", "country STRING, age INT)")
    now = play.resolve(files, CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now)
        play.send("people", rows[:3])
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
    play.run(now)
    play.check(now)


@pytest.mark.long
def test_a_source_that_wants_the_timestamps_of_messages_comes(play: Playground) -> None:
    """The messages are read otherwise for new nodes, and for all from the switch on, by the workers that are there."""
    conf = {**CONF, "stepwell.checkpoint.interval": "1h"}
    play.topic("clicks")
    play.topic("people")
    play.topic("sales")
    play.send("clicks", clicks(0, 60))
    play.send("sales", [{"customer": "c1", "amount": 3}], timestamp=1_000_000_000_000)
    timed = """
CREATE STREAMING TABLE sales (customer STRING, amount INT, at TIMESTAMP)
  USING kafka TBLPROPERTIES ('subscribe' = '@sales', 'metadata.timestamp' = 'at');
CREATE MATERIALIZED VIEW times TBLPROPERTIES ('topic' = '@times', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, max(at) AS last FROM sales GROUP BY customer;
"""
    before, now = play.resolve(project(), conf), play.resolve(project(where="WHERE n > 3", more=timed), conf)
    play.run(before)
    play.send("clicks", clicks(60, 60))
    with arm(CrashOrder("switch.ready", "raise", visit=1)), play.running(before) as run:
        ask_to_begin(run, now)
        run_ended(run)
    with play.running(before) as run:
        wait_until_settled(run)
        play.send("sales", [{"customer": "c2", "amount": 4}], timestamp=1_100_000_000_000)
        where = TopicPartition(play.prefix + "sales", 0)
        wait_until(lambda: run.fault is not None or play.log(now).next_offsets[where] == 2)
    assert run.fault is None, run.fault
    play.run(now)
    times = {json.loads(m.value or b"{}")["customer"]: json.loads(m.value or b"{}")["last"] for m in play.read("times")}
    assert times == {"c1": "2001-09-09T01:46:40.000Z", "c2": "2004-11-09T11:33:20.000Z"}
    play.check(now, ["by_page", "many"])


BY_PATTERN = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, functions as F

@@dp.materialized_view(table_properties={{"topic": "@by_value", "mode": "upsert", "key": "value"}})
def by_value() -> DataFrame:
    rows = spark.read.format("kafka").option("subscribePattern", "@c.*").load().selectExpr("CAST(value AS STRING) AS value")
    return rows.where("value <> '{without}'").groupBy("value").agg(F.count("*").alias("n"))
"""


@pytest.mark.long
def test_a_topic_that_joins_a_pattern_is_read_again_too(play: Playground) -> None:
    """It has joined at a start, and no step has read of it."""
    play.topic("c1")
    play.send("c1", ["a", "b", "a", "c"])
    before, now = (play.resolve({"project.py": BY_PATTERN.format(without=value)}, CONF) for value in ("c", "b"))
    play.run(before)
    play.topic("c2")
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        apply(run, now, hold=True)
        assert wait_until_it_stands_still(run)["phase"] == "held"
        play.send("c2", ["a", "d", "b"])
        run.wait_until(lambda shown: shown["lag"].get(f"{play.prefix}c2/0") == 0 and shown["rows"] == 3)
        ask(run, "switch")
        wait_until_settled(run)
    play.run(now)

    def values() -> dict[str, int | None]:
        rows = {json.loads(m.key or b"")["value"]: json.loads(m.value or b"null") for m in play.read("by_value")}
        return {value: row and row["n"] for value, row in rows.items()}

    expected = {"a": 3, "b": None, "c": 1, "d": 1}
    with suppress(AssertionError):  # a reader may see the end of the topic before the last transaction ends there
        wait_until(lambda: values() == expected)
    assert values() == expected, run.board.show()["transition_last"]


@pytest.mark.long
def test_a_topic_that_only_the_next_project_reads_and_that_goes_leaves_the_old_one(play: Playground) -> None:
    """The run goes on, also after a restart."""
    play.topic("clicks")
    play.topic("people")
    play.topic("sales")
    play.send("clicks", clicks(0, 60))
    play.send("sales", [{"customer": f"c{i % 13}", "amount": i} for i in range(50)])
    before, now = play.resolve(project(), CONF), play.resolve(project(more=SALES), CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now, hold=True)
        assert wait_until_it_stands_still(run)["phase"] == "held"
        play.delete_topic("sales")
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "detached")
        play.send("clicks", clicks(60, 20))
        where = TopicPartition(play.prefix + "clicks", 0)
        wait_until(lambda: run.fault is not None or play.log(before).next_offsets[where] == 80)
    with play.running(before) as run:
        assert wait_until_it_stands_still(run)["phase"] == "detached"
        ask(run, "abort")
        wait_until_settled(run)
    play.check(before)


@pytest.mark.long
def test_a_topic_that_was_made_anew_meanwhile_leaves_the_old_project(play: Playground) -> None:
    """The new one has more messages than were read, so that all offsets are there."""
    for name in ("clicks", "people", "sales"):
        play.topic(name)
    play.send("clicks", clicks(0, 60))
    play.send("sales", [{"customer": f"c{i % 13}", "amount": i} for i in range(4000)])
    before, now = play.resolve(project(), CONF), play.resolve(project(more=SALES), CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        apply(run, now)
        run.wait_until(lambda shown: shown["transition"]["phase"] == "filling" and shown["transition"]["filled"] > 0)
        ask(run, "pause")
        run.wait_until(lambda shown: shown["transition"]["is_paused"])
        play.delete_topic("sales")
        play.topic("sales")
        play.send("sales", [{"customer": f"c{i % 13}", "amount": -1} for i in range(4000)])
        ask(run, "resume")
        assert "sales was deleted and created again" in str(wait_until_it_stands_still(run))
        ask(run, "abort")
        wait_until_settled(run)
    play.run(before)
    play.check(before)


@pytest.mark.long
def test_a_topic_that_goes_between_the_switch_and_its_step_leaves_the_old_project(play: Playground) -> None:
    """The run is down meanwhile, and no start may need the topic."""
    play.topic("clicks")
    play.topic("people")
    play.topic("sales")
    play.send("clicks", clicks(0, 60))
    play.send("sales", [{"customer": f"c{i % 13}", "amount": i} for i in range(50)])
    before, now = play.resolve(project(), CONF), play.resolve(project(more=SALES), CONF)
    play.run(before)
    with arm(CrashOrder("switch.recorded", "raise")), play.running(before) as run:
        ask_to_begin(run, now)
        run_ended(run)
        run.fault = None
    play.delete_topic("sales")
    play.send("clicks", clicks(60, 20))
    with play.running(before) as run:
        found = wait_until_it_stands_still(run)
        assert "sales" in found["error"]
        ask(run, "abort")
        wait_until_settled(run)
    play.run(before)
    play.check(before)


@pytest.mark.long
def test_old_content_that_cannot_be_made_again_is_refused(play: Playground) -> None:
    """The view is kept and holds no rows. A column of its output gets the name that another one had, so the rows are compared with
    those that were written, and their messages have expired."""
    play.topic("clicks")
    play.topic("people")
    play.send("clicks", clicks(0, 60))
    before = play.resolve(project(), CONF)
    play.run(before)
    play.topics.delete_below({TopicPartition(play.prefix + "clicks", 0): 30})
    text = project()["project.sql"].replace(
        "SELECT customer, n FROM STREAM", "SELECT n AS customer, customer AS n FROM STREAM"
    )
    now = play.resolve({"project.sql": text}, CONF)
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        with pytest.raises(TransitionRefused, match="30 offsets are missing"):
            apply(run, now)
        play.send("clicks", clicks(60, 10))
        run.wait_until(lambda shown: shown["rows"] == 10)


def run_ended(run: Running) -> None:
    run.thread.join(ORDER_SECONDS)
    assert not run.thread.is_alive()
    run.fault = None
