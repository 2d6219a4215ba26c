"""A database whose file is mostly free gets a smaller one. What a crash leaves, and what waits meanwhile, is in test_crash.py."""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest

from base.version import VersionId
from storage import committed, environments, errors
from storage.database import Database
from storage.swap_folders import SwapUnsupported, swap_folders
from tests.storage.helpers import commit, content, fresh, key, step

V4 = VersionId(4, 4, "checkpoint-4-4")
ROWS, ROW_BYTES = 400, 4000
REMAINING = 40


@pytest.fixture(autouse=True)
def worth_while_from_64_kb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed, "FREE_BYTES_MIN", 64 << 10)


def mostly_free(path: Path) -> Database:
    """Of 1.6 MB, a tenth is left, in the last version and in the undo log."""
    database = fresh(path)
    step(database, {f"{n:03}": os.urandom(ROW_BYTES) for n in range(ROWS)})
    commit(database, 1, 1)
    step(database, {}, deletes=tuple(f"{n:03}" for n in range(REMAINING, ROWS)))
    commit(database, 2, 2)
    step(database, {"000": b"last"})
    commit(database, 3, 3)
    return database


def committed_bytes(database: Database) -> int:
    return database.statistics().disk_bytes["committed"]


def test_a_file_that_is_mostly_free_shrinks_to_what_is_used(tmp_path: Path) -> None:
    database = mostly_free(tmp_path / "database")
    step(database, {"001": b"after the last version"})
    before = committed_bytes(database)
    with database.read() as view:
        seen = content(view)
    assert database.compact()
    assert committed_bytes(database) < before / 3
    assert not list(database.path.glob("compact-*")) and not list(database.path.glob("removed-*"))
    with database.read() as view:
        assert content(view) == seen and len(seen) == REMAINING
    commit(database, 4, 4)
    assert not database.compact()
    before_last = Database.versions(database.path)[0]
    reopened = Database.open(database.path, before_last, epoch=database.epoch, identity=database.identity)
    with reopened.read() as view:
        assert content(view)[key("000")] == b"last" and len(content(view)) == REMAINING


def test_a_file_of_which_little_is_free_stays(tmp_path: Path) -> None:
    database = fresh(tmp_path / "database")
    step(database, {f"{n:03}": os.urandom(ROW_BYTES) for n in range(ROWS)})
    commit(database, 1, 1)
    before = (database.path / "committed").stat().st_ino
    assert not database.compact()
    assert (database.path / "committed").stat().st_ino == before


def test_a_file_stays_if_the_disk_has_no_room_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = mostly_free(tmp_path / "database")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("storage.environments.shutil.disk_usage", lambda folder: usage(1 << 30, 1 << 30, 10_000))
    assert not database.compact()


def test_a_version_that_is_frozen_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = mostly_free(tmp_path / "database")
    step(database, {"new": b"1"})

    def froze(point: str, worker: int | None = None) -> None:
        if point == "compact.copied":
            database.freeze(V4)

    monkeypatch.setattr(committed, "reached", froze)
    assert not database.compact()
    assert database.fold() == V4
    with database.read() as view:
        assert content(view)[key("new")] == b"1"


def test_a_reader_of_the_former_file_keeps_its_snapshot(tmp_path: Path) -> None:
    database = mostly_free(tmp_path / "database")
    with database.read() as view:
        seen = content(view)
        assert database.compact()
        assert content(view) == seen
    with database.read() as view:
        assert content(view) == seen


@pytest.mark.parametrize("where", ["copy", "exchange"])
def test_a_fault_of_the_disk_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    database = mostly_free(tmp_path / "database")
    before = (database.path / "committed").stat().st_ino
    if where == "copy":
        full = OSError(errno.ENOSPC, "no space")
        monkeypatch.setattr("storage.durable.sync", lambda place: (_ for _ in ()).throw(full))
    else:

        def unsupported(folder: Path, other: Path) -> None:
            raise SwapUnsupported(errno.EINVAL, "not here", str(folder))

        monkeypatch.setattr(committed, "swap_folders", unsupported)
    assert not database.compact()
    assert (database.path / "committed").stat().st_ino == before
    assert not list(database.path.glob("compact-*"))


def test_a_fence_makes_the_name_of_a_rewritten_file_durable_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that has rewritten it dies before it could do so. Otherwise a crash of the machine after later checkpoints could bring the
    former file back. A seed of the simulator found this."""
    database = mostly_free(tmp_path / "database")
    synced: list[tuple[Path, int]] = []

    def dies(place: Path) -> None:
        if place == database.path:
            raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("storage.durable.sync", dies)
        database.compact()
    term = database.epoch

    def sync(place: Path) -> None:
        synced.append((place, committed.read_description(database.path).epoch))

    monkeypatch.setattr("storage.durable.sync", sync)
    Database.fence(database.path, epoch=term + 1, identity=database.identity)
    assert (database.path, term) in synced


def test_a_handle_that_was_fenced_compacts_nothing(tmp_path: Path) -> None:
    database = mostly_free(tmp_path / "database")
    Database.fence(database.path, epoch=2, identity=database.identity)
    before = (database.path / "committed").stat().st_ino
    with pytest.raises(errors.StaleEpoch):
        database.compact()
    assert (database.path / "committed").stat().st_ino == before


def test_two_folders_exchange_their_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    swap_folders(tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name / "file").read_text() for name in ("a", "b")] == ["b", "a"]
    with pytest.raises(FileNotFoundError, match="absent"):
        swap_folders(tmp_path / "absent", tmp_path / "b")


def test_an_environment_that_was_replaced_is_closed_by_its_last_user(tmp_path: Path) -> None:
    database = mostly_free(tmp_path / "database")
    with committed.open_committed(database.path) as former:
        assert database.compact()
        with committed.open_committed(database.path) as present:
            assert present is not former and present.usage().used_bytes <= former.usage().used_bytes
            with pytest.raises(environments.Replaced), former.write(database.epoch):
                pass


def test_an_environment_that_is_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could have the lock file of one and the data of the other."""
    database = mostly_free(tmp_path / "database")
    with committed.open_committed(database.path) as old:
        old.copy_to(database.path / "other", lambda: True)
    Database.close_all()
    real, opened = environments._open, list[int]()

    def open_late(folder: Path, inode: int, synced: bool) -> environments.Environment:
        if not opened:
            swap_folders(database.path / "committed", database.path / "other")
        opened.append(inode)
        return real(folder, inode, synced)

    monkeypatch.setattr(environments, "_open", open_late)
    with committed.open_committed(database.path) as environment:
        assert environment.inode == (database.path / "committed" / "data.mdb").stat().st_ino
    assert len(opened) == 2 and opened[0] != opened[1]
    with database.read() as view:
        assert len(content(view)) == REMAINING
