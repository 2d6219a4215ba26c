"""Random projects: every view is Spark's batch answer after every step, whatever the workers, moves, restarts and crashes."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import get_args

import pytest
from pyspark.sql import SparkSession

from engine.model.circuit import ProjectNode, Recursion
from engine.model.clock import ClockValue, TemporalFilter
from engine.model.joins import Join, JoinPartials, OuterJoin
from engine.model.ordered import Sessions, TopK, Window
from engine.model.rows import Constant, Deduplicate, Distinct, Generate, PythonMap, Replicate
from tests.end_to_end.harness import Playground
from tests.engine.every_kind import OF_EVENT_TIME
from tests.fuzz.cases import Case, Form, Message, Run, Source, View
from tests.fuzz.compare import difference, one_of_each
from tests.fuzz.constructs import CONSTRUCTS
from tests.fuzz.expressions import template_of
from tests.fuzz.judge import Invalid, Judge, Wrong
from tests.fuzz.kept import kept, read, written
from tests.fuzz.reduce import described, reduced
from tests.fuzz.terms import Expr, Item, Named, Select
from tests.fuzz.whole import check_whole, for_whole

CONSTRUCTS_PER_SEED = 12
SEEDS = range(-(-len(CONSTRUCTS) // CONSTRUCTS_PER_SEED))
"""With which every construct is made once."""
SEEDS_OF_SUITE = SEEDS[::4]
"""The others are of the soak. A query with each construct alone is in test_against_spark.py."""
ROUNDS_MAX = 6
"""Of seeds in which a kind of node is looked for: most constructs are simplified to others now and then."""
MAKES: dict[type, str] = {
    Distinct: "distinct",
    Join: "inner join",
    OuterJoin: "left join",
    JoinPartials: "sums over a join",
    Window: "window function",
    TopK: "lateral limit",
    Sessions: "session_window(ts)",
    Deduplicate: "drop duplicates",
    Generate: "explode",
    PythonMap: "python function",
    Recursion: "recursion",
    Replicate: "intersect all",
    Constant: "values",
    TemporalFilter: "temporal filter",
    ClockValue: "value of the clock",
}
"""The construct from which a kind comes that not every random project has."""
SEEDS_OF_SOAK = range(1000, 2000)
WHOLE_SEEDS_OF_SOAK = range(5000, 5015)


@pytest.fixture(scope="module")
def judge(spark: SparkSession) -> Judge:
    return Judge(spark)


def featured(seed: int) -> tuple[str, ...]:
    return tuple(CONSTRUCTS)[seed * CONSTRUCTS_PER_SEED : (seed + 1) * CONSTRUCTS_PER_SEED]


def check(judge: Judge, case: Case, seconds: float) -> None:
    try:
        judge.check(case)
    except Wrong as wrong:
        small, found = reduced(case, wrong, judge.check, seconds)
        raise Wrong(found.kind, f"seed {case.seed}\n{described(small)}\n{found}") from wrong


@pytest.mark.parametrize(
    "seed", [seed if seed in SEEDS_OF_SUITE else pytest.param(seed, marks=pytest.mark.soak) for seed in SEEDS]
)
def test_a_random_project_has_sparks_answers(judge: Judge, seed: int) -> None:
    """After its last step: the soak compares three of them. One of a hundred seeds makes no project of Spark's: then the next one takes its
    place."""
    for other in range(seed, seed + len(SEEDS) * ROUNDS_MAX, len(SEEDS)):
        try:
            case = judge.case(other, featured(seed))
            check(judge, replace(case, compared=case.compared[-1:]), seconds=20)
            return
        except Invalid as error:
            invalid = error
    raise invalid


@pytest.mark.parametrize("name", kept())
def test_a_kept_project_has_sparks_answers(judge: Judge, name: str) -> None:
    check(judge, kept()[name], seconds=0)


NOT_GENERATED = OF_EVENT_TIME
"""Random projects have no streaming tables."""


@pytest.mark.long
def test_every_kind_of_node_is_generated(judge: Judge) -> None:
    """A kind of node that is never generated is never combined with the others: add a construct for it to `constructs`."""
    missing = set(get_args(ProjectNode)) - NOT_GENERATED
    for seed in range(len(SEEDS) * ROUNDS_MAX):
        if not missing:
            return
        wanted = tuple(MAKES[kind] for kind in MAKES if kind in missing)
        with suppress(Invalid):
            missing -= judge.kinds(judge.case(seed, wanted or featured(seed % len(SEEDS))))
    assert not missing, f"no seed has {', '.join(sorted(kind.__name__ for kind in missing))}"


@pytest.mark.soak
def test_many_random_projects_have_sparks_answers(judge: Judge) -> None:
    failed: list[str] = []
    for seed in SEEDS_OF_SOAK:
        try:
            check(judge, judge.case(seed), seconds=60)
        except Invalid:
            judge.tally.invalid += 1
        except Wrong as wrong:
            failed.append(str(wrong))
    assert not failed, "\n\n".join(failed)
    assert judge.tally.invalid < len(SEEDS_OF_SOAK) / 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", WHOLE_SEEDS_OF_SOAK)
def test_a_random_pipeline_has_sparks_answers_over_a_broker(judge: Judge, play: Playground, seed: int) -> None:
    """The same with topics, databases and a coordinator, which take seconds for each. In the suite, tests/end_to_end has projects of its own
    over a broker."""
    case = judge.runnable(judge.case(seed))
    case = for_whole(case)
    if not case.views:
        pytest.skip("nothing of this project runs")
    assert check_whole(play, case) > 0


# The fuzzer itself


def test_the_columns_of_a_template_are_its_operands() -> None:
    made = template_of("if(o, d, e) + abs(d) * element_at(arr, 1) || 'd {e}'", "double")
    assert made.text == "if({0}, {1}, {2}) + abs({1}) * element_at({3}, 1) || 'd {{e}}'"
    assert made.operands == ("boolean", "double", "double", "array<int>")


TYPES = {"a": "bigint", "d": "double"}


def test_rows_are_compared_exactly() -> None:
    def equal(ours: str, sparks: str, **loose: str) -> bool:
        return difference([ours], [sparks], TYPES, loose) == ([], [])

    assert equal('{"a":1,"d":"NaN"}', '{"a":1,"d":"NaN"}')
    assert not equal('{"a":1,"d":-0.0}', '{"a":1,"d":0.0}')
    assert equal('{"a":1,"d":-0.0}', '{"a":1,"d":0.0}', d="zero")
    assert not equal('{"a":1,"d":1.0000000000001}', '{"a":1,"d":1.0}')
    assert equal('{"a":1,"d":1.0000000000001}', '{"a":1,"d":1.0}', d="sum")
    assert not equal('{"a":1,"d":1.00000000001}', '{"a":1,"d":1.0}', d="sum")
    assert not equal('{"a":null,"d":1.0}', '{"a":0,"d":1.0}')
    assert difference(['{"a":1,"d":1.0}'] * 2, ['{"a":1,"d":1.0}'], TYPES, {})[0]


def test_one_row_of_each_key_is_any_of_sparks() -> None:
    sparks = ['{"a":1,"d":1.0}', '{"a":1,"d":2.0}', '{"a":2,"d":1.0}']
    assert one_of_each([sparks[1], sparks[2]], sparks, TYPES, ["a"]) == ([], [])
    assert one_of_each(sparks, sparks, TYPES, ["a"])[0]
    assert one_of_each(sparks[:1], sparks, TYPES, ["a"])[1]
    assert one_of_each(['{"a":2,"d":2.0}', sparks[0]], sparks, TYPES, ["a"])[0]


@pytest.mark.long
def test_where_spark_raises_the_view_has_to_raise_and_the_others_are_compared(spark: SparkSession) -> None:
    """The row on which one view fails comes in the second step, and a row that comes and goes in the first one fails only for us."""
    source = Source("t", (("t0", "bigint", True),), "changelog")

    def view(name: str, text: str) -> View:
        return View(name, Select((Item(Expr(text, "double"), "c0"),), Named("t", "a")), "changelog")

    def message(form: Form, value: int) -> Message:
        row = (value,)
        return Message("t", 0, form, *((row, None) if form == "d" else (None, row)))

    passing = (message("c", 5), message("d", 5))
    steps = ((message("c", 1), *passing), (message("c", 0),))
    views = (view("view0", "1 / a.t0"), view("view1", "1 / (5 - a.t0)"), view("view2", "a.t0 + 0.5D"))
    judge = Judge(spark)
    judge.check(Case(1, (source,), views, steps, (Run((2, 2), ("", "move")),), (0, 1)))
    assert judge.tally.raised == 1 and judge.tally.views == 2 and judge.tally.rows == 2 * (1 + 2)
    assert judge.tally.counted == 2, "view0 is in error after the second step, with the passing rows and without them"


def test_a_failing_case_is_made_smaller() -> None:
    """What fails needs two rows of one source in one view: all else goes."""
    columns = (("t0", "bigint", True), ("t1", "string", True))
    sources = (Source("t", columns, "changelog", partitions=2), Source("u", columns, "append"))
    query = Select(
        (Item(Expr("a.t0", "bigint"), "c0"), Item(Expr("a.t1", "string"), "c1")),
        Named("t", "a"),
        (Expr("{0} OR {1}", "boolean", (Expr("a.t0 > 1", "boolean"), Expr("true", "boolean"))),),
    )
    views = (View("view0", query, "changelog"), View("view1", query, "append"))
    step = tuple(Message(name, n % 2 if name == "t" else 0, "c", after=(n, "x")) for name in "tu" for n in range(5))
    runs = (Run((3,) * 3, ("", "move", "crash"), 2), Run((5,) * 3, ("", "", "restart")))
    case = Case(1, sources, views, (step, (), step), runs, (1, 2))

    def fails(tried: Case) -> None:
        rows = Counter(m.source for each in tried.steps for m in each)
        if rows["t"] >= 2 and any("t1" in view.query.sql for view in tried.views):
            raise Wrong("rows", "as expected")

    small, _ = reduced(case, Wrong("rows", ""), fails)
    assert len(small.views) == len(small.sources) == len(small.steps) == len(small.runs) == 1
    assert len(small.steps[0]) == 2
    assert small.views[0].query.sql == "SELECT a.t1 AS c1 FROM t a"
    assert small.runs[0] == replace(small.runs[0], workers=(1,), events=("",), bucket_rows=None)
    assert "CREATE MATERIALIZED VIEW view0" in described(small)
    assert read(written(case)) == case
