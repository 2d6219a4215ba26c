"""The folder of a host: its name, what is found in it, and what is removed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from base.slots import ALL_SLOTS
from base.version import EMPTY
from storage import database, host_folder
from storage.database import Database
from storage.host_folder import HOST_FILE, HostFolder, StateLocation
from storage.identity import FIRST_BIRTH, FoundDatabase, Identity, UnneededDatabase
from tests.storage.helpers import ME


@pytest.fixture
def folder(tmp_path: Path) -> HostFolder:
    made = StateLocation("p", tmp_path / "driver", tmp_path / "local", True).on_host(None)
    assert made is not None
    return made


def ids() -> Iterator[str]:
    return (f"id{n}" for n in count())


def name_of(folder: HostFolder, numbers: Iterator[str]) -> str:
    return folder.name(lambda: next(numbers))


def test_who_says_where_the_databases_are(tmp_path: Path) -> None:
    storage, setting, variable = tmp_path / "s", tmp_path / "l", tmp_path / "v"

    def place(local_dir: Path | None, given: Path | None, *, on_cluster: bool) -> Path | None:
        found = StateLocation("p", storage, local_dir, on_cluster).on_host(given)
        return None if found is None else found.of_worker(3)

    assert place(None, None, on_cluster=False) == storage / "workers/0003"
    assert place(setting, None, on_cluster=False) == setting / "p/workers/0003"
    assert place(setting, variable, on_cluster=False) == setting / "p/workers/0003"  # the settings have read it
    assert place(None, None, on_cluster=True) is None
    assert place(setting, None, on_cluster=True) == setting / "p/workers/0003"
    assert place(setting, variable, on_cluster=True) == variable / "p/workers/0003"


def test_a_folder_keeps_its_name_and_a_copy_gets_another(folder: HostFolder, tmp_path: Path) -> None:
    numbers = ids()
    first = name_of(folder, numbers)
    assert name_of(folder, numbers) == first
    other = HostFolder(folder.root, folder.root / "q" / "workers")  # another pipeline on the same host
    assert name_of(other, numbers) == first
    shutil.copytree(folder.root, tmp_path / "copy")
    copy = HostFolder(tmp_path / "copy", tmp_path / "copy" / "p" / "workers")
    assert name_of(copy, numbers) != first
    assert name_of(copy, numbers) == name_of(copy, numbers)
    assert name_of(folder, numbers) == first
    assert [file.name for file in sorted(folder.root.iterdir())] == [HOST_FILE, "p", "q"]


def test_the_same_folder_on_another_machine_has_another_name(
    folder: HostFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a clone of a virtual machine's disk."""
    first = name_of(folder, ids())
    monkeypatch.setattr(database, "boot_id", lambda: "another machine")
    assert name_of(folder, ids()) != first


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"host": "x"}'])
def test_a_torn_name_is_replaced(folder: HostFolder, text: str) -> None:
    numbers = ids()
    name_of(folder, numbers)
    (folder.root / HOST_FILE).write_text(text)
    assert name_of(folder, numbers) == name_of(folder, numbers)
    assert json.loads((folder.root / HOST_FILE).read_text())["host"].startswith("id")


def test_processes_that_name_a_folder_at_once_agree(tmp_path: Path) -> None:
    numbers = count()
    for attempt in range(20):
        folder = HostFolder(tmp_path / str(attempt), tmp_path / str(attempt) / "workers")
        with ThreadPoolExecutor(8) as pool:
            names = {
                done.result() for done in [pool.submit(folder.name, lambda: f"id{next(numbers)}") for _ in range(8)]
            }
        assert len(names) == 1


def test_what_is_found(folder: HostFolder) -> None:
    assert folder.look() == ()
    Database.create(folder.of_worker(2), Identity("p", 2, "u"), 0, owned=ALL_SLOTS)
    Database.create(folder.of_worker(11), Identity("q", 7, "w"), 0, owned=ALL_SLOTS)
    folder.of_worker(3).mkdir()  # empty
    folder.of_worker(4).mkdir()
    (folder.of_worker(4) / "file").touch()
    (folder.databases / ".0005.old").mkdir()
    (folder.databases / ".0006.new-e1").mkdir()
    (folder.databases / "note.txt").touch()
    two, four, eleven = folder.look()
    assert two == FoundDatabase(2, Identity("p", 2, "u"), (EMPTY,), two.disk_bytes) and two.disk_bytes > 0
    assert (four.worker, four.identity, four.versions) == (4, None, ()) and "There is no database" in str(four.fault)
    assert (eleven.worker, eleven.identity) == (11, Identity("q", 7, "w"))


def test_a_database_is_removed_only_as_the_one_that_was_seen(folder: HostFolder) -> None:
    Database.create(folder.of_worker(0), ME, 0, owned=ALL_SLOTS)
    assert not folder.remove(UnneededDatabase(0, FIRST_BIRTH, Identity(ME.pipeline, 0, "another")))
    assert not folder.remove(UnneededDatabase(0, FIRST_BIRTH, None))
    assert not folder.remove(UnneededDatabase(1, FIRST_BIRTH, ME))
    assert len(folder.look()) == 1
    assert folder.remove(UnneededDatabase(0, FIRST_BIRTH, ME))
    assert list(folder.databases.iterdir()) == []
    folder.of_worker(0).mkdir()
    (folder.of_worker(0) / "file").touch()
    assert folder.remove(UnneededDatabase(0, FIRST_BIRTH, None)) and list(folder.databases.iterdir()) == []


def test_a_removal_that_was_broken_off_is_finished(folder: HostFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.finish_removals()
    Database.create(folder.of_worker(0), ME, 0, owned=ALL_SLOTS)
    with monkeypatch.context() as patch:
        patch.setattr(host_folder.shutil, "rmtree", lambda folder, ignore_errors: None)
        assert folder.remove(UnneededDatabase(0, FIRST_BIRTH, ME))
    assert folder.look() == () and len(list(folder.databases.iterdir())) == 1
    folder.finish_removals()
    assert list(folder.databases.iterdir()) == []
