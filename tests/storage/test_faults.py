"""Damaged bytes and full disks: a typed error that names the place, and the last version intact."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import errors
from storage.database import EMPTY, Database, VersionId
from tests.storage.helpers import ME, commit, committed, content, fresh, key, step

MARK = b"a value that is easy to find"


def damage(file: Path) -> None:
    """Changes one byte of every place where MARK is stored."""
    Database.close_all()
    text = file.read_bytes()
    assert MARK in text
    file.write_bytes(text.replace(MARK, MARK[:-1] + b"X"))


def layer(path: Path) -> Path:
    (folder,) = path.glob("layer-*")
    return folder / "data.mdb"


def test_a_damaged_committed_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"good": b"1", "bad": MARK})
    commit(database, 1, 1)
    damage(path / "committed" / "data.mdb")
    with database.read() as view:
        good = view.get(key("good"))
        assert good is not None and bytes(good) == b"1"
        for immutable in (False, True):
            with pytest.raises(errors.CorruptRecord, match=f"{ME.database}.*version=1.*table 1 shard 0 {b'bad'.hex()}"):
                view.get(key("bad"), immutable=immutable)
            with pytest.raises(errors.CorruptRecord):
                view.get_many([key("bad")], immutable=immutable)
            with pytest.raises(errors.CorruptRecord):
                list(view.scan(b"", immutable=immutable))


def test_a_damaged_frozen_record_is_not_folded(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"before": b"1"})
    v1 = commit(database, 1, 1)
    database = Database.open(path, v1, epoch=1, identity=ME)
    step(database, {"a": b"2", "bad": MARK})
    file = layer(path)
    database.freeze(VersionId(2, 2, "c2"))
    damage(file)
    with pytest.raises(errors.CorruptRecord, match="frozen"):
        database.fold()
    assert Database.versions(path) == (v1,)
    assert committed(path) == (v1, {key("before"): b"1"})


def test_a_damaged_undo_does_not_go_back(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"bad": MARK})
    v1 = commit(database, 1, 1)
    step(database, {"bad": b"2"})
    v2 = commit(database, 2, 2)
    damage(path / "committed" / "data.mdb")
    with pytest.raises(errors.CorruptRecord, match="undo"):
        Database.open(path, v1, epoch=2, identity=ME)
    assert Database.versions(path) == (v1, v2)
    assert committed(path) == (v2, {key("bad"): b"2"})


def test_an_immutable_record_is_verified_once(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"run": MARK})
    commit(database, 1, 1)
    with database.read() as view:
        view.get(key("run"), immutable=True)
    with (path / "committed" / "data.mdb").open("r+b") as file:  # under the open environment
        text = file.read()
        for place in range(len(text)):
            if text.startswith(MARK, place):
                file.seek(place)
                file.write(b"X")
    with database.read() as view:
        view.get(key("run"), immutable=True)
        with pytest.raises(errors.CorruptRecord):
            view.get(key("run"))
    Database.close_all()
    with database.read() as view, pytest.raises(errors.CorruptRecord):
        view.get(key("run"), immutable=True)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "database"
    fresh(path)
    Database.close_all()
    file = path / "committed" / "data.mdb"
    file.write_bytes(b"rubbish" * 2000)
    with pytest.raises(errors.CorruptFile, match=str(path)):
        Database.versions(path)


def fills_up(path: Path, database: Database, value: bytes) -> None:
    """Steps and commits until there is no room; version 1 must survive, and go on where there is room again."""
    v1 = commit(database, 1, 1)
    with pytest.raises(errors.StorageFull, match=str(path)):
        for number in range(1, 1000):
            step(database, {f"{number}-{part}": value for part in range(4)})
            if number % 4 == 0:
                database.commit(VersionId(1 + number // 4, 1 + number, "c"))
    present = Database.versions(path)
    with Database.read_committed(path) as (version, view):
        assert version == present[-1]
        assert content(view)[key("first")] == b"1"
        assert len(content(view)) == 1 + 4 * (version.step - v1.step)


def test_a_full_map_is_an_error_that_leaves_the_last_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.environments.MAP_BYTES_MAX", 1 << 20)
    path = tmp_path / "database"
    database = fresh(path)
    step(database, {"first": b"1"})
    fills_up(path, database, bytes(20_000))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB, where the test may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk; the full map is tested instead")
    yield folder
    Database.close_all()
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("ballast", range(0, 80_000, 5_000))
def test_a_full_disk_is_an_error_that_leaves_the_last_version(small_disk: Path, ballast: int) -> None:
    """`ballast` shifts the place at which it runs full: a step, a freeze, a fold."""
    path = small_disk / "database"
    database = fresh(path)
    (small_disk / "ballast").write_bytes(bytes(ballast))
    step(database, {"first": b"1"})
    fills_up(path, database, bytes(20_000))
    version = Database.versions(path)[-1]
    (small_disk / "ballast").unlink()
    database = Database.open(path, version, epoch=2, identity=ME)
    with database.read() as view:
        assert view.get_step() == version.step


def test_a_full_disk_refuses_a_new_database_whole(small_disk: Path) -> None:
    (small_disk / "ballast").touch()
    with pytest.raises(OSError, match="No space"), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(errors.StorageFull):
        Database.create(small_disk / "database", ME, epoch=1)
    (small_disk / "ballast").unlink()
    Database.create(small_disk / "database", ME, epoch=1)
    assert Database.versions(small_disk / "database") == (EMPTY,)
