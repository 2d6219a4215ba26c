"""What one worker sets aside for the checkpoint store, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from base.version import VersionId
from engine.resident.messages import StoreVersion
from engine.resident.storing import StoreAccess
from io_kafka.outside import REAL
from storage.database import Database
from storage.host_folder import HostFolder
from storage.identity import FIRST_BIRTH
from storage.remote import spool, uploading
from storage.remote.place import StorePlace
from tests.memory_store import MemoryStore
from tests.storage.helpers import ME, fresh, step


def access(tmp_path: Path) -> tuple[StoreAccess, Database, MemoryStore]:
    store, folder = MemoryStore(), HostFolder(tmp_path, tmp_path / "workers")
    given = StoreAccess(
        place=StorePlace("memory:", lambda uri: store),
        folder=folder,
        identity=ME,
        birth=FIRST_BIRTH,
        epoch=1,
        outside=REAL,
    )
    return given, fresh(folder.of_worker(0)), store


def checkpoint(
    given: StoreAccess, database: Database, number: int, puts: dict[str, bytes], former: str | None
) -> tuple[str, int]:
    """One, and its upload: (the chain, the files that waited in the spool)."""
    version = VersionId(number, step(database, puts), f"c{number}")
    database.freeze(version)
    given.spool_frozen(database)
    database.fold()
    waiting = len(spool.spooled_deltas(given.folder.spool_of_worker(0), ME))
    return given.store(StoreVersion(version=version, former=former, prefix=f"packs/{number}")).chain, waiting


def test_what_the_next_base_has_is_not_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each checkpoint changes most of the state, every second upload is a base, and nothing is compressed twice."""
    monkeypatch.setattr(uploading, "DELTA_BYTES_MIN", 1)
    given, database, store = access(tmp_path)
    chain, _ = checkpoint(given, database, 1, {f"k{i}": os.urandom(900) for i in range(10)}, None)
    kinds, waited = [], []
    for number in range(2, 7):
        puts = {f"k{i}": os.urandom(900) for i in range(7)}
        chain, waiting = checkpoint(given, database, number, puts, chain)
        kinds.append("base" if any(name.startswith(f"packs/{number}-base") for name in store.objects) else "delta")
        waited.append(waiting)
    assert kinds == ["delta", "base", "delta", "base", "delta"]
    assert waited == [2, 0, 1, 0, 1], (
        "the first one beside the delta of the checkpoint before it, which is not recorded yet"
    )


def test_without_a_store_nothing_is_set_aside(tmp_path: Path) -> None:
    given, database, _ = access(tmp_path)
    given.place = None
    database.freeze(VersionId(1, step(database, {"k": b"v"}), "c1"))
    given.spool_frozen(database)
    assert not given.folder.spool_of_worker(0).exists()
