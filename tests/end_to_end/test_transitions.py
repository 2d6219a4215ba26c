"""A project changes while it runs: its new nodes are filled from state, and in one step the outputs receive what differs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.document import document_of
from coordinator.revisions.recorded_project import NothingRecorded
from coordinator.revisions.requests import ApplyRequest, TransitionRefused, TurnTransition
from coordinator.starting.errors import CircuitChanged
from engine.model.circuit import Circuit
from faults.points import TRANSITION, Crash, CrashOrder, Point, arm
from io_kafka.clients.plan_topic import read_plan
from io_kafka.step_log.revision_state import Clearing, Filling
from tests.end_to_end.harness import Playground, Resolved, Running, wait_until

PROJECT = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(amount) AS total, count(*) AS n FROM orders {where} GROUP BY customer;
CREATE MATERIALIZED VIEW large TBLPROPERTIES ('topic' = '@large', 'mode' = 'changelog') AS
  SELECT customer, total FROM totals WHERE total > {bound};
CREATE MATERIALIZED VIEW customers AS SELECT count(DISTINCT customer) AS n FROM orders;
{more}
"""
BEFORE = {"where": "", "bound": 100, "more": ""}
NEW_VIEW = """
CREATE MATERIALIZED VIEW best TBLPROPERTIES ('topic' = '@best', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, max(amount) AS top FROM orders GROUP BY customer;
"""
ORDER_SECONDS = 60


def project(**changes: object) -> dict[str, str]:
    return {"project.sql": PROJECT.format(**{**BEFORE, **changes})}


def orders(first: int, count: int) -> list[tuple[str, str]]:
    return [
        (f'{{"id": {i}}}', f'{{"id": {i}, "customer": "c{i * 7 % 13}", "amount": {i * 31 % 50}}}')
        for i in range(first, first + count)
    ]


def wait_until_settled(run: Running) -> None:
    run.wait_until(lambda shown: shown["transition"] is None and shown["transition_last"] is not None)


def apply(run: Running, now: Resolved, *, hold: bool = False) -> None:
    run.wait_until(lambda shown: shown["phase"] == "run")
    run.requests.revision.ask(ApplyRequest(now.spec, hold), ORDER_SECONDS)


def test_a_view_gets_another_filter_and_a_new_view_comes(play: Playground) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 200))
    before = play.resolve(project())
    with play.running(before) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        now = play.resolve(project(where="WHERE amount > 10", more=NEW_VIEW))
        apply(run, now)
        wait_until_settled(run)
        ended = run.board.show()["transition_last"]
        assert 0 <= ended["filling_s"] <= ended["seconds"] + 0.1, "both are rounded"
        play.send("orders", orders(150, 100))
    play.run(now)
    play.check(now)
    play.check_steps(now)


def test_an_abort_of_nothing_and_an_outdated_plan_are_refused(play: Playground) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 20))
    with play.running(play.resolve(project())) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        with pytest.raises(TransitionRefused, match="no transition is under way"):
            run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        seen = ApplyRequest(play.resolve(project(bound=7)).spec, False, expect_revision=3)
        with pytest.raises(TransitionRefused, match="revision 1 is in force now, and the plan was made for revision 3"):
            run.requests.revision.ask(seen, ORDER_SECONDS)


def ask_to_begin(run: Running, now: Resolved) -> None:
    """The run may be broken off before it answers."""
    with suppress(TransitionRefused, Crash):
        apply(run, now)


def apply_although_broken_off(play: Playground, former: Resolved, now: Resolved, *orders: CrashOrder) -> int:
    """Applies the project to a run that is broken off, goes on with what is recorded, and applies it again if nothing is. Returns how often a
    run was broken off."""
    broken = 0
    for order in orders:
        with arm(order), play.running(former) as run:
            ask_to_begin(run, now)
            wait_until(lambda: run.fault is not None or (run.board.show()["transition_last"] is not None))
            if run.fault is not None:
                assert isinstance(run.fault, Crash), run.fault
                broken += 1
            run.fault = None
        log = play.log(now)
        if log.revisions.phase is None and is_in_force(play, now):
            return broken
    if play.log(now).revisions.phase is None and not is_in_force(play, now):
        with play.running(former) as run:
            apply(run, now)
            wait_until_settled(run)
    return broken


def is_in_force(play: Playground, now: Resolved) -> bool:
    record = play.log(now).revision
    assert record is not None
    text = read_plan(play.settings, now.spec.plan_topic, record.plan)
    return document_of(text).circuit == now.spec.circuit


BREAKS: tuple[Point, ...] = (*TRANSITION, "stages.inside", "output.sent", "output.committed")
BREAKS_OF_SUITE: tuple[Point, ...] = (
    "program.adopted",
    "switch.recorded",
    "output.sent",
)
"""Behind each of them a start finds another record, other databases or an open transaction. tests/simulator breaks off at every point."""


NEVER = ("turn.written", "stages.inside")
"""No transition is turned here, and a worker that is broken off is only lost: the run goes on with another one."""


@pytest.mark.parametrize(
    ("workers", "points", "visits"),
    [
        pytest.param(3, BREAKS_OF_SUITE, (1,), marks=pytest.mark.soak),
        pytest.param(1, BREAKS, (1, 2), marks=pytest.mark.soak),
        pytest.param(3, BREAKS, (1, 2), marks=pytest.mark.soak),
    ],
)
def test_a_transition_that_is_broken_off_leaves_the_old_project_or_the_new_one(
    play: Playground, workers: int, points: tuple[Point, ...], visits: tuple[int, ...]
) -> None:
    """At each point, at its first visit and then at a later one, while messages come. After it the views are those of the project in force."""
    conf = {"stepwell.workers": workers, "stepwell.checkpoint.interval": "1h", "stepwell.step.rows.max": 20}
    play.topic("orders", 2)
    play.send("orders", orders(0, 200))
    former = play.resolve(project(), conf)
    play.run(former)
    for number, point in enumerate(points):
        play.send("orders", orders(10 * number, 60))
        now = play.resolve(project(where=f"WHERE amount > {number}", bound=100 + number), conf)
        broken = apply_although_broken_off(
            play, former, now, *(CrashOrder(point, "raise", visit=visit) for visit in visits)
        )
        assert broken or point in NEVER, f"{point} is not reached"
        play.run(now)
        play.run(now)
        log = play.log(now)
        assert log.revisions.phase is None and is_in_force(play, now), point
        play.check(now)
        former = now
    play.check_steps(former)


def test_an_abort_leaves_the_old_project(play: Playground) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    before = play.resolve(project())
    now = play.resolve(project(where="WHERE amount > 10", more=NEW_VIEW))
    with play.running(before) as run:
        apply(run, now, hold=True)
        run.wait_until(lambda shown: shown["transition"] is not None and shown["transition"]["phase"] == "held")
        shown = run.board.show()["transition"]
        assert [each["view"] for each in shown["differences"]] == ["totals"]
        with pytest.raises(TransitionRefused, match="is under way"):
            run.requests.revision.ask(ApplyRequest(now.spec, False), ORDER_SECONDS)
        run.requests.ask("pause")
        run.wait_until(lambda shown: shown["phase"] == "paused")
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        wait_until_settled(run)  # although the run is paused
        assert run.board.show()["phase"] == "paused"
        run.requests.ask("resume")
        assert run.board.show()["transition_last"]["outcome"] == "aborted"
        apply(run, now, hold=True)
        run.wait_until(lambda shown: shown["transition"] is not None and shown["transition"]["phase"] == "held")
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        run.wait_until(lambda shown: (shown["transition_last"] or {}).get("outcome") == "switched")
        wait_until(
            lambda: run.fault is not None or not (log := play.log(now)).revisions.is_to_pass_on(log.steps)
        )  # without input
    play.run(now)
    play.check(now)
    play.check_steps(now)


@pytest.mark.long
def test_a_start_applies_the_files_and_ends_with_what_is_there(play: Playground) -> None:
    """With `--available-now` too: it fills, switches, reads and ends."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    before, now = play.resolve(project()), play.resolve(project(where="WHERE amount > 10", more=NEW_VIEW))
    play.run(before, on_change="apply")
    assert is_in_force(play, before), "there was nothing to apply"
    play.send("orders", orders(100, 30))
    with pytest.raises(CircuitChanged, match="`stepwell run --apply`"):
        play.run(now)
    shown = play.run(now, on_change="apply")
    last = shown["transition_last"]
    assert last is not None and (last["outcome"], shown["revision"]) == ("switched", 2)
    assert is_in_force(play, now)
    play.check(now)
    play.run(now, on_change="apply")
    assert play.log(now).revisions.phase is None and play.log(now).revision is not None
    play.check_steps(now)


@pytest.mark.long
def test_a_start_that_is_refused_leaves_the_old_project(play: Playground) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 50))
    before = play.resolve(project())
    play.run(before)
    published = "'mode' = 'upsert', 'key' = 'customer') AS"
    now = play.resolve({"project.sql": project()["project.sql"].replace(published, "'mode' = 'changelog') AS")})
    with pytest.raises(TransitionRefused, match="totals"):
        play.run(now, on_change="apply")
    play.run(before)
    play.check(before)


@pytest.mark.long
def test_a_start_as_recorded_needs_no_files(play: Playground) -> None:
    """The definitions may be broken, or another project."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 50))
    before = play.resolve(project())
    nothing = replace(before, spec=replace(before.spec, circuit=Circuit(()), inputs=(), outputs=()))
    with pytest.raises(NothingRecorded, match="no recorded project"):
        play.run(nothing, on_change="keep")
    play.run(before)
    play.send("orders", orders(40, 50))
    shown = play.run(nothing, on_change="keep")
    assert shown["rows"] == 50
    play.check(before)
    play.check_steps(before)


STREAM = """
CREATE STREAMING TABLE {name} (id BIGINT, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@orders');
"""
TWO_SOURCES = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT o.customer, sum(o.amount) AS total, count(*) AS n FROM orders o JOIN {name} s ON o.id = s.id GROUP BY o.customer
  HAVING count(*) > {least};
CREATE MATERIALIZED VIEW sold TBLPROPERTIES ('topic' = '@sold', 'mode' = 'changelog') AS
  SELECT count(*) AS n, sum(amount) AS total FROM {name};
CREATE MATERIALIZED VIEW best TBLPROPERTIES ('topic' = '@best', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, max(amount) AS top FROM orders GROUP BY customer HAVING max(amount) > {least};
"""


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_two_sources_read_one_topic(play: Playground, workers: int) -> None:
    """One of them has the last row of each key, and one each message. That one is renamed, and then dropped."""

    def two(name: str, least: int) -> Resolved:
        stream = "" if name == "orders" else STREAM.format(name=name)
        text = stream + TWO_SOURCES.format(name=name, least=least)
        return play.resolve({"project.sql": text}, {"stepwell.workers": workers})

    play.topic("orders", 2)
    play.send("orders", orders(0, 100))
    with play.running(two("sales", 0)) as run:
        run.wait_until(lambda shown: shown["steps_run"] > 0)
        # What the transition before has differed in is not told of the next one, which has another number of views.
        for revision, (name, least) in enumerate((("sales", 8), ("deals", 9), ("orders", 7)), 2):
            now = two(name, least)
            apply(run, now)
            run.wait_until(lambda shown, to=revision: shown["revision"] == to and shown["transition"] is None)  # type: ignore[misc]
            play.send("orders", orders(30 * revision, 60))
    play.run(now)
    play.check(now)
    play.check_steps(now)


def stop_while_held(play: Playground, before: Resolved, now: Resolved) -> None:
    """A service is stopped while a transition to this project is held."""
    with play.running(before) as run:
        apply(run, now, hold=True)
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")


def test_another_change_is_refused_at_a_start_that_finds_a_transition(
    play: Playground,
) -> None:
    """The same change goes on, so a service that ends in the middle can be started with the same command again."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 60))
    before, now = play.resolve(project()), play.resolve(project(where="WHERE amount > 10"))
    another = play.resolve(project(where="WHERE amount > 20", more=NEW_VIEW))
    stop_while_held(play, before, now)
    for files, differs in ((another, r"view totals.*view best \(new\)"), (before, "view totals")):
        with pytest.raises(
            TransitionRefused, match=f"to revision 2 is under way.*what differs from that revision: .*{differs}"
        ) as refused:
            play.run(files, on_change="apply")
        assert "`stepwell run --as-recorded`" in refused.value.what_to_do
    with pytest.raises(TransitionRefused, match="begun without the choices of this run"):
        play.run(now, on_change="apply", chosen=Chosen(from_now=("orders",)))
    assert isinstance(play.log(now).revisions.phase, Filling), "a refused start has changed something"
    with capture_logs() as said:
        shown = play.run(another)  # it applies nothing, and says so
    assert any("the files have another project, which is not applied" in each["event"] for each in said), said
    assert shown["transition"]["phase"] == "held"
    for chosen in (NOTHING_CHOSEN, Chosen(gradual=True)):
        shown = play.run(now, on_change="apply", chosen=chosen)
        assert (shown["revision"], shown["transition"]["phase"]) == (1, "held")
    with play.running(now, on_change="apply") as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        run.requests.revision.ask(TurnTransition("switch"), ORDER_SECONDS)
        wait_until_settled(run)
    assert is_in_force(play, now)
    play.run(another, on_change="apply")
    assert is_in_force(play, another)
    play.check(another)
    play.check_steps(another)


@pytest.mark.parametrize("outcome", ["switched", "aborted"])
def test_a_start_applies_another_change_when_the_transition_that_it_finds_is_settled(
    play: Playground, outcome: str
) -> None:
    """Such a transition can turn no more, so nothing has to be decided."""
    play.topic("orders", 2)
    play.send("orders", orders(0, 60))
    before, now = play.resolve(project()), play.resolve(project(where="WHERE amount > 10"))
    another = play.resolve(project(where="WHERE amount > 20", more=NEW_VIEW))
    stop_while_held(play, before, now)
    with arm(CrashOrder("clear.inside", "raise")), play.running(now) as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")
        with suppress(TransitionRefused, Crash):
            run.requests.revision.ask(TurnTransition("switch" if outcome == "switched" else "abort"), ORDER_SECONDS)
        wait_until(lambda: run.fault is not None)
        assert isinstance(run.fault, Crash), run.fault
        run.fault = None
    phase = play.log(now).revisions.phase
    assert isinstance(phase, Clearing) and phase.is_switched == (outcome == "switched")
    shown = play.run(another, on_change="apply")
    assert shown["transition"] is None and is_in_force(play, another)
    play.check(another)
    play.check_steps(another)
