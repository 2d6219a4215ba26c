"""Top-k beside a slow twin that sorts the whole content, and the bound on the rows that a step reads of the state."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.ordered import SortKey, TopK
from engine.operators import top_k
from engine.operators.top_k import step_top_k
from engine.rows import zset
from engine.state import prefixes, segments, trace
from engine.state.runs import Run
from engine.state.store import DictStore
from engine.state.trace import Trace
from tests.engine.contexts import context_of
from tests.engine.zsets import ROWS, TYPES, Rows, histories, plus, to_rows, to_table
from tests.examples import examples
from tests.sampling import sampled

UP, DOWN, DOWN_LAST = SortKey(0, True, True), SortKey(0, False, True), SortKey(0, False, False)
WORD = SortKey(1, True, False)
NODES = [
    TopK((0,), TYPES, partition, order, offset, count)
    for partition, order in [
        ((), (UP,)),
        ((), ()),
        ((), (DOWN_LAST, WORD)),
        ((0,), (WORD,)),
        ((1,), (DOWN,)),
        ((1, 0), ()),
    ]
    for offset, count in [(0, 1), (0, 3), (2, 3), (3, None)]
]


def run(node: TopK, steps: list[Rows], *, grow: bool = False, store: DictStore | None = None) -> list[Rows]:
    """The integral of the output after every step."""
    store, content, integrals = store or DictStore(), Counter[tuple[Any, ...]](), []
    for step, rows in enumerate(steps):
        content = plus(
            content,
            to_rows(step_top_k(node, [to_table(rows, node.types)], context_of(node, store, step, append_only=grow))),
        )
        integrals.append(content)
    return integrals


def twin(node: TopK, steps: list[Rows]) -> list[Rows]:
    whole: Rows = Counter()
    integrals = []
    for rows in steps:
        whole = plus(whole, rows)
        integrals.append(top(node, whole))
    return integrals


def top(node: TopK, content: Rows) -> Rows:
    """The definition: sort the rows of each key, then cut."""
    canonical = [row[:-1] for row in rows_in_order(zset.consolidate(to_table(Counter(content), node.types)))]
    for key in reversed(node.order):
        canonical.sort(key=lambda row, key=key: sort_value(row[key.column]), reverse=not key.ascending)  # type: ignore[misc]
        canonical.sort(key=lambda row, key=key: (row[key.column] is None) != key.nulls_first)  # type: ignore[misc]
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in canonical:
        groups.setdefault(tuple(row[c] for c in node.partition), []).extend([row] * max(0, content[row]))
    end = None if node.count is None else node.offset + node.count
    return Counter(row for rows in groups.values() for row in rows[node.offset : end])


def sort_value(value: Any) -> Any:
    return (0, 0) if value is None else (1, value.encode() if isinstance(value, str) else value)


def rows_in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    "node", sampled(NODES, 2), ids=lambda node: f"{node.partition} {len(node.order)} {node.offset} {node.count}"
)
@settings(deadline=None, max_examples=examples(25))
@given(st.data())
def test_the_first_rows_of_every_key(node: TopK, data: st.DataObject) -> None:
    for grow in (False, True):
        changes = data.draw(histories(grow=grow))
        assert run(node, changes, grow=grow) == twin(node, changes)


@settings(deadline=None, max_examples=examples(150))
@given(st.booleans(), st.data(), st.sampled_from([node for node in NODES if not node.partition]))
def test_the_first_rows_when_they_are_spread_over_many_buckets(grow: bool, data: st.DataObject, node: TopK) -> None:
    """With buckets of one or two rows, nearly every move of a cursor leads into another bucket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "BUCKET_ROWS_MAX", 2)
        patch.setattr(trace, "BUCKETS_SMALL", 1 << 30)
        changes = data.draw(histories(grow=grow, steps_max=8))
        assert run(node, changes, grow=grow) == twin(node, changes)


@pytest.mark.parametrize("order", [(), (UP,), (DOWN_LAST,), (WORD, UP)], ids=len)
def test_no_merge_touches_all_rows_of_a_top_k_without_keys(order: tuple[SortKey, ...]) -> None:
    node = TopK((0,), TYPES, (), order, 0, 5)
    store = DictStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "BUCKET_ROWS_MAX", 256)
        patch.setattr(trace, "BUCKETS_SMALL", 1 << 30)
        for step in range(8):
            rows: Rows = Counter({(i, f"{i * 7919 % 4000:06}"): 1 for i in range(step, 4000, 8)})
            step_top_k(node, [to_table(rows, TYPES)], context_of(node, store, step))
        stored = trace_of(node, store)
        longest = max(len(run_.hashes) for run_ in stored.runs())
    assert stored.bucket_count >= 4000 // 256
    assert longest <= 256, "a run has more rows than a bucket may have"
    assert max(int(run_.hashes[-1]) for run_ in stored.runs()) < 1 << 48, "rows lie outside of slot 0"


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.lists(st.tuples(ROWS, st.integers(-3, 3)), max_size=8), min_size=1, max_size=5),
    st.sampled_from(NODES),
)
def test_a_row_that_is_retracted_before_it_is_inserted_is_not_there(
    steps: list[list[tuple[tuple[Any, ...], int]]], node: TopK
) -> None:
    changes = []
    for step in steps:
        change: Rows = Counter()
        for row, weight in step:
            change[row] += weight
        changes.append(Counter({row: weight for row, weight in change.items() if weight}))
    assert run(node, changes) == twin(node, changes)


@settings(deadline=None, max_examples=examples(50))
@given(histories(), st.sampled_from(NODES))
def test_rows_whose_hashes_collide_are_told_apart(changes: list[Rows], node: TopK) -> None:
    """Then rows that tie are in one class, which the cursor may cut in two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "hash_columns", lambda columns, length: np.zeros(length, np.uint64))
        whole: Rows = Counter()
        for change, found in zip(changes, run(node, changes), strict=True):
            whole = plus(whole, change)
            (at_once,) = run(node, [whole])
            assert found == at_once, "the choice depends on how the content came"
            assert sum(found.values()) == sum(top(node, whole).values())


def test_a_class_of_rows_is_read_as_a_whole_before_its_first_row_is_chosen() -> None:
    """The rows of a class lie in a run in another order than that in which they are chosen."""
    node = TopK((0,), TYPES, (), (UP,), 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "hash_columns", lambda columns, length: np.zeros(length, np.uint64))
        patch.setattr(prefixes, "WIDTH_FIRST", 1)
        for letter in "abcdef":
            below: Rows = Counter({(1, f"{letter}{i}"): 1 for i in range(8)})
            first: Rows = Counter({(0, letter): 1})
            found = run(node, [plus(below, first), Counter({(0, letter): -1})])[-1]
            assert found == run(node, [below])[-1]


def test_minus_zero_ties_with_zero_and_stays_what_it_is() -> None:
    types = (pa.float64(), pa.int64())
    rows: Rows = Counter({(0.0, 2): 1, (-0.0, 1): 1, (-1.0, 0): 1, (math.inf, 3): 1, (None, 4): 1})
    node = TopK((0,), types, (), (SortKey(0, True, False), SortKey(1, False, False)), 1, 2)
    assert sorted(map(repr, run(node, [rows])[0])) == ["(-0.0, 1)", "(0.0, 2)"]


def test_zeros_of_both_signs_tie_and_the_cursor_may_stand_between_them() -> None:
    """Their rows have one hash. (A Counter would take them for one row.)"""
    node = TopK((0,), (pa.float64(),), (), (SortKey(0, True, False),), 0, 3)

    def kept(*steps: tuple[float, ...]) -> Counter[str]:
        store, content = DictStore(), Counter[str]()
        for step, values in enumerate(steps):
            table = zset.build([pa.array(values, pa.float64())], np.ones(len(values), np.int64))
            for value, weight in rows_in_order(step_top_k(node, [table], context_of(node, store, step))):
                content[repr(value)] += weight
        return Counter({value: weight for value, weight in content.items() if weight})

    once = kept((0.0, -0.0, 0.0, -0.0, 5.0))
    assert sorted(once.values()) == [1, 2]
    for order in [(5.0, -0.0, 0.0, -0.0, 0.0), (0.0, 0.0, -0.0, -0.0, 5.0), (-0.0, -0.0, 5.0, 0.0, 0.0)]:
        assert kept(*((value,) for value in order)) == once


def test_a_key_without_rows_leaves_nothing_behind() -> None:
    for grow, node in itertools.product((False, True), NODES):
        store = DictStore()
        rows: Rows = Counter({(i, "a"): 2 for i in range(4)})
        back: Rows = Counter({row: -weight for row, weight in rows.items()})
        run(node, [rows] if grow else [rows, back], grow=grow, store=store)
        assert bool(store.records) == grow


def test_an_append_only_input_leaves_the_first_rows_alone_in_the_state() -> None:
    node = TopK((0,), TYPES, (), (DOWN,), 2, 3)
    store = DictStore()
    steps: list[Rows] = [Counter({(i, "a"): 1 for i in range(s, 1000, 7)}) for s in range(7)]
    run(node, steps, grow=True, store=store)
    rows = trace_of(node, store).scan()
    assert sorted(rows.column(2).to_pylist()) == [995, 996, 997, 998, 999]


class Counted:
    """The number of rows that have been read of runs."""

    rows = 0


@contextmanager
def counted() -> Iterator[Counted]:
    """Counts the rows that are read of the trace of rows. All other ways to read a trace with an order raise."""
    count, whole = Counted(), segments.read
    column = 1  # the sort bytes, which are read of every row that is looked at

    def read(run_: Run, place: int, rows: Any) -> pa.Array:
        if run_.table.schema.field(1).type == pa.binary() and place == column:
            count.rows += len(rows)
        return whole(run_, place, rows)

    def scan(trace: Trace) -> pa.Table:
        raise AssertionError("a step scans a trace")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "read", read)
        patch.setattr("engine.state.prefixes.read", read)
        patch.setattr(Trace, "scan", scan)
        yield count


def trace_of(node: TopK, store: DictStore) -> Trace:
    """The trace of rows of a node without partition columns."""
    return context_of(node, store).trace(top_k.ROWS_TRACE, [pa.int8(), pa.binary(), *TYPES], (0,), ordered=True)


def runs_of(node: TopK, store: DictStore) -> int:
    return len(trace_of(node, store).runs())


def bound(runs: int, size: int, changed: int, moved: int, dead: int) -> float:
    """What prefixes.py states, for one cursor."""
    return runs * (2 + 2 * math.log2(size + 1) * (changed + 1) + 2 + 6 * (moved + changed + dead + 4))


@pytest.mark.parametrize(("size", "count"), [(5_000, 100), (40_000, 3000)])
def test_a_step_reads_what_moves_and_not_what_is_kept(size: int, count: int) -> None:
    node = TopK((0,), TYPES, (), (UP,), 0, count)
    store = DictStore()
    step_top_k(node, [to_table(Counter({(2 * i, "a"): 1 for i in range(size)}), TYPES)], context_of(node, store))

    def read(change: Rows) -> tuple[int, Rows]:
        with counted() as count_:
            out = to_rows(step_top_k(node, [to_table(change, TYPES)], context_of(node, store)))
        return count_.rows, out

    for taken in range(60):  # the first row goes, and one comes from below
        runs = runs_of(node, store)
        rows, out = read(Counter({(2 * taken, "a"): -1}))
        assert out == Counter({(2 * taken, "a"): -1, (2 * (count + taken), "a"): 1})
        assert rows <= bound(runs, size, 1, 2, 0), "rows above the cursor are read"
    for come in range(60):  # a row comes, and the last one goes
        runs = runs_of(node, store)
        rows, out = read(Counter({(-come, "b"): 1}))
        assert out == Counter({(-come, "b"): 1, (2 * (count + 59 - come), "a"): -1})
        assert rows <= bound(runs, size, 1, 2, 0)
    rows, out = read(Counter({(2 * i + 1, "b"): 1 for i in range(count, count + 1000)}))
    assert rows == 0 and not out, "rows behind the cursor need no reading"
    many: Rows = Counter({(2 * i, "a"): -1 for i in range(100, 100 + min(1000, count // 2))})
    if count > 1000:
        runs, here = runs_of(node, store), sum(1 for _ in many)
        rows, out = read(many)
        assert sum(out.values()) == 0 and rows <= bound(runs, size, here, 2 * here, 0)


def test_rows_that_were_retracted_beside_the_cursor_are_read_until_a_merge_drops_them() -> None:
    node = TopK((0,), TYPES, (), (UP,), 0, 10)
    store, size = DictStore(), 20_000
    step_top_k(node, [to_table(Counter({(i, "a"): 1 for i in range(size)}), TYPES)], context_of(node, store))
    dead: Rows = Counter({(i, "a"): -1 for i in range(10, 210)})
    assert not to_rows(step_top_k(node, [to_table(dead, TYPES)], context_of(node, store)))
    with counted() as count:
        out = to_rows(step_top_k(node, [to_table(Counter({(0, "a"): -1}), TYPES)], context_of(node, store)))
    assert out == Counter({(0, "a"): -1, (210, "a"): 1})
    assert 200 < count.rows <= bound(runs_of(node, store), size, 1, 2, 200)
