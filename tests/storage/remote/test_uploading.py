"""What an upload writes: the deltas since the last one if it can, and otherwise the whole state."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from base.version import EMPTY, VersionId
from faults.points import Crash, CrashOrder, arm
from storage import environments, errors
from storage.database import Database
from storage.description import RECORDS
from storage.remote import spool, uploading
from storage.remote.chain import Chain
from storage.remote.uploading import upload
from tests.storage.helpers import ME, commit, fresh, key, step
from tests.storage.remote.stores import MemoryStore, checkpoint, spool_of, stored

LARGE = {f"{number:03}": bytes([number]) * 3000 for number in range(100)}


def kinds(chain: Chain) -> list[str]:
    return [pack.kind for pack in chain.packs]


def large(path: Path, store: MemoryStore) -> tuple[Database, VersionId, Chain]:
    """A database of 300 kB whose first version is stored as a base."""
    database = fresh(path)
    step(database, LARGE)
    v1 = checkpoint(database, 1, 1)
    return database, v1, stored(store, database, v1, None)


def test_the_first_upload_is_a_base_and_the_next_ones_are_deltas(tmp_path: Path) -> None:
    store = MemoryStore()
    database, v1, first = large(tmp_path / "database", store)
    assert kinds(first) == ["base"] and first.version == v1
    step(database, {"001": b"new"}, deletes=("002",))
    v2 = checkpoint(database, 2, 2)
    second = stored(store, database, v2, first)
    assert second.packs[:-1] == first.packs and kinds(second) == ["base", "delta"]
    assert len(store.written) == 2
    assert second.packs[-1].bytes == len(store.objects[store.written[1]]) < 600
    statistics = database.statistics()
    assert second.table_bytes == statistics.table_bytes


def test_several_missing_deltas_are_uploaded_as_they_are(tmp_path: Path) -> None:
    store = MemoryStore()
    database, _, first = large(tmp_path / "database", store)
    made = []
    for number in (2, 3, 4):
        step(database, {"001": bytes([number])})
        made.append(checkpoint(database, number, number))
    chain = stored(store, database, made[-1], first)
    assert [pack.to for pack in chain.deltas] == made
    assert spool.spooled_deltas(spool_of(database), ME) == ()


def test_the_version_before_the_last_can_be_stored(tmp_path: Path) -> None:
    store = MemoryStore()
    database, _, first = large(tmp_path / "database", store)
    step(database, {"001": b"new", "more": b"m"})
    v2 = checkpoint(database, 2, 2)
    sizes = database.statistics().table_bytes
    step(database, {"more": b"much more"}, deletes=("003",))
    v3 = checkpoint(database, 3, 3)
    for former in (first, None):
        chain = stored(store, database, v2, former, spool_folder=spool_of(database))
        assert (chain.version, chain.table_bytes) == (v2, sizes)
    assert stored(store, database, v3, chain).table_bytes == database.statistics().table_bytes != sizes


def test_what_is_stored_is_not_stored_again(tmp_path: Path) -> None:
    store = MemoryStore()
    database, v1, first = large(tmp_path / "database", store)
    assert stored(store, database, v1, first) == first
    assert len(store.written) == 1


@pytest.mark.parametrize("damage", ["lost", "cut", "flipped", "exchanged"])
def test_a_gap_in_the_spool_makes_a_base(tmp_path: Path, damage: str) -> None:
    store = MemoryStore()
    database, _, first = large(tmp_path / "database", store)
    for number in (2, 3):
        step(database, {"001": bytes([number])})
        v3 = checkpoint(database, number, number)
    one, other = spool.spooled_deltas(spool_of(database), ME)
    whole = one.file.read_bytes()
    if damage == "lost":
        one.file.unlink()
    elif damage == "cut":
        one.file.write_bytes(whole[:-1])
    elif damage == "exchanged":
        one.file.write_bytes(other.file.read_bytes())
    else:
        middle = len(whole) - 60  # in the only block, and both ends of the file are whole
        one.file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        assert len(spool.spooled_deltas(spool_of(database), ME)) == 2
    chain = stored(store, database, v3, first)
    assert kinds(chain) == ["base"] and chain.version == v3


def test_a_chain_of_a_version_that_was_rolled_back_is_not_continued(tmp_path: Path) -> None:
    """The same number, another checkpoint."""
    store = MemoryStore()
    database, v1, first = large(tmp_path / "database", store)
    step(database, {"001": b"lost"})
    lost = stored(store, database, checkpoint(database, 2, 2), first)
    database = Database.open(database.path, v1, epoch=2, identity=ME)
    step(database, {"001": b"kept"})
    step(database, {"002": b"kept"})
    v2 = checkpoint(database, 2, 3)
    assert kinds(stored(store, database, v2, lost, spool_folder=spool_of(database))) == ["base"]
    step(database, {"003": b"3"})
    v3 = checkpoint(database, 3, 4)
    assert kinds(stored(store, database, v3, lost)) == ["base"]


def test_another_format_of_the_database_is_not_continued(tmp_path: Path) -> None:
    store = MemoryStore()
    database, _, first = large(tmp_path / "database", store)
    step(database, {"001": b"1"})
    older = first.model_copy(update={"format": first.format - 1})
    assert kinds(stored(store, database, checkpoint(database, 2, 2), older)) == ["base"]


def test_deltas_of_more_bytes_than_the_state_make_way_for_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "DELTA_BYTES_MIN", 0)
    store = MemoryStore()
    database, _, chain = large(tmp_path / "database", store)
    seen = []
    for number in range(2, 8):
        step(database, {name: value[:-1] + bytes([number]) for name, value in list(LARGE.items())[:40]})
        chain = stored(store, database, checkpoint(database, number, number), chain)
        seen.append(kinds(chain))
        assert chain.delta_bytes <= chain.live_bytes
    assert seen == [["base", "delta"], ["base", "delta", "delta"], ["base"]] * 2


def test_a_tiny_state_is_not_written_anew_each_time(tmp_path: Path) -> None:
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    chain = stored(store, database, EMPTY, None)
    for number in range(1, 5):
        step(database, {"only": bytes([number]) * 200})
        chain = stored(store, database, checkpoint(database, number, number), chain)
    assert kinds(chain) == ["base"] + 4 * ["delta"]


def test_a_long_chain_makes_way_for_a_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "DELTAS_MAX", 2)
    store = MemoryStore()
    database, _, chain = large(tmp_path / "database", store)
    seen = []
    for number in range(2, 6):
        step(database, {"001": bytes([number])})
        chain = stored(store, database, checkpoint(database, number, number), chain)
        seen.append(len(chain.deltas))
    assert seen == [1, 2, 0, 1]


@pytest.mark.parametrize("seed", range(3))
def test_uploads_are_at_most_twice_what_was_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Beside the first base, whatever the checkpoints change and whenever they are stored."""
    monkeypatch.setattr(uploading, "DELTA_BYTES_MIN", 0)
    r, store = random.Random(seed), MemoryStore()
    database, _, chain = large(tmp_path / "database", store)
    first, frozen, uploaded, bases = set(chain.packs), 0, 0, 0
    for number in range(2, 30):
        names = r.sample(sorted(LARGE), r.choice([1, 5, 30, 90]))
        size = r.choice([100, 1000, 5000])
        step(database, {name: r.randbytes(size) for name in names}, deletes=tuple(r.sample(sorted(LARGE), 2)))
        version = checkpoint(database, number, number)
        frozen += spool.spooled_deltas(spool_of(database), ME)[-1].raw_bytes
        if r.random() < 0.6 or number == 29:
            before, chain = chain, stored(store, database, version, chain)
            uploaded += sum(pack.raw_bytes for pack in chain.packs if pack not in before.packs)
            bases += chain.bases != before.bases
    assert not first & set(chain.packs) and bases > 2
    assert uploaded <= 2 * frozen + sum(pack.raw_bytes for pack in first)
    assert uploaded > frozen / 2


def test_a_large_base_is_several_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "PACK_BYTES_MAX", 2_000)
    monkeypatch.setattr("storage.remote.pack.BLOCK_BYTES", 10_000)
    store = MemoryStore()
    database = fresh(tmp_path / "database")
    step(database, {f"{number:02}": random.Random(number).randbytes(500) for number in range(40)})
    chain = stored(store, database, checkpoint(database, 1, 1), None)
    assert len(chain.packs) > 1 and set(kinds(chain)) == {"base"}
    assert all(pack.bytes < 2_000 + 11_000 for pack in chain.packs)
    assert len(set(store.written)) == len(chain.packs)


def test_an_upload_that_is_broken_off_leaves_the_former_chain(tmp_path: Path) -> None:
    store = MemoryStore()
    database, _, first = large(tmp_path / "database", store)
    step(database, {"001": b"1"})
    v2 = checkpoint(database, 2, 2)
    for former in (first, None):
        kept = dict(store.objects)
        with arm(CrashOrder("pack.half", "raise")), pytest.raises(Crash):
            stored(store, database, v2, former)
        assert store.objects == kept
        with arm(CrashOrder("pack.uploaded", "raise")), pytest.raises(Crash):
            stored(store, database, v2, former)
        assert len(store.objects) == len(kept) + 1
    assert kinds(stored(store, database, v2, first)) == ["base", "delta"]


def test_another_database_or_version_is_refused(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    v1 = commit(database, 1, 0)

    def tried(identity: object = ME, version: VersionId = v1) -> Chain:
        folder = spool_of(database)
        return upload(
            MemoryStore(),
            database.path,
            identity,
            version,
            former=None,
            spool_folder=folder,
            prefix="p",  # type: ignore[arg-type]
        )

    assert tried().version == v1
    with pytest.raises(errors.WrongDatabase):
        tried(identity=replace(ME, worker=7))
    with pytest.raises(errors.UnknownVersion):
        tried(version=replace(v1, checkpoint_id="another"))
    with pytest.raises(errors.NoDatabase):
        upload(MemoryStore(), tmp_path / "none", ME, v1, former=None, spool_folder=tmp_path, prefix="p")


def test_a_record_that_is_missing_is_not_left_out_silently(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    step(database, {"a": b"1", "b": b"2"})
    v1 = checkpoint(database, 1, 1)
    folder = database.path / "committed"
    with environments.open_environment(folder, synced=True) as environment, environment.write(1) as writer:
        writer.delete(RECORDS + key("a"))
    with pytest.raises(errors.CorruptFile, match=r"records of .*version=1.* are missing"):
        stored(MemoryStore(), database, v1, None)
