"""A trace against a Counter: however the changes are split into appends, probes and scans see their sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.slots import ALL_SLOTS, SLOTS
from engine.operators.keys import hash_keys
from engine.rows import zset
from engine.rows.hashing import hash_columns
from engine.state import trace as trace_module
from engine.state.merging import merge
from engine.state.runs import TraceLayout, parse_run_key
from engine.state.store import DictStore
from engine.state.trace import Trace
from storage.pins import Pin
from tests.engine.zsets import ROWS, TYPES, Rows, plus, to_rows, to_table

LAYOUT = TraceLayout(16, TYPES, (0,))


def append_table(store: DictStore, layout: TraceLayout, table: pa.Table) -> None:
    """Appends rows that lie by the whole key."""
    Trace(store, layout).append(table, hash_keys(table, layout.key))


def append(store: DictStore, change: Rows) -> None:
    append_table(store, LAYOUT, to_table(change, TYPES).rename_columns(["c0", "c1", "a0"]))


def content(store: DictStore) -> Rows:
    return to_rows(Trace(store, LAYOUT).scan())


@settings(deadline=None)
@given(st.lists(st.dictionaries(ROWS, st.integers(-2, 3), max_size=8), max_size=12), st.integers(1, 6))
def test_content_is_the_sum_of_what_was_appended(changes: list[dict[tuple[object, ...], int]], bucket: int) -> None:
    store, expected = DictStore(), Counter[tuple[object, ...]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "BUCKET_ROWS_MAX", bucket)
        for change in changes:
            append(store, Counter({row: w for row, w in change.items() if w}))
            expected = plus(expected, Counter(change))
            assert content(store) == expected
        for key in [None, -2, 0, 1, 9]:
            keys = pa.table({"k0": pa.array([key, key], pa.int64())})
            matches = Trace(store, LAYOUT).probe(keys, hash_columns(keys.columns, 2))
            found = to_rows(matches.rows.filter(pa.array(matches.probe == 1)))
            assert found == Counter({row: w for row, w in expected.items() if row[0] == key})
            assert (np.diff(matches.probe) >= 0).all()


def test_runs_are_few_and_merges_bounded() -> None:
    """The number of runs that a lookup opens grows with the logarithm of the rows, and no merge exceeds two buckets."""
    store = DictStore()
    for step in range(200):
        append(store, Counter({(step * 50 + i, "x"): 1 for i in range(50)}))
    runs = Trace(store, LAYOUT).runs()
    assert sum(run.table.num_rows for run in runs) == 10_000
    assert len(runs) <= 10


def test_a_bucket_that_outgrows_its_bound_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs stay within the bound and in the range of their bucket, and their keys are in the order of their hashes."""
    monkeypatch.setattr(trace_module, "BUCKET_ROWS_MAX", 100)
    store = DictStore()
    for step in range(40):
        append(store, Counter({(step * 50 + i, "x"): 1 for i in range(50)}))
    firsts = sorted({parse_run_key(key)[0] for key in store.records})
    assert len(firsts) > 8
    for key, value in store.records.items():
        hashes = pa.ipc.open_stream(value).read_all().column("hash").to_numpy()
        first = parse_run_key(key)[0]
        after = min((f for f in firsts if f > first), default=1 << 64)
        assert first <= int(hashes.min()) and int(hashes.max()) < after
        assert len(hashes) <= 200
        assert int.from_bytes(key[2:4], "big") == first >> 48, (
            "the slot in a run's key is that of its bucket's first hash"
        )


def test_buckets_and_their_bound_grow_with_the_root_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a constant bound, there would be 1,400 buckets here, each seven tenths full."""
    monkeypatch.setattr(trace_module, "BUCKET_ROWS_MAX", 40)
    store = DictStore()
    for step in range(80):
        keys, words = pa.array(np.arange(500) + 500 * step), pa.array(["x"] * 500)
        append_table(store, LAYOUT, pa.table({"c0": keys, "c1": words, "a0": np.ones(500, np.int64)}))
    buckets = len({parse_run_key(key)[0] for key in store.records})
    longest = max(run.table.num_rows for run in Trace(store, LAYOUT).runs())
    root = (40_000 / (0.7 * 40) * trace_module.BUCKETS_SMALL) ** 0.5
    assert 0.5 * root < buckets < 1.5 * root
    assert longest < 2 * 40 * (1 + buckets / trace_module.BUCKETS_SMALL)


def test_rows_of_one_hash_stay_together_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "BUCKET_ROWS_MAX", 10)
    store = DictStore()
    append(store, Counter({(1, str(i)): 1 for i in range(50)}))
    append(store, Counter({(1, str(i)): -1 for i in range(49)}))
    assert content(store) == Counter({(1, "49"): 1})


def test_keys_of_one_hash_are_distinguished() -> None:
    store = DictStore()
    rows = to_table(Counter({(1, "a"): 1, (2, "b"): 1}), TYPES).rename_columns(["c0", "c1", "a0"])
    Trace(store, LAYOUT).append(rows, np.zeros(2, np.uint64))
    matches = Trace(store, LAYOUT).probe(pa.table({"k0": [2, 3]}), np.zeros(2, np.uint64))
    assert matches.probe.tolist() == [0]
    assert matches.rows.column("c1").to_pylist() == ["b"]


def test_a_probe_finds_all_rows_of_a_key_beside_keys_with_one() -> None:
    store = DictStore()
    append(store, Counter({(1, "a"): 1, (2, "b"): 2, (2, "c"): 3, (3, "d"): 4}))
    keys = pa.table({"k0": [3, 2, 1]})
    matches = Trace(store, LAYOUT).probe(keys, hash_columns(keys.columns, 3))
    assert sorted(zip(matches.probe.tolist(), matches.rows.column("c1").to_pylist(), strict=True)) == [
        (0, "d"), (1, "b"), (1, "c"), (2, "a"),
    ]  # fmt: skip


def test_extreme_accumulators_are_combined() -> None:
    layout = TraceLayout(16, (pa.int64(),), (0,), ("sum", "max", "min"), (pa.int64(), pa.string(), pa.float64()))
    store = DictStore()
    for word, number in [("b", 2.0), ("c", None), (None, 1.0)]:
        rows = {"c0": [7], "a0": [1], "a1": pa.array([word], pa.string()), "a2": pa.array([number], pa.float64())}
        append_table(store, layout, pa.table(rows))
    assert Trace(store, layout).scan().to_pylist() == [{"c0": 7, "a0": 3, "a1": "c", "a2": 1.0}]


def test_extremes_of_integers_are_combined() -> None:
    layout = TraceLayout(16, (pa.int64(),), (0,), ("sum", "max", "min"), (pa.int64(),) * 3)
    store = DictStore()
    for number in (2, 5, -1):
        append_table(store, layout, pa.table({"c0": [7, 8], "a0": [1, 1], "a1": [number, 0], "a2": [number, 0]}))
    scanned = Trace(store, layout).scan().sort_by("c0").to_pylist()
    assert scanned == [{"c0": 7, "a0": 3, "a1": 5, "a2": -1}, {"c0": 8, "a0": 3, "a1": 0, "a2": 0}]


def test_ordered_runs_have_values_in_order_within_a_key() -> None:
    layout = TraceLayout(16, (pa.int64(), pa.float64()), (0,), ordered=True)
    store = DictStore()
    values = [3.0, None, float("nan"), -1.0, float("inf")]
    append_table(store, layout, pa.table({"c0": [1] * 5, "c1": values, "a0": [1] * 5}))
    (run,) = Trace(store, layout).runs()
    assert [str(v) for v in run.table.column("c1").to_pylist()] == ["-1.0", "3.0", "inf", "nan", "None"]


def test_totals_sum_what_runs_hold_in_parts() -> None:
    store = DictStore()
    for change in [{(i, "x"): 1 for i in range(40)}, {(1, "x"): 2}, {(2, "y"): 5}]:
        append(store, Counter(change))
    keys = pa.table({"k0": [2, 1, 99]})
    totals = Trace(store, LAYOUT).probe(keys, hash_columns(keys.columns, 3)).totals(3)
    assert totals.tolist() == [6, 3, 0]
    assert zset.weights_of(to_table(Counter({(1, "x"): 3}), TYPES)).tolist() == [3]


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(ROWS, st.integers(-2, 3), max_size=8), max_size=8), st.integers(1, 6), st.integers(0, 12)
)
def test_a_trace_is_taken_out_bucket_by_bucket(
    changes: list[dict[tuple[object, ...], int]], bucket: int, pinned: int
) -> None:
    """Each row once, whatever is pinned; afterwards the trace is empty, and pinned runs are as they were."""
    store, expected = DictStore(), Counter[tuple[object, ...]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "BUCKET_ROWS_MAX", bucket)
        for change in changes:
            append(store, Counter({row: w for row, w in change.items() if w}))
            expected = plus(expected, Counter(change))
        store.pins = (Pin(ALL_SLOTS, {LAYOUT.table: pinned}),)
        copied = {key: run for key, run in store.records.items() if parse_run_key(key)[1] < pinned}
        for content_before in (expected, Counter[tuple[object, ...]](), expected):
            parts = list(Trace(store, LAYOUT).take_out())
            assert (
                to_rows(pa.concat_tables([LAYOUT.schema.empty_table(), *parts]).drop_columns(["hash"]))
                == content_before
            )
            assert sum(part.num_rows for part in parts) == len(content_before)
            assert content(store) == Counter()
            assert copied.items() <= store.records.items()
            if not pinned:
                assert not store.records
            if not content_before:
                append(store, expected)


def slots_cut_at(cuts: list[int]) -> list[tuple[int, int]]:
    edges = [0, *sorted(cuts), SLOTS]
    return list(pairwise(edges))


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(ROWS, st.integers(-2, 3), max_size=8), max_size=8),
    st.integers(1, 6),
    st.lists(st.integers(0, SLOTS), max_size=4),
)
def test_bounded_reads_give_each_row_in_its_slots(
    changes: list[dict[tuple[object, ...], int]], bucket: int, cuts: list[int]
) -> None:
    """Some cuts are edges of buckets: the slot of a row's hash is made one."""
    store = DictStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "BUCKET_ROWS_MAX", bucket)
        for change in changes:
            append(store, Counter({row: w for row, w in change.items() if w}))
    whole = Trace(store, LAYOUT)
    cuts = [*cuts, *(parse_run_key(key)[0] >> 48 for key in list(store.records)[:2])]
    scans = [pa.table(whole.scan().slice(0, 0))]
    for slots in slots_cut_at(cuts):
        bounded = Trace(store, LAYOUT, slots)
        scans.append(bounded.scan())
        assert to_rows(bounded.scan()) == sum_of(list(bounded.parts()))
        hashes = [h for run in bounded.runs() for h in run.hashes.tolist()]
        assert all(slots[0] <= h >> 48 < slots[1] for h in hashes)
        assert all(len(run.hashes) == run.table.num_rows > 0 for run in bounded.runs())
        keys = pa.table({"k0": pa.array([None, 0, 1], pa.int64())})
        of_keys = hash_columns(keys.columns, 3)
        assert bounded.probe(keys, of_keys).rows.equals(whole.probe(keys, of_keys).rows)
    assert pa.concat_tables(scans).equals(whole.scan())


def sum_of(tables: list[pa.Table]) -> Rows:
    total: Rows = Counter()
    for table in tables:
        total = plus(total, to_rows(table))
    return total


@settings(deadline=None)
@given(st.lists(st.dictionaries(ROWS, st.integers(-2, 3), max_size=8), min_size=1, max_size=12), st.booleans())
def test_a_scan_is_what_a_merge_of_all_runs_would_be(
    changes: list[dict[tuple[object, ...], int]], ordered: bool
) -> None:
    """Although it adds up only rows whose hash is in several runs. All keys have one of two hashes."""
    layout, store = TraceLayout(16, TYPES, (0,), ordered=ordered), DictStore()
    for change in changes:
        rows = to_table(Counter({row: w for row, w in change.items() if w}), TYPES)
        hashes = np.where(rows.column(0).is_null(), 1, 2).astype(np.uint64)
        Trace(store, layout).append(rows.rename_columns(["c0", "c1", "a0"]), hashes)
    trace = Trace(store, layout)
    runs = trace.runs()
    merged = merge([run.table for run in runs], layout) if runs else layout.schema.empty_table()
    assert trace.scan().equals(merged.drop_columns(["hash"]))


class Opened(DictStore):
    """Counts the runs that are read, and their rows."""

    def __init__(self, records: dict[bytes, bytes]) -> None:
        super().__init__()
        self.records, self.runs = records, 0

    def get(self, key: bytes, *, immutable: bool = False) -> memoryview | None:
        self.runs += 1
        return super().get(key, immutable=immutable)


def test_a_bounded_read_opens_the_runs_of_its_buckets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "BUCKET_ROWS_MAX", 100)
    store = DictStore()
    for step in range(40):
        append(store, Counter({(step * 50 + i, "x"): 1 for i in range(50)}))
    firsts = sorted(parse_run_key(key)[0] for key in store.records)
    counted = Counter(firsts)
    buckets = sorted(counted)
    third = buckets[2] >> 48
    for first, end in (
        (third, third + 1),
        (third + 1, third + 2),
        (third, buckets[4] >> 48),
        (third, third),
        (0, SLOTS),
    ):
        opened = Opened(store.records)
        Trace(opened, LAYOUT, (first, end)).scan()
        low, high = first << 48, end << 48
        needed = [b for b, after in pairwise([*buckets, 1 << 64]) if b < high and after > low]
        assert opened.runs == sum(counted[bucket] for bucket in needed)
    assert len(buckets) > 8 and opened.runs == len(store.records)


def test_a_bounded_trace_is_not_written() -> None:
    rows = to_table(Counter({(1, "a"): 1}), TYPES).rename_columns(["c0", "c1", "a0"])
    writes: list[Callable[[Trace], object]] = [
        lambda trace: trace.append(rows, np.zeros(1, np.uint64)),
        lambda trace: list(trace.take_out()),
    ]
    for write in writes:
        with pytest.raises(AssertionError, match="read alone"):
            write(Trace(DictStore(), LAYOUT, (0, 1)))
