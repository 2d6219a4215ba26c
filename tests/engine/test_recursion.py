"""Recursion beside its definition, level by level, over random histories of graphs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.model.circuit import Node, Recursion
from engine.model.joins import Join, OuterJoin, SemiJoin
from engine.model.node import Expression
from engine.model.rows import Distinct, Map, Source
from engine.operators.context import StepContext
from engine.operators.recursion import LevelLimit, RowLimit
from engine.operators.table import operator_of
from engine.rows import zset
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.zsets import Rows, plus, to_rows, to_table
from tests.sampling import sampled

LONG = pa.int64()
ROW, LEVELED = (LONG, LONG), (LONG, LONG, LONG)
LEVELS_MAX, ROWS_MAX = 6, 100_000
SOURCES: tuple[Node, ...] = (
    Source((), LEVELED, "rows of a level", retracts=True),
    Source((), ROW, "input 1", retracts=True),
)


def column(index: int) -> Expression:
    return Expression(f"c{index}", LONG, index)


def _project(below: int, second: Expression, bound: int = 3) -> Map:
    condition = Expression(f"c2 < {bound}", pa.bool_())
    return Map((below,), LEVELED, condition, (column(0), second, column(2)))


JOIN = Join((0, 1), (*LEVELED, *ROW), (1,), (0,), (False,))
OUTER = OuterJoin((0, 1), (*LEVELED, *ROW), False, (1,), (0,), (False,))
LONELY = SemiJoin((0, 1), LEVELED, True, (1,), (0,), (False,))
NEXT = _project(2, column(4))
BODIES: dict[str, tuple[Node, ...]] = {
    "join": (JOIN, NEXT),
    "distinct": (JOIN, NEXT, Distinct((3,), LEVELED)),
    "outer join": (OUTER, _project(2, Expression("coalesce(c4, 4)", LONG))),
    "anti join": (LONELY, _project(2, Expression("(c1 + 1) % 5", LONG))),
    "two joins": (JOIN, NEXT, replace(JOIN, inputs=(3, 1)), _project(4, column(4))),
}


def _follow(rows: Rows, edges: Rows) -> Iterable[tuple[tuple[int, int], int]]:
    for (x, y), weight in rows.items():
        for (a, b), many in edges.items():
            if a == y:
                yield (x, b), weight * many


def _sum(pairs: Iterable[tuple[tuple[int, int], int]]) -> Rows:
    result: Rows = Counter()
    for row, weight in pairs:
        result[row] += weight
    return result


def _joined(rows: Rows, edges: Rows) -> Rows:
    return _sum(_follow(rows, edges))


def _outer(rows: Rows, edges: Rows) -> Rows:
    known = {a for a, _ in edges}
    return plus(_joined(rows, edges), _sum((((x, 4), n) for (x, y), n in rows.items() if y not in known)))


def _lonely(rows: Rows, edges: Rows) -> Rows:
    known = {a for a, _ in edges}
    return _sum((((x, (y + 1) % 5), n) for (x, y), n in rows.items() if y not in known))


TWINS: dict[str, Callable[[Rows, Rows], Rows]] = {
    "join": _joined,
    "distinct": lambda rows, edges: Counter(set(_joined(rows, edges))),
    "outer join": _outer,
    "anti join": _lonely,
    "two joins": lambda rows, edges: _joined(_joined(rows, edges), edges),
}


def defined(name: str, anchor: Rows, edges: Rows, bound: int = 3) -> Rows:
    result, level = Counter(anchor), Counter(anchor)
    for _ in range(bound):
        level = TWINS[name](level, edges)
        result = plus(result, level)
    return result


def node_of(name: str, levels_max: int = LEVELS_MAX, rows_max: int = ROWS_MAX) -> Recursion:
    node = Recursion((0, 1), ROW, (*SOURCES, *BODIES[name]), levels_max, rows_max)
    node.check([ROW, ROW])
    return node


def stepped(node: Recursion, inputs: list[pa.Table], context: StepContext) -> pa.Table:
    step = operator_of(node).step
    assert step is not None
    return step(node, inputs, context)


class Runner:
    def __init__(self, node: Recursion, *, append_only: bool = False) -> None:
        self.node, self.store, self.append_only = node, DictStore(), append_only
        self.anchor: Rows = Counter()
        self.edges: Rows = Counter()
        self.content: Rows = Counter()

    def step(self, anchor: Rows, edges: Rows) -> Rows:
        context = context_of(self.node, self.store, append_only=self.append_only)
        change = stepped(self.node, [to_table(anchor, ROW), to_table(edges, ROW)], context)
        assert change.schema.equals(zset.schema_of(ROW))
        self.anchor, self.edges = plus(self.anchor, anchor), plus(self.edges, edges)
        self.content = plus(self.content, to_rows(change))
        return to_rows(change)


def _change(chance: random.Random, present: Rows, *, grow: bool) -> Rows:
    change: Rows = Counter()
    for row in [] if grow else chance.sample(sorted(present.elements()), len(list(present.elements())) // 2):
        change[row] -= 1
    for _ in range(chance.randrange(4)):
        change[chance.randrange(5), chance.randrange(5)] += 1
    return Counter({row: weight for row, weight in change.items() if weight})


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("name", sampled(BODIES, 2))
def test_a_step_changes_what_the_levels_change(name: str, grow: bool) -> None:
    for seed in range(7):
        chance = random.Random(seed)
        runner = Runner(node_of(name), append_only=grow)
        for step in range(5):
            runner.step(_change(chance, runner.anchor, grow=grow), _change(chance, runner.edges, grow=grow))
            assert runner.content == defined(name, runner.anchor, runner.edges), (seed, step)


def test_an_edge_that_goes_takes_back_what_was_reached_by_it_and_nothing_else() -> None:
    runner = Runner(node_of("join"))
    runner.step(Counter({(0, 0): 1}), Counter({(0, 1): 1, (1, 2): 1, (2, 0): 1, (0, 2): 1}))
    assert runner.step(Counter(), Counter({(1, 2): -1})) == Counter({(0, 2): -1, (0, 0): -1})


def test_a_step_without_a_change_of_its_inputs_changes_nothing() -> None:
    runner = Runner(node_of("join"))
    runner.step(Counter({(0, 0): 1}), Counter({(0, 1): 1}))
    before = dict(runner.store.records)
    assert not runner.step(Counter(), Counter())
    assert runner.store.records == before


def test_a_level_beyond_the_limit_is_sparks_error() -> None:
    """A chain of as many edges as levels are allowed has a level too many."""
    chain = [(n, n + 1) for n in range(4)]
    runner = Runner(node_of("join", levels_max=4))
    runner.node = replace(runner.node, body=(*SOURCES, JOIN, _project(2, column(4), bound=99)))
    runner.step(Counter({(0, 0): 1}), Counter(chain[:3]))
    assert len(runner.content) == 4
    with pytest.raises(LevelLimit, match=r"RECURSION_LEVEL_LIMIT_EXCEEDED.* limit 4 "):
        runner.step(Counter(), Counter(chain[3:]))


def test_a_level_that_is_gone_at_the_end_of_the_step_is_no_error() -> None:
    runner = Runner(node_of("join", levels_max=4))
    runner.node = replace(runner.node, body=(*SOURCES, JOIN, _project(2, column(4), bound=99)))
    runner.step(Counter({(0, 0): 1}), Counter([(0, 1), (1, 2), (2, 3)]))
    runner.step(Counter(), Counter({(3, 4): 1, (0, 1): -1}))
    assert runner.content == Counter({(0, 0): 1})


def test_too_many_rows_are_sparks_error_before_they_fill_the_memory() -> None:
    """Two edges of every node to itself double the rows at each level, of which there could be a hundred."""
    runner = Runner(
        replace(node_of("join", levels_max=100, rows_max=1000), body=(*SOURCES, JOIN, _project(2, column(4), 99)))
    )
    with pytest.raises(RowLimit, match=r"RECURSION_ROW_LIMIT_EXCEEDED.* limit 1000 "):
        runner.step(Counter({(0, 0): 1}), Counter({(0, 0): 2}))


def test_another_worker_has_no_row() -> None:
    node = node_of("join")
    context = context_of(node, DictStore(), owns_keyless=False)
    assert stepped(node, [to_table(Counter(), ROW), to_table(Counter(), ROW)], context).num_rows == 0


def test_rows_of_many_steps_are_too_many_together() -> None:
    runner = Runner(node_of("join", rows_max=10))
    for step in range(9):
        runner.step(Counter({(step, 0): 1}), Counter())
    with pytest.raises(RowLimit, match="RECURSION_ROW_LIMIT_EXCEEDED"):
        runner.step(Counter({(9, 0): 1}), Counter())
