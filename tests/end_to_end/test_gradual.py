"""A project changes while it runs, and what differs leaves in several steps."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordinator.revisions.choices import Chosen
from coordinator.revisions.requests import ApplyRequest, TransitionRefused, TurnTransition
from faults.points import ONCE_VARIABLE, VARIABLE, Crash, CrashOrder, arm
from io_kafka.step_log.records import decode
from io_kafka.step_log.revision_records import RevisionSwitch
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service, wait_until
from tests.end_to_end.test_choices import apply
from tests.end_to_end.test_reading_again import divisions
from tests.end_to_end.test_transitions import ORDER_SECONDS, is_in_force, orders, wait_until_settled

PROJECT = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE people (customer STRING, country STRING)
  USING kafka TBLPROPERTIES ('subscribe' = '@people', 'mode' = 'upsert', 'key' = 'customer');
CREATE MATERIALIZED VIEW by_order TBLPROPERTIES ('topic' = '@by_order', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT o.id, o.customer, country, amount * {factor} AS amount FROM orders o JOIN people p ON o.customer = p.customer;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'changelog') AS
  SELECT country, sum(amount) AS total, count(*) AS n FROM by_order GROUP BY country;
CREATE MATERIALIZED VIEW best AS SELECT country, total FROM totals WHERE total > 100;
CREATE STREAMING TABLE seen TBLPROPERTIES ('topic' = '@seen') AS SELECT customer, n FROM STREAM clicks WHERE n > {least};
CREATE STREAMING TABLE clicks (customer STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@clicks');
{more}
"""
TOP = """
CREATE MATERIALIZED VIEW top TBLPROPERTIES ('topic' = '@top', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, customer FROM orders WHERE amount > 5;
"""
BEFORE: dict[str, object] = {"factor": 1, "least": 90, "more": ""}
GRADUAL = Chosen(gradual=True)
ROWS = 30
"""Of what differs, in a step."""

CONF: dict[str, Any] = {"stepwell.switch.rows.max": ROWS, "stepwell.checkpoint.interval": "1h"}


def project(**changes: object) -> dict[str, str]:
    return {"project.sql": PROJECT.format(**{**BEFORE, **changes})}


def people(first: int, count: int) -> list[tuple[str, str]]:
    """Each with another country than in a call from another number on."""
    return [
        (f'{{"customer": "c{i}"}}', f'{{"customer": "c{i}", "country": "{"ABC"[(i + first) % 3]}"}}')
        for i in range(count)
    ]


def moved(first: int, count: int) -> list[tuple[str, str]]:
    """Orders of other customers than before."""
    return [
        (f'{{"id": {i}}}', f'{{"id": {i}, "customer": "c{(i + first) % 13}", "amount": {i * 17 % 50}}}')
        for i in range(count)
    ]


def begin(play: Playground, conf: dict[str, Any]) -> Resolved:
    for topic in ("orders", "people", "clicks"):
        play.topic(topic, 2)
    play.send("people", people(0, 13))
    play.send("orders", orders(0, 300))
    play.send("clicks", [{"customer": f"c{i % 13}", "n": i} for i in range(100)])
    former = play.resolve(project(), conf)
    play.run(former)
    return former


def drained_in(play: Playground, resolved: Resolved) -> list[int]:
    """The position after each step of the drain of the last transition."""
    switches = []
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        if b'"kind":"revision_switch"' in message.value:
            switches.append(decode(message.value, resolved.spec.log_topic, message.offset))
    last = switches[-1]
    assert isinstance(last, RevisionSwitch) and last.drain is not None
    found = {record.step: record.filled for record in divisions(play, resolved) if record.step >= last.step}
    return [filled for _, filled in sorted(found.items()) if filled is not None]


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_what_differs_leaves_in_several_steps(play: Playground, workers: int) -> None:
    """While the rows that differ change once more: orders go to other customers, and customers to other countries. An upsert topic whose key is
    not that by which its view lies, a kept reader, an append output and a new topic are all part of it."""
    conf = {**CONF, "stepwell.workers": workers}
    former = begin(play, conf)
    now = play.resolve(project(factor=2, least=20, more=TOP), conf)
    with play.running(former) as run:
        apply(run, now, GRADUAL, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        held = run.board.show()["transition"]
        assert "--hold" in held["held_because"] and held["choices"]["gradual"] and held["drained"] is None
        seen: list[float] = []
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        sent = 0

        def is_over() -> bool:
            nonlocal sent
            shown = run.board.show()
            if (under_way := shown["transition"]) is not None and under_way["drained"] is not None:
                seen.append(under_way["drained"])
                if sent < 3:
                    sent += 1
                    play.send("orders", moved(sent, 300))
                    play.send("people", people(sent, 13))
                if under_way["drained"] > 0 and sent == 2:
                    with pytest.raises(TransitionRefused, match=r"the transition is (draining|clearing), so abort"):
                        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
            return under_way is None

        wait_until(is_over)
        ended = run.board.show()["transition_last"]
        assert ended["outcome"] == "switched" and seen == sorted(seen) and sent
        assert ended["messages"] > 600, "of all steps of the drain"
    positions = drained_in(play, now)
    assert len(positions) > 600 // ROWS and positions == sorted(positions)
    record = play.log(now).revision
    assert record is not None and ended["step"] == record.step
    play.run(now)
    play.check(now)
    play.check_steps(now)


BROKEN_OFF: tuple[CrashOrder, ...] = (
    CrashOrder("log.committed", "raise", visit=3, after="switch.recorded"),
    CrashOrder("output.sent", "raise", after="switch.recorded"),
    CrashOrder("output.committed", "raise", visit=4, after="switch.recorded"),
    CrashOrder("stages.inside", "raise", visit=7, after="switch.recorded"),
    CrashOrder("clear.inside", "raise"),
)


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 3])
def test_a_drain_that_is_broken_off_goes_on_where_it_was(play: Playground, workers: int) -> None:
    """All steps since the beginning of the transition are replayed, and then the drain goes on at the recorded position."""
    conf = {**CONF, "stepwell.workers": workers}
    former = begin(play, conf)
    for number, order in enumerate(BROKEN_OFF, 2):
        now = play.resolve(project(factor=number, least=20, more=TOP), conf)
        with arm(order), play.running(former) as run:
            with suppress(TransitionRefused, Crash):
                apply(run, now, GRADUAL)
            wait_until(lambda run=run: run.fault is not None or run.board.show()["transition_last"] is not None)
            assert run.fault is None or isinstance(run.fault, Crash), run.fault
            run.fault = None
        assert order.visits >= order.visit, f"{order} is not obeyed"
        play.send("orders", moved(number, 100))
        play.send("people", people(number, 13))
        play.run(now)
        play.run(now)
        assert play.log(now).revisions.phase is None and is_in_force(play, now), order
        assert len(drained_in(play, now)) > 5
        play.check(now)
        former = now
    play.check_steps(former)


@pytest.mark.soak
def test_a_service_is_killed_in_the_middle_of_a_drain(play: Playground, tmp_path: Path) -> None:
    """Its files are those of the next project. What is not divided yet leaves in the next run, which is asked for nothing."""
    conf = {**CONF, "stepwell.workers": 2}
    begin(play, conf)
    now = play.resolve(project(factor=2, more=TOP), conf)
    options, log = ("--available-now", "--apply", "--gradual", "--take-over"), tmp_path / "service.log"
    ended = []
    for orders_ in ({VARIABLE: "switch.recorded>output.committed@4=kill", ONCE_VARIABLE: str(tmp_path)}, {}):
        with service(now, log, *options, **orders_) as process:
            ended.append(process.wait(WAIT_SECONDS_MAX))
        play.send("orders", moved(3, 100))
    assert ended == [-signal.SIGKILL, 0], log.read_text()[-3000:]
    assert play.log(now).revisions.phase is None and is_in_force(play, now)
    assert len(drained_in(play, now)) > 5
    play.run(now)
    play.check(now)
    play.check_steps(now)


PLACES = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW placed TBLPROPERTIES ('topic' = '@placed', 'mode' = 'upsert', 'key' = 'id') AS
  SELECT id, (id + {shift}) % 300 AS place, customer FROM orders;
CREATE MATERIALIZED VIEW places TBLPROPERTIES ('topic' = '@places', 'mode' = 'upsert', 'key' = 'place') AS
  SELECT place, id FROM placed;
"""


@pytest.mark.long
def test_a_view_in_which_old_and_new_rows_have_one_key_is_withheld_until_all_have_left(play: Playground) -> None:
    """In the new content as in the old one no two orders are at one place. In a part of both they are."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 300))
    former = play.resolve({"project.sql": PLACES.format(shift=0)}, CONF)
    play.run(former)
    now = play.resolve({"project.sql": PLACES.format(shift=7)}, CONF)
    with play.running(former) as run:
        apply(run, now, GRADUAL)
        run.wait_until(lambda shown: "places" in shown["in_error"])
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") in (None, "clearing"))
        run.wait_until(lambda shown: not shown["in_error"])
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["outcome"] == "switched"
    assert len(drained_in(play, now)) > 5
    play.run(now)
    play.check(now)
    play.check_steps(now)


@pytest.mark.long
def test_differences_of_one_row_and_of_none_leave_in_one_step(play: Playground) -> None:
    """A change that only looks different writes nothing, and ends."""
    former = begin(play, CONF)
    now = play.resolve(project(factor="CAST(1 AS INT)"), CONF)
    with play.running(former) as run:
        apply(run, now, GRADUAL)
        wait_until_settled(run)
        assert run.board.show()["transition_last"]["messages"] == 0
    assert ApplyRequest(now.spec, False).chosen.gradual is False
    play.run(now)
    play.check(now)
