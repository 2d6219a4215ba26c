"""A trace: the state of an operator, which is the sum of all changes of a stream, indexed by key.

A trace is a set of immutable **runs**: Arrow tables sorted by (key hash, row), which are searched with whole arrays of
keys and read without a copy (runs.py). The content of a trace is the sum of its runs: equal rows are one row, and their
**accumulators** are combined (merging.py). A Z-set has one accumulator, its weight; an aggregate has several. Runs are
merged as in a log-structured merge tree.

    table  ->  bucket (a range of hashes)  ->  runs, oldest first, each at least twice as long as the next

Why buckets: a merge never touches more than one bucket, so the work of a step is bounded (`BUCKET_ROWS_MAX`) whatever
the size of the state, up to a million rows. Beyond that, the bound grows with the square root of the rows. A bucket
that exceeds its bound is split in two by the merge that finds it so; only rows with the same hash stay together. The
name of a bucket is its first hash, and it ends where the next one begins.

The key of a run is (table, slot of the bucket's first hash, that hash, number). Because numbers grow, the keys of a
bucket are in the order of their age. All rows of a slot have neighbouring hashes (engine/operators/keys.py, ColocatedKey), so
they are one slice of each run of its bucket; moves.py moves them to another trace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.ranges import Range
from engine.rows import zset
from engine.rows.hashing import HASH_BITS, Hashes, first_hash_of, identity_columns, slot_of
from engine.state.merging import merge, sum_runs
from engine.state.runs import HASH, Run, TraceLayout, as_run, between, decode_run, encode_run, parse_run_key, run_key
from engine.state.store import Store
from storage.keys import table_prefix

BUCKET_ROWS_MAX = 1 << 16
"""The bound on a bucket's rows in a trace of up to `BUCKETS_SMALL` buckets. A merge of that many takes about 20 ms.
With smaller buckets, a step with many keys would open more runs."""

BUCKETS_SMALL = 16
"""This many buckets have that bound, and the bound grows by as much with each further 16 buckets. So the number of runs
that a step with many keys opens, and the size of its largest merge, both grow with the square root of a large trace.
(With a constant bound, 5M keys made three times as many runs, which cost more.)"""


@dataclass(frozen=True)
class Matches:
    """The result of a probe. `rows[i]` (columns and accumulators, without the hash) has the key number `probe[i]` of
    the keys that were looked up; `probe` ascends. A row that is in several runs occurs once for each, with the
    accumulators of that run."""

    probe: zset.Indices
    rows: pa.Table

    def totals(self, length: int, accumulator: int = -1) -> Int64s:
        """The sum of one int64 accumulator (by default the last) for each of the `length` keys that were looked up; 0
        for a key without a match."""
        result = np.zeros(length, dtype=np.int64)
        if len(self.probe):
            starts = np.flatnonzero(np.concatenate([[True], self.probe[1:] != self.probe[:-1]]))
            values = self.rows.columns[accumulator].to_numpy()
            result[self.probe[starts]] = np.add.reduceat(values, starts)
        return result


class Trace:
    """One trace within one transaction. It keeps nothing between transactions.

    `slots`: what reads the whole trace (`runs`, `parts`, `scan`) gives the rows of these slots alone. Such a trace is **bounded**, and is not
    written. A probe finds all rows of its keys in any case."""

    def __init__(self, store: Store, layout: TraceLayout, slots: Range | None = None) -> None:
        self._store = store
        self.layout = layout
        self._slots = slots
        self._first = first_hash_of(store.free_from(0))
        self._buckets: dict[int, list[bytes]] = {}
        self._runs: dict[bytes, Run] = {}
        # A pinned run has a copy somewhere: no other one may have its number.
        self._next = self._pinned = store.pinned_below(layout.table)
        for key in store.keys(table_prefix(layout.table)):
            first, number = parse_run_key(key)
            self._buckets.setdefault(first, []).append(key)
            self._next = max(self._next, number + 1)

    # Reading

    def probe(self, keys: pa.Table, hashes: Hashes) -> Matches:
        """All rows whose key columns equal a row of `keys`, where null equals null. `hashes`: of the rows of `keys`.
        The cost is O(runs * keys * log(rows of a run) + matches)."""
        order = np.argsort(hashes)
        sorted_hashes = hashes[order]
        probes: list[zset.Indices] = []
        parts: list[pa.Table] = []
        for run, low, high in self.runs_near(sorted_hashes):
            found, rows = self._match(run, sorted_hashes[low:high])
            if len(found):
                probes.append(order[found + low])
                parts.append(rows)
        return self._verify(keys, probes, parts)

    def runs(self) -> list[Run]:
        """All runs, bucket by bucket, oldest first. Of a bounded trace, the slices of them that have rows."""
        return [run for runs in self._runs_by_bucket() for run in runs]

    def scan(self) -> pa.Table:
        """The whole content, with equal rows combined and without the hash, in the order of the hashes. It is a copy, so it outlives the
        transaction."""
        parts = [sum_runs(runs, self.layout) for runs in self._runs_by_bucket() if runs]
        whole = pa.concat_tables(parts) if parts else self.layout.schema.empty_table()
        return whole.combine_chunks().drop_columns([HASH])

    def parts(self) -> Iterator[pa.Table]:
        """The whole content, run by run and without the hash. A row may be in several parts: nothing is merged, which is most of the cost of
        `scan`."""
        for run in self.runs():
            yield run.table.drop_columns([HASH])

    def _runs_by_bucket(self) -> Iterator[list[Run]]:
        """The runs of each bucket, oldest first. Of a bounded trace, no bucket is opened that cannot have its rows. A run of a bucket that also
        has other rows is a slice, so the cost is that of the rows, and of one search in each run."""
        low, high = (0, 1 << HASH_BITS) if self._slots is None else map(first_hash_of, self._slots)
        for first, end in pairwise([*sorted(self._buckets), 1 << HASH_BITS]):
            if first >= high or end <= low:
                continue
            runs = [self._run(key) for key in self._buckets[first]]
            if low > first or high < end:
                runs = [part for run in runs if len((part := between(run, low, high)).hashes)]
            yield runs

    def runs_near(self, sorted_hashes: Hashes) -> Iterator[tuple[Run, int, int]]:
        """(run, low, high) for each run that may contain rows with the hashes `sorted_hashes[low:high]`, which ascend.
        It opens no other run."""
        for first, low, high in self._slices(sorted_hashes):
            for key in self._buckets.get(first, ()):
                yield self._run(key), low, high

    @property
    def bucket_count(self) -> int:
        return len(self._firsts())

    def buckets_of(self, hashes: Hashes) -> zset.Indices:
        """The number of the bucket of each hash, in the order of the hashes."""
        return np.searchsorted(np.array(self._firsts(), dtype=np.uint64), hashes, side="right") - 1

    def bucket_runs(self, number: int) -> list[Run]:
        """The runs of a bucket, oldest first."""
        return [self._run(key) for key in self._buckets.get(self._firsts()[number], ())]

    def _firsts(self) -> list[int]:
        """The first hash of each bucket, in ascending order."""
        return sorted({self._first, *self._buckets})

    def _slices(self, sorted_hashes: Hashes) -> list[tuple[int, int, int]]:
        """(bucket, low, high): the slice of the ascending hashes that belongs to each bucket, without empty slices."""
        firsts = self._firsts()
        cuts = np.searchsorted(sorted_hashes, np.array(firsts[1:], dtype=np.uint64), side="left").tolist()
        edges = [0, *cuts, len(sorted_hashes)]
        return [(first, edges[i], edges[i + 1]) for i, first in enumerate(firsts) if edges[i] < edges[i + 1]]

    def _run(self, key: bytes) -> Run:
        run = self._runs.get(key)
        if run is None:
            value = self._store.get(key, immutable=True)
            assert value is not None, f"run {key.hex()} was listed and is missing"
            run = self._runs[key] = as_run(decode_run(value))
        return run

    def _match(self, run: Run, sorted_hashes: Hashes) -> tuple[zset.Indices, pa.Table]:
        hashes = run.hashes
        low = np.searchsorted(hashes, sorted_hashes, side="left")
        probe = (hashes[np.minimum(low, len(hashes) - 1)] == sorted_hashes).nonzero()[0]
        low = low[probe]
        if not len(probe):
            return probe, run.table
        after = np.minimum(low + 1, len(hashes) - 1)
        if not (hashes[after] == hashes[low])[after != low].any():  # one row per hash, as mostly: no second search
            return probe, zset.take_rows(run.table, low)
        counts = np.searchsorted(hashes, sorted_hashes[probe], side="right") - low
        starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        return np.repeat(probe, counts), zset.take_rows(run.table, starts + np.arange(len(starts)))

    def _verify(self, keys: pa.Table, probes: list[zset.Indices], parts: list[pa.Table]) -> Matches:
        if not parts:
            return Matches(np.zeros(0, np.int64), self.layout.schema.empty_table().drop_columns([HASH]))
        probe = np.concatenate(probes)
        rows = pa.concat_tables(parts).drop_columns([HASH])
        if len(parts) > 1:
            order = np.argsort(probe, kind="stable")
            probe, rows = probe[order], zset.take_rows(rows, order)
        asked = identity_columns([zset.take(column, pa.array(probe)) for column in keys.columns])
        found = identity_columns([rows.column(i) for i in self.layout.key])
        equal = zset.equal_rows(asked, found, len(probe))
        if not equal.all():
            probe, rows = probe[equal], rows.filter(pa.array(equal))
        return Matches(probe, rows)

    # Writing

    def append(self, rows: pa.Table, hashes: Hashes) -> None:
        """Adds rows, with their accumulators, to the content; equal rows need not be combined. `hashes`: the co-located hash
        of each row's key."""
        if rows.num_rows == 0:
            return
        assert self._slots is None, "a bounded trace is read alone"
        table = rows.append_column(HASH, pa.array(hashes)).cast(self.layout.schema)
        delta = merge([table], self.layout)
        sorted_hashes, edges = delta.column(HASH).to_numpy(), self._edges()
        for first, low, high in self._slices(sorted_hashes):
            self._append_to(first, delta.slice(low, high - low), self._pinned_below(first, edges))

    def _append_to(self, first: int, rows: pa.Table, pinned_below: int) -> None:
        """Adds a run to a bucket. First it merges into the new run the younger runs that are not twice as long. So each
        row is merged O(log(bucket / delta)) times, and a lookup opens as many runs. Pinned runs are not merged: they are
        being copied to another worker."""
        bucket = self._buckets.get(first, [])
        parts, total = [rows], rows.num_rows
        merged_keys: list[bytes] = []
        for key in reversed(bucket):
            if parse_run_key(key)[1] < pinned_below:
                break
            run = self._run(key)
            if run.table.num_rows > 2 * total:
                break
            parts.append(run.table)
            merged_keys.append(key)
            total += run.table.num_rows
        merged = merge(parts[::-1], self.layout) if merged_keys else rows
        everything = len(merged_keys) == len(bucket)
        for key in merged_keys:
            self._delete(first, key)
        if everything and merged.num_rows > BUCKET_ROWS_MAX * (1 + len(self._buckets) // BUCKETS_SMALL):
            self._split(first, merged)
        elif merged.num_rows:
            self._write(first, merged)

    def _edges(self) -> list[int]:
        """The first hash of each bucket, and the end of the last one; nothing if no run is pinned, as in nearly every step."""
        return [*self._firsts(), 1 << HASH_BITS] if self._pinned else []

    def _pinned_below(self, first: int, edges: list[int]) -> int:
        """The runs of this bucket with lower numbers are pinned. `edges`: of buckets that were split since, maybe."""
        if not edges:
            return 0
        last = edges[bisect_right(edges, first)] - 1
        return self._store.pinned_below(self.layout.table, (slot_of(first), slot_of(last) + 1))

    def _split(self, first: int, rows: pa.Table) -> None:
        """Splits the only run of a bucket near its middle: where a slot begins, so that the slots on one side can leave without a row of the
        other side being written again; or where another hash begins, if there is no such place."""
        hashes = rows.column(HASH).to_numpy()
        edge = first_hash_of(slot_of(int(hashes[len(hashes) // 2])))
        cut = int(np.searchsorted(hashes, np.uint64(edge), side="left"))
        if cut == 0:
            edge = int(hashes[len(hashes) // 2])
            cut = int(np.searchsorted(hashes, np.uint64(edge), side="left"))
        if cut == 0:
            cut = int(np.searchsorted(hashes, hashes[0], side="right"))
            edge = int(hashes[min(cut, len(hashes) - 1)])
        self._write(first, rows.slice(0, cut))
        if cut < len(hashes):
            self._write(edge, rows.slice(cut))

    def _write(self, first: int, rows: pa.Table) -> None:
        key = run_key(self.layout.table, first, self._next)
        self._next += 1
        run = rows.combine_chunks()
        self._store.put(key, encode_run(run))
        self._buckets.setdefault(first, []).append(key)
        self._runs[key] = as_run(run)

    def _delete(self, first: int, key: bytes) -> None:
        self._store.delete(key)
        self._runs.pop(key, None)
        bucket = self._buckets[first]
        bucket.remove(key)
        if not bucket:
            del self._buckets[first]

    def take_out(self) -> Iterator[pa.Table]:
        """Takes out the whole content of a trace of weights and gives it, each row once, with weight and hash. It goes bucket by bucket, so that
        no more than one is in memory beside what the caller keeps. A bucket is empty when the next one is asked for."""
        assert self.layout.combines == ("sum",), "rows are taken out by their weights"
        assert self._slots is None, "a bounded trace is read alone"
        weight, edges = len(self.layout.types), self._edges()
        for first in sorted(self._buckets):
            pinned_below = self._pinned_below(first, edges)
            keys = list(self._buckets[first])
            pinned = [self._run(key).table for key in keys if parse_run_key(key)[1] < pinned_below]
            rows = merge([self._run(key).table for key in keys], self.layout)
            for key in keys:
                if parse_run_key(key)[1] >= pinned_below:
                    self._delete(first, key)
            stays = merge(pinned, self.layout) if pinned else rows.slice(0, 0)
            if stays.num_rows:  # it is being copied to another worker, and what takes it back is beside it
                opposite = pa.array(-stays.column(weight).to_numpy())
                self._write(first, stays.set_column(weight, self.layout.schema.field(weight), opposite))
            if rows.num_rows:
                yield rows
