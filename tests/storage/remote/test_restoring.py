"""A database that was restored is the one that was stored; and what is wrong in the store is named, never restored."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from base.slots import SlotSet
from faults.points import Crash, CrashOrder, arm
from storage import description, errors
from storage.database import Database
from storage.keys import TABLE_FIRST, record_key
from storage.remote import restoring
from storage.remote.chain import Chain
from storage.remote.errors import DamagedPack, DamagedStore, ForeignPack, ObjectMissing, OtherPackFormat, StoreFault
from storage.remote.restoring import restore
from tests.storage.helpers import ME, before_access, commit, committed, content, fresh, in_child, key, step, wait
from tests.storage.remote.stores import MemoryStore, checkpoint, stored

ZSTD_MAGIC, UNUSED_BIT = b"\x28\xb5\x2f\xfd", 0x10
LARGE = b"".join(number.to_bytes(4) for number in range(2000))


def several(path: Path, store: MemoryStore) -> tuple[Database, list[Chain]]:
    """Versions 1 to 4, each stored: a base, and deltas that change, add and delete."""
    database = fresh(path)
    step(database, {f"{number:02}": bytes([number]) * 60 for number in range(12)} | {"large": LARGE})
    chain = stored(store, database, checkpoint(database, 1, 1), None)
    chains = [chain]
    for number in range(2, 5):
        changed = {f"{number:02}": b"changed %d" % number, f"new {number}": b"n" * number}
        step(database, changed, deletes=(f"{number + 4:02}", f"new {number - 1}"))
        chain = stored(store, database, checkpoint(database, number, number), chain)
        chains.append(chain)
    assert len(chain.bases) > 1 and len(chain.deltas) == 3
    return database, chains


@pytest.mark.usefixtures("small_sizes")
def test_a_restored_database_goes_on(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "restored"
    database, chains = several(tmp_path / "database", store)
    version = chains[-1].version
    restore(store, chains[-1], path, ME, epoch=5)
    facts = Database.facts(path)
    assert (facts.identity, facts.versions) == (ME, (version,))
    assert committed(path) == committed(database.path)
    assert Database.owned_by_version(path)[version] == Database.owned_by_version(database.path)[version]
    with pytest.raises(errors.StaleEpoch):
        Database.fence(path, epoch=4, identity=ME)
    fenced = Database.fence(path, epoch=6, identity=ME)
    restored = Database.open(path, version, epoch=6, identity=ME, fenced=fenced.number)
    with restored.read() as view:
        assert view.get_step() == version.step
        assert content(view)[key("large")] == LARGE
    assert restored.statistics().table_bytes == database.statistics().table_bytes
    assert restored.statistics().table_bytes == chains[-1].table_bytes
    step(restored, {"after": b"restore"}, deletes=("large",))
    v5 = checkpoint(restored, 5, 5)
    chain = stored(store, restored, v5, chains[-1])
    assert chain.packs[:-1] == chains[-1].packs
    restore(store, chain, tmp_path / "again", ME, epoch=7)
    assert committed(tmp_path / "again") == committed(path)
    assert Database.open(path, version, epoch=8, identity=ME).statistics().table_bytes == chains[-1].table_bytes


@pytest.mark.usefixtures("small_sizes")
def test_each_stored_version_can_be_restored(tmp_path: Path) -> None:
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    right, chain = {}, None
    for number in range(1, 4):
        step(database, {f"{number}": b"1", "always": bytes([number])}, deletes=(f"{number - 1}",))
        version = checkpoint(database, number, number)
        chain = stored(store, database, version, chain)
        right[version] = (chain, committed(database.path))
    for version, (chain, expected) in right.items():
        path = tmp_path / f"restored-{version.version}"
        restore(store, chain, path, ME, epoch=1)
        assert committed(path) == expected


def test_a_deleted_record_stays_deleted(tmp_path: Path) -> None:
    """In one pass over all packs, and in one for each delta."""
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    step(database, {"deleted": b"1", "again": b"1", "kept": b"1"})
    first = stored(store, database, checkpoint(database, 1, 1), None)
    step(database, {"kept": b"2"}, deletes=("deleted", "again"))
    second = stored(store, database, checkpoint(database, 2, 2), first)
    step(database, {"again": b"3"})
    third = stored(store, database, checkpoint(database, 3, 3), second)
    assert [pack.kind for pack in third.packs] == ["base", "delta", "delta"]
    for merged_max in (32, 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(restoring, "MERGED_MAX", merged_max)
            for chain, expected in ((second, {"kept": b"2"}), (third, {"again": b"3", "kept": b"2"})):
                path = tmp_path / f"{merged_max}-{chain.version.version}"
                restore(store, chain, path, ME, epoch=1)
                found = committed(path)[1]
                assert found == {key(name): value for name, value in expected.items()}
                Database.open(path, chain.version, epoch=1, identity=ME)


def test_slots_that_are_owned_and_staged_are_restored(tmp_path: Path) -> None:
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    owned, hidden = SlotSet.of([(0, 100)]), SlotSet.of([(200, 300)])
    with database.transaction() as transaction:
        transaction.set_owned(owned)
        transaction.put(record_key(TABLE_FIRST, 250, b"staged"), b"1")
        transaction.put(record_key(TABLE_FIRST, 50, b"owned"), b"2")
        transaction.set_hidden(hidden)
        transaction.set_step(1)
    chain = stored(store, database, checkpoint(database, 1, 1), None)
    path = tmp_path / "restored"
    restore(store, chain, path, ME, epoch=1)
    assert Database.owned_by_version(path) == {chain.version: owned}
    with Database.open(path, chain.version, epoch=1, identity=ME).read() as view:
        assert view.get_hidden() == hidden
        assert list(view.keys(b"")) == [record_key(TABLE_FIRST, 50, b"owned")]
        assert list(view.hidden_keys(hidden)) == [record_key(TABLE_FIRST, 250, b"staged")]


def refused(store: MemoryStore, chain: Chain, path: Path) -> StoreFault:
    """The fault of a restore, which leaves nothing."""
    with pytest.raises(StoreFault) as fault:
        restore(store, chain, path, ME, epoch=1)
    assert not [folder for folder in path.parent.iterdir() if path.name in folder.name]
    return fault.value


@pytest.mark.usefixtures("small_sizes")
def test_each_damage_of_each_object_is_named(tmp_path: Path) -> None:
    store, r = MemoryStore(), random.Random(1)
    _, chains = several(tmp_path / "database", store)
    chain, path = chains[-1], tmp_path / "restored"
    for pack in chain.packs:
        whole = store.objects[pack.name]
        for place in {0, 8, 9, 40, len(whole) - 1, *r.sample(range(len(whole)), 6)}:
            store.objects[pack.name] = whole[:place] + bytes([whole[place] ^ 1 << r.randrange(8)]) + whole[place + 1 :]
            assert pack.name in str(refused(store, chain, path))
        for damaged in (b"", whole[: len(whole) // 2], whole[:-1], whole + b"\0", whole + whole):
            store.objects[pack.name] = damaged
            assert isinstance(fault := refused(store, chain, path), DamagedPack) and fault.name == pack.name
        del store.objects[pack.name]
        assert isinstance(fault := refused(store, chain, path), ObjectMissing) and f" {pack.name}." in str(fault)
        for other in chain.packs:
            if other is not pack:
                store.objects[pack.name] = store.objects[other.name]
                assert isinstance(fault := refused(store, chain, path), ForeignPack) and fault.name == pack.name
        store.objects[pack.name] = whole
    restore(store, chain, path, ME, epoch=1)


@pytest.mark.usefixtures("small_sizes")
def test_a_chain_that_names_other_packs_is_refused(tmp_path: Path) -> None:
    """The chain itself was stored by somebody else. It is not trusted either."""
    store, path = MemoryStore(), tmp_path / "restored"
    _, chains = several(tmp_path / "database", store)
    chain = chains[-1]
    one, two, three = chain.deltas
    for packs in ((*chain.bases, one, three), (*chain.bases, two, three), (*chain.bases[1:], one, two, three)):
        assert isinstance(refused(store, chain.model_copy(update={"packs": packs}), path), ForeignPack)
    for packs in ((*chain.bases[:-1], one, two, three), (*chain.bases, one, two)):
        wrong = chain.model_copy(update={"packs": packs})
        assert isinstance(fault := refused(store, wrong, path), DamagedStore)
        assert "worker 0" in str(fault) and "version=4" in str(fault)
    for field, value in {"seal": chain.seal + 1, "table_bytes": {1: 7}}.items():
        assert isinstance(refused(store, chain.model_copy(update={field: value}), path), DamagedStore)
    other = chain.model_copy(update={"format": description.FORMAT + 1})
    assert isinstance(refused(store, other, path), OtherPackFormat)
    with pytest.raises(ForeignPack):
        restore(store, chain, path, replace(ME, database="another"), epoch=1)


@pytest.mark.usefixtures("small_sizes")
def test_a_pack_of_the_same_place_and_another_content_is_refused(tmp_path: Path) -> None:
    """Two terms may write a delta to the same version, and their objects have the same header."""
    store = MemoryStore()
    _, chains = several(tmp_path / "database", store)
    name = chains[-1].packs[-1].name
    other = MemoryStore()
    database = fresh(tmp_path / "other")
    chain = stored(other, database, checkpoint(database, 1, 0), None)
    for number in range(2, 5):
        step(database, {"another": b"content"})
        chain = stored(other, database, checkpoint(database, number, number - 1), chain)
    whole = store.objects[name]
    store.objects[name] = other.objects[chain.packs[-1].name]
    assert isinstance(refused(store, chains[-1], tmp_path / "restored"), ForeignPack)
    # zstd does not read this bit, so the pack has the records that it had, and it is not the one that was stored.
    place = whole.index(ZSTD_MAGIC) + len(ZSTD_MAGIC)
    store.objects[name] = whole[:place] + bytes([whole[place] ^ UNUSED_BIT]) + whole[place + 1 :]
    with pytest.raises(DamagedPack, match=f"{name} is damaged: it is not the object that was stored"):
        restore(store, chains[-1], tmp_path / "restored", ME, epoch=1)


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    chain = stored(store, database, commit(database, 1, 0), None)
    step(database, {"mine": b"1"})
    with pytest.raises(errors.DatabaseExists):
        restore(store, chain, database.path, ME, epoch=2)
    with database.read() as view:
        assert content(view) == {key("mine"): b"1"}
    (tmp_path / "empty").mkdir()
    restore(store, chain, tmp_path / "empty", ME, epoch=2)
    assert Database.versions(tmp_path / "empty") == (chain.version,)


@pytest.mark.usefixtures("small_sizes")
def test_a_restore_that_is_broken_off_is_done_again(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "restored"
    database, chains = several(tmp_path / "database", store)
    for visit in (1, 3):
        with arm(CrashOrder("restore.half", "raise", visit=visit)), pytest.raises(Crash):
            restore(store, chains[-1], path, ME, epoch=visit)
        assert not path.exists() and len(list(tmp_path.glob(".restored*"))) == 1
    with arm(CrashOrder("restore.done", "raise")), pytest.raises(Crash):
        restore(store, chains[-1], path, ME, epoch=4)
    assert not list(tmp_path.glob(".restored*"))
    assert committed(path) == committed(database.path)


def test_a_run_whose_place_was_taken_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer run restores the same database meanwhile."""
    store, path = MemoryStore(), tmp_path / "restored"
    database = fresh(tmp_path / "database")
    chain = stored(store, database, checkpoint(database, 1, 0), None)

    def newer(*_: object) -> None:
        monkeypatch.undo()
        with arm(CrashOrder("restore.half", "raise")), pytest.raises(Crash):
            restore(store, chain, path, ME, epoch=8)

    monkeypatch.setattr(restoring, "reached", newer)
    with pytest.raises(errors.NotOpen):
        restore(store, chain, path, ME, epoch=7)
    assert [folder.name for folder in tmp_path.iterdir() if "restored" in folder.name] == [".restored.new-e8"]
    restore(store, chain, path, ME, epoch=8)
    assert committed(path) == committed(database.path)


@pytest.mark.usefixtures("small_sizes")
def test_a_crash_at_any_moment_leaves_nothing_or_a_database(shared_memory: Path) -> None:
    store, number, completed = MemoryStore(), 0, False
    database = fresh(shared_memory / "database")
    step(database, {"a": b"1" * 400, "b": b"2"})
    chain = stored(store, database, checkpoint(database, 1, 1), None)
    expected, seen = committed(database.path), set[bool]()
    Database.close_all()
    while not completed:
        number += 7
        path = shared_memory / f"restored-{number}"
        body = partial(restore, store, chain, path, ME, 2)
        status = wait(in_child(before_access(number, signal.SIGKILL, body)))
        completed = status == 0
        assert completed or status == -signal.SIGKILL
        seen.add(path.exists())
        if path.exists():
            assert committed(path) == expected
        else:
            body()
            assert committed(path) == expected
        Database.open(path, chain.version, epoch=3, identity=ME)
        Database.close_all()
    assert seen == {False, True}


def test_a_full_disk_is_an_error_that_leaves_nothing(small_disk: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    for number in range(8):
        step(database, {f"{number}-{part}": random.Random(part).randbytes(50_000) for part in range(10)})
    chain = stored(store, database, checkpoint(database, 1, 8), None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restoring, "TRANSACTION_BYTES_MAX", 1 << 20)
        with pytest.raises(errors.StorageFull):
            restore(store, chain, small_disk / "restored", ME, epoch=1)
    assert not list(small_disk.iterdir())
    step(database, {}, deletes=tuple(f"{number}-{part}" for number in range(8) for part in range(9)))
    chain = stored(store, database, checkpoint(database, 2, 9), None)
    restore(store, chain, small_disk / "restored", ME, epoch=1)
    assert committed(small_disk / "restored") == committed(database.path)


@pytest.mark.usefixtures("small_sizes")
def test_a_long_chain_is_read_a_few_packs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.remote.uploading.DELTAS_MAX", 20)
    monkeypatch.setattr("storage.remote.uploading.DELTA_BYTES_MIN", 100_000)
    monkeypatch.setattr(restoring, "MERGED_MAX", 3)
    store, chain = MemoryStore(), None
    database = fresh(tmp_path / "database")
    for number in range(1, 12):
        step(database, {f"{number}": b"x" * 500, "all": bytes([number])}, deletes=(f"{number - 2}",))
        chain = stored(store, database, checkpoint(database, number, number), chain)
    assert chain is not None and len(chain.deltas) == 10
    restore(store, chain, tmp_path / "restored", ME, epoch=1)
    assert committed(tmp_path / "restored") == committed(database.path)
    assert store.open_max == 3


def test_a_restore_takes_the_memory_of_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the state is."""
    monkeypatch.setattr(restoring, "TRANSACTION_BYTES_MAX", 2 << 20)
    store = Watched()
    database = fresh(tmp_path / "database")
    step(database, {f"{number:03}": random.Random(number).randbytes(64 << 10) for number in range(700)})
    chain = stored(store, database, checkpoint(database, 1, 1), None)
    step(database, {f"{number:03}": random.Random(-number).randbytes(64 << 10) for number in range(0, 700, 3)})
    chain = stored(store, database, checkpoint(database, 2, 2), chain)
    assert [pack.kind for pack in chain.packs] == ["base", "delta"]
    before = anonymous_bytes()
    restore(store, chain, tmp_path / "restored", ME, epoch=1)
    assert store.anonymous_bytes_max - before < (24 << 20) < chain.live_bytes / 1.8


class Watched(MemoryStore):
    """It looks at the memory of the process at each piece that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.anonymous_bytes_max = 0

    def read(self, name: str) -> Iterator[bytes]:
        for number, piece in enumerate(super().read(name)):
            if number % 500 == 0:
                self.anonymous_bytes_max = max(self.anonymous_bytes_max, anonymous_bytes())
            yield piece


def anonymous_bytes() -> int:
    """The memory of this process that no file has."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
