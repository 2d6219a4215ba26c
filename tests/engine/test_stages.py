"""Where the plan puts exchanges, and that the output does not depend on the placement of rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.stages import plan_stages
from engine.errors import DataError
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.joins import Join, SemiJoin
from engine.model.node import Expression
from engine.model.rows import Constant, Distinct, LastByKey, Map, Source, Union
from engine.run.exchange import to_buffer
from engine.run.stage import name_of
from io_kafka.step_log.digest import canonical
from tests.engine.in_process import InProcess
from tests.engine.zsets import TYPES, Rows, histories, plus, to_table
from tests.examples import examples

LONG, TEXT = TYPES
MESSAGE = (*TYPES, pa.bool_(), pa.int32(), pa.int64())


def column(index: int, kind: pa.DataType) -> Expression:
    return Expression(f"c{index}", kind, index)


def whole_circuit() -> Circuit:
    """A circuit with every operator that has state, a view over a view, a derived view without its group's key, and two sources."""
    nodes = (
        Source((), TYPES, "left"),
        Source((), MESSAGE, "right", keyed=True),
        LastByKey((1,), TYPES, "right", (0,)),
        Join((0, 2), (*TYPES, *TYPES), (0,), (0,), (False,)),
        Map((3,), (LONG, TEXT), None, (column(0, LONG), column(3, TEXT))),
        Aggregate((4,), (TEXT, pa.int64(), pa.int64()), (1,), (
            AggregateCall("count", None, False, pa.int64()), AggregateCall("max", 0, False, pa.int64()),
        )),
        View((5,), (TEXT, pa.int64(), pa.int64()), "by_word", ("word", "n", "most"), True, (0,)),
        Output((6,), (), "by_word", "upsert", ("word", "n", "most"), (0,)),
        SemiJoin((0, 2), TYPES, True, (0,), (0,), (False,)),
        Map((6,), TYPES, None, (column(1, LONG), column(0, TEXT))),
        Union((0, 8, 9), TYPES),
        Distinct((10,), TYPES),
        View((11,), TYPES, "rest", ("id", "word"), True),
        Output((12,), (), "rest", "changelog", ("id", "word")),
        Aggregate((0,), (pa.int64(),), (), (AggregateCall("count", None, False, pa.int64()),)),
        View((14,), (pa.int64(),), "total", ("n",), True),
        Output((15,), (), "total", "changelog", ("n",)),
        Map((5,), (pa.int64(),), None, (column(1, pa.int64()),)),
        View((17,), (pa.int64(),), "counts", ("n",), True, derived=True),
        Output((18,), (), "counts", "changelog", ("n",)),
    )  # fmt: skip
    return Circuit(nodes)


def messages(changes: list[tuple[int, str | None, bool]], offset: int) -> pa.Table:
    rows = [(key, None if gone else word, gone, 0, offset + i) for i, (key, word, gone) in enumerate(changes)]
    return to_table(rows, MESSAGE)


def run(circuit: Circuit, steps: list[dict[str, pa.Table]], workers: int) -> list[dict[str, list[dict[str, Any]]]]:
    machine = InProcess(circuit, workers, {"by_word": 3, "rest": 2, "total": 1, "counts": 2})
    return [{h: canonical(t).to_pylist() for h, t in machine.step(given_).items()} for given_ in steps]


CHANGE = st.tuples(st.integers(-2, 4), st.sampled_from(["a", "b", "ä"]), st.booleans())


@settings(deadline=None, max_examples=examples(40))
@given(histories(grow=True), st.lists(st.lists(CHANGE, max_size=4), min_size=1, max_size=4))
def test_any_number_of_workers_gives_the_same_messages(left: list[Rows], right: list[list[Any]]) -> None:
    steps, offset = [], 0
    for i in range(max(len(left), len(right))):
        changes = right[i] if i < len(right) else []
        table = to_table(left[i] if i < len(left) else Counter(), TYPES)
        steps.append({"left": table, "right": messages(changes, offset)})
        offset += len(changes)
    alone = run(whole_circuit(), steps, 1)
    for workers in (2, 3, 5):
        assert run(whole_circuit(), steps, workers) == alone


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_row_that_leaves_one_worker_and_comes_on_another_gives_no_message(workers: int) -> None:
    """The view shows only the counts of the groups, and two groups exchange theirs."""
    count = AggregateCall("count", None, False, pa.int64())
    nodes = (
        Source((), TYPES, "left", retracts=True),
        Aggregate((0,), (LONG, pa.int64()), (0,), (count,)),
        Map((1,), (pa.int64(),), None, (column(1, pa.int64()),)),
        View((2,), (pa.int64(),), "counts", ("n",), True, derived=True),
        Output((3,), (), "counts", "changelog", ("n",)),
    )
    machine = InProcess(Circuit(nodes), workers, {"counts": 1})
    ids = range(2, 22, 2)
    first = Counter({(i + odd, "a"): 1 + odd for i in ids for odd in (0, 1)})
    exchanged = Counter({(i + odd, "a"): 1 - 2 * odd for i in ids for odd in (0, 1)})
    assert machine.step({"left": to_table(first, TYPES)})["counts"].num_rows == 20
    assert machine.step({"left": to_table(exchanged, TYPES)})["counts"].num_rows == 0


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_constants_are_output_once_with_any_number_of_workers(workers: int) -> None:
    rows = pa.table({"c0": pa.array([1, 2], LONG), "c1": ["a", "b"]})
    nodes = (
        Constant((), TYPES, to_buffer(rows).to_pybytes()),
        View((0,), TYPES, "v", ("id", "word"), True),
        Output((1,), (), "v", "changelog", ("id", "word")),
    )
    machine = InProcess(Circuit(nodes), workers, {"v": 2})
    assert [machine.step({})["v"].num_rows for _ in range(2)] == [2, 0]


@pytest.mark.parametrize("workers", [1, 3])
def test_messages_of_every_stage_reach_the_driver(workers: int) -> None:
    """The stages between pass on an output that an early stage has computed."""
    early = Output((0,), (), "early", "append", ("id", "word"))
    count = AggregateCall("count", None, False, pa.int64())
    nodes = (
        Source((), TYPES, "left"),
        early,
        Distinct((0,), TYPES),
        Output((2,), (), "middle", "append", ("id", "word")),
        Aggregate((2,), (TEXT, pa.int64()), (1,), (count,)),
        Output((4,), (), "late", "upsert", ("word", "n"), (0,)),
    )
    circuit = Circuit(nodes)
    assert [plan_stages(circuit).stage[output] for output in (1, 3, 5)] == [0, 1, 2]
    machine = InProcess(circuit, workers, {"early": 1, "middle": 1, "late": 1})
    messages = machine.step({"left": to_table([(1, "a"), (1, "a"), (2, "a"), (3, "b")], TYPES)})
    assert {handle: table.num_rows for handle, table in messages.items()} == {"early": 4, "middle": 3, "late": 2}


def test_operators_with_the_same_key_share_a_stage() -> None:
    """A join and the aggregate over its key run in one stage, after one exchange."""
    nodes = (
        Source((), TYPES, "left"),
        Source((), TYPES, "right"),
        Join((0, 1), (*TYPES, *TYPES), (0,), (0,), (False,)),
        Aggregate((2,), (LONG, pa.int64()), (0,), (AggregateCall("count", None, False, pa.int64()),)),
        View((3,), (LONG, pa.int64()), "v", ("id", "n"), True, (0,)),
        Output((4,), (), "v", "upsert", ("id", "n"), (0,)),
    )
    result = plan_stages(Circuit(nodes))
    assert result.stages == 2
    assert result.stage == (0, 0, 1, 1, 1, 1)
    assert [c and c.key for c in result.arrivals[2]] == [(0,), (0,)]


def test_a_channel_that_is_read_two_stages_later_is_passed_on() -> None:
    result = plan_stages(whole_circuit())
    result.check()
    carried = [c for c, last in result.last_read.items() if last > result.stage[c.producer] + 1]
    assert carried, "this circuit has no channel that passes a stage; the test shows nothing"


def test_a_filter_needs_no_stage_with_state() -> None:
    nodes = (
        Source((), TYPES, "left"),
        Map((0,), TYPES, Expression("c0 > 1", pa.bool_()), (column(0, LONG), column(1, TEXT))),
        View((1,), TYPES, "v", ("id", "word"), False),
        Output((2,), (), "v", "append", ("id", "word")),
    )
    assert plan_stages(Circuit(nodes)).stages == 1


def test_an_error_in_one_task_stops_all_later_ones_and_names_the_view() -> None:
    circuit = whole_circuit()
    machine = InProcess(circuit, 2, {"by_word": 1, "rest": 1, "total": 1})
    key_in_two_partitions = to_table([(1, "a", False, 0, 0), (1, "b", False, 1, 0)], MESSAGE)
    with pytest.raises(DataError, match="source right, step 0"):
        machine.step({"right": key_in_two_partitions})


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_one_column_may_be_compared_with_two_of_the_other_side(workers: int) -> None:
    """ON l.a = r.x AND l.a = r.y, in a join and in an anti-join. One of the sides, or none, is placed by a part of the key."""
    two = (LONG, LONG)
    nodes = (
        Source((), two, "l", retracts=True),
        Source((), two, "r", retracts=True),
        Join((0, 1), (*two, *two), (0, 0), (0, 1), (False, False)),
        View((2,), (*two, *two), "both", ("a", "b", "x", "y"), False),
        Output((3,), (), "both", "changelog", ("a", "b", "x", "y")),
        SemiJoin((0, 1), two, True, (0, 0), (0, 1), (False, False)),
        View((5,), two, "none", ("a", "b"), False),
        Output((6,), (), "none", "changelog", ("a", "b")),
        Distinct((1,), two),
        SemiJoin((0, 8), two, False, (1, 1), (0, 1), (False, False)),
        View((9,), two, "some", ("a", "b"), False),
        Output((10,), (), "some", "changelog", ("a", "b")),
    )
    machine = InProcess(Circuit(nodes), workers, {"both": 1, "none": 1, "some": 1})
    found: dict[str, Counter[str]] = {"both": Counter(), "none": Counter(), "some": Counter()}
    left: Rows = Counter()
    right: Rows = Counter()
    for step in range(3):
        changes: list[Rows] = [
            Counter({(key, key % 3): (-1 if step == 2 and key == 1 else 1) for key in range(4)}),
            Counter({(x, y): (-1 if step == 2 and x == 2 else 1) for x in range(3) for y in range(x, 3)}),
        ]
        left, right = plus(left, changes[0]), plus(right, changes[1])
        written = machine.step({"l": to_table(changes[0], two), "r": to_table(changes[1], two)})
        for handle, table in written.items():
            for value in table.column("value").to_pylist():
                change = json.loads(value)
                for image, weight in ((change["before"], -1), (change["after"], 1)):
                    if image is not None:
                        found[handle][json.dumps(list(image.values()))] += weight
        pairs = [(l, r, n * m) for l, n in left.items() for r, m in right.items() if l[0] == r[0] == r[1]]  # noqa: E741
        matched = {r[0] for r in right if r[0] == r[1]}
        expected: dict[str, Counter[str]] = {
            "both": Counter({json.dumps([*one, *other]): n for one, other, n in pairs}),
            "none": Counter({json.dumps(row): n for row, n in left.items() if row[0] not in matched}),
            "some": Counter({json.dumps(row): n for row, n in left.items() if row[1] in matched}),
        }
        assert {handle: +rows for handle, rows in found.items()} == expected


def test_the_owner_of_a_node_is_what_its_errors_name() -> None:
    plan = plan_stages(whole_circuit())
    names = [name_of(plan.circuit, index) for index in range(len(plan.circuit.nodes))]
    assert [name_of(plan.circuit, owner) for owner in plan.reporting_nodes] == names
    assert all(plan.reporting_nodes[owner] == owner for owner in plan.reporting_nodes)
    assert names[4] == "view by_word" and plan.reporting_nodes[4] == 6
