"""The views of the next revision are read before the switch: what Spark's batch answer of the next project is, or a refusal with the reason."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from base.version import VersionId
from coordinator.checkpoints.view_queries import NoAnswer
from coordinator.checkpoints.view_rows import tables_of
from coordinator.revisions.requests import ApplyRequest, TurnTransition
from examples.batch import batch_answer, compare
from stepwell.inspection.query import query_next
from stepwell.lowering.driver import lower
from tests.end_to_end.harness import Playground, Resolved, Running
from tests.end_to_end.test_transitions import orders
from tests.sampling import sampled

ASK_SECONDS = 60.0

PROJECT = """
CREATE STREAMING TABLE orders (id BIGINT, customer STRING, amount INT)
  USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', 'key' = 'id');
CREATE MATERIALIZED VIEW totals TBLPROPERTIES ('topic' = '@totals', 'mode' = 'upsert', 'key' = 'customer') AS
  SELECT customer, sum({amount}) AS total, count(*) AS n FROM orders {where} GROUP BY customer;
CREATE MATERIALIZED VIEW large AS SELECT customer, total FROM totals WHERE total > 100;
CREATE MATERIALIZED VIEW customers AS SELECT count(DISTINCT customer) AS n FROM orders;
CREATE MATERIALIZED VIEW ratios AS SELECT id, 100 / (amount - {minus}) AS ratio FROM orders;
{more}
"""
BEFORE: dict[str, object] = {"amount": "amount", "where": "", "minus": 1000, "more": ""}
NEW_VIEWS = """
CREATE MATERIALIZED VIEW best AS SELECT customer, max(amount) AS top FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW pairs AS SELECT o.id, t.total FROM orders o JOIN totals t USING (customer);
CREATE MATERIALIZED VIEW places AS SELECT customer, rank() OVER (ORDER BY total DESC) AS place FROM totals;
CREATE MATERIALIZED VIEW lonely AS SELECT o.id, l.total FROM orders o LEFT JOIN large l USING (customer);
CREATE MATERIALIZED VIEW all_customers AS SELECT n + 1 AS n FROM customers;
"""


def project(play: Playground, workers: int, **changes: object) -> Resolved:
    """Checkpoints are made when something asks for them."""
    conf = {"stepwell.workers": workers, "stepwell.checkpoint.interval": "1h", "stepwell.step.rows.max": 40}
    return play.resolve({"project.sql": PROJECT.format(**{**BEFORE, **changes})}, conf)


def apply_and_hold(run: Running, now: Resolved) -> None:
    run.wait_until(lambda shown: shown["phase"] == "run")
    run.requests.revision.ask(ApplyRequest(now.spec, True), ASK_SECONDS)
    run.wait_until(lambda shown: (shown["transition"] or {}).get("phase") == "held")


class Next:
    """Asks the running service for views of the next project `now`."""

    def __init__(self, play: Playground, run: Running, now: Resolved) -> None:
        self.play, self.run, self.now, self.circuit = play, run, now, lower(now.project)

    def read(self, names: list[str]) -> tuple[VersionId, list[pa.Table]]:
        rows = self.run.requests.questions.ask(names, ASK_SECONDS, self.circuit.fingerprint)
        return rows.version, [pa.ipc.open_stream(part).read_all() for part in tables_of(rows)]

    def check(self, *views: str) -> None:
        """They are Spark's batch answer of the next project over all that the service has read."""
        sources = {topic for source in self.now.project.sources for topic in source.topics}
        given = {topic: [m.as_input for m in those] for topic, those in self.play.read_all(sources).items()}
        expected = batch_answer(self.now.project, given)
        for view in views:
            found = query_next(self.now.project, self.circuit, f"SELECT * FROM {view}", self.read)  # type: ignore[arg-type]
            comparison = compare(view, found.rows, expected[view])
            assert comparison.equal and comparison.rows, str(comparison)

    def refused(self, view: str, why: str) -> None:
        with pytest.raises(NoAnswer, match=why) as raised:
            self.read([view])
        assert re.search(r"--next|--hold|abort", str(raised.value)), "it says what to do"


@pytest.mark.parametrize("workers", sampled([3, 1], 2))
def test_the_views_of_the_next_revision_are_its_batch_answer_before_the_switch(play: Playground, workers: int) -> None:
    play.topic("orders", 2)
    play.send("orders", orders(0, 200))
    before, now = project(play, workers), project(play, workers, where="WHERE amount > 10", more=NEW_VIEWS)
    with play.running(before) as run:
        asking = Next(play, run, now)
        asking.refused("best", "no transition is under way")
        apply_and_hold(run, now)
        asking.check("totals", "best", "pairs", "places", "customers", "all_customers")
        for view in ("large", "lonely"):
            asking.refused(view, f"view {view} is not yet what revision 2 says.* what changes in totals")
        read = run.board.show()["rows"]
        play.send("orders", [*orders(150, 100), ('{"id": 3}', None)])
        run.wait_until(lambda shown: shown["rows"] == read + 101)
        run.requests.ask("checkpoint")
        step = run.board.show()["step"]
        run.wait_until(lambda shown: shown["checkpoint_step"] > step)
        asking.check("totals", "best", "pairs", "all_customers")
        assert run.requests.questions.ask(["totals"], ASK_SECONDS).parts, "those of the revision in force are there too"
        Next(play, run, project(play, workers, where="WHERE amount > 11")).refused("totals", "another project")
        run.requests.revision.ask(TurnTransition("switch"), ASK_SECONDS)
        run.wait_until(lambda shown: shown["transition_last"] is not None)
        asking.refused("totals", "no transition is under way")
    now = project(play, workers, where="WHERE amount > 10", more=NEW_VIEWS)  # the files
    play.run(now)
    play.check(now)


@pytest.mark.long
def test_a_view_of_the_next_revision_that_is_in_error_has_no_answer_and_one_that_is_repaired_has(
    play: Playground,
) -> None:
    """The databases know the errors of the revision in force, whose views have the same names."""
    play.topic("orders", 1)
    play.send("orders", orders(0, 60))
    before = project(play, 2, minus=31)  # the order with id 1 has this amount
    with play.running(before) as run:
        repaired = project(play, 2, minus=2000, more=NEW_VIEWS)
        run.wait_until(lambda shown: "ratios" in shown["in_error"])
        apply_and_hold(run, repaired)
        Next(play, run, repaired).check("ratios", "best")
        run.requests.revision.ask(TurnTransition("abort"), ASK_SECONDS)
        run.wait_until(lambda shown: (shown["transition_last"] or {}).get("outcome") == "aborted")
        wrong = project(play, 2, minus=12, more=NEW_VIEWS)
        apply_and_hold(run, wrong)
        Next(play, run, wrong).refused("ratios", "raises for some of its rows")
        Next(play, run, wrong).check("best")
