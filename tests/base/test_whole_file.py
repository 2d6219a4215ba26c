"""A reader meets the old file or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from base.whole_file import write_whole


@pytest.mark.parametrize("content", ["text ä", b"\xff bytes"])
def test_the_content_is_replaced(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "file"
    write_whole(file, "before, and longer")
    write_whole(file, content)
    assert (file.read_text() if isinstance(content, str) else file.read_bytes()) == content
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("private", [False, True])
def test_the_old_content_is_there_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    file, seen = tmp_path / "file", []
    file.write_text("old")

    def rename(draft: Path, target: Path) -> None:
        readable_by_others = stat.S_IMODE(draft.stat().st_mode) & 0o077 != 0
        seen.append((file.read_text(), draft.read_text(), readable_by_others, target))

    monkeypatch.setattr(Path, "rename", rename)
    write_whole(file, "new", private=private)
    assert seen == [("old", "new", not private, file)]


def test_a_file_that_cannot_be_replaced_stays_and_leaves_no_draft(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.mkdir()
    with pytest.raises(OSError):
        write_whole(folder, "new")
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    """The system names no file when it refuses a write."""
    (tmp_path / ".file.7").symlink_to("/dev/full")
    with pytest.raises(OSError) as raised:
        write_whole(tmp_path / "file", "new", pid=7)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "file"))
    assert not list(tmp_path.iterdir())


def test_two_processes_have_drafts_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts: list[Path] = []
    monkeypatch.setattr(Path, "rename", lambda draft, _: drafts.append(draft))
    write_whole(tmp_path / "file", "new", pid=1)
    write_whole(tmp_path / "file", "new", pid=2)
    assert len(set(drafts)) == 2
