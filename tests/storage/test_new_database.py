"""Of two makers of one database, the older one leaves nothing at its place, whenever the newer one removes its draft."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from storage import new_database
from storage.environments import DATA_FILE
from storage.errors import NotOpen
from storage.host_folder import HostFolder


def test_a_maker_whose_draft_is_half_removed_puts_nothing_at_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = HostFolder(tmp_path, tmp_path / "workers")
    path = folder.of_worker(0)

    def half(removed: Path, ignore_errors: bool) -> None:
        for file in removed.rglob(DATA_FILE):
            file.unlink()

    def begin_removal() -> None:
        """Its process stops before it has removed all."""
        with monkeypatch.context() as patch:
            patch.setattr(new_database, "shutil", SimpleNamespace(rmtree=half))
            new_database._remove_drafts(path, 2)

    with pytest.raises(NotOpen, match="a newer run has removed the draft"), new_database.new_database(path, 1):
        begin_removal()
    assert not path.exists() and len(list(path.parent.iterdir())) == 1
    folder.finish_removals()
    assert list(path.parent.iterdir()) == []


def test_a_newer_maker_removes_what_another_one_has_left_half_removed(tmp_path: Path) -> None:
    path = tmp_path / "0000"
    left = tmp_path / f".0000.new-e1{new_database.REMOVED_SUFFIX}"
    for folder in (left, tmp_path / ".0000.new-e1"):
        folder.mkdir()
        (folder / "file").touch()
    with new_database.new_database(path, 2):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["0000"]
