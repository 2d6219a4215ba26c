"""Chains of projects: after each switch every view is Spark's batch answer of the project in force."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from engine.operators.table import OPERATORS
from tests.fuzz.cases import Case, Message, Run, Source, View
from tests.fuzz.edits import EDITS, Place, Types, with_rows_kept
from tests.fuzz.evolving import EvolvingJudge
from tests.fuzz.judge import Invalid, Judge, Wrong
from tests.fuzz.terms import Expr, Item, Joined, Named, Select
from tests.sampling import sampled

SEEDS = range(2)
ROUNDS_MAX = 5
SEEDS_OF_SOAK = range(1000, 2000)
SOURCES = (
    Source("t", (("t0", "bigint", True), ("t1", "string", True)), "changelog"),
    Source("u", (("u0", "bigint", False), ("u1", "string", True)), "upsert", ("u0",)),
)


@pytest.fixture(scope="module")
def judge(spark: SparkSession) -> EvolvingJudge:
    return EvolvingJudge(Judge(spark))


@pytest.mark.parametrize("seed", sampled(SEEDS, 2))
def test_a_random_chain_of_projects_has_sparks_answers(judge: EvolvingJudge, seed: int) -> None:
    """Some seeds make no project of Spark's, or publish a view in another way: then the next one takes its place."""
    for other in range(seed, seed + len(SEEDS) * ROUNDS_MAX, len(SEEDS)):
        try:
            judge.check(other)
            return
        except Invalid as error:
            invalid = error
    raise invalid


@pytest.mark.long
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_each_edit_of_a_view_has_sparks_answers(judge: EvolvingJudge, workers: int) -> None:
    """One project with a view for each edit, and a view that reads it where that is legal."""
    before = judge.told.transitions, judge.told.answers
    judge.check_pair(with_rows_kept(whole(workers), random.Random(5)), all_edited, seed=workers)
    assert judge.told.transitions == before[0] + 1 and judge.told.answers > before[1]


def whole(workers: int) -> Case:
    views = [view for number, name in enumerate(EDITS) for view in views_of(number, name)]
    steps = tuple(tuple(message(source.name, step, n) for source in SOURCES for n in range(6)) for step in range(4))
    run = Run((workers,) * len(steps), ("", "crash", "move", "crash"), 3, 1)
    return Case(1, SOURCES, tuple(views), steps, (run,), (1, 2, 3))


def views_of(number: int, name: str) -> list[View]:
    """`v`: the one that is edited. `r`: one that reads it."""
    items = tuple(Item(Expr(f"a.{column}", kind), column) for column, kind in (("t0", "bigint"), ("t1", "string")))
    on = (Expr("a.t0 = b.u0", "boolean"),)
    source = Joined(Named("t", "a"), Named("u", "b"), "INNER", on) if name == "join" else Named("t", "a")
    made = [View(f"v{number}", Select(items, source), "changelog")]
    if name not in ("no column", "join", "group"):
        count = (Item(Expr("q.t1", "string"), "t1"), Item(Expr("max(q.t0)", "bigint"), "most"))
        reading = Select(count, Named(f"v{number}", "q"), group=(Expr("q.t1", "string"),))
        made.append(View(f"r{number}", reading, "changelog"))
    return made


def message(source: str, step: int, number: int) -> Message:
    row = ((step + number) % 4, "abc"[number % 3])
    return Message(source, 0, "row" if source == "u" else "c", after=row, keyed=source == "u")


def all_edited(case: Case, types: Mapping[str, Types]) -> Case:
    chance = random.Random(0)
    for number, name in enumerate(EDITS):
        view = next(view for view in case.views if view.name == f"v{number}")
        made = EDITS[name](Place(case, view, types[view.name], chance))
        assert made is not None, f"{name}: the view cannot be edited"
        case = made
    return case


@pytest.mark.soak
def test_many_random_chains_have_sparks_answers(judge: EvolvingJudge) -> None:
    failed: list[str] = []
    for seed in SEEDS_OF_SOAK:
        try:
            judge.check(seed)
        except Invalid:
            continue
        except Wrong as wrong:
            failed.append(f"seed {seed}: {wrong}")
    assert not failed, "\n\n".join(failed)
    told = judge.told
    fed = {operator.node.__name__ for operator in OPERATORS if operator.state.fed is not None}
    assert told.edits.keys() >= EDITS.keys() and told.crashes and told.aborts
    assert told.fed.keys() >= fed, f"nothing was filled from {', '.join(sorted(fed - told.fed.keys()))}"
    assert told.transitions // 4 < told.read_again < told.transitions, "state goes first, and not everything is in it"
