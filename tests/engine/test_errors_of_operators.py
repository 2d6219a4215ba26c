"""Every operator that evaluates something of the user's counts its error rows, over any history of insertions and retractions.

Two facts are held for each: rows are in error exactly if the definition fails for the content, and as soon as there is none the output is what
it would be if there had never been one. The second is seen beside a fresh operator that gets the whole content at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError
from engine.model.aggregates import AggregateCall
from engine.model.circuit import Node, Recursion
from engine.model.event_time import ClosingAggregate, TimedJoin
from engine.model.joins import Join, OuterJoin, SemiJoin
from engine.model.node import Expression, NodeBase
from engine.model.ordered import SortKey, Window, WindowCall, WindowFrame
from engine.model.rows import Map
from engine.operators.error_rows import ErrorRows
from engine.operators.recursion import LevelLimit, RowLimit
from engine.operators.table import OPERATORS, operator_of
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.every_kind import every_kind
from tests.engine.test_event_time import GROUPS, table, told
from tests.engine.test_event_time import TYPES as TIMED
from tests.engine.test_recursion import BODIES, LEVELED, ROW, SOURCES, column, defined
from tests.engine.zsets import TYPES, Rows, histories, plus, to_rows, to_table
from tests.examples import examples

LONG, TEXT = TYPES


class Alone:
    """An operator that runs alone. `errors`: None if the step does not count them, and an error is raised."""

    def __init__(self, node: NodeBase, inputs: Sequence[Sequence[pa.DataType]], *, counts: bool = True) -> None:
        self.node, self.types, self.store = node, inputs, DictStore()
        self.errors: ErrorRows | None = ErrorRows() if counts else None
        self.contents: list[Rows] = [Counter() for _ in inputs]
        self.content: Rows = Counter()
        self._step = 0

    def step(self, *changes: Rows) -> None:
        errors = None if self.errors is None else ErrorRows()
        context = context_of(self.node, self.store, self._step, errors=errors)
        operate = operator_of(self.node).step
        assert operate is not None
        made = operate(self.node, [to_table(rows, t) for rows, t in zip(changes, self.types, strict=True)], context)
        if self.errors is not None and errors is not None:
            self.errors = self.errors.plus(errors)
        self.contents = [plus(old, change) for old, change in zip(self.contents, changes, strict=True)]
        self.content = plus(self.content, to_rows(made))
        self._step += 1

    @property
    def is_in_error(self) -> bool:
        assert self.errors is not None
        return not self.errors.is_nothing

    def check(self) -> None:
        """Against a fresh operator that gets the content at once. Where that raises, there are error rows."""
        fresh = Alone(self.node, self.types, counts=False)
        try:
            fresh.step(*self.contents)
        except DataError as error:
            assert error.is_of_rows and self.is_in_error and self.errors is not None
            assert self.errors.rows > 0 and self.errors.example
        else:
            assert not self.is_in_error
            assert self.content == fresh.content
        assert all(weight > 0 for weight in self.content.values())


def test_an_operator_that_counts_is_here_or_in_test_error_rows() -> None:
    """A new operator with `counts_errors` needs a test that its error rows come and go. Outputs have theirs in test_rows_without_message.py."""
    nodes = every_kind().nodes
    elsewhere = {"Map", "PythonMap", "ScalarValue", "ScalarMap", "Aggregate", "FinalAggregate", "View", "Output"}
    here = {type(node).__name__ for node in [*JOINS.values(), *WINDOWS, _recursion(9), GROUPS, MET]}
    counting = {type(node).__name__ for node in nodes if operator_of(node).output.counts_errors(node)}
    assert counting <= here | elsewhere
    assert {operator.node.__name__ for operator in OPERATORS} >= here | elsewhere


# Joins

HARD = Expression("CASE WHEN c0 + c2 = 2 THEN error('[DIVIDE_BY_ZERO] two') ELSE c0 >= c2 END", pa.bool_())
PAIR = (*TYPES, *TYPES)
JOINS: dict[str, Node] = {
    "join": Join((0, 1), PAIR, (1,), (1,), (False,), HARD),
    "left join": OuterJoin((0, 1), PAIR, False, (1,), (1,), (False,), HARD),
    "left join of null-safe keys": OuterJoin((0, 1), PAIR, False, (1,), (1,), (True,), HARD),
    "full join": OuterJoin((0, 1), PAIR, True, (1,), (1,), (False,), HARD),
    "full join without keys": OuterJoin((0, 1), PAIR, True, (), (), (), HARD),
    "subquery for each row": OuterJoin((0, 1), PAIR, False, (1,), (1,), (False,), HARD, True),
    "semi join": SemiJoin((0, 1), TYPES, False, (1,), (1,), (False,), HARD),
    "anti join": SemiJoin((0, 1), TYPES, True, (1,), (1,), (False,), HARD),
    "anti join without keys": SemiJoin((0, 1), TYPES, True, (), (), (), HARD),
}


def pairs_in_error(node: Node, left: Rows, right: Rows) -> int:
    assert isinstance(node, Join | OuterJoin | SemiJoin)
    found = 0
    for (x, a), n in left.items():
        for (y, b), m in right.items():
            met = not node.left_key or (a == b and (a is not None or node.null_safe[0]))
            found += n * m * (met and x is not None and y is not None and x + y == 2)  # type: ignore[operator]
    return found


def negated(rows: Rows) -> Rows:
    return Counter({row: -weight for row, weight in rows.items()})


def _single(node: Node) -> bool:
    return isinstance(node, OuterJoin) and node.single


@pytest.mark.parametrize("name", JOINS)
@settings(deadline=None, max_examples=examples(25))
@given(st.data())
def test_pairs_for_which_a_condition_fails_are_counted(name: str, data: st.DataObject) -> None:
    node = JOINS[name]
    left, right = (data.draw(histories(steps_max=4)) for _ in range(2))
    length = max(len(left), len(right))
    both = [[*side, *[Rows()] * (length - len(side))] for side in (left, right)]
    alone = Alone(node, (TYPES, TYPES))
    for one, two in zip(*both, strict=True):
        alone.step(one, two)
        alone.check()
        assert alone.errors is not None
        if not _single(node):  # there, rows with several matches count too
            assert alone.errors.rows == pairs_in_error(node, *alone.contents)
    left_rows, right_rows = alone.contents
    for one, two in ((Rows(), negated(right_rows)), (Rows(), right_rows), (negated(left_rows), Rows())):
        alone.step(one, two)  # when the rows of one side leave, so do all their errors
        assert alone.is_in_error == (two == right_rows and pairs_in_error(node, *alone.contents) > 0) or _single(node)
        alone.check()


# Windows

MAX, MIN = 127, -128
NARROW = (pa.int64(), pa.int8(), pa.int64())
"""Partition, order, value."""
RANGES = [
    (low, high)
    for low in (None, -40, -3, 0, 2, 30)
    for high in (None, -40, -3, 0, 2, 30)
    if (low is None or high is None or low <= high) and (low, high) != (None, None)
]
HUGE = 1 << 62
WINDOWS = [
    Window(
        (0,), (*NARROW, LONG, LONG), (0,), (SortKey(1, ascending, nulls_first),),
        (WindowCall("count", None, frame, LONG), WindowCall("sum", 2, frame, LONG)),
    )
    for ascending, nulls_first in ((True, True), (True, False), (False, False), (False, True))
    for frame in [*(WindowFrame("range", low, high) for low, high in RANGES), WindowFrame("rows", -1, 1), WindowFrame("rows", None, 0)]
]  # fmt: skip
NUMBERED = st.tuples(
    st.sampled_from([0, 1]),
    st.sampled_from([None, MIN, MIN + 2, MIN + 35, -1, 0, 3, MAX - 31, MAX - 30, MAX - 2, MAX - 1, MAX]),
    st.sampled_from([None, 1, 5, HUGE, -HUGE]),
)


class Overflow(Exception):
    """Spark raises."""


def added(value: int | None, distance: int, ascending: bool) -> int | None:
    if value is None:
        return None
    moved = value + (distance if ascending else -distance)
    if distance and not MIN <= moved <= MAX:
        raise Overflow
    return moved


def walked(node: Window, rows: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    """The frames of the rows of one partition in order, as Spark's WindowFunctionFrame classes go through them. Raises Overflow where they
    do."""
    (by,) = node.order
    frame = node.calls[0].frame
    values = [row[1] for row in rows]

    def rank(value: int | None) -> tuple[int, int]:
        if value is None:
            return (0 if by.nulls_first else 2, 0)
        return 1, value if by.ascending else -value

    def above_low(i: int, j: int) -> bool:
        assert frame.low is not None
        return rank(values[i]) >= rank(added(values[j], int(frame.low), by.ascending))

    def within_high(i: int, j: int) -> bool:
        assert frame.high is not None
        return rank(values[i]) <= rank(added(values[j], int(frame.high), by.ascending))

    frames, count = [], len(rows)
    low = high = 0
    for j in range(count):
        if frame.high is None:  # UnboundedFollowingWindowFunctionFrame
            while low < count and not above_low(low, j):
                low += 1
            frames.append((low, count))
        elif frame.low is None:  # UnboundedPrecedingWindowFunctionFrame
            while high < count and within_high(high, j):
                high += 1
            frames.append((0, high))
        else:  # SlidingWindowFunctionFrame, whose buffer is low to high
            while low < high and not above_low(low, j):
                low += 1
            while high < count and within_high(high, j):
                if low == high and not above_low(high, j):
                    low += 1
                elif low != high:
                    above_low(high, j)
                high += 1
            frames.append((low, high))
    return frames


def expected(node: Window, content: Rows) -> Rows | None:
    """The output; None if Spark raises."""
    result: Rows = Counter()
    (by,) = node.order
    frame = node.calls[0].frame
    for key in (0, 1):
        some = [row for row, weight in content.items() for _ in range(weight) if row[0] == key]
        known = sorted((r for r in some if r[1] is not None), key=lambda r: r[1], reverse=not by.ascending)
        nulls = [r for r in some if r[1] is None]
        rows = [*nulls, *known] if by.nulls_first else [*known, *nulls]
        try:
            frames = walked(node, rows)
        except Overflow:
            return None
        for row, (low, high) in zip(rows, frames, strict=True):
            values = [r[2] for r in rows[low:high] if r[2] is not None]
            if not -(1 << 63) <= sum(values) < 1 << 63:
                return None
            result[(*row, high - low, sum(values) if values else None)] += 1
    assert frame.unit == "range"
    return result


@settings(deadline=None, max_examples=examples(400))
@given(
    st.sampled_from([node for node in WINDOWS if node.calls[0].frame.unit == "range"]),
    st.lists(st.lists(NUMBERED, max_size=7), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_rows_whose_frame_or_sum_exceeds_a_type_are_counted(node: Window, steps: list[list[Any]], dice: Any) -> None:
    alone = Alone(node, (NARROW,))
    for rows in steps:
        change: Rows = Counter(rows)
        for row in alone.contents[0].elements():
            if dice.random() < 0.4:
                change[row] -= 1
        alone.step(change)
        right = expected(node, alone.contents[0])
        assert alone.is_in_error == (right is None)
        if right is not None:
            assert alone.content == right
        alone.check()
    alone.step(negated(alone.contents[0]))
    assert not alone.is_in_error and not alone.content


@settings(deadline=None, max_examples=examples(60))
@given(
    st.sampled_from([node for node in WINDOWS if node.calls[0].frame.unit == "rows"]),
    st.lists(st.lists(NUMBERED, max_size=7), min_size=1, max_size=4),
)
def test_sums_of_rows_that_do_not_fit_are_counted_until_a_row_goes(node: Window, steps: list[list[Any]]) -> None:
    alone = Alone(node, (NARROW,))
    for rows in steps:
        alone.step(Counter(rows))
        alone.check()
    for row in list(alone.contents[0]):
        alone.step(Counter({row: -alone.contents[0][row]}))
        alone.check()
    assert not alone.is_in_error and not alone.content


# Recursions


def _recursion(levels_max: int, rows_max: int = 1000) -> Recursion:
    """Follows edges. It fails for the rows of two nodes whose numbers are equal, and at the level `levels_max`."""
    second = Expression("CASE WHEN c0 = c4 THEN error('[DIVIDE_BY_ZERO] a loop') ELSE c4 END", LONG)
    condition = Expression("c2 < 4", pa.bool_())
    body = (*SOURCES, BODIES["join"][0], Map((2,), LEVELED, condition, (column(0), second, column(2))))
    return Recursion((0, 1), ROW, body, levels_max, rows_max)


NODES = st.tuples(st.integers(0, 3), st.integers(0, 3))
EDGES = st.lists(NODES, max_size=4)


def looped(anchor: Rows, edges: Rows, levels: int) -> int:
    """The rows that the body fails for, level by level."""
    found, level = 0, Counter(anchor)
    for _ in range(levels):
        following: Rows = Counter()
        for (x, y), weight in level.items():
            for (a, b), many in edges.items():
                if a == y and x == b:
                    found += weight * many
                elif a == y:
                    following[x, b] += weight * many
        level = following
    return found


@pytest.mark.long
@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(EDGES, EDGES), min_size=1, max_size=4), st.sampled_from([2, 3, 9]), st.booleans())
def test_rows_that_a_recursion_fails_for_are_counted(
    steps: list[tuple[list[Any], list[Any]]], levels_max: int, takes_back: bool
) -> None:
    alone = Alone(_recursion(levels_max, rows_max=1 << 40), (ROW, ROW))  # few rows with high weights are many
    parts = [(Counter(one), Counter(two)) for one, two in steps]
    if takes_back:
        parts += [(negated(one), negated(two)) for one, two in parts]
    for one, two in parts:
        alone.step(one, two)
        alone.check()
        assert alone.errors is not None
        if levels_max == 9:  # the limit is never reached
            assert alone.errors.rows == looped(*alone.contents, 4)
            if not alone.is_in_error:
                assert alone.content == defined("join", *alone.contents, 4)
    assert not takes_back or (not alone.is_in_error and not alone.content)


def test_a_level_too_many_is_an_error_of_rows_and_rows_too_many_are_not() -> None:
    chain: Rows = Counter({(n, n + 1): 1 for n in range(10, 13)})
    alone = Alone(_recursion(3), (ROW, ROW))
    alone.step(Counter({(0, 10): 1}), chain)
    assert (
        alone.errors is not None and alone.errors.rows == 1 and "RECURSION_LEVEL_LIMIT_EXCEEDED" in alone.errors.example
    )
    alone.step(Rows(), Counter({(12, 13): -1}))
    assert not alone.is_in_error and len(alone.content) == 3
    assert LevelLimit.is_of_rows and not RowLimit.is_of_rows
    with pytest.raises(RowLimit):
        alone.step(Counter({(0, 1): 1000}), Rows())


# Event time

APART = Expression("10 // (c2 - c5) > 0", pa.bool_())
MET = TimedJoin((0, 1, 2), (*TIMED, *TIMED), (0,), (0,), (False,), APART, False, False, None, None, None, None)
SUMS = ClosingAggregate((0, 1), (*TIMED[:2], LONG), (0, 1), (AggregateCall("sum", 2, False, LONG),), 1)


def _ran(node: NodeBase, inputs: list[list[Any]], marks: tuple[int, int], store: DictStore, errors: Any) -> pa.Table:
    context = context_of(node, store, append_only=True, errors=errors)
    operate = operator_of(node).step
    assert operate is not None
    return operate(node, [*(table(rows, TIMED) for rows in inputs), told(*marks)], context)


def test_a_group_whose_sum_does_not_fit_counts_when_it_closes() -> None:
    store, errors = DictStore(), ErrorRows()
    rows = [("a", 5, HUGE), ("a", 5, HUGE), ("b", 5, 1), ("a", 6, 2)]
    assert not _ran(SUMS, [rows], (0, 1), store, errors).num_rows and errors.is_nothing
    made = _ran(SUMS, [[("a", 7, HUGE)]], (1, 6), store, errors)
    assert errors.rows == 1 and "does not fit BIGINT" in errors.example
    assert sorted(zip(made.column(0).to_pylist(), made.column(2).to_pylist(), strict=True)) == [("a", 2), ("b", 1)]
    assert _ran(SUMS, [[]], (6, 9), store, errors).num_rows == 1 and errors.rows == 1, "the group is closed"
    with pytest.raises(DataError, match="does not fit") as raised:
        fresh = DictStore()
        _ran(SUMS, [rows], (0, 9), fresh, None)
    assert raised.value.is_of_rows


def test_pairs_of_a_join_in_event_time_are_counted() -> None:
    store, errors = DictStore(), ErrorRows()
    assert operator_of(MET).output.counts_errors(MET)
    assert not _ran(MET, [[("a", 5, 3)], []], (0, 1), store, errors).num_rows
    made = _ran(MET, [[("b", 5, 1)], [("a", 5, 3), ("a", 6, 1), ("b", 6, 1)]], (1, 2), store, errors)
    assert errors.rows == 2 and made.num_rows == 1 and errors.example
    with pytest.raises(DataError):
        _ran(MET, [[("a", 5, 3)], [("a", 5, 3)]], (0, 1), DictStore(), None)


def test_a_join_without_a_condition_can_have_no_error_row_and_withholds_nothing() -> None:
    for node in (Join((0, 1), PAIR, (1,), (1,), (False,)), OuterJoin((0, 1), PAIR, False, (1,), (1,), (False,))):
        assert not operator_of(node).output.counts_errors(node)
