"""The spool holds what was frozen, until it is discarded."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import errors, records
from storage.database import Database
from storage.keys import STEP_KEY
from storage.remote import pack, spool
from storage.remote.spool import SpooledDelta, path_between, spool_frozen, spooled_deltas
from storage.remote.unpacking import PackReader, pieces_of
from tests.storage.helpers import ME, commit, fresh, key, step
from tests.storage.remote.stores import checkpoint, spool_of

V1, V2 = VersionId(1, 1, "c1-1"), VersionId(2, 2, "c2-2")
V1_COMMITTED = VersionId(1, 1, "checkpoint-1-1")


def frozen(path: Path) -> Database:
    """A database whose version 2 waits to be folded: it changes, adds, keeps and deletes records."""
    database = fresh(path)
    step(database, {"changed": b"old", "deleted": b"d", "kept": b"k"})
    commit(database, 1, 1)
    step(database, {"changed": b"new", "added": b"a" * 5000}, deletes=("deleted",))
    database.freeze(V2)
    return database


def content(delta: SpooledDelta) -> dict[bytes, bytes | None]:
    found = PackReader(str(delta.file), pieces_of(delta.file)).records()
    return {name: None if records.is_tombstone(stored) else bytes(records.value_of(stored)) for name, stored in found}


CHANGES = {
    key("added"): b"a" * 5000, key("changed"): b"new", key("deleted"): None, STEP_KEY: (2).to_bytes(8),
}  # fmt: skip


def test_a_frozen_layer_becomes_a_delta(tmp_path: Path) -> None:
    database = frozen(tmp_path / "database")
    folder = spool_of(database)
    assert spooled_deltas(folder, ME) == () and spool.spool_bytes(folder) == 0
    delta = spool_frozen(database, folder)
    assert delta is not None and (delta.since.version, delta.to) == (1, V2)
    assert content(delta) == CHANGES
    assert spooled_deltas(folder, ME) == (delta,)
    assert delta.bytes == delta.file.stat().st_size == spool.spool_bytes(folder)
    assert delta.raw_bytes > 5000 > delta.bytes
    assert spooled_deltas(folder, replace(ME, database="another")) == ()


def test_nothing_frozen_is_nothing_spooled(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    assert spool_frozen(database, spool_of(database)) is None
    assert not spool_of(database).exists()


def test_a_delta_is_written_once(tmp_path: Path) -> None:
    database = frozen(tmp_path / "database")
    delta = spool_frozen(database, spool_of(database))
    assert delta is not None
    before = delta.file.stat()
    assert spool_frozen(database, spool_of(database)) == delta
    assert delta.file.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("kept_bytes", [0, 30, -1])
def test_half_a_delta_is_written_again(tmp_path: Path, kept_bytes: int) -> None:
    """What a crash of the machine left, because nothing is synced."""
    database = frozen(tmp_path / "database")
    delta = spool_frozen(database, spool_of(database))
    assert delta is not None
    delta.file.write_bytes(delta.file.read_bytes()[:kept_bytes])
    assert spooled_deltas(spool_of(database), ME) == ()
    assert spool_frozen(database, spool_of(database)) == delta
    assert content(delta) == CHANGES


def test_a_delta_that_was_broken_off_is_written_again(tmp_path: Path) -> None:
    database = frozen(tmp_path / "database")
    with arm(CrashOrder("spool.half", "raise")), pytest.raises(Crash):
        spool_frozen(database, spool_of(database))
    assert spooled_deltas(spool_of(database), ME) == ()
    assert spool.spool_bytes(spool_of(database)) > 0
    delta = spool_frozen(database, spool_of(database))
    assert delta is not None and content(delta) == CHANGES
    assert list(spool_of(database).iterdir()) == [delta.file]


@pytest.mark.usefixtures("one_record_a_piece")
@pytest.mark.parametrize("pieces", [1, 3, 6])
def test_what_a_killed_fold_has_merged_is_still_frozen(tmp_path: Path, pieces: int) -> None:
    database = frozen(tmp_path / "database")
    with arm(CrashOrder("fold.piece", "raise", visit=pieces)), pytest.raises(Crash):
        database.fold()
    delta = spool_frozen(database, spool_of(database))
    assert delta is not None and content(delta) == CHANGES


def test_a_fenced_worker_spools_nothing(tmp_path: Path) -> None:
    database = frozen(tmp_path / "database")
    Database.fence(database.path, epoch=2, identity=ME)
    with pytest.raises(errors.StaleEpoch):
        spool_frozen(database, spool_of(database))
    assert not spool_of(database).exists()


def test_a_worker_whose_draft_was_removed_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its successor has spooled the same version meanwhile."""
    database = frozen(tmp_path / "database")
    folder = spool_of(database)

    def newer(*_: object) -> None:
        monkeypatch.undo()
        owner = Database.open(database.path, V1_COMMITTED, epoch=2, identity=ME)
        step(owner, {"other": b"1"})
        owner.freeze(V2)
        assert spool_frozen(owner, folder) is not None

    monkeypatch.setattr(spool, "reached", newer)
    with pytest.raises(errors.NotOpen, match="taken over the spool"):
        spool_frozen(database, folder)
    (delta,) = spooled_deltas(folder, ME)
    assert content(delta) == {key("other"): b"1", STEP_KEY: (2).to_bytes(8)}


def test_a_damaged_frozen_record_is_not_spooled(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    (file,) = database.path.glob("layer-*/data.mdb")
    step(database, {"a": b"a value that is easy to find"})
    database.freeze(V1)
    Database.close_all()
    file.write_bytes(file.read_bytes().replace(b"easy to find", b"easy to lose"))
    with pytest.raises(errors.CorruptRecord, match="frozen"):
        spool_frozen(database, spool_of(database))
    assert list(spool_of(database).iterdir()) == []


def test_deltas_of_stored_versions_are_discarded(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    made = []
    for number in range(1, 4):
        step(database, {"a": bytes([number])})
        made.append(checkpoint(database, number, number))
    folder = spool_of(database)
    assert [(delta.since, delta.to) for delta in spooled_deltas(folder, ME)] == list(
        zip([EMPTY, *made], made, strict=False)
    )
    spool.discard(folder, made[1])
    assert [delta.to for delta in spooled_deltas(folder, ME)] == made[2:]
    spool.clear(folder)
    assert spool.spool_bytes(folder) == 0


def test_a_path_leads_through_whole_version_ids() -> None:
    def delta(since: VersionId, to: VersionId) -> SpooledDelta:
        return SpooledDelta(Path(), since, to, 1, raw_bytes=1)

    a1, b1, a2 = VersionId(1, 1, "a"), VersionId(1, 1, "b"), VersionId(2, 2, "a")
    to_a1, to_b1, to_a2 = delta(EMPTY, a1), delta(EMPTY, b1), delta(a1, a2)
    assert path_between([to_a1, to_b1, to_a2], EMPTY, a2) == (to_a1, to_a2)
    assert path_between([to_a1, to_b1, to_a2], a1, a2) == (to_a2,)
    assert path_between([to_a1, to_b1, to_a2], b1, a2) is None
    assert path_between([to_b1, to_a2], EMPTY, a2) is None
    assert path_between([to_a1], EMPTY, EMPTY) == ()


def test_a_full_disk_while_spooling_is_an_error_that_leaves_no_file(small_disk: Path, tmp_path: Path) -> None:
    """The fold goes on without the delta."""
    database = fresh(tmp_path / "database")
    with database.transaction() as transaction:
        for number in range(64):
            transaction.put(key(f"{number}"), random.Random(number).randbytes(100_000))
        transaction.set_step(1)
    database.freeze(V1)
    with pytest.raises(errors.StorageFull, match="No space"):
        spool_frozen(database, small_disk / "spool")
    assert spool.spool_bytes(small_disk / "spool") == 0
    assert database.fold() == V1
    step(database, {"a": b"1"})
    database.freeze(V2)
    delta = spool_frozen(database, small_disk / "spool")
    assert delta is not None and delta.bytes < pack.BLOCK_BYTES
