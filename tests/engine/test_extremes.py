"""Extremes under retraction against a plain multiset, and the bound on the rows that a search touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.rows.hashing import Hashes
from engine.state.extremes import Found, ValueChange, search
from engine.state.runs import TraceLayout
from engine.state.store import DictStore
from engine.state.trace import Trace
from tests.examples import examples

INT64 = pa.int64()
Entry = tuple[str, int, int]  # key, value, weight


class Values:
    """A trace (key, value) -> weight. `hashes`: the number of different hashes; with few of them, keys collide."""

    def __init__(self, type_: pa.DataType = INT64, hashes: int = 1 << 62) -> None:
        self.type, self._hashes = type_, hashes
        self.trace = Trace(DictStore(), TraceLayout(20, (pa.string(), type_), (0,), ordered=True))

    def value(self, number: int) -> int | bytes:
        return number if self.type == pa.int64() else f"{number:05}".encode()

    def hashes(self, keys: Iterable[str]) -> Hashes:
        return np.array([sum(key.encode()) * 0x9E3779B97F4A7C15 % self._hashes for key in keys], np.uint64)

    def append(self, entries: Sequence[Entry]) -> None:
        keys = [key for key, _, _ in entries]
        values = pa.array([self.value(value) for _, value, _ in entries], self.type)
        table = pa.table({"c0": keys, "c1": values, "a0": [weight for _, _, weight in entries]})
        self.trace.append(table, self.hashes(keys))

    def search(self, keys: Sequence[str], entries: Sequence[Entry], highest: bool) -> Found:
        change = ValueChange(
            np.array([keys.index(key) for key, _, _ in entries], np.int64),
            pa.array([self.value(value) for _, value, _ in entries], self.type),
            np.array([weight for _, _, weight in entries], np.int64),
        )
        return search(self.trace, pa.table({"k0": pa.array(keys)}), self.hashes(keys), change, highest)


def obvious(content: Counter[tuple[str, int]], key: str, highest: bool) -> int | None:
    there = [value for (k, value), weight in content.items() if k == key and weight > 0]
    return (max if highest else min)(there) if there else None


@st.composite
def histories(draw: st.DrawFn) -> list[list[Entry]]:
    content: Counter[tuple[str, int]] = Counter()
    steps = []
    for _ in range(draw(st.integers(1, 7))):
        step = [
            (key, value, 1)
            for key, value in draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=12))
        ]
        content.update((key, value) for key, value, _ in step)
        there = sorted(content.elements())
        for key, value in draw(st.lists(st.sampled_from(there), unique=True, max_size=12)) if there else []:
            taken = draw(st.integers(1, content[key, value]))
            content[key, value] -= taken
            step.append((key, value, -taken))
        steps.append(step)
    return steps


@pytest.mark.parametrize("type_", [pa.int64(), pa.binary()], ids=str)
@pytest.mark.parametrize("hashes", [1 << 62, 1], ids=["hashes apart", "all hashes collide"])
@settings(max_examples=examples(150), deadline=None)
@given(steps=histories(), highest=st.booleans())
def test_the_extreme_of_every_key_before_and_after(
    type_: pa.DataType, hashes: int, steps: list[list[Entry]], highest: bool
) -> None:
    values = Values(type_, hashes)
    content: Counter[tuple[str, int]] = Counter()
    keys = ["c", "a", "b", "absent"]
    for step in steps:
        found = values.search(keys, step, highest)
        before = [obvious(content, key, highest) for key in keys]
        for key, value, weight in step:
            content[key, value] += weight
        after = [obvious(content, key, highest) for key in keys]
        values.append(step)
        assert found.before.to_pylist() == [None if v is None else values.value(v) for v in before]
        assert found.after.to_pylist() == [None if v is None else values.value(v) for v in after]
        assert len(found.below_zero) == 0


@pytest.mark.parametrize("highest", [False, True])
def test_finding_the_next_extreme_does_not_scan_the_group(highest: bool) -> None:
    values = Values()
    size = 20_000
    values.append([("a", value, 1) for value in range(size)])
    end, inward = (size - 1, -1) if highest else (0, 1)
    for taken in range(100):
        value = end + inward * taken
        found = values.search(["a"], [("a", value, -1)], highest)
        assert found.before.to_pylist() == [value]
        assert found.after.to_pylist() == [value + inward]
        values.append([("a", value, -1)])
        runs = len(values.trace.runs())
        beyond = taken + 2  # the answer and the retracted values, if no merge has dropped them yet
        assert found.rows_touched <= (runs + 1) * (2 + 6 * beyond)
    assert found.rows_touched < size / 20


@pytest.mark.parametrize("size", [100, 10_000])
def test_rows_touched_do_not_grow_with_the_group(size: int) -> None:
    values = Values()
    values.append([("a", value, 1) for value in range(size)])
    assert values.search(["a"], [("a", size - 1, -1)], True).rows_touched == 2 + 1 + 4


def test_keys_that_need_more_rounds_do_not_make_the_others_read_more() -> None:
    values = Values()
    keys = [f"k{i}" for i in range(50)]
    values.append([(key, value, 1) for key in keys for value in range(500)])
    values.append([("k7", value, -1) for value in range(400, 500)])
    found = values.search(keys, [], True)
    assert found.before.to_pylist() == [399 if key == "k7" else 499 for key in keys]
    assert found.rows_touched <= 49 * (2 + 1) + 2 * (2 + 6 * 101)


def test_a_value_of_negative_weight_is_reported() -> None:
    values = Values()
    values.append([("a", 1, 1), ("b", 1, 1)])
    assert values.search(["a", "b"], [("b", 2, -1)], True).below_zero.tolist() == [1]
