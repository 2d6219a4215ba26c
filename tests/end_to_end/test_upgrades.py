"""A release that computes something in another way goes on with the state of the one before: what it corrects is rebuilt, and the outputs get
what the correction changes.

The release before is this one with an operator that leaves rows out, or with a lower revision of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from coordinator.revisions.planned import Planned, plan_change
from coordinator.revisions.requests import ApplyRequest, TransitionRefused, TurnTransition
from coordinator.starting.errors import CircuitChanged, StateLost
from engine.analysis import release
from engine.errors import DataError
from engine.model.aggregates import Aggregate
from engine.model.joins import OuterJoin
from engine.model.node import NodeBase
from engine.operators import table
from engine.operators.context import StepContext
from engine.operators.descriptor import Operator
from faults.points import Crash, CrashOrder, Point, arm
from stepwell.inspection.query import query
from stepwell.inspection.recorded_revision import read_recorded
from stepwell.planning.revisions import document_of_project
from tests.end_to_end.harness import Playground, Resolved, wait_until
from tests.end_to_end.threads import threads
from tests.sampling import sampled

SQL = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE STREAMING TABLE payments (id BIGINT, paid INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@payments', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW unpaid TBLPROPERTIES ('topic' = '@unpaid', 'mode' = 'changelog') AS
  SELECT o.id, o.amount, p.paid FROM orders o LEFT JOIN payments p ON o.id = p.id AND p.paid >= o.amount;
CREATE MATERIALIZED VIEW often TBLPROPERTIES ('topic' = '@often', 'mode' = 'upsert', 'key' = 'amount') AS
  SELECT amount, count(*) AS n FROM unpaid GROUP BY amount;
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@{totals}', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer;
"""
FUNCTIONS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@@F.udf("string")
def greeting(name):
    return "to " + name

@@dp.materialized_view(table_properties={"topic": "@greeted", "mode": "upsert", "key": "id"})
def greeted():
    orders = spark.table("orders")
    return orders.select("id", greeting("customer").alias("text"))
"""
ODD = 7
"""Rows with this amount are left out by the release before."""
ORDER_SECONDS = 60


def files(totals: str = "totals", functions: str = FUNCTIONS) -> dict[str, str]:
    return {"project.sql": SQL.replace("{totals}", totals), "functions.py": functions}


def send(play: Playground, first: int, count: int, more: int = 0) -> None:
    """`more`: by which amounts are larger."""
    numbers = range(first, first + count)
    orders = (f'{{"id": {i}, "customer": "c{i * 7 % 13}", "amount": {(i * 31 + more) % 25}}}' for i in numbers)
    play.send("orders", [(f'{{"id": {i}}}', text) for i, text in zip(numbers, orders, strict=True)])
    play.send("payments", [(f'{{"id": {i}}}', f'{{"id": {i}, "paid": {i * 17 % 30}}}') for i in numbers if i % 3])


def send_and_resolve(play: Playground, workers: int = 1) -> Resolved:
    for topic in ("orders", "payments"):
        play.topic(topic, 3)
    send(play, 0, 120)
    return play.resolve(files(), conf(workers))


def conf(workers: int) -> dict[str, int | str]:
    return {"stepwell.workers": workers, "stepwell.checkpoint.interval": "1h"}


@contextmanager
def operators(**changed: Operator[OuterJoin] | Operator[Aggregate]) -> Iterator[None]:
    kinds: dict[str, type[NodeBase]] = {"joins": OuterJoin, "aggregates": Aggregate}
    with pytest.MonkeyPatch.context() as patch:
        known = {**table._BY_NODE_TYPE, **{kinds[name]: operator for name, operator in changed.items()}}
        patch.setattr(table, "_BY_NODE_TYPE", known)
        yield


def wrong_joins() -> Operator[OuterJoin]:
    """Of the release before."""
    right = table._BY_NODE_TYPE[OuterJoin]
    compute = right.step
    assert compute is not None

    def step(node: OuterJoin, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
        rows = compute(node, inputs, context)
        is_odd = pc.fill_null(pc.equal(rows.column(1), ODD), False)
        return rows.filter(pc.invert(is_odd))

    return replace(right, step=step)


def corrected_joins() -> Operator[OuterJoin]:
    return replace(table._BY_NODE_TYPE[OuterJoin], implementation_version=2)


def by_the_release_before(play: Playground, resolved: Resolved) -> None:
    with operators(joins=wrong_joins()):
        play.run(resolved)


def plan_of(play: Playground, now: Resolved) -> Planned:
    document = document_of_project(now.project, now.spec.circuit)
    found = read_recorded(now.project.project, document)
    return plan_change(found.document, document, found.facts, number=found.number)


def messages(play: Playground, *topics: str) -> list[int]:
    return [len(play.read(topic)) for topic in topics]


@pytest.mark.parametrize("workers", sampled([1, 3], 2))
def test_a_correction_is_made_and_everything_else_is_kept(play: Playground, workers: int) -> None:
    resolved = send_and_resolve(play, workers)
    by_the_release_before(play, resolved)
    written = messages(play, "unpaid", "often", "totals", "greeted")
    with operators(joins=corrected_joins()):
        with pytest.raises(CircuitChanged, match="operator OuterJoin in another way"):
            play.run(resolved)
        with pytest.raises(CircuitChanged, match="operator OuterJoin in another way"):
            play.run(resolved, on_change="keep")
        found = {view.name: view for view in plan_of(play, resolved).views}
        assert {name: view.kind for name, view in found.items()} == {
            "unpaid": "rebuilt",
            "often": "kept_gets_changes",
            "totals": "kept",
            "greeted": "kept",
        }
        assert found["unpaid"].why == "this version of Stepwell computes operator OuterJoin in another way"
        assert "until the switch it stands still" in found["unpaid"].remark
        play.run(resolved, on_change="apply")
        odd = sum(31 * i % 25 == ODD for i in range(120))
        assert odd and messages(play, "unpaid", "often", "totals", "greeted") == [
            written[0] + odd,
            written[1] + 1,
            *written[2:],
        ], "the outputs receive what the correction changes"
        send(play, 100, 60)
        play.run(resolved)
        play.check(resolved)
        play.check_steps(resolved)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("point", sampled(["plan.written", "program.adopted", "switch.recorded", "clear.inside"], 2))
def test_a_correction_that_is_broken_off_goes_on(play: Playground, point: Point, workers: int) -> None:
    """Steps with frozen nodes are run again with frozen nodes, and new input comes meanwhile."""
    resolved = send_and_resolve(play, workers)
    by_the_release_before(play, resolved)
    with operators(joins=corrected_joins()):
        send(play, 0, 60, more=1)  # rows go that the release before has not passed on
        with arm(CrashOrder(point, "raise")), pytest.raises(Crash):
            play.run(resolved, threads(), on_change="apply")
        send(play, 150, 30)
        phase = play.log(resolved).revisions.phase
        play.run(resolved, on_change="refuse" if phase is not None else "apply")
        play.run(resolved)
        play.check(resolved)
        play.check_steps(resolved)


@pytest.mark.long
def test_what_was_computed_in_another_way_and_not_stored_cannot_be_compared(play: Playground) -> None:
    """The state has sums, of which this release would make other rows than the one before."""
    resolved = send_and_resolve(play)
    play.run(resolved)
    revised = replace(table._BY_NODE_TYPE[Aggregate], implementation_version=2)
    with operators(aggregates=revised):
        refused = {each.subject: each for each in plan_of(play, resolved).refusals}
        assert refused.keys() == {"view totals", "view often"}
        assert refused["view totals"].code == "former_result"
        assert "another way, so it cannot be told what the view was" in refused["view totals"].reason
        assert refused["view totals"].way_out.startswith(
            "What it was is needed to tell what differs. Give the output another topic"
        )
        with pytest.raises(TransitionRefused, match="cannot be told what the view was"):
            play.run(resolved, on_change="apply")
        assert query(resolved.project, resolved.spec.circuit, "SELECT * FROM unpaid").rows.count() == 120
        with pytest.raises(DataError, match=r"view totals.*another version of Stepwell has computed it"):
            query(resolved.project, resolved.spec.circuit, "SELECT * FROM totals")
    play.run(resolved)
    play.check(resolved)


def test_functions_of_another_python_are_planned_again(play: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytecode cannot be run, and their results are compared."""
    resolved = send_and_resolve(play)
    play.run(resolved)
    written = messages(play, "greeted")
    monkeypatch.setattr(release, "_python_now", lambda: release.python_of(3, 99))
    with pytest.raises(CircuitChanged, match=r"planned by Python 3\.[0-9]+, and this is 3\.99"):
        play.run(resolved)
    send(play, 100, 30)  # while new nodes are filled
    play.run(resolved, on_change="apply")
    assert messages(play, "greeted") == [written[0] + 10], "the results of rows that were there are the same"
    send(play, 100, 60)
    play.run(resolved)
    play.check(resolved)


@pytest.mark.long
def test_steps_of_the_release_before_are_not_run_again(play: Playground) -> None:
    resolved = send_and_resolve(play)
    with operators(joins=wrong_joins()), arm(CrashOrder("output.committed", "raise")), pytest.raises(Crash):
        play.run(resolved)
    with (
        operators(joins=corrected_joins()),
        pytest.raises(StateLost, match="have to be run again as the former version has run them"),
    ):
        play.run(resolved, on_change="apply")
    by_the_release_before(play, resolved)
    with operators(joins=corrected_joins()):
        play.run(resolved, on_change="apply")
        play.check(resolved)


@pytest.mark.long
def test_an_abort_ends_the_run_for_nothing_could_go_on(play: Playground) -> None:
    resolved = send_and_resolve(play)
    by_the_release_before(play, resolved)
    with operators(joins=corrected_joins()), play.running(resolved, on_change="apply") as run:
        run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") in ("filling", "ready"))
        run.requests.revision.ask(TurnTransition("abort"), ORDER_SECONDS)
        wait_until(lambda: run.fault is not None)
        assert isinstance(run.fault, CircuitChanged) and "the revision in force cannot go on" in str(run.fault)
        run.fault = None
    by_the_release_before(play, resolved)
    with operators(joins=corrected_joins()):
        play.run(resolved, on_change="apply")
        play.check(resolved)


@pytest.mark.long
def test_a_transition_of_the_release_before_is_ended_by_it(play: Playground) -> None:
    resolved = send_and_resolve(play)
    by_the_release_before(play, resolved)
    moved = play.resolve(files(totals="moved"), conf(1))
    with operators(joins=wrong_joins()), play.running(resolved) as run:
        run.wait_until(lambda shown: shown["phase"] == "run")
        run.requests.revision.ask(ApplyRequest(moved.spec, True), ORDER_SECONDS)
        run.wait_until(lambda shown: shown["transition"]["phase"] == "held")
    with (
        operators(joins=corrected_joins()),
        pytest.raises(StateLost, match="a former version has begun the transition"),
    ):
        play.run(moved)
