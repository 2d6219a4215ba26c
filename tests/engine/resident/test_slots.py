"""What a source gives in one cut, and that two real databases hold it once afterwards."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from base.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from base.version import EMPTY
from engine.errors import StaleTask, TaskLost
from engine.resident import copies, slots
from engine.resident.copies import SlotCopier
from engine.resident.messages import (
    Copies,
    CopyReceived,
    CopySlots,
    Failed,
    GiveSlots,
    Pieces,
    ReleaseSlots,
    SlotsCopied,
    TakeSlots,
    WireFault,
)
from engine.resident.slot_weights import SlotWeights
from engine.resident.slots import SlotMover
from engine.rows.hashing import first_hash_of, hash_columns, slot_of
from engine.run.cut import make_edges
from engine.run.exchange import to_buffer
from engine.state import trace
from engine.state.runs import TraceLayout, decode_run, encode_run, parse_run_key, run_key
from engine.state.trace import Trace
from storage.database import Database
from storage.identity import Identity
from storage.keys import TABLE_FIRST, table_prefix
from storage.transaction import CutNumber

LAYOUT = TraceLayout(TABLE_FIRST, (pa.int64(),), (0,), ("sum",), (pa.int64(),))
CUT = CutNumber(7, 1)


class Wire:
    """Stands for two meshes: what one worker sends, the other takes."""

    def __init__(self) -> None:
        self.sent: deque[tuple[Pieces, tuple[Any, ...]]] = deque()

    def send(self, peer: int, message: Pieces, buffers: Any) -> None:
        self.sent.append((message, tuple(buffers)))

    def pieces_of(self, giver: int) -> tuple[Pieces, tuple[Any, ...]]:
        return self.sent.popleft()


def copier(wire: Any, worker: int, answers: list[Any], weights: SlotWeights | None = None) -> SlotCopier:
    """Its threads do their work at once."""
    outside: Any = SimpleNamespace(start_thread=lambda name, work: work(), lower_priority=lambda: None)
    return SlotCopier(
        wire,
        worker,
        weights or SlotWeights(),
        outside,
        answer=answers.append,
        answer_now=answers.append,
        wire_fault=lambda error: WireFault(known=False, name=str(error), fields={}),
    )


def mover(wire: Any, worker: int, made: SlotCopier | None = None, weights: SlotWeights | None = None) -> SlotMover:
    return SlotMover(wire, worker, weights or SlotWeights(), made or copier(wire, worker, []))


def opened(folder: Path, worker: int, owned: SlotSet) -> Database:
    identity = Identity("p", worker, f"u{worker}")
    Database.create(folder / str(worker), identity, 0, owned)
    fenced = Database.fence(folder / str(worker), epoch=1, identity=identity)
    return Database.open(folder / str(worker), EMPTY, epoch=1, identity=identity, fenced=fenced.number)


def fill(database: Database, values: range) -> None:
    with database.transaction() as transaction:
        rows = pa.table({"c0": pa.array(values, pa.int64()), "a0": pa.array([1] * len(values), pa.int64())})
        Trace(transaction, LAYOUT).append(rows, hash_columns([rows.column(0)], rows.num_rows))


def held(database: Database) -> list[int]:
    with database.read() as transaction:
        rows: list[int] = Trace(transaction, LAYOUT).scan().column(0).to_pylist()
        return sorted(rows)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Database, Database]:
    """The first one owns everything."""
    source, destination = opened(tmp_path, 0, ALL_SLOTS), opened(tmp_path, 1, NO_SLOTS)
    fill(source, range(2000))
    return source, destination


@pytest.mark.parametrize("frame_bytes", [1, 1 << 20])
def test_slots_go_from_one_database_to_the_other(
    pair: tuple[Database, Database], frame_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "FRAME_BYTES_MIN", frame_bytes)
    (source, destination), wire = pair, Wire()
    giver, taker = mover(wire, 0), mover(wire, 1)
    half = SlotSet(((0, 1 << 15),))
    given = giver.give(GiveSlots(number=CUT, slots=half, to=1, bytes_max=1 << 30), source)
    assert given.slots == half and given.moved_bytes > 0 and held(source) == list(range(2000))
    assert taker.take(TakeSlots(number=CUT, giver=0), destination).slots == half
    giver.release(ReleaseSlots(number=CUT, slots=half), source)
    assert sorted(held(source) + held(destination)) == list(range(2000))
    assert 800 < len(held(destination)) < 1200
    with pytest.raises(StaleTask, match="does not own"):
        giver.give(GiveSlots(number=CutNumber(7, 2), slots=half, to=1, bytes_max=1 << 30), source)


def test_a_cut_moves_as_many_slots_as_its_bytes_allow_and_at_least_one(pair: tuple[Database, Database]) -> None:
    (source, destination), wire = pair, Wire()
    weights = SlotWeights()
    giver, taker = mover(wire, 0, weights=weights), mover(wire, 1)
    everything = weights.count(source, ALL_SLOTS)
    assert 2000 * 16 < everything < 2000 * 64
    assert everything // 3 < weights.count(source, SlotSet(((0, 1 << 15),))) < 2 * everything // 3
    left, cuts = ALL_SLOTS, 0
    while left != NO_SLOTS:
        cuts += 1
        number = CutNumber(7, cuts)
        given = giver.give(GiveSlots(number=number, slots=left, to=1, bytes_max=everything // 8), source)
        assert given.slots.is_within(left) and len(given.slots) > 0
        taker.take(TakeSlots(number=number, giver=0), destination)
        giver.release(ReleaseSlots(number=number, slots=given.slots), source)
        left = left.minus(given.slots)
    assert 8 <= cuts <= 12 and held(destination) == list(range(2000)) and held(source) == []
    fill(destination, range(1))
    weights = SlotWeights()
    one = mover(wire, 1, weights=weights)
    weights.count(destination, ALL_SLOTS)
    assert len(one.give(GiveSlots(number=CutNumber(8, 1), slots=ALL_SLOTS, to=0, bytes_max=0), destination).slots) >= 1


class CopyWire(Wire):
    """What one sends about copies, the other takes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[int, tuple[SlotCopier, Database]] = {}
        self.frames = 0

    def send_now(self, peer: int, message: Copies | CopyReceived, buffers: Any) -> None:
        self.frames += isinstance(message, Copies)
        taker, database = self.ends[peer]
        taker.take(1 - peer, message, tuple(buffers), lambda: database)


@pytest.fixture
def copiers(pair: tuple[Database, Database]) -> tuple[CopyWire, list[SlotCopier], list[Any]]:
    wire, answers = CopyWire(), list[Any]()
    made = [copier(wire, worker, answers) for worker in (0, 1)]
    wire.ends = dict(enumerate(zip(made, pair, strict=True)))
    return wire, made, answers


@pytest.mark.parametrize("frame_bytes", [1, 1 << 20])
def test_what_was_copied_is_not_sent_again_in_the_cut(
    pair: tuple[Database, Database],
    copiers: tuple[CopyWire, list[SlotCopier], list[Any]],
    frame_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "FRAME_BYTES_MIN", frame_bytes)
    monkeypatch.setattr(copies, "STORE_BYTES", frame_bytes)
    (source, destination), (wire, (mine, theirs), answers) = pair, copiers
    half, whole = SlotSet(((0, 1 << 15),)), source
    fill(whole, range(2000, 2100))
    order = CopySlots(slots=half, to=1, bytes_wanted=1 << 30, bytes_max=1)
    while not (answers and answers[-1].is_done):
        mine.copy(order, source)
    assert len(answers) > 1 and wire.frames >= len(answers) and all(isinstance(a, SlotsCopied) for a in answers)
    assert held(destination) == [], "nobody sees a copy before the cut"
    assert {answer.slots for answer in answers} == {half}
    fill(source, range(2100, 2200))
    giver, taker = mover(wire, 0, mine), mover(wire, 1, theirs)
    given = giver.give(GiveSlots(number=CUT, slots=half, to=1, bytes_max=1 << 40), source)
    copied_bytes = sum(answer.moved_bytes for answer in answers)
    assert 0 < given.moved_bytes < copied_bytes / 5
    taker.take(TakeSlots(number=CUT, giver=0), destination)
    giver.release(ReleaseSlots(number=CUT, slots=half), source)
    assert sorted(held(source) + held(destination)) == list(range(2200))
    assert 900 < len(held(destination)) < 1300
    assert not source.pins, "what has moved is pinned no more"


def runs_by_bucket(database: Database) -> dict[int, int]:
    with database.read() as state:
        return Counter(parse_run_key(key)[0] for key in state.keys(table_prefix(TABLE_FIRST)))


def fill_owners(databases: tuple[Database, ...], values: range) -> None:
    """Each row goes to the worker that owns its slot, as in a step."""
    slots = [slot_of(int(each)) for each in hash_columns([pa.array(values, pa.int64())], len(values))]
    for database in databases:
        with database.read() as state:
            owned = state.get_owned()
        for value, slot in zip(values, slots, strict=True):
            if slot in owned:
                fill(database, range(value, value + 1))


def test_portions_move_one_by_one_while_the_next_one_is_copied(
    pair: tuple[Database, Database], copiers: tuple[CopyWire, list[SlotCopier], list[Any]]
) -> None:
    """Each cut moves what has come to its portion since, and nothing of the next one, which steps go on to change."""
    (source, destination), (wire, (mine, theirs), answers) = pair, copiers
    whole_bytes = mine._weights.count(source, ALL_SLOTS)
    giver, taker = mover(wire, 0, mine), mover(wire, 1, theirs)
    left, portions, given_bytes, rows, cuts = ALL_SLOTS, deque[SlotSet](), 0, 2000, 0
    while left != NO_SLOTS or portions:
        if left != NO_SLOTS:
            mine.copy(CopySlots(slots=left, to=1, bytes_wanted=whole_bytes // 6, bytes_max=1 << 30), source)
            assert answers[-1].is_done and answers[-1].slots.is_within(left)
            portions.append(answers[-1].slots)
            left = left.minus(portions[-1])
        fill_owners(pair, range(rows, rows + 10))
        rows += 10
        if len(portions) == 2 or left == NO_SLOTS:
            cuts, moving = cuts + 1, portions.popleft()
            number = CutNumber(7, cuts)
            given = giver.give(GiveSlots(number=number, slots=moving, to=1, bytes_max=1 << 40), source)
            given_bytes += given.moved_bytes
            assert taker.take(TakeSlots(number=number, giver=0), destination).slots == moving
            giver.release(ReleaseSlots(number=number, slots=moving), source)
            assert [pin.slots for pin in source.pins] == list(portions)
        assert sorted(held(source) + held(destination)) == list(range(rows))
    assert 4 <= cuts <= 8 and held(source) == []
    copied_bytes = sum(answer.moved_bytes for answer in answers)
    assert 0 < given_bytes < copied_bytes / 5, "what was copied is not sent again"


def test_only_runs_of_slots_that_are_copied_are_pinned(
    pair: tuple[Database, Database], copiers: tuple[CopyWire, list[SlotCopier], list[Any]]
) -> None:
    """The others are merged as ever, so that lookups stay as fast as they were."""
    (source, _), (_, (mine, _), _) = pair, copiers
    half = SlotSet(((0, 1 << 15),))
    mine.copy(CopySlots(slots=half, to=1, bytes_wanted=1 << 30, bytes_max=1 << 30), source)
    buckets = sorted(runs_by_bucket(source))
    assert [slot_of(first) for first in buckets] == [0, 1 << 15], "no bucket reaches over the end of a portion"
    pinned, other = buckets
    before = runs_by_bucket(source)
    fill(source, range(2000, 4000))
    after = runs_by_bucket(source)
    assert after[pinned] == before[pinned] + 1 and after[other] == 1


def test_a_portion_ends_where_a_bucket_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no run is written again when it leaves. Buckets are split where slots begin."""
    monkeypatch.setattr(trace, "BUCKET_ROWS_MAX", 60)
    database, weights = opened(tmp_path, 0, ALL_SLOTS), SlotWeights()
    for number in range(40):
        fill(database, range(50 * number, 50 * number + 50))
    buckets = runs_by_bucket(database)
    assert len(buckets) > 10 and all(first_hash_of(slot_of(first)) == first for first in buckets)
    everything, left, portions = weights.count(database, ALL_SLOTS), ALL_SLOTS, 0
    while left != NO_SLOTS:
        portions += 1
        portion = weights.portion(left, everything // 8)
        with database.transaction() as transaction:
            before = set(transaction.keys(b""))
            make_edges(transaction, portion)
            assert set(transaction.keys(b"")) == before, "a run was written again"
        left = left.minus(portion)
    assert 6 <= portions <= 12
    assert len(weights.portion(ALL_SLOTS, 1)) >= 1 and len(weights.portion(SlotSet(((7, 8),)), 1)) == 1


def test_copies_are_discarded_at_both_ends(
    pair: tuple[Database, Database], copiers: tuple[CopyWire, list[SlotCopier], list[Any]]
) -> None:
    (source, destination), (wire, (mine, theirs), answers) = pair, copiers
    mine.copy(CopySlots(slots=ALL_SLOTS, to=1, bytes_wanted=1 << 30, bytes_max=1 << 30), source)
    assert answers[-1].is_done and source.pins
    mine.discard(source)
    theirs.discard(destination)
    assert not source.pins
    with destination.read() as state:
        assert state.get_hidden() == NO_SLOTS
    giver = mover(wire, 0, mine)
    given = giver.give(GiveSlots(number=CUT, slots=ALL_SLOTS, to=1, bytes_max=1 << 40), source)
    assert given.moved_bytes == answers[-1].moved_bytes, "everything is sent again"


def test_a_copy_that_cannot_be_stored_is_a_fault_of_the_order(
    pair: tuple[Database, Database], copiers: tuple[CopyWire, list[SlotCopier], list[Any]]
) -> None:
    (source, destination), (_, (mine, _), answers) = pair, copiers
    with destination.transaction() as transaction:
        transaction.set_owned(ALL_SLOTS)
    mine.copy(CopySlots(slots=ALL_SLOTS, to=1, bytes_wanted=1 << 30, bytes_max=1 << 30), source)
    (answer,) = answers
    assert isinstance(answer, Failed) and answer.doing == CopySlots.kind and "owns already" in answer.fault.name


def test_pieces_of_another_cut_are_refused(pair: tuple[Database, Database]) -> None:
    (source, destination), wire = pair, Wire()
    giver, taker = mover(wire, 0), mover(wire, 1)
    giver.give(GiveSlots(number=CUT, slots=ALL_SLOTS, to=1, bytes_max=1 << 30), source)
    with pytest.raises(TaskLost, match=r"worker 0 has sent pieces of cut .* during cut"):
        taker.take(TakeSlots(number=CutNumber(8, 1), giver=0), destination)
    assert held(destination) == []


Sent = tuple[Pieces, tuple[Any, ...]]


def reversed_rows(encoded: Any) -> memoryview:
    rows = decode_run(memoryview(encoded))
    return encode_run(rows.take(pa.array(range(rows.num_rows - 1, -1, -1))).combine_chunks())


def with_rows(rows: Any) -> Callable[[Pieces, tuple[Any, ...]], Sent]:
    return lambda message, buffers: (message, (rows, *buffers[1:]))


def with_place(change: Callable[[int, int], tuple[int, int]]) -> Callable[[Pieces, tuple[Any, ...]], Sent]:
    return lambda message, buffers: (
        message.model_copy(update={"places": (change(*message.places[0]), *message.places[1:])}),
        buffers,
    )


NO_STATE: dict[str, tuple[Callable[[Pieces, tuple[Any, ...]], Sent], str]] = {
    "no rows": (with_rows(b"rubbish"), "rows that cannot be read"),
    "rows without hashes": (with_rows(to_buffer(pa.table({"a": [1]}))), "1 rows of .*, which are no run"),
    "not in order": (lambda message, buffers: (message, (reversed_rows(buffers[0]), *buffers[1:])), "not in the order"),
    "below their bucket": (with_place(lambda table, first: (table, (1 << 64) - 1)), "below their bucket"),
    "a table of the engine": (with_place(lambda table, first: (3, first)), "table 3 holds no state"),
    "no table": (with_place(lambda table, first: (1 << 20, first)), "table 1048576 holds no state"),
}


@pytest.mark.parametrize(("lie", "said"), NO_STATE.values(), ids=NO_STATE.keys())
def test_pieces_that_are_no_state_are_a_loss_of_their_sender(
    pair: tuple[Database, Database], lie: Callable[[Pieces, tuple[Any, ...]], Sent], said: str
) -> None:
    (source, destination), wire = pair, Wire()
    giver, taker = mover(wire, 0), mover(wire, 1)
    giver.give(GiveSlots(number=CUT, slots=ALL_SLOTS, to=1, bytes_max=1 << 30), source)
    wire.sent[0] = lie(*wire.sent[0])
    with pytest.raises(TaskLost, match=f"worker 0 has sent in cut .* what is no state: .*{said}"):
        taker.take(TakeSlots(number=CUT, giver=0), destination)
    assert held(destination) == []


def test_pieces_of_other_slots_or_copies_without_a_key_are_a_loss_of_their_sender(
    pair: tuple[Database, Database],
) -> None:
    (source, destination), wire = pair, Wire()
    giver, taker = mover(wire, 0), mover(wire, 1)
    for changes, said in (
        ({"slots": SlotSet(((7, 8),))}, "which are not in one range of slots 7"),
        ({"copies": ("no digits",)}, "what is no state"),
    ):
        giver.give(GiveSlots(number=CUT, slots=ALL_SLOTS, to=1, bytes_max=1 << 30), source)
        message, buffers = wire.sent.pop()
        wire.sent.append((message.model_copy(update=changes), buffers))
        with pytest.raises(TaskLost, match=said):
            taker.take(TakeSlots(number=CUT, giver=0), destination)
        wire.sent.clear()
    assert held(destination) == []


def test_copies_that_are_no_state_are_a_fault_of_the_order_which_names_their_sender(
    pair: tuple[Database, Database], copiers: tuple[CopyWire, list[SlotCopier], list[Any]]
) -> None:
    (_, destination), (wire, (_, theirs), _) = pair, copiers
    told: list[CopyReceived] = []
    wire.send_now = lambda peer, message, buffers: told.append(message)  # type: ignore[method-assign, assignment]
    half, key = SlotSet(((0, 1 << 15),)), run_key(TABLE_FIRST, 0, 1)
    for stored, said in (
        (key, "rows that cannot be read"),
        (b"\xff\xffstep", "is no key of a run"),
        (run_key(TABLE_FIRST, (1 << 64) - 1, 1), "a copy lies in slot 65535, not in slots 0-32767"),
    ):
        theirs.take(0, Copies(slots=half, keys=(stored.hex(),), is_last=True), (b"rubbish",), lambda: destination)
        assert told[-1].fault is not None and said in told[-1].fault.name
        assert "worker 0 has sent copies that are not runs of rows in their slots" in told[-1].fault.name
    for keys, buffers in ((("no digits",), (b"",)), ((key.hex(),), ())):
        with pytest.raises(TaskLost, match="worker 0 has sent copies whose keys are not hexadecimal"):
            theirs.take(0, Copies(slots=half, keys=keys, is_last=True), buffers, lambda: destination)
    with pytest.raises(TaskLost, match="worker 0 has stored copies that worker 1 has not sent"):
        theirs.take(0, CopyReceived(fault=None), (), lambda: destination)
    with destination.read() as state:
        assert state.get_hidden() == NO_SLOTS
