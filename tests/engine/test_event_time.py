"""Watermarks, and the operators that close, beside their definitions; and that their state does not grow with the input."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.analysis.event_time_sources import idle_inputs, sides_by_watermark
from engine.model.aggregates import AggregateCall, ValuesCall
from engine.model.circuit import Circuit, Mode, Node, Output, View
from engine.model.event_time import (
    WATERMARK_TYPES,
    ClosingAggregate,
    ClosingSessions,
    Expiry,
    LatestTime,
    TimedDeduplicate,
    TimedJoin,
    Watermark,
)
from engine.model.filling import HASHES, OF_NEXT
from engine.model.node import Expression, NodeBase
from engine.model.rows import Source, Union
from engine.operators.aggregate import keys_of
from engine.operators.aggregate_plan import aggregate_plan_of
from engine.operators.closing import traces_of
from engine.operators.event_time import EPOCH_US
from engine.operators.findings import TimeReport
from engine.operators.table import operator_of
from engine.rows import zset
from engine.state.runs import as_zset, decode_run
from engine.state.store import DictStore
from storage.keys import TABLE_FIRST, table_prefix
from tests.engine.contexts import context_of
from tests.engine.every_kind import PARTITIONS, every_kind, history
from tests.engine.in_process import InProcess
from tests.engine.test_moves import RANGE_SLOTS, move_state, shuffled
from tests.engine.transitions import Way, led
from tests.sampling import sampled

LONG, TEXT, MOMENT, DOUBLE = pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.float64()
RANGE = pa.struct([pa.field("start", MOMENT), pa.field("end", MOMENT)])
TYPES = (TEXT, MOMENT, LONG)
Row = tuple[Any, ...]
Step = tuple[list[list[Row]], int]
"""The rows of each input, and the watermark after the step."""


def told(before: int, after: int) -> pa.Table:
    return zset.build([pa.array([before], LONG), pa.array([after], LONG)], np.ones(1, np.int64))


def table(rows: list[Row], types: tuple[pa.DataType, ...]) -> pa.Table:
    columns = [
        pa.array([_cell(row[i], kind) for row in rows], _stored(kind)).cast(kind) for i, kind in enumerate(types)
    ]
    return zset.build(columns, np.ones(len(rows), np.int64)).cast(zset.schema_of(types))


def _stored(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("start", LONG), ("end", LONG)]) if pa.types.is_struct(kind) else LONG if kind == MOMENT else kind


def _cell(value: Any, kind: pa.DataType) -> Any:
    return {"start": value[0], "end": value[1]} if pa.types.is_struct(kind) and value is not None else value


def rows_of(made: pa.Table) -> Counter[Row]:
    columns = []
    for column in made.columns[:-1]:
        if pa.types.is_struct(column.type):
            parts = [part.cast(LONG).to_pylist() for part in column.combine_chunks().flatten()]
            columns.append(list(zip(*parts, strict=True)))
        else:
            columns.append(column.cast(LONG).to_pylist() if column.type == MOMENT else column.to_pylist())
    found: Counter[Row] = Counter()
    for *row, weight in zip(*columns, made.column(made.num_columns - 1).to_pylist(), strict=True):
        assert weight > 0, "an operator that closes takes no row back"
        found[tuple(tuple(v) if isinstance(v, list) else v for v in row)] += weight
    return found


def ran(
    node: NodeBase, inputs: list[tuple[pa.DataType, ...]], steps: list[Step], store: DictStore | None = None
) -> Iterator[tuple[Counter[Row], int]]:
    """(the output, the number of late rows) of each step."""
    node.check([*inputs, WATERMARK_TYPES])
    store, before = store or DictStore(), EPOCH_US
    for number, (rows, after) in enumerate(steps):
        report = TimeReport()
        context = context_of(node, store, number, append_only=True, report=report)
        operate = operator_of(node).step
        assert operate is not None
        given = [table(each, types) for each, types in zip(rows, inputs, strict=True)]
        yield rows_of(operate(node, [*given, told(before, after)], context)), sum(report.late.values())
        before = after


def steps_of(seed: int, inputs: int = 1) -> list[Step]:
    """Rows (word, time, number) around a watermark that goes on, and at the end far beyond them."""
    chance, steps, now = random.Random(seed), [], 0
    for _ in range(6):
        now += chance.randint(0, 6)
        rows = [
            [
                (
                    chance.choice(["a", "b", None]),
                    chance.choice([None, *[now + chance.randint(-4, 9)] * 6]),
                    chance.randint(0, 3),
                )
                for _ in range(chance.randint(0, 8))
            ]
            for _ in range(inputs)
        ]
        steps.append((rows, now))
    return [*steps, ([[] for _ in range(inputs)], 1000)]


def punctual(rows: list[Row], before: int) -> list[Row]:
    return [row for row in rows if row[1] is None or row[1] > before]


def scanned(store: DictStore, slots: int = 8) -> int:
    """The rows in all runs of node 0, also those that cancel."""
    prefixes = tuple(table_prefix(TABLE_FIRST + slot) for slot in range(slots))
    return sum(decode_run(value).num_rows for key, value in store.records.items() if key.startswith(prefixes))


def test_a_watermark_is_the_least_of_its_inputs_and_never_goes_back() -> None:
    for greatest, expected in ((False, [0, 0, 2000, 2000, 9000]), (True, [3000, 7000, 7000, 7000, 9000])):
        node, store = Watermark((0, 1), WATERMARK_TYPES, (1, 2), greatest), DictStore()
        found, before = [], 0
        for number, (left, right) in enumerate(
            [(4999, None), (8000, None), (None, 4500), (3000, 100), (10_000, 11_000)]
        ):
            inputs = [table([] if latest is None else [(latest,)], (LONG,)) for latest in (left, right)]
            context = context_of(node, store, number, append_only=True)
            operate = operator_of(node).step
            assert operate is not None
            ((mark, count),) = rows_of(operate(node, inputs, context)).items()
            assert count == 1 and mark[0] == before and context.found.times.watermarks == {0: mark[1]}
            found.append(before := mark[1])
        assert found == expected


def test_a_watermark_leaves_idle_inputs_out_and_stays_where_it_has_been_when_they_come_back() -> None:
    node, store = Watermark((0, 1), WATERMARK_TYPES, (0, 0)), DictStore()
    # (latest time of each input in ms, which are idle) -> (the watermark in ms, what is stored)
    steps = [
        ((10, 5), (), 5, 2),
        ((20, None), (), 5, 2),
        ((None, None), (1,), 20, 3),  # no row came
        ((30, None), (1,), 30, 3),
        ((None, 7), (1,), 30, 3),  # a row of the idle input comes in this very step, and is late
        ((40, None), (), 30, 3),  # now the input counts again, and holds back
        ((None, None), (0,), 30, 3),  # what is ahead is left out, and what is left is behind
        ((None, 35), (), 35, 2),
        ((None, 50), (), 40, 2),
    ]
    found, before = [], 0
    for number, (latest, idle, *_) in enumerate(steps):
        inputs = [table([] if at is None else [(1000 * at,)], (LONG,)) for at in latest]
        context = context_of(node, store, number, append_only=True, idle=idle)
        operate = operator_of(node).step
        assert operate is not None
        ((mark, _),) = rows_of(operate(node, inputs, context)).items()
        assert mark[0] == before, "the next step begins where the last one has ended"
        before = mark[1]
        stored = as_zset(context.trace(0, (pa.int16(), LONG), ()).scan()).num_rows
        found.append((before // 1000, stored))
    assert found == [(watermark, stored) for *_, watermark, stored in steps]


def test_an_input_is_idle_if_all_of_its_sources_are_and_another_input_is_not() -> None:
    a, b, ab = frozenset("a"), frozenset("b"), frozenset("ab")
    assert idle_inputs((a, b), ["b", "c"]) == {1} and idle_inputs((a, b), ["c"]) == set()
    assert idle_inputs((a, b), ["a", "b"]) == set() and idle_inputs((ab, b), ["b"]) == {1}
    assert idle_inputs((ab, b), ["a"]) == set() and idle_inputs((a, frozenset()), ["a"]) == {0}


def test_only_the_least_of_several_watermarks_leaves_inputs_out() -> None:
    nodes: list[Node] = [Source((), (MOMENT,), "a"), Source((), (MOMENT,), "b")]
    nodes += [LatestTime((0,), (LONG,), 0), LatestTime((1,), (LONG,), 0)]
    nodes += [Watermark((2, 3), WATERMARK_TYPES, (0, 0), greatest) for greatest in (False, True)]
    nodes.append(Watermark((2,), WATERMARK_TYPES, (0,)))
    assert sides_by_watermark(Circuit(tuple(nodes))) == {4: (frozenset("a"), frozenset("b"))}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_step_without_input_closes_what_an_idle_input_has_held_back(workers: int) -> None:
    """Also if the watermark, which is state now, moves to another worker after each step."""
    chance = random.Random(2)
    nodes: list[Node] = [Source((), TYPES, "a"), Source((), TYPES, "b")]
    nodes += [LatestTime((0,), (LONG,), 1), LatestTime((1,), (LONG,), 1), Watermark((2, 3), WATERMARK_TYPES, (0, 0))]
    nodes += [Union((0, 1), TYPES), ClosingAggregate((5, 4), (MOMENT, LONG), (1,), CALLS[:1], 0)]
    nodes.append(Output((6,), (), "out", "append", ("ts", "n")))
    machine = InProcess(Circuit(tuple(nodes)), workers, {"out": 1})

    def closed(a: list[int], b: list[int], *idle: str) -> int:
        machine.idle = frozenset(idle)
        given = {name: table([("x", 1000 * at, 1) for at in those], TYPES) for name, those in (("a", a), ("b", b))}
        found = machine.step(given)["out"].num_rows
        move_state(machine, shuffled(machine.placement, chance, RANGE_SLOTS))
        return found

    assert [closed([3, 9], [3]), closed([9], []), closed([], [])] == [1, 0, 0]
    assert closed([], [], "b") == 1, "9 is closed, and not 3 again"
    assert closed([], [8], "b") == closed([], [9]) == 0, "both are late"
    assert closed([12], [12]) == 1


CALLS = (
    AggregateCall("count", None, False, LONG),
    AggregateCall("sum", 2, False, LONG),
    AggregateCall("min", 2, False, LONG),
    AggregateCall("max", 0, False, TEXT),
    AggregateCall("avg", 2, True, DOUBLE),
    ValuesCall("collect_list", 2, False, pa.list_(pa.field("element", LONG))),
)
GROUPS = ClosingAggregate((0, 1), (TEXT, MOMENT, *(call.type for call in CALLS)), (0, 1), CALLS, 1)


@pytest.mark.parametrize("seed", sampled(range(8), 2))
def test_a_group_is_in_the_output_once_when_the_watermark_reaches_it_and_leaves_no_state(seed: int) -> None:
    """In half of the histories every row has a time, so that nothing stays in the end."""
    steps, before, whole, expected = steps_of(seed), 0, list[Row](), []
    if seed % 2:
        steps = [([[row for row in rows if row[1] is not None]], after) for (rows,), after in steps]
    for (rows,), after in steps:
        on_time = punctual(rows, before)
        whole += on_time
        groups: dict[Row, list[Row]] = {}
        for row in whole:
            if row[1] is not None and before < row[1] <= after:
                groups.setdefault(row[:2], []).append(row)
        out = Counter({(*key, *_aggregated(key, [row[2] for row in mine])): 1 for key, mine in groups.items()})
        expected.append((out, len(rows) - len(on_time)))
        before = after
    store = DictStore()
    assert list(ran(GROUPS, [TYPES], [(s[0], s[1]) for s in steps], store)) == expected
    kept = len({row[0] for row in whole if row[1] is None})
    if not kept:
        context = context_of(GROUPS, store, append_only=True)
        plan = aggregate_plan_of(GROUPS.group, CALLS, TYPES, append_only=True)
        keys, _ = keys_of([pa.array([], kind) for kind in TYPES[:2]], 0, context.key(0, GROUPS.group))
        traces = list(traces_of(plan, keys, context))
        assert len(traces) == 3 and not any(trace.scan().num_rows for trace in traces)


def _aggregated(key: Row, values: list[int]) -> Row:
    distinct = set(values)
    return (len(values), sum(values), min(values), key[0], sum(distinct) / len(distinct), tuple(sorted(values)))


@pytest.mark.parametrize("seed", sampled(range(8), 2))
def test_the_rows_of_a_session_go_out_together_when_it_is_over(seed: int) -> None:
    steps, before, waiting, expected = [], 0, list[Row](), []
    for (rows,), after in steps_of(seed):
        ranges = [(word, (time, time + 3), number) for word, time, number in rows if time is not None]
        steps.append(([ranges], after))
        on_time = [row for row in ranges if row[1][1] > before]
        waiting += on_time
        out: Counter[Row] = Counter()
        stays = []
        for word in {row[0] for row in waiting}:
            for mine in _sessions([row for row in waiting if row[0] == word]):
                whole = (mine[0][1][0], max(row[1][1] for row in mine))
                if whole[1] <= after:
                    out.update((row[0], whole, row[2]) for row in mine)
                else:
                    stays += mine
        waiting = stays
        expected.append((out, len(ranges) - len(on_time)))
        before = after
    types = (TEXT, RANGE, LONG)
    assert list(ran(ClosingSessions((0, 1), types, (0,), 1), [types], steps)) == expected


def _sessions(rows: list[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row[1]):
        if found and row[1][0] <= max(r[1][1] for r in found[-1]):
            found[-1].append(row)
        else:
            found.append([row])
    return found


@pytest.mark.parametrize("seed", sampled(range(8), 2))
@pytest.mark.parametrize("lifetime", [0, 3, None])
def test_a_key_is_in_the_output_once_until_it_is_forgotten(seed: int, lifetime: int | None) -> None:
    """Each step has a key once, so that there is no choice between rows."""
    key = (0, 1) if lifetime == 0 else (0,)
    steps = [
        ([list({tuple(row[i] for i in key): row for row in rows}.values())], after) for (rows,), after in steps_of(seed)
    ]
    node = TimedDeduplicate((0, 1), TYPES, key, 1, lifetime, 0 if lifetime == 3 else None)
    known: dict[Row, int | None] = {}
    before, expected = 0, []
    for (rows,), after in steps:
        on_time, out = punctual(rows, before), Counter[Row]()
        for row in on_time:
            name = tuple(row[i] for i in key)
            if name not in known:
                out[row] += 1
                time = row[1] if row[1] is not None or lifetime != 3 else 0
                known[name] = None if lifetime is None or time is None else time + lifetime
        known = {name: end for name, end in known.items() if end is None or end > after}
        expected.append((out, len(rows) - len(on_time)))
        before = after
    assert list(ran(node, [TYPES], steps)) == expected


@pytest.mark.parametrize("seed", sampled(range(12), 3))
@pytest.mark.parametrize("outer", [(False, False), (True, False), (True, True)])
def test_a_join_forgets_rows_that_nothing_can_match_and_tells_then_of_those_without_a_match(
    seed: int, outer: tuple[bool, bool]
) -> None:
    """The right is at least one before the left and less than four behind it: `right.ts >= left.ts - 1 AND right.ts < left.ts + 4`."""
    steps = steps_of(seed, inputs=2)
    near = Expression("epoch_us(c4) >= epoch_us(c1) - 1 AND epoch_us(c4) < epoch_us(c1) + 4", pa.bool_())
    expiries = Expiry(1, 4), Expiry(1, 2)
    node = TimedJoin((0, 1, 2), (*TYPES, *TYPES), (0,), (0,), (False,), near, *outer, 1, 1, *expiries)
    sides: list[list[list[Any]]] = [[], []]  # [row, whether it was in a pair]
    before, expected = 0, []
    for rows, after in steps:
        new = [[[row, False] for row in punctual(each, before)] for each in rows]
        late = sum(map(len, rows)) - sum(map(len, new))
        out: Counter[Row] = Counter()
        for left, right in _crossed(sides, new):
            if _meets(left[0], right[0]):
                out[*left[0], *right[0]] += 1
                left[1] = right[1] = True
        for number, offset in enumerate((4, 2)):
            sides[number] += new[number]
            gone = [one for one in sides[number] if one[0][1] is not None and one[0][1] + offset <= after]
            sides[number] = [one for one in sides[number] if one not in gone]
            nulls = (None,) * len(TYPES)
            for row, matched in gone:
                if outer[number] and not matched:
                    out[(*row, *nulls) if number == 0 else (*nulls, *row)] += 1
        expected.append((out, late))
        before = after
    assert list(ran(node, [TYPES, TYPES], steps)) == expected


def _crossed(old: list[list[Any]], new: list[list[Any]]) -> Iterator[tuple[Any, Any]]:
    yield from ((left, right) for left in new[0] for right in old[1] + new[1])
    yield from ((left, right) for left in old[0] for right in new[1])


def _meets(left: Row, right: Row) -> bool:
    if left[0] is None or left[0] != right[0] or left[1] is None or right[1] is None:
        return False
    return bool(left[1] - 1 <= right[1] < left[1] + 4)


STEPS, ROWS = 60, 50
BOUNDED: dict[str, tuple[NodeBase, Callable[[int], list[list[Row]]], list[tuple[pa.DataType, ...]]]] = {
    "groups": (GROUPS, lambda n: [[(str(i), n, i) for i in range(ROWS)]], [TYPES]),
    "sessions": (
        ClosingSessions((0, 1), (TEXT, RANGE, LONG), (0,), 1),
        lambda n: [[(f"{n} {i}", (n, n + 2), i) for i in range(ROWS)]],
        [(TEXT, RANGE, LONG)],
    ),
    "keys": (
        TimedDeduplicate((0, 1), TYPES, (0,), 1, 2),
        lambda n: [[(f"{n} {i}", n, i) for i in range(ROWS)]],
        [TYPES],
    ),
    "pairs": (
        TimedJoin(
            (0, 1, 2), (*TYPES, *TYPES), (2,), (2,), (False,), None, True, True, 1, 1, Expiry(1, 2), Expiry(1, 2)
        ),
        lambda n: [[(f"{n} {i}", n, i) for i in range(ROWS)]] * 2,
        [TYPES, TYPES],
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_state_does_not_grow_with_the_input(name: str) -> None:
    """After each step there are the rows of the last steps, and what is left of removed ones is merged away by and by."""
    node, rows, inputs = BOUNDED[name]
    store, sizes = DictStore(), []
    for _ in ran(node, inputs, [(rows(n), n - 2) for n in range(3, 3 + STEPS)], store):
        sizes.append(scanned(store))
    half = STEPS // 2
    assert max(sizes[half:]) <= 1.2 * max(sizes[:half]), sizes


@pytest.mark.long
def test_workers_and_moves_of_slots_do_not_change_when_groups_close() -> None:
    """The outputs of the circuit of all kinds, each with its watermark, on any number of workers."""
    names = ("closed", "ended", "once", "met")

    def outputs(workers: int) -> list[dict[str, list[Any]]]:
        machine = InProcess(every_kind(), workers, PARTITIONS)
        made = [machine.step(given) for given in history(11)]
        return [{name: sorted(map(repr, step[name].to_pylist())) for name in names} for step in made]

    alone = outputs(1)
    assert all(any(step[name] for step in alone) for name in names)
    assert outputs(3) == alone


class BesideAnIdleInput:
    """From one aggregate over a watermark to others, by a transition that begins when the watermark has gone on without its second input."""

    def __init__(self, before: Circuit, now: Circuit) -> None:
        filling = led(before, now).filling
        outputs = (node.handle for each in (before, now) for node in each.nodes if isinstance(node, Output))
        self.machine = InProcess(filling.present.circuit, 2, dict.fromkeys(outputs, 1))
        self.way, self.written = Way(self.machine, filling), list[tuple[str, Any]]()

    def step(self, a: list[int], b: list[int], *idle: str, again: bool = False) -> None:
        """The times of the rows, in ms."""
        self.machine.idle = frozenset(idle)
        given = {name: table([("x", 1000 * at, 7) for at in those], TYPES) for name, those in (("a", a), ("b", b))}
        given = {OF_NEXT + name: rows for name, rows in given.items()} if again else given
        for handle, messages in self.machine.step(given, filled=self.way.filled).items():
            self.written += [(handle, json.loads(value)) for value in messages.column("value").to_pylist()]

    def go(self, back: list[int]) -> None:
        """`back`: the rows with which the second input comes back, behind the watermark."""
        self.step([3, 9], [3])
        self.step([], [], "b")
        self.step([10], back)
        self.way.begin()
        for to, rows in ((0, ([3], [3])), (HASHES, ([9, 10], back)), (self.way.whole, ([], []))):
            self.way.advance(to)
            self.step(*rows, again=True)
        self.way.turn()
        self.step([], [])
        self.way.settle()
        self.step([12], [12])

    @staticmethod
    def circuit(mode: Mode, **calls: AggregateCall) -> Circuit:
        """A view by the name of each call."""
        nodes: list[Node] = [Source((), TYPES, "a"), Source((), TYPES, "b")]
        nodes += [LatestTime((0,), (LONG,), 1), LatestTime((1,), (LONG,), 1)]
        nodes += [Watermark((2, 3), WATERMARK_TYPES, (0, 0)), Union((0, 1), TYPES)]
        for name, call in calls.items():
            nodes.append(ClosingAggregate((5, 4), (MOMENT, LONG), (1,), (call,), 0))
            nodes.append(View((len(nodes) - 1,), (MOMENT, LONG), name, ("ts", "n"), kept=False))
            nodes.append(Output((len(nodes) - 1,), (), name, mode, ("ts", "n")))
        return Circuit(tuple(nodes))


def test_a_new_view_beside_an_idle_input_closes_what_has_been_closed() -> None:
    """Rows alone would not bring a copy of the watermark as far. The row of 5 was late, and is not for who gets it with the history."""
    made = BesideAnIdleInput.circuit
    run = BesideAnIdleInput(made("append", count=CALLS[0]), made("append", count=CALLS[0], sum=CALLS[1]))
    run.go([5])
    found = Counter((handle, row["ts"][-5:-1]) for handle, row in run.written)
    assert found == {(name, f".{at:03}"): 1 for name in ("count", "sum") for at in (3, 9, 10, 12)} | {
        ("sum", ".005"): 1
    }


def test_a_changed_view_beside_an_idle_input_takes_back_what_has_been_closed() -> None:
    made = BesideAnIdleInput.circuit
    run = BesideAnIdleInput(made("changelog", view=CALLS[0]), made("changelog", view=CALLS[1]))
    run.go([])
    content: Counter[tuple[str, int]] = Counter()
    for _, message in run.written:
        for sign, row in ((-1, message["before"]), (1, message["after"])):
            if row is not None:
                content[row["ts"][-5:-1], row["n"]] += sign
    assert {row: n for row, n in content.items() if n} == {
        (".003", 14): 1,
        (".009", 7): 1,
        (".010", 7): 1,
        (".012", 14): 1,
    }
