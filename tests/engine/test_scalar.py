"""The value of a subquery, and the rows that read it, beside a slow twin: every row computed again with the value after the step.

Also what it costs: a step in which no value changes touches only the changed rows, and rows that lie by a key stay on their worker.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.stages import Channel, plan_stages
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.node import Expression
from engine.model.rows import Replicate, ScalarMap, ScalarValue, Source
from engine.operators import context as step_context
from engine.operators.linear import step_replicate
from engine.operators.scalar import TooManyRows, step_scalar_map, step_scalar_value
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.in_process import InProcess
from tests.engine.test_operators import run, twin
from tests.engine.zsets import ROWS, TYPES, Rows, histories, plus, to_rows, to_table

LONG, TEXT = TYPES
VALUE = ScalarValue((0,), (*TYPES, pa.bool_()))
PROJECTIONS = (
    Expression("c1", TEXT, 1),
    Expression("coalesce(c0, 0) + coalesce(c2, 0)", LONG),
    Expression("c4", LONG, 4),
)
MAP = ScalarMap((0, 1, 2), (TEXT, LONG, LONG), 2, Expression("c0 >= c2 OR c4 IS NULL", pa.bool_()), PROJECTIONS)
"""Two values, of two columns each: c2, c3 and c4, c5."""

Row = tuple[Any, ...]
NULLS: Row = (None, None)


def defined(rows: Rows, one: Row, other: Row) -> Rows:
    """What MAP stands for."""
    result: Rows = Counter()
    for (number, word), weight in rows.items():
        kept = other[0] is None or (number is not None and one[0] is not None and number >= one[0])
        if kept:
            result[word, (number or 0) + (one[0] or 0), other[0]] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


class Values:
    """A ScalarValue that is told, step by step, which row its input has. Each change also has a row that comes and goes."""

    def __init__(self) -> None:
        self.store, self.step, self.row = DictStore(), 0, None

    def becomes(self, row: Row | None) -> pa.Table:
        change = [
            *([(*self.row, -1)] if self.row else []),
            *([(*row, 1)] if row else []),
            (7, "gone", 1),
            (7, "gone", -1),
        ]
        columns = [pa.array([line[i] for line in change], kind) for i, kind in enumerate((*TYPES, LONG))]
        table = pa.Table.from_arrays(columns, ["c0", "c1", "weight"])
        told = step_scalar_value(VALUE, [table], context_of(VALUE, self.store, self.step))
        self.step, self.row = self.step + 1, row
        return told


OPTIONS = st.one_of(st.none(), ROWS)


@settings(deadline=None)
@given(histories(), st.lists(OPTIONS, min_size=5, max_size=5), st.lists(OPTIONS, min_size=5, max_size=5))
def test_rows_are_those_of_the_value_after_the_step(
    changes: list[Rows], ones: list[Row | None], others: list[Row | None]
) -> None:
    store, one, other = DictStore(), Values(), Values()
    content: Rows = Counter()
    whole: Rows = Counter()
    for step, change in enumerate(changes):
        told = [one.becomes(ones[step]), other.becomes(others[step])]
        made = step_scalar_map(MAP, [to_table(change, TYPES), *told], context_of(MAP, store, step))
        whole, content = plus(whole, change), plus(content, to_rows(made))
        assert content == defined(whole, ones[step] or NULLS, others[step] or NULLS)


@settings(deadline=None)
@given(st.lists(OPTIONS, min_size=1, max_size=5))
def test_a_value_is_told_in_every_step_and_twice_if_it_changes(rows: list[Row | None]) -> None:
    values, before = Values(), NULLS
    for row in rows:
        after = row or NULLS
        wanted: Rows = Counter({(*after, True): 1})
        if after != before:
            wanted[*before, False] = 1
        assert to_rows(values.becomes(row)) == wanted
        before = after


@pytest.mark.parametrize("rows", [{(1, "a"): 1, (2, "a"): 1}, {(1, "a"): 2}, {(None, None): 2}])
def test_two_rows_at_the_end_of_a_step_are_an_error(rows: dict[Row, int]) -> None:
    with pytest.raises(TooManyRows, match=r"SCALAR_SUBQUERY_TOO_MANY_ROWS.* has 2 rows"):
        step_scalar_value(VALUE, [to_table(Counter(rows), TYPES)], context_of(VALUE, DictStore()))


def test_a_second_row_is_an_error_while_the_first_one_stays() -> None:
    store = DictStore()
    step_scalar_value(VALUE, [to_table(Counter({(1, "a"): 1}), TYPES)], context_of(VALUE, store))
    with pytest.raises(TooManyRows):
        step_scalar_value(VALUE, [to_table(Counter({(2, "a"): 1}), TYPES)], context_of(VALUE, store, 1))


def test_without_a_new_value_a_step_computes_only_the_changed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    real = step_context.evaluate

    def counted(predicate: Any, projections: Any, rows: pa.Table) -> pa.Table:
        computed.append(rows.num_rows)
        return real(predicate, projections, rows)

    monkeypatch.setattr(step_context, "evaluate", counted)
    store, one, other = DictStore(), Values(), Values()
    many: Rows = Counter({(number, "a"): 1 for number in range(100)})
    few: Rows = Counter({(200, "b"): 1, (5, "a"): -1})
    for step, (change, value) in enumerate([(many, (50, "x")), (few, (50, "x")), (Counter(), (51, "x"))]):
        computed.clear()
        told = [one.becomes(value), other.becomes((1, "x"))]
        step_scalar_map(MAP, [to_table(change, TYPES), *told], context_of(MAP, store, step))
        assert sum(computed) == (100, 2, 2 * 102)[step]  # 102: the run of 100 rows, and that of 2 changes


def test_a_row_that_a_new_value_does_not_change_is_not_in_the_change() -> None:
    node = ScalarMap((0, 1), (LONG,), 2, Expression("c0 > c2", pa.bool_()), (Expression("c0", LONG, 0),))
    store, value = DictStore(), Values()
    rows: Rows = Counter({(number, "a"): 1 for number in range(10)})
    step_scalar_map(node, [to_table(rows, TYPES), value.becomes((3, ""))], context_of(node, store))
    made = step_scalar_map(node, [to_table(Counter(), TYPES), value.becomes((5, ""))], context_of(node, store, 1))
    assert made.num_rows == 2
    assert to_rows(made) == Counter({(4,): -1, (5,): -1})


def circuit_of_one_value() -> Circuit:
    """The groups of `t` with more rows than the one row of `v` says."""
    count = AggregateCall("count", None, False, LONG)
    grouped = Aggregate((0,), (TEXT, LONG), (1,), (count,))
    many = ScalarMap(
        (2, 3),
        (TEXT, LONG),
        2,
        Expression("c1 > c2", pa.bool_()),
        (Expression("c0", TEXT, 0), Expression("c1", LONG, 1)),
    )
    view = View((4,), (TEXT, LONG), "many", ("word", "n"), True, (0,))
    return Circuit(
        (
            Source((), TYPES, "t"),
            Source((), TYPES, "v", retracts=True),
            grouped,
            ScalarValue((1,), (*TYPES, pa.bool_())),
            many,
            view,
            Output((5,), (), "many", "upsert", ("word", "n"), (0,)),
        )
    )


def test_rows_that_lie_by_a_key_stay_on_their_worker_and_the_value_goes_to_all() -> None:
    planned = plan_stages(circuit_of_one_value())
    assert planned.arrivals[4] == (Channel(2, None), Channel(3, None, everyone=True))
    assert planned.colocation[4] == (0,)
    assert planned.arrivals[5] == (None,)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_an_error_of_two_rows_names_the_view_and_the_step(workers: int) -> None:
    machine = InProcess(circuit_of_one_value(), workers, {"many": 1})
    rows = to_table(Counter({(number, word): 1 for number in range(4) for word in "abc"}), TYPES)
    machine.step({"t": rows, "v": to_table(Counter({(3, "x"): 1}), TYPES)})
    with pytest.raises(DataError) as raised:
        machine.step({"v": to_table(Counter({(4, "x"): 1}), TYPES)})
    assert str(raised.value).startswith("view many, step 1: [SCALAR_SUBQUERY_TOO_MANY_ROWS]")


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_any_number_of_workers_has_the_rows_of_one(workers: int) -> None:
    def messages(number: int) -> list[list[tuple[Any, ...]]]:
        machine = InProcess(circuit_of_one_value(), number, {"many": 1})
        rows: Rows = Counter({(number, word): 1 for number in range(9) for word in "abcdefg"[: number + 1]})
        steps: list[dict[str, pa.Table]] = [
            {"t": to_table(rows, TYPES)},
            {"v": to_table(Counter({(3, "x"): 1}), TYPES)},
            {},
            {"v": to_table(Counter({(3, "x"): -1, (6, "x"): 1}), TYPES), "t": to_table(Counter({(0, "g"): 4}), TYPES)},
            {"v": to_table(Counter({(6, "x"): -1}), TYPES)},
        ]
        made = [machine.step(given)["many"] for given in steps]
        return [sorted(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in made]

    assert messages(workers) == messages(1)
    assert [len(step) for step in messages(1)] == [0, 6, 0, 4, 4]


def replicated(rows: Rows) -> Rows:
    result: Rows = Counter()
    for (times, word), weight in rows.items():
        result[(word,)] += weight * max(times or 0, 0)
    return Counter({row: weight for row, weight in result.items() if weight})


@settings(deadline=None)
@given(histories())
def test_replicate_multiplies_weights(changes: list[Rows]) -> None:
    steps = [[change] for change in changes]
    assert run(step_replicate, Replicate((0,), (TEXT,), 0), steps) == twin(replicated, steps)
