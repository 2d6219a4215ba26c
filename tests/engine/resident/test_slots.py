"""What a source gives in one cut, and that two real databases hold it once afterwards."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from base.slots import ALL_SLOTS, NO_SLOTS, SlotSet
from base.version import EMPTY
from engine.errors import StaleTask, TaskLost
from engine.operators.base import TABLE_FIRST
from engine.resident import slots
from engine.resident.messages import GiveSlots, Pieces, ReleaseSlots, TakeSlots
from engine.resident.slots import SlotMover
from engine.rows.hashing import hash_columns
from engine.state.trace import Trace, TraceLayout
from storage.database import Database
from storage.identity import Identity
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
    giver, taker = SlotMover(wire, 0), SlotMover(wire, 1)  # type: ignore[arg-type]
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
    giver, taker = SlotMover(wire, 0), SlotMover(wire, 1)  # type: ignore[arg-type]
    everything = giver.weigh(source, ALL_SLOTS)
    assert 2000 * 16 < everything < 2000 * 64
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
    one = SlotMover(wire, 1)  # type: ignore[arg-type]
    one.weigh(destination, ALL_SLOTS)
    assert len(one.give(GiveSlots(number=CutNumber(8, 1), slots=ALL_SLOTS, to=0, bytes_max=0), destination).slots) >= 1


def test_pieces_of_another_cut_are_refused(pair: tuple[Database, Database]) -> None:
    (source, destination), wire = pair, Wire()
    giver, taker = SlotMover(wire, 0), SlotMover(wire, 1)  # type: ignore[arg-type]
    giver.give(GiveSlots(number=CUT, slots=ALL_SLOTS, to=1, bytes_max=1 << 30), source)
    with pytest.raises(TaskLost, match=r"worker 0 has sent pieces of cut .* during cut"):
        taker.take(TakeSlots(number=CutNumber(8, 1), giver=0), destination)
    assert held(destination) == []
