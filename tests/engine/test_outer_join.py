"""OuterJoin beside a slow and obvious twin, over random histories; on several workers below other operators; what a step reads and writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.analysis.stages import plan_stages
from engine.analysis.uniqueness import unique_keys
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Node, Output, View
from engine.model.joins import Join, OuterJoin
from engine.model.node import Expression
from engine.model.rows import LastByKey, Source
from engine.operators.outer_join import step_outer_join
from engine.operators.scalar import TooManyRows
from engine.operators.table import operator_of
from engine.state.store import DictStore
from engine.state.trace import Trace
from io_kafka.step_log.digest import canonical
from tests.engine.contexts import context_of
from tests.engine.in_process import InProcess
from tests.engine.test_operators import BOTH, RESIDUAL, residual, run, twin, two
from tests.engine.zsets import TYPES, Rows, histories, plus, to_rows, to_table
from tests.examples import examples

LONG, TEXT = TYPES
NULLS = (None, None)


def outer(left: Rows, right: Rows, *, full: bool, null_safe: bool, with_residual: bool) -> Rows:
    """SQL's definition: the pairs that satisfy the condition, and each row that is in none of them."""

    def matches(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        equal = a[0] == b[0] and (null_safe or a[0] is not None)
        return equal and (not with_residual or residual(a, b))

    result: Rows = Counter()
    for a, m in left.items():
        for b, n in right.items():
            if matches(a, b):
                result[a + b] += m * n
        if not any(matches(a, b) for b in right):
            result[a + NULLS] += m
    for b, n in right.items() if full else ():
        if not any(matches(a, b) for a in left):
            result[NULLS + b] += n
    return result


@settings(deadline=None, max_examples=examples(100))
@given(histories(), histories(), st.booleans(), st.booleans(), st.booleans())
def test_outer_join(left: list[Rows], right: list[Rows], full: bool, null_safe: bool, with_residual: bool) -> None:
    node = OuterJoin((0, 1), BOTH, full, (0,), (0,), (null_safe,), RESIDUAL if with_residual else None)
    steps = two(left, right)
    definition = lambda a, b: outer(a, b, full=full, null_safe=null_safe, with_residual=with_residual)  # noqa: E731
    assert run(step_outer_join, node, steps) == twin(definition, steps)


@settings(deadline=None, max_examples=examples(50))
@given(histories(), st.booleans())
def test_an_outer_join_of_a_table_with_itself(changes: list[Rows], full: bool) -> None:
    """Both inputs change by the same rows in every step."""
    node = OuterJoin((0, 0), BOTH, full, (0,), (0,), (False,), RESIDUAL)
    steps = [[change, change] for change in changes]
    definition = lambda a, b: outer(a, b, full=full, null_safe=False, with_residual=True)  # noqa: E731
    assert run(step_outer_join, node, steps) == twin(definition, steps)


@settings(deadline=None, max_examples=examples(50))
@given(histories(), histories(), st.booleans())
def test_a_column_may_be_in_two_pairs_of_a_key(left: list[Rows], right: list[Rows], outer: bool) -> None:
    """As in ON x = a AND x = b. Both sides lie by both pairs, so equal keys have equal hashes."""
    types = (LONG, TEXT, LONG)
    steps = two(left, right)
    node: OuterJoin | Join = Join((0, 1), (*TYPES, *types), (0, 0), (0, 2), (False, False))
    if outer:
        node = OuterJoin((0, 1), (*TYPES, *types), False, (0, 0), (0, 2), (False, False))
    store, content, whole = (
        DictStore(),
        Counter[tuple[Any, ...]](),
        [Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()],
    )
    for step, changes in enumerate(steps):
        twice: list[Rows] = [changes[0], Counter({(a, b, c): w for (a, b), w in changes[1].items() for c in (a, 1)})]
        tables = [to_table(rows, kinds) for rows, kinds in zip(twice, (TYPES, types), strict=True)]
        content = plus(content, to_rows(operator_of(node).step(node, tables, context_of(node, store, step))))
        whole = [plus(side, change) for side, change in zip(whole, twice, strict=True)]
        expected: Rows = Counter()
        for a, m in whole[0].items():
            found = {b: n for b, n in whole[1].items() if a[0] is not None and a[0] == b[0] == b[2]}
            expected.update({a + b: m * n for b, n in found.items()} or ({(*a, None, None, None): m} if outer else {}))
        assert content == expected


def test_a_row_that_comes_before_its_insertion_does_not_spoil_the_state() -> None:
    """A changelog without a key may retract a row in an earlier step than the one that inserts it, if they are in different partitions."""
    a, b = (1, "a"), (1, "b")
    for full in (False, True):
        node = OuterJoin((0, 1), BOTH, full, (0,), (0,), (False,))
        early: list[list[Rows]] = [
            [Counter({a: -1}), Counter({b: -1})],
            [Counter({a: 2}), Counter({b: 1})],
            [Counter(), Counter({b: 2})],
            [Counter({a: -1}), Counter({b: -2})],
        ]
        integrals = run(step_outer_join, node, early)
        assert integrals[1:] == [Counter({a + NULLS: 1}), Counter({a + b: 2}), Counter()]


SINGLE = OuterJoin((0, 1), BOTH, False, (0,), (0,), (False,), None, True)


@settings(deadline=None, max_examples=examples(50))
@given(histories(steps_max=3), histories(steps_max=3))
def test_a_second_match_of_a_subquery_that_stands_for_a_value_is_an_error(left: list[Rows], right: list[Rows]) -> None:
    """It is one if and only if a row has two matches at the end of a step: in between, one row may replace another."""
    whole: list[Rows] = [Counter(), Counter()]
    store = DictStore()
    for step, changes in enumerate(two(left, right)):
        whole = [plus(side, change) for side, change in zip(whole, changes, strict=True)]
        counts = Counter(row[0] for row in whole[1].elements())
        several = any(row[0] is not None and counts[row[0]] > 1 for row in whole[0])
        tables = [to_table(change, TYPES) for change in changes]
        if several:
            with pytest.raises(TooManyRows, match="more than one row"):
                step_outer_join(SINGLE, tables, context_of(SINGLE, store, step))
            return
        step_outer_join(SINGLE, tables, context_of(SINGLE, store, step))


COUNT = AggregateCall("count", None, False, LONG)


def below_others(full: bool, residual: Expression | None, upsert: bool) -> Circuit:
    """Aggregates by the key of either side above an outer join, a join above it, and an outer join above it by each key."""
    right: tuple[Node, ...] = (Source((), TYPES, "right"), Source((), TYPES, "unread"))
    if upsert:
        right = (
            Source((), (*TYPES, pa.bool_(), pa.int32(), LONG), "right", keyed=True),
            LastByKey((1,), TYPES, "right", (0,)),
        )
    nodes: list[Node] = [Source((), TYPES, "left"), *right]
    joined = OuterJoin((0, 2 if upsert else 1), BOTH, full, (0,), (0,), (False,), residual)
    nodes.append(joined)
    above: list[Node] = [
        Aggregate((3,), (LONG, LONG), (0,), (COUNT,)),
        Aggregate((3,), (LONG, LONG), (2,), (COUNT,)),
        Join((3, 0), (*BOTH, *TYPES), (2,), (0,), (True,)),
        OuterJoin((3, 0), (*BOTH, *TYPES), True, (0,), (0,), (True,)),
        OuterJoin((0, 3), (*TYPES, *BOTH), False, (0,), (2,), (False,)),
    ]
    for number, node in enumerate(above):
        nodes.append(node)
        names = tuple(f"x{i}" for i in range(len(node.types)))
        nodes.append(View((len(nodes) - 1,), node.types, f"v{number}", names, True))
        nodes.append(Output((len(nodes) - 1,), (), f"v{number}", "changelog", names))
    return Circuit(tuple(nodes))


def messages(circuit: Circuit, steps: list[dict[str, pa.Table]], workers: int) -> list[dict[str, list[dict[str, Any]]]]:
    machine = InProcess(circuit, workers, {node.handle: 1 for node in circuit.nodes if isinstance(node, Output)})
    return [{h: canonical(t).to_pylist() for h, t in machine.step(given_).items()} for given_ in steps]


@settings(deadline=None, max_examples=6)
@given(histories(steps_max=3), histories(steps_max=3), st.booleans(), st.booleans())
def test_operators_above_an_outer_join_see_whole_keys_on_any_number_of_workers(
    left: list[Rows], right: list[Rows], full: bool, with_residual: bool
) -> None:
    """A row without a match lies by the key of its own side. If the join said otherwise, rows above it would not meet, and be lost silently."""
    circuit = below_others(full, RESIDUAL if with_residual else None, upsert=False)
    steps = [{"left": to_table(a, TYPES), "right": to_table(b, TYPES)} for a, b in two(left, right)]
    alone = messages(circuit, steps, 1)
    for workers in (2, 3, 5):
        assert messages(circuit, steps, workers) == alone


def test_the_output_of_a_left_join_lies_by_the_left_key_and_that_of_a_full_join_by_none() -> None:
    for full, place in ((False, (0,)), (True, None)):
        circuit = below_others(full, None, upsert=False)
        assert plan_stages(circuit).colocation[3] == place
        assert [c and c.key for c in plan_stages(circuit).arrivals[4]] == [(0,) if full else None]
        assert [c and c.key for c in plan_stages(circuit).arrivals[7]] == [(2,)]


def test_a_unique_key_of_the_left_remains_one_if_the_key_of_the_join_is_unique_on_the_right() -> None:
    def key(full: bool, left_key: tuple[int, ...], right_key: tuple[int, ...], single: bool = False) -> Any:
        messages = (*TYPES, pa.bool_(), pa.int32(), LONG)
        sides = [
            (Source((), messages, h, keyed=True), LastByKey((i,), TYPES, h, (0,))) for i, h in ((0, "l"), (2, "r"))
        ]
        safe = (False,) * len(left_key)
        node = OuterJoin((1, 3), BOTH, full, left_key, right_key, safe, None, single)
        return unique_keys(Circuit((*sides[0], *sides[1], node)))[4]

    assert key(False, (0,), (0,)) == (0,)
    assert key(False, (1,), (0,)) == key(False, (0, 1), (0, 1)) == (0,)
    assert key(False, (1,), (1,)) is None, "a left row may have several matches"
    assert key(False, (1,), (1,), single=True) == (0,)
    assert key(True, (0,), (0,)) is None, "the left columns are NULL in every right row without a match"


class Counted:
    """The rows that traces read and write."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read = self.written = 0
        probe, append = Trace.probe, Trace.append

        def probed(trace: Trace, *args: Any) -> Any:
            matches = probe(trace, *args)
            self.read += len(matches.probe)
            return matches

        def appended(trace: Trace, rows: pa.Table, hashes: Any) -> None:
            self.written += rows.num_rows
            append(trace, rows, hashes)

        patch.setattr(Trace, "probe", probed)
        patch.setattr(Trace, "append", appended)


@pytest.mark.parametrize("condition", [None, RESIDUAL])
@pytest.mark.parametrize("full", [False, True])
def test_a_step_reads_and_writes_what_its_keys_have_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch, condition: Expression | None, full: bool
) -> None:
    """Key 1 has one row on the left and 1,000 on the right, so one more on the right is cheap. Key 2 has 50 on the left."""
    node = OuterJoin((0, 1), BOTH, full, (0,), (0,), (False,), condition)
    store = DictStore()
    left: Rows = Counter({(1, "a"): 1, **{(2, f"a{i}"): 1 for i in range(50)}})
    right: Rows = Counter({(1, f"b{i}"): 1 for i in range(1000)})
    step_outer_join(node, [to_table(left, TYPES), to_table(right, TYPES)], context_of(node, store, 0))
    counted = Counted(monkeypatch)

    def step(number: int, left: Rows, right: Rows) -> tuple[int, int]:
        """The rows written and those of the output. A row that was changed later may be read in several parts, but no other row is read."""
        counted.read = counted.written = 0
        change = step_outer_join(node, [to_table(left, TYPES), to_table(right, TYPES)], context_of(node, store, number))
        assert counted.read <= 50 * number
        return counted.written, change.num_rows

    assert step(1, Counter(), Counter({(1, "b"): 1})) == (2, 1), "the row, and one pair more of its only match"
    assert step(2, Counter(), Counter({(1, "b"): -1, (1, "c"): 1})) == (2, 2), "its match has as many pairs as before"
    assert step(3, Counter(), Counter({(2, "b"): 1})) == (51, 100)
    assert step(4, Counter(), Counter({(3, "b"): 1})) == (1, 1 if full else 0)
    assert step(5, Counter({(3, "a"): 1}), Counter()) == (2 if full else 1, 2 if full else 1)
