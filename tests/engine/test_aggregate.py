"""The incremental Aggregate compared with a simple evaluation of the whole input, over random Z-sets, weights and steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.text.months import MONTH
from engine.model.aggregates import Aggregate, AggregateCall, AggregateFunction, ValuesCall
from engine.operators.aggregate import step_aggregate
from engine.operators.aggregate_errors import NegativeCount, ResultOverflow
from engine.operators.aggregate_functions import FUNCTIONS
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.rows import zset
from engine.rows.hashing import hash_columns
from engine.state.store import DictStore
from engine.state.trace import Trace
from tests.engine.aggregate_twin import Row, aggregate, canon, canon_raw
from tests.engine.contexts import context_of
from tests.examples import examples

TYPES: list[pa.DataType] = [
    pa.string(), pa.float64(), pa.int64(), pa.float64(),
    pa.decimal128(14, 3), pa.string(), pa.bool_(), pa.decimal128(30, 2),
]  # fmt: skip
STRINGS, KEY_DOUBLE, LONG, DOUBLE, DECIMAL, TEXT, BOOL, WIDE = range(8)

doubles = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, 1e-300, math.nan, math.inf, -math.inf, 0.1])
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0.0, -0.0, math.nan, 7.0]),
    st.none() | st.integers(-5, 5) | st.integers(-(2**40), 2**40),
    st.none() | doubles | st.floats(-1e6, 1e6),
    st.none() | st.integers(-(10**14) + 1, 10**14 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    st.none() | st.text("aé\x00😀", max_size=2),
    st.none() | st.booleans(),
    st.none() | st.integers(-(10**24), 10**24).map(lambda n: Decimal(n).scaleb(-2)),
)


def call(function: AggregateFunction, argument: int | None = None, distinct: bool = False) -> AggregateCall:
    """The call with Spark's type of the result."""
    if function == "count" or argument is None:
        return AggregateCall(function, argument, distinct, pa.int64())
    type_ = TYPES[argument]
    if function in ("min", "max"):
        return AggregateCall(function, argument, distinct, type_)
    if function in ("var_pop", "var_samp"):
        return AggregateCall(function, argument, distinct, pa.float64())
    if pa.types.is_decimal(type_):
        precision, scale = (10, 0) if function == "sum" else (4, 4)
        type_ = pa.decimal128(min(38, type_.precision + precision), type_.scale + scale)
    elif function == "avg" or pa.types.is_floating(type_):
        type_ = pa.float64()
    return AggregateCall(function, argument, distinct, type_)


def of_all(function: AggregateFunction, argument: int, *parameters: float | str, distinct: bool = False) -> ValuesCall:
    """A call of a function of all values."""
    type_ = TYPES[argument]
    is_list = function in ("collect_list", "collect_set", "first_k")
    result = pa.list_(pa.field("element", type_)) if is_list else type_
    return ValuesCall(function, argument, distinct, result, None, parameters)


CALLS = [
    call("count"),
    call("count", LONG), call("sum", LONG), call("avg", LONG), call("min", LONG), call("max", LONG),
    call("count", LONG, True), call("sum", LONG, True), call("avg", LONG, True),
    call("sum", DOUBLE), call("avg", DOUBLE), call("min", DOUBLE), call("max", DOUBLE), call("sum", DOUBLE, True),
    call("sum", DECIMAL), call("avg", DECIMAL), call("min", DECIMAL), call("max", DECIMAL), call("avg", DECIMAL, True),
    call("min", TEXT), call("max", TEXT), call("count", TEXT, True), call("max", TEXT, True),
    call("min", BOOL), call("max", BOOL), call("sum", KEY_DOUBLE),
    *(replace(call(name, column), signed_zeros=True) for name in ("min", "max") for column in (DOUBLE, KEY_DOUBLE)),
    call("sum", WIDE), call("avg", WIDE), call("min", WIDE), call("max", WIDE), call("sum", WIDE, True),
    call("var_samp", DOUBLE), call("var_pop", DOUBLE), call("var_samp", DOUBLE, True), call("var_samp", KEY_DOUBLE),
    of_all("collect_list", LONG), of_all("collect_list", DOUBLE), of_all("collect_list", TEXT), of_all("collect_set", WIDE),
    of_all("collect_list", LONG, distinct=True), of_all("listagg", TEXT, ", "), of_all("mode", LONG, 0.0), of_all("mode", TEXT, 1.0),
    of_all("first_k", LONG, 2.0), of_all("bit_xor", LONG), of_all("bit_xor", LONG, distinct=True),
    of_all("percentile_approx", DECIMAL, 0.0, 0.4),
    of_all("percentile_approx", TEXT, 1.0, 0.4),
]  # fmt: skip


def node_of(group: Sequence[int], calls: Sequence[AggregateCall]) -> Aggregate:
    return Aggregate((0,), tuple([TYPES[i] for i in group] + [c.type for c in calls]), tuple(group), tuple(calls))


def zset_of(rows: Sequence[tuple[Row, int]], types: Sequence[pa.DataType]) -> pa.Table:
    columns = [pa.array([row[i] for row, _ in rows], kind, from_pandas=False) for i, kind in enumerate(types)]
    return zset.build(columns, np.array([weight for _, weight in rows], np.int64))


def _comparable(value: Any) -> Any:
    return tuple(map(canon_raw, value)) if isinstance(value, list) else canon(value)


class Runner:
    """Runs the operator step by step over one store and integrates its output."""

    def __init__(self, node: Aggregate, types: Sequence[pa.DataType] = TYPES, append_only: bool = False) -> None:
        self.node, self.types, self.append_only = node, types, append_only
        self.store, self.number = DictStore(), 0
        self.content: Counter[Row] = Counter()

    def step(self, rows: Sequence[tuple[Row, int]]) -> pa.Table:
        context = context_of(self.node, self.store, self.number, append_only=self.append_only)
        delta = step_aggregate(self.node, [zset_of(rows, self.types)], context)
        self.number += 1
        assert delta.schema == zset.schema_of(self.node.types)
        delta.validate(full=True)
        keys = len(self.node.group)
        for row in zip(*(column.to_pylist() for column in delta.columns), strict=True):
            results = zip(self.node.calls, row[keys:-1], strict=True)
            values = (canon_raw(v) if call.signed_zeros else _comparable(v) for call, v in results)
            self.content[(*map(_comparable, row[:keys]), *values)] += row[-1]
        self.content = Counter({row: weight for row, weight in self.content.items() if weight})
        return delta


@st.composite
def histories(draw: st.DrawFn, append_only: bool) -> list[list[tuple[Row, int]]]:
    """Steps whose integral never has a negative weight. Some retractions are in the step of their insertion, others in a later one."""
    content: Counter[str] = Counter()
    known: dict[str, Row] = {}
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        step = []
        for row in draw(st.lists(ROWS, max_size=6)):
            weight = draw(st.integers(1, 3))
            content[repr(row)] += weight
            known[repr(row)] = row
            step.append((row, weight))
        if not append_only:
            for name in draw(st.lists(st.sampled_from(sorted(known)), max_size=6)) if known else []:
                weight = draw(st.integers(0, content[name]))
                content[name] -= weight
                step.append((known[name], -weight))
        steps.append(draw(st.permutations(step)))
    return steps


@pytest.mark.parametrize("append_only", [False, True])
@pytest.mark.parametrize("group", [(), (STRINGS,), (KEY_DOUBLE, STRINGS)], ids=str)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_aggregate_equals_the_simple_evaluation_after_every_step(
    group: tuple[int, ...], append_only: bool, data: st.DataObject
) -> None:
    calls = data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=8))
    node = node_of(group, calls)
    runner = Runner(node, append_only=append_only)
    rows: Counter[str] = Counter()
    known: dict[str, Row] = {}
    for step in data.draw(histories(append_only)):
        for row, weight in step:
            known[repr(row)] = row
            rows[repr(row)] += weight
        runner.step(step)
        assert runner.content == aggregate(node, TYPES, [(known[name], weight) for name, weight in rows.items()])


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False), st.integers(1, 12))
def test_results_are_the_same_bytes_in_any_order_and_any_batches(rows: list[Row], random: Any, batch: int) -> None:
    node = node_of((STRINGS,), CALLS)

    def outcome(rows: list[Row], batch: int) -> list[bytes]:
        runner = Runner(node)
        outputs = [runner.step([(row, 1) for row in rows[i : i + batch]]) for i in range(0, len(rows), batch)]
        content = zset.consolidate(pa.concat_tables(outputs)) if outputs else zset.empty(node.types)
        return [
            content.combine_chunks().slice(i, 1).to_batches()[0].serialize().to_pybytes() for i in range(len(content))
        ]

    shuffled = list(rows)
    random.shuffle(shuffled)
    assert outcome(shuffled, batch) == outcome(rows, max(len(rows), 1))


def test_without_groups_there_is_one_row_before_any_input() -> None:
    runner = Runner(node_of((), [call("count"), call("sum", LONG)]))
    assert runner.step([]).to_pylist() == [{"c0": 0, "c1": None, "weight": 1}]
    assert runner.step([]).to_pylist() == []
    row = ("a", 0.0, 5, None, None, None, None, None)
    assert runner.step([(row, 2)]).to_pylist() == [
        {"c0": 0, "c1": None, "weight": -1},
        {"c0": 2, "c1": 10, "weight": 1},
    ]
    runner.step([(row, -2)])
    assert runner.content == {(0, None): 1}


def test_without_groups_a_worker_that_does_not_own_slot_0_outputs_nothing() -> None:
    node = node_of((), [call("count")])
    context = context_of(node, DictStore(), owns_keyless=False)
    assert step_aggregate(node, [zset.empty(TYPES)], context).num_rows == 0


def test_nothing_is_output_for_a_group_whose_result_stays() -> None:
    runner = Runner(node_of((STRINGS,), [call("max", LONG)]))
    row = ("a", 0.0, 5, None, None, None, None, None)
    assert runner.step([(row, 1)]).num_rows == 1
    assert runner.step([(row, 1), (("a", 0.0, 4, None, None, None, None, None), 1)]).num_rows == 0
    assert runner.step([(row, -1)]).num_rows == 0
    assert runner.step([(row, -1)]).num_rows == 2


SHORT = [pa.string(), pa.int64(), pa.float64()]


@pytest.mark.parametrize(
    ("calls", "steps"),
    [
        ([call("count")], [[(("a", 1, 1.0), 1)], [(("a", 1, 1.0), -2)]]),
        ([AggregateCall("count", 1, False, pa.int64())], [[(("a", None, 1.0), 1)], [(("a", 1, 1.0), -1)]]),
        (
            [AggregateCall("count", 1, False, pa.int64())],
            [[(("a", 1, 1.0), 2)], [(("a", None, 1.0), -1)]],
        ),
        ([AggregateCall("sum", 1, False, pa.int64())], [[(("a", 1, 1.0), 1)], [(("a", 2, 1.0), -1)]]),
        ([AggregateCall("sum", 2, False, pa.float64())], [[(("a", 1, 1.0), 1)], [(("a", 1, 1.5), -1)]]),
        (
            [AggregateCall("sum", 2, False, pa.float64())],
            [[(("a", 1, 1.0), 2)], [(("a", 1, math.nan), -1)]],
        ),
        ([AggregateCall("count", 1, True, pa.int64())], [[(("a", 1, 1.0), 2)], [(("a", 2, 1.0), -1)]]),
        ([AggregateCall("max", 1, False, pa.int64())], [[(("a", 1, 1.0), 2)], [(("a", 2, 1.0), -1)]]),
    ],
)
def test_retracting_a_row_that_was_never_inserted_names_the_group(calls: list[AggregateCall], steps: list[Any]) -> None:
    node = Aggregate((0,), (pa.string(), *(c.type for c in calls)), (0,), tuple(calls))
    runner = Runner(node, SHORT)
    runner.step(steps[0])
    with pytest.raises(NegativeCount, match=r"group \('a',\)"):
        runner.step(steps[1])


def test_a_sum_that_does_not_fit_names_call_and_group() -> None:
    node = Aggregate((0,), (pa.string(), pa.int64()), (0,), (AggregateCall("sum", 1, False, pa.int64()),))
    runner = Runner(node, SHORT)
    runner.step([(("a", 2**63 - 1, 0.0), 1), (("b", 2**63 - 1, 0.0), 1)])
    runner.step([(("a", 1, 0.0), 1), (("a", -1, 0.0), 1)])  # the total decides, not the way there
    with pytest.raises(ResultOverflow, match=r"sum\(c1\) of group \('a',\) does not fit BIGINT"):
        runner.step([(("a", 1, 0.0), 1)])


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_months_has_32_bits(function: AggregateFunction, sign: int) -> None:
    node = Aggregate((0,), (pa.string(), MONTH), (0,), (AggregateCall(function, 1, False, MONTH),))
    keys = pa.array(["a"] * 3)
    change = zset.build(
        [keys, pa.array([sign << 30, sign * ((1 << 30) - 1), sign * 2], pa.int64()).view(MONTH)], np.ones(3, np.int64)
    )
    assert step_aggregate(node, [change.slice(0, 2)], context_of(node, DictStore())).num_rows == 1
    with pytest.raises(ResultOverflow, match=rf"{function}\(c1\) of group \('a',\) does not fit INTERVAL MONTH"):
        step_aggregate(node, [change], context_of(node, DictStore()))


def test_a_decimal_sum_that_does_not_fit_names_call_and_group() -> None:
    type_ = pa.decimal128(38, 0)
    node = Aggregate((0,), (pa.string(), type_), (0,), (AggregateCall("sum", 1, False, type_),))
    runner = Runner(node, [pa.string(), type_])
    largest = Decimal(10**38 - 1)
    runner.step([(("a", largest), 1), (("b", Decimal(1)), 1)])
    with pytest.raises(ResultOverflow, match=r"sum\(c1\) of group \('a',\) does not fit DECIMAL\(38,0\)"):
        runner.step([(("a", Decimal(1)), 1)])


@pytest.mark.parametrize("append_only", [False, True])
def test_a_row_of_weight_0_has_no_effect(append_only: bool) -> None:
    node = Aggregate((0,), (pa.string(), pa.int64()), (0,), (AggregateCall("max", 1, False, pa.int64()),))
    runner = Runner(node, SHORT, append_only)
    assert runner.step([(("b", 9, 0.0), 0), (("a", 1, 0.0), 1), (("a", 9, 0.0), 0)]).num_rows == 1
    assert runner.content == {("a", 1): 1}


def test_every_aggregate_function_has_a_descriptor() -> None:
    assert set(FUNCTIONS) == set(get_args(AggregateFunction))


def test_struct_keys_and_count_distinct_of_structs() -> None:
    struct = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int32()))])
    node = Aggregate((0,), (struct, pa.int64()), (0,), (AggregateCall("count", 1, True, pa.int64()),))
    runner = Runner(node, [struct, struct])
    a, b = {"x": -0.0, "y": [1, None]}, {"x": 0.0, "y": [1, None]}
    delta = runner_step_structs(runner, [((a, a), 1), ((b, b), 1), ((None, None), 1), ((a, {"x": None, "y": None}), 1)])
    assert sorted((str(row["c0"]), row["c1"], row["weight"]) for row in delta) == [
        ("None", 0, 1),
        ("{'x': 0.0, 'y': [1, None]}", 2, 1),
    ]


def runner_step_structs(runner: Runner, rows: list[tuple[Row, int]]) -> list[dict[str, Any]]:
    context = context_of(runner.node, runner.store)
    return step_aggregate(runner.node, [zset_of(rows, runner.types)], context).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("min", pa.null()),
        ("max", pa.null()),
        ("sum", pa.list_(pa.int64())),
        ("avg", pa.string()),
        ("corr", pa.float64()),
        ("stddev_samp", pa.int64()),
        ("bit_or", pa.float64()),
    ],
)
def test_arguments_that_a_function_does_not_accept_are_refused(function: AggregateFunction, kind: pa.DataType) -> None:
    node = Aggregate((0,), (kind,), (), (AggregateCall(function, 0, False, kind),))
    with pytest.raises(TypeError, match="not supported"):
        step_aggregate(node, [zset.build([pa.nulls(1, kind)], np.array([1]))], context_of(node, DictStore()))


def test_all_state_of_a_group_is_in_its_slot() -> None:
    """Also if the rows lie by one of two columns of the group."""
    opened: list[Trace] = []

    class Watched(StepContext):
        def trace(self, *arguments: Any, **named: Any) -> Trace:
            opened.append(super().trace(*arguments, **named))
            return opened[-1]

    node = node_of((STRINGS, LONG), CALLS)
    rows = [((f"k{i}", 0.0, i, 0.5 * i, Decimal(i), f"t{i}", True, Decimal(i)), 1) for i in range(50)]
    run, step = (
        RunFacts((0,), {0: (False,)}, {}, {}),
        StepFacts(DivisionFacts(number=0), (((LONG,),),), owns_keyless=True),
    )
    step_aggregate(node, [zset_of(rows, TYPES)], Watched(run, step, DictStore(), 0))
    assert {trace.layout.table % 8 for trace in opened} == {0, 1, 2, 3, 4, 5}
    for trace in opened:
        for run in trace.runs():
            routing = hash_columns([run.table.column(1)], run.table.num_rows)
            assert (run.hashes >> np.uint64(48) == routing >> np.uint64(48)).all()
