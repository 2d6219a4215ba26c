"""Fixtures of storage's tests. Tests that kill hundreds of processes use a folder in memory, because a killed process
needs no disk sync."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import committed, folding, record_parts
from storage.database import Database
from tests.storage.helpers import kill_children

MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def no_child_stays() -> Iterator[None]:
    yield
    kill_children()


@pytest.fixture
def one_record_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a fold take as many transactions as possible, and stores records of more than a page in parts."""
    monkeypatch.setattr(folding, "PIECE_BYTES_MAX", 1)
    monkeypatch.setattr(record_parts, "PART_BYTES_MIN", 4080)


@pytest.fixture
def always_worth_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any database is large enough to be compacted."""
    monkeypatch.setattr(committed, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(committed, "FREE_SHARE_MIN", 0.0)


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stepwell-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)
        Database.close_all()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB, where the test may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a small disk; another test fills the map instead")
    yield folder
    Database.close_all()
    subprocess.run(["umount", str(folder)], check=True)
