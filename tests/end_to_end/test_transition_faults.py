"""What goes wrong in a transition, or beside it: rows in error, losses, aborts, and questions meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.checkpoints.view_queries import NoAnswer
from coordinator.revisions.requests import ApplyRequest, RevisionRequest, TurnTransition
from faults.points import Crash, CrashOrder, arm
from io_kafka.offsets import TopicPartition
from stepwell.service.client import ControlClient
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Running, service, wait_until
from tests.end_to_end.test_kafka_reader import project as reader_project

PROJECT = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT, note STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(amount) AS total, count(*) AS n FROM orders {where} GROUP BY customer;
CREATE MATERIALIZED VIEW notes TBLPROPERTIES ('topic' = '@notes', 'mode' = 'changelog') AS {notes};
"""
GOOD = "SELECT id, customer FROM orders"
CASTS = "SELECT id, CAST(note AS INT) AS n FROM orders"
FAILS = (
    "SELECT customer, total, CAST(concat(total, CASE WHEN total > 100 THEN 'x' ELSE '' END) AS BIGINT) AS n FROM totals"
)
CORRECTED = (
    "SELECT customer, total, total + 0 AS n FROM totals",
    "SELECT * FROM totals UNION ALL SELECT * FROM totals",
)
CONF = {"stepwell.checkpoint.interval": "1h"}
ASK_SECONDS = 60


def project(where: str = "", notes: str = GOOD) -> dict[str, str]:
    return {"project.sql": PROJECT.format(where=where, notes=notes)}


def orders(first: int, count: int, note: str = "1") -> list[tuple[str, str]]:
    return [
        (f'{{"id": {i}}}', f'{{"id": {i}, "customer": "c{i * 7 % 13}", "amount": {i * 31 % 50}, "note": "{note}"}}')
        for i in range(first, first + count)
    ]


def ask(run: Running, what: RevisionRequest) -> None:
    run.wait_until(lambda shown: shown["phase"] == "run" and shown["steps_run"] + shown["steps_replayed"] > 0)
    run.requests.revision.ask(what, ASK_SECONDS)


def wait_until_settled(run: Running) -> None:
    run.wait_until(lambda shown: shown["transition"] is None and shown["transition_last"] is not None)


def wait_until_held(run: Running) -> None:
    run.wait_until(lambda shown: shown["transition"] is not None and shown["transition"]["phase"] == "held")


def checkpoint(run: Running) -> None:
    version = run.board.show()["checkpoint_version"]
    run.requests.ask("checkpoint")
    run.wait_until(lambda shown: shown["checkpoint_version"] > version)


@pytest.mark.long
def test_workers_are_lost_after_the_transition_is_settled(play: Playground) -> None:
    """The step log has forgotten the transition by then."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 50))
    before = play.resolve(project(notes=CASTS), CONF)
    with play.running(before) as run:
        now = play.resolve(project(where="WHERE amount > 10", notes=CASTS), CONF)
        ask(run, ApplyRequest(now.spec, False))
        wait_until_settled(run)
        assert run.board.show()["revision"] == 2
        for at in (100, 200, 300):
            steps = run.board.show()["steps_run"]
            play.send("orders", orders(at, 5))
            run.wait_until(lambda shown, steps=steps: shown["steps_run"] > steps)
            checkpoint(run)
        play.send("orders", orders(400, 1, "x"))  # the step is divided again, and new workers are started
        run.wait_until(lambda shown: bool(shown["in_error"]))
    play.send("orders", orders(400, 1))
    play.run(now)
    play.check(now)


def test_a_replay_after_an_abort_leaves_the_error_rows_of_new_nodes_out(play: Playground) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 50))
    play.send("orders", orders(50, 3, "x"))
    before = play.resolve(project(), CONF)
    now = play.resolve(project(notes="SELECT id, customer, CAST(note AS INT) AS n FROM orders"), CONF)
    with arm(CrashOrder("turn.written", "raise")), play.running(before) as run:
        ask(run, ApplyRequest(now.spec, False))
        wait_until_held(run)
        assert "in error" in run.board.show()["transition"]["held_because"]
        run.requests.revision.ask(TurnTransition("abort"), ASK_SECONDS)
        wait_until(lambda: run.fault is not None)
        assert isinstance(run.fault, Crash)
        run.fault = None
    play.run(before)
    play.check(before)


@pytest.mark.long
@pytest.mark.parametrize("corrected", [pytest.param(CORRECTED[0], marks=pytest.mark.soak), CORRECTED[1]])
def test_a_corrected_view_is_released_with_what_its_output_has_kept(play: Playground, corrected: str) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 3))
    before = play.resolve(project(notes=FAILS), CONF)
    now = play.resolve(project(notes=corrected), CONF)
    play.run(before)
    with play.running(before) as run:
        play.send("orders", orders(3, 50))
        run.wait_until(lambda shown: bool(shown["in_error"]))
        play.send("orders", orders(60, 50))
        ask(run, ApplyRequest(now.spec, False))
        wait_until_settled(run)
        assert not run.board.show()["in_error"]
    play.run(now)
    play.check(now)


@pytest.mark.long
def test_a_question_after_a_crash_in_a_switch_is_answered_when_workers_know_the_revision(play: Playground) -> None:
    """The last checkpoint has the views of the former revision, which workers that were just started do not know."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 50))
    before = play.resolve(project(), CONF)
    now = play.resolve(project(where="WHERE amount > 10"), CONF)
    with arm(CrashOrder("switch.recorded", "raise")), play.running(before) as run:
        ask(run, ApplyRequest(now.spec, True))
        wait_until_held(run)
        checkpoint(run)
        run.requests.revision.ask(TurnTransition("switch"), ASK_SECONDS)
        wait_until(lambda: run.fault is not None)
        run.fault = None
    with play.running(before) as run:
        run.requests.ask("pause")
        run.wait_until(lambda shown: shown["phase"] == "paused")
        with pytest.raises(NoAnswer):
            run.requests.questions.ask(["totals"], 1.0)
        run.requests.ask("resume")
        wait_until_settled(run)
        assert run.requests.questions.ask(["totals"], 60.0).parts
        assert run.board.show()["recoveries"] == 0
    play.run(now)
    play.check(now)


PATTERN = """
@dp.temporary_view
def raw() -> DataFrame:
    return spark.read.format("kafka").option("subscribePattern", "@(refunds|retur[a-z]s)").load().select("topic", "value")

@dp.materialized_view
def counted() -> DataFrame:
    return spark.table("raw").groupBy("topic").agg(F.count("value").alias("n"))

@dp.materialized_view(table_properties={"topic": "@large", "mode": "changelog"})
def large() -> DataFrame:
    return spark.table("counted").where("n > BOUND")
"""


def test_the_topics_of_a_pattern_are_read_on(play: Playground) -> None:
    """The documents of a transition have the topics of the day on which it was planned."""
    play.topic("refunds")
    play.topic("returns")
    play.send("refunds", [("a", "x")] * 5)
    play.send("returns", [("a", "x")] * 3)
    before = reader_project(play, PATTERN.replace("BOUND", "4"))
    with play.running(before) as run:
        now = reader_project(play, PATTERN.replace("BOUND", "2"))
        ask(run, ApplyRequest(now.spec, False))
        wait_until_settled(run)
        steps = run.board.show()["steps_run"]
        play.send("refunds", [("a", "x")] * 7)
        run.wait_until(lambda shown: shown["steps_run"] > steps)
    play.send("refunds", [("a", "x")] * 2)
    play.run(now)
    messages = [(message.value or b"").replace(b" ", b"") for message in play.read("large")]
    assert any(b'refunds","n":14},"op":"c"' in message for message in messages), messages


UNENDING = """
from pyspark import pipelines as dp
from pyspark.sql.functions import udf

@@udf("bigint")
def unending(n):
    if n == 77:
        open("MARK", "w").close()
        while True:
            pass
    return n

@@dp.materialized_view(table_properties={"topic": "@unending", "mode": "upsert", "key": "id"})
def unending_orders():
    return spark.read.table("orders").select("id", unending("id").alias("n"))
"""


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_an_abort_ends_a_step_in_which_a_function_never_ends(play: Playground, tmp_path: Path, workers: int) -> None:
    """The worker uses CPU, so nothing but the abort says that it is to be given up. The revision in force goes on."""
    conf = {**CONF, "stepwell.workers": workers}
    play.topic("orders")
    play.send("orders", orders(0, 100))
    before = play.resolve(project(), conf)
    with service(before, tmp_path / "log") as process:
        client = ControlClient(before.project.project.state_folder)
        log = tmp_path / "log"
        wait_until(lambda: process.poll() is not None or "control at" in log.read_text())
        client.wait(lambda shown: bool(shown["rows"] == 100), WAIT_SECONDS_MAX)
        mark = tmp_path / "it loops"
        play.resolve({**project(), "views.py": UNENDING.replace("MARK", str(mark))}, conf)
        client.ask_revision("apply", {})
        wait_until(mark.exists)
        client.ask_revision("abort", {})
        client.wait(lambda shown: (shown["transition_last"] or {}).get("outcome") == "aborted", WAIT_SECONDS_MAX)
        play.send("orders", orders(100, 5))
        where = TopicPartition(play.prefix + "orders", 0)
        wait_until(lambda: play.log(before).next_offsets[where] == 105)
        client.ask("stop")
        assert process.wait(WAIT_SECONDS_MAX) == 0
    play.run(before)
    play.check(before)
