"""Sums before a join, compared with Python's integers. tests/stepwell/lowering compares whole queries with Spark."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.accumulators.integers import LIMB_MASK
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall, FinalAggregate
from engine.model.circuit import Circuit, Node, View
from engine.model.joins import Join, JoinPartials
from engine.model.node import Expression
from engine.model.rows import Map, Source
from engine.operators.context import StepContext
from engine.operators.partials import WEIGHT_MAX
from engine.operators.table import operator_of
from engine.state.store import DictStore
from stepwell.lowering.eager_aggregation import aggregate_early
from tests.engine.contexts import contexts_of
from tests.engine.zsets import Rows, plus, to_rows, to_table
from tests.examples import examples

LONG, WIDE = pa.int64(), pa.decimal128(38, 0)
EXTREME = 2**63 - 1


def circuit(value: pa.DataType) -> Circuit:
    """SELECT r.name, count(*), sum(l.value) FROM l(key, value) JOIN r(key, name) GROUP BY r.name, with sums before the join."""
    total = WIDE
    joined = (LONG, value, LONG, LONG)
    chosen = tuple(Expression(f"c{i}", joined[i], i) for i in (3, 1))
    calls = (AggregateCall("count", None, False, LONG), AggregateCall("sum", 1, False, total))
    nodes: list[Node] = [
        Source((), (LONG, value), "l", retracts=True),
        Source((), (LONG, LONG), "r", retracts=True),
        Join((0, 1), joined, (0,), (0,), (False,)),
        Map((2,), (LONG, value), None, chosen),
        Aggregate((3,), (LONG, LONG, total), (0,), calls),
        View((4,), (LONG, LONG, total), "v", ("name", "n", "total"), False),
    ]
    early = aggregate_early(Circuit(tuple(nodes)))
    assert [node.kind for node in early.nodes][2:5] == ["PartialAggregate", "JoinPartials", "FinalAggregate"]
    return early


class Steps:
    def __init__(self, value: pa.DataType) -> None:
        self.circuit, self.store, self.step = circuit(value), DictStore(), 0

    def context(self, index: int) -> StepContext:
        return contexts_of(self.circuit, self.store, self.step)(index)

    def run(self, left: Rows, right: Rows) -> Rows:
        """The change of the view. `made` has the changes of the nodes below it."""
        given_rows = {"l": left, "r": right}
        self.made: list[pa.Table] = []
        for index, node in enumerate(self.circuit.nodes):
            if isinstance(node, Source):
                self.made.append(to_table(given_rows[node.handle], node.types))
                continue
            context = self.context(index)
            step = operator_of(node).step
            assert step is not None
            self.made.append(step(node, [self.made[i] for i in node.inputs], context))
        self.step += 1
        return to_rows(self.made[-1])

    def stored_partials(self) -> pa.Table:
        index, node = next((i, n) for i, n in enumerate(self.circuit.nodes) if isinstance(n, JoinPartials))
        context = self.context(index)
        combines = ["carry" if carries else "sum" for carries in node.carries]
        return context.trace(0, [LONG], node.left_key, combines, [LONG] * len(combines)).scan()  # type: ignore[arg-type]


def answer(left: Rows, right: Rows) -> Rows:
    counts: Counter[Any] = Counter()
    sums: Counter[Any] = Counter()
    for (key, value), weight in left.items():
        for (other, name), times in right.items():
            if key == other and key is not None:
                counts[name] += weight * times
                sums[name] += weight * times * value
    return Counter({(name, n, Decimal(sums[name])): 1 for name, n in counts.items() if n})


LONGS = st.one_of(st.integers(-3, 3), st.sampled_from([EXTREME, -EXTREME - 1, 2**32, -(2**32), 2**31]))
LARGE = st.integers(-(10**30), 10**30)
KEYS = st.one_of(st.none(), st.integers(0, 2))


def changes(row: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Rows]]:
    """Four changes of a table. The last one retracts all rows."""
    steps = st.lists(st.lists(row, max_size=5), min_size=3, max_size=3)
    return steps.map(lambda lists: [*(rows := [Counter(rows) for rows in lists]), _taken_back(rows)])


def _taken_back(steps: list[Rows]) -> Rows:
    whole: Rows = Counter()
    for step in steps:
        whole = plus(whole, step)
    return Counter({row: -weight for row, weight in whole.items()})


@pytest.mark.long
@pytest.mark.parametrize(("value", "values"), [(LONG, LONGS), (WIDE, LARGE)])
def test_sums_over_a_join_are_exact_and_leave_nothing_behind(
    value: pa.DataType, values: st.SearchStrategy[Any]
) -> None:
    @settings(max_examples=examples(60))
    @given(changes(st.tuples(KEYS, values)), changes(st.tuples(KEYS, st.integers(0, 1))), st.booleans())
    def holds(lefts: list[Rows], rights: list[Rows], right_goes_first: bool) -> None:
        steps, left, right, content = Steps(value), Counter[Any](), Counter[Any](), Counter[Any]()
        if right_goes_first:
            lefts, rights = [Counter(), *lefts], [*rights, Counter()]
        for one, other in zip(lefts, rights, strict=True):
            left, right = plus(left, one), plus(right, other)
            content = plus(content, steps.run(one, other))
            assert content == answer(left, right)
        assert content == Counter()
        assert steps.stored_partials().num_rows == 0

    holds()


def test_a_history_is_one_partial_per_group_and_its_limbs_are_carried() -> None:
    steps = Steps(LONG)
    steps.run(Counter(), Counter({(1, 7): 1}))
    for _ in range(5):
        last = steps.run(Counter({(1, EXTREME): 3, (2, -1): 1}), Counter())
    assert last[(7, 15, Decimal(15 * EXTREME))] == 1
    stored = steps.stored_partials()
    assert stored.num_rows == 2
    low = stored.column("a2").to_numpy()
    assert ((low >= 0) & (low <= LIMB_MASK)).all()


def test_a_sum_that_no_double_holds_is_joined_with_a_row_of_high_weight() -> None:
    steps = Steps(LONG)
    steps.run(Counter({(1, EXTREME): 1, (1, -5): 1}), Counter())
    content = steps.run(Counter(), Counter({(1, 7): WEIGHT_MAX}))
    assert content == {(7, 2 * WEIGHT_MAX, Decimal((EXTREME - 5) * WEIGHT_MAX)): 1}


def test_limbs_whose_intermediate_sums_exceed_int64_are_added_exactly() -> None:
    steps = Steps(LONG)
    rows = Counter({(key, -1): 1 for key in range(3)})
    content = steps.run(rows, Counter({(key, 7): WEIGHT_MAX for key in range(3)}))
    assert content == {(7, 3 * WEIGHT_MAX, Decimal(-3 * WEIGHT_MAX)): 1}


def test_a_row_of_too_high_a_weight_is_refused_with_what_to_do() -> None:
    steps = Steps(LONG)
    with pytest.raises(DataError, match=f"is {WEIGHT_MAX + 1} times.*Remove duplicates"):
        steps.run(Counter({(1, 1): 1}), Counter({(1, 7): WEIGHT_MAX + 1}))


def test_a_replaced_row_makes_one_partial_whose_count_is_0() -> None:
    steps = Steps(LONG)
    steps.run(Counter({(1, 5): 1, (2, 6): 1}), Counter({(1, 7): 1}))
    changed = steps.run(Counter({(1, 5): -1, (1, 8): 1, (2, 6): -1, (2, 9): 1}), Counter())
    assert changed == {(7, 1, Decimal(5)): -1, (7, 1, Decimal(8)): 1}
    partials = steps.made[2]
    assert partials.num_rows == 2
    assert np.array_equal(partials.column("c1").to_numpy(), [0, 0])
    assert any(isinstance(node, FinalAggregate) for node in steps.circuit.nodes)
