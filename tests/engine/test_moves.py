"""Slots that move between traces: whatever is appended, moved and merged, every row is found where its slot lies, and nowhere else.
And slots that move between the workers of a circuit with every kind of node: its output does not show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.slots import SLOTS, SlotSet
from engine.model.numbers import number_of
from engine.model.placement import Placement
from engine.operators.keys import ColocatedKey
from engine.rows.hashing import first_hash_of, slot_of
from engine.state import moves, trace
from engine.state.moves import Piece, adopt, drop, parts_of, piece_of
from engine.state.runs import TraceLayout, decode_run, parse_run_key
from engine.state.store import DictStore, Store
from engine.state.trace import Trace
from io_kafka.step_log.digest import canonical
from storage.keys import key_table, table_prefix
from tests.engine.contexts import clock_us
from tests.engine.every_kind import PARTITIONS, every_kind, history
from tests.engine.in_process import InProcess
from tests.examples import examples

TABLE = 20
KEY = ColocatedKey((0, 1), (0,))
"""The rows lie by their first column, and are looked up by both."""
LAYOUT = TraceLayout(TABLE, (pa.int64(), pa.int64()), KEY.columns)
OWNERS = 3
ROWS = 60
PLACES = 12
"""Few places with many rows, so that a slot has rows in several runs."""


def table_of(rows: Counter[tuple[int, int]]) -> pa.Table:
    keys = sorted(rows)
    columns = [pa.array([key[i] for key in keys], pa.int64()) for i in (0, 1)]
    return pa.Table.from_arrays([*columns, pa.array([rows[key] for key in keys], pa.int64())], ["c0", "c1", "a0"])


def export(store: Store, table: int, slots: SlotSet) -> Iterator[Piece]:
    """All pieces of these slots."""
    return (piece for part in parts_of(store, table, slots) if (piece := piece_of(store, table, part)) is not None)


def rows_of(found: pa.Table) -> Counter[tuple[int, int]]:
    columns = [found.column(i).to_pylist() for i in range(3)]
    result: Counter[tuple[int, int]] = Counter()
    for a, b, weight in zip(*columns, strict=True):
        result[a, b] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


def cut_at(store: Store, table: int, slot: int) -> None:
    """Makes the first hash of a slot the edge of a bucket, as merges and moves of other slots may have done."""
    moves._cut(moves._Runs(store, table), first_hash_of(slot))


def slot(row: tuple[int, int]) -> int:
    return slot_of(int(KEY.hashes(table_of(Counter({row: 1})))[0]))


EVERY_ROW = [(place, number) for place in range(PLACES) for number in range(5)]
SLOT_OF = {row: slot(row) for row in EVERY_ROW}
EDGES = sorted({0, SLOTS, *SLOT_OF.values(), *(s + 1 for s in SLOT_OF.values())})
"""Edges of slots with rows, so that a move takes some of them and leaves others."""


class Owners:
    """Three traces, each with its slots, and what all of them together should hold."""

    def __init__(self) -> None:
        self.stores = [DictStore() for _ in range(OWNERS)]
        self.owned = [SlotSet.of([(w * SLOTS // OWNERS, (w + 1) * SLOTS // OWNERS)]) for w in range(OWNERS)]
        self.content: Counter[tuple[int, int]] = Counter()

    def append(self, rows: Counter[tuple[int, int]]) -> None:
        for row, weight in rows.items():
            self.content[row] += weight
        for store, owned in zip(self.stores, self.owned, strict=True):
            mine = Counter({row: weight for row, weight in rows.items() if SLOT_OF[row] in owned})
            table = table_of(mine)
            Trace(store, LAYOUT).append(table, KEY.hashes(table))

    def move(self, source: int, target: int, slots: SlotSet) -> None:
        taken = slots.intersection(self.owned[source])
        for span in taken.ranges:
            adopt(self.stores[target], TABLE, span, export(self.stores[source], TABLE, SlotSet((span,))))
        drop(self.stores[source], TABLE, taken)
        self.owned[source] = self.owned[source].minus(taken)
        self.owned[target] = self.owned[target].union(taken)

    def check(self) -> None:
        for store, owned in zip(self.stores, self.owned, strict=True):
            mine = Counter({row: w for row, w in self.content.items() if w and SLOT_OF[row] in owned})
            assert rows_of(Trace(store, LAYOUT).scan()) == mine
            keys = table_of(Counter(dict.fromkeys(EVERY_ROW, 1))).select([0, 1])
            assert rows_of(Trace(store, LAYOUT).probe(keys, KEY.hashes(keys)).rows) == mine, "a row is not found"
            check_buckets(store)


def check_buckets(store: DictStore) -> None:
    """Every run lies in its bucket, and is filed under the slot of the bucket's first hash."""
    firsts = sorted({parse_run_key(key)[0] for key in store.keys(table_prefix(TABLE))})
    for key in store.keys(table_prefix(TABLE)):
        first, _ = parse_run_key(key)
        assert int.from_bytes(key[2:4]) == slot_of(first)
        value = store.get(key)
        assert value is not None
        hashes = decode_run(value).column("hash").to_numpy()
        end = next((other for other in firsts if other > first), 1 << 64)
        assert first <= int(hashes[0]) and int(hashes[-1]) < end
        assert (np.diff(hashes.astype(object)) >= 0).all()


rows = st.dictionaries(st.sampled_from(EVERY_ROW), st.sampled_from([-1, 1, 2]), max_size=8).map(Counter)
spans = st.lists(st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES)), min_size=1, max_size=2).map(SlotSet.of)
workers = st.integers(0, OWNERS - 1)
actions = st.one_of(
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("move"), workers, workers, spans),
    st.tuples(st.just("cut"), workers, st.sampled_from(EDGES)),
)


@pytest.mark.parametrize("bucket_rows", [2, 5, 1000])
def test_rows_are_found_where_their_slots_lie(bucket_rows: int) -> None:
    """Buckets of few rows split often; buckets of many hold several slots."""

    @settings(max_examples=examples(150))
    @given(st.lists(actions, max_size=12))
    def check(script: list[tuple[object, ...]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trace, "BUCKET_ROWS_MAX", bucket_rows)
            owners = Owners()
            for action in script:
                match action:
                    case ("append", Counter() as some):
                        owners.append(some)
                    case ("move", int(source), int(target), SlotSet() as slots) if source != target:
                        owners.move(source, target, slots)
                    case ("cut", int(worker), int(at)):
                        cut_at(owners.stores[worker], TABLE, at)
                owners.check()

    check()


@given(st.lists(rows, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_pieces_may_come_in_any_order_and_from_changing_buckets(
    changes: list[Counter[tuple[int, int]]], random: object
) -> None:
    """A part of the pieces leaves before the source has split or joined its buckets, the rest afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "BUCKET_ROWS_MAX", 3)
        content: Counter[tuple[int, int]] = Counter()
        pieces: list[Piece] = []
        everything = SlotSet(((0, SLOTS),))
        for change in changes:  # each change leaves as soon as it is there, from buckets of its own
            source = DictStore()
            Trace(source, LAYOUT).append(table_of(change), KEY.hashes(table_of(change)))
            pieces += export(source, TABLE, everything)
            content.update(change)
        random.shuffle(pieces)  # type: ignore[attr-defined]
        target = DictStore()
        adopt(target, TABLE, (0, SLOTS), pieces)
        check_buckets(target)
        assert rows_of(Trace(target, LAYOUT).scan()) == Counter({row: w for row, w in content.items() if w})


def test_a_cut_keeps_the_order_of_age() -> None:
    """The run that is not split is younger than the one that is. A merge reads the runs of a bucket by age."""
    low, high = sorted(EVERY_ROW, key=lambda row: SLOT_OF[row])[:: len(EVERY_ROW) - 1]
    store = DictStore()
    runs = moves._Runs(store, TABLE)
    for number, some in enumerate([[low, high], [low]]):
        table = table_of(Counter(dict.fromkeys(some, number + 1)))
        hashed = table.append_column("hash", pa.array(KEY.hashes(table))).sort_by("hash")
        runs.put(0, hashed)
    cut_at(store, TABLE, SLOT_OF[high])
    weights = [decode_run(store.records[key]).column("a0").to_pylist() for key in sorted(store.records)]
    assert weights == [[1], [2], [1]]


# A whole circuit


CIRCUIT = every_kind()
RANGE_SLOTS = 1024
"""Of the ranges that change their owner."""
NARROW_SLOTS = 64
"""Where the edges of runs and buckets have to be met by chance. Each range cuts every run, which takes most of a test's time."""


def tables_of(store: DictStore) -> set[int]:
    return {key_table(key) for key in store.records}


def slots_of_state(store: DictStore) -> set[int]:
    """The slot of every row of every table."""
    found: set[int] = set()
    for value in store.records.values():
        found |= {slot_of(int(h)) for h in decode_run(value).column("hash").to_numpy()}
    return found


@pytest.mark.parametrize("workers", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_all_state_of_a_worker_lies_in_its_slots(workers: int) -> None:
    """Of every operator, whatever its key is: else its rows would not move with their slot."""
    machine = InProcess(CIRCUIT, workers, PARTITIONS)
    met: set[int] = set()
    for step, given_ in enumerate(history(1)):
        machine.step(given_, time_us=clock_us(step))
        for worker, store in enumerate(machine.stores):
            owned = machine.placement.owned[worker]
            for slot_ in slots_of_state(store):
                assert slot_ in owned
            met |= tables_of(store)
    assert len({number_of(table) for table in met}) > 20, "nodes with state"


@pytest.mark.long
@pytest.mark.parametrize("bucket_rows", [3, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_a_circuit_goes_on_after_slots_have_moved(seed: int, bucket_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every step, random shards get other owners, and among them that of the rows without a key."""
    monkeypatch.setattr(trace, "BUCKET_ROWS_MAX", bucket_rows)
    chance = Random(seed)
    still, moving = InProcess(CIRCUIT, 1, PARTITIONS), InProcess(CIRCUIT, 4, PARTITIONS)
    moved = 0
    for step, given_ in enumerate(history(seed)):
        time_us = clock_us(step)
        expected = {handle: canonical(table) for handle, table in still.step(given_, time_us=time_us).items()}
        found = {handle: canonical(table) for handle, table in moving.step(given_, time_us=time_us).items()}
        assert found == expected
        moved += move_state(moving, shuffled(moving.placement, chance, RANGE_SLOTS))
    assert moved > 20


def shuffled(placement: Placement, chance: Random, range_slots: int) -> Placement:
    """The same workers, and other owners of half of the slots."""
    ranges: dict[int, list[tuple[int, int]]] = {worker: [] for worker in placement.workers}
    for first in range(0, SLOTS, range_slots):
        leaves = first == 0 or chance.random() < 0.5
        owner = next(worker for worker, slots in placement.owned.items() if first in slots)
        ranges[chance.choice(placement.workers) if leaves else owner].append((first, first + range_slots))
    return Placement(0, {worker: SlotSet.of(mine) for worker, mine in ranges.items()}, {})


def move_state(machine: InProcess, to: Placement) -> int:
    """Gives every slot to its owner in another placement. Returns how many runs had rows that moved."""
    count = 0
    for source, store in enumerate(machine.stores):
        for target, other in enumerate(machine.stores):
            leaving = machine.placement.owned[source].intersection(to.owned[target])
            if source == target or not leaving:
                continue
            for table in tables_of(store):
                for span in leaving.ranges:
                    pieces = list(export(store, table, SlotSet((span,))))
                    count += len(pieces)
                    if pieces:
                        adopt(other, table, span, pieces)
                drop(store, table, leaving)
    machine.placement = to
    return count
