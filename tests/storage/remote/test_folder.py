"""What is special about a checkpoint store in a folder: files that are no objects yet, and folders that come and go."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.remote import folder
from storage.remote.errors import StoreDenied, StoreFault, StoreFull, StoreUnreachable
from storage.remote.objects import open_store


def test_a_file_that_is_not_whole_is_no_object(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    during: list[str] = []

    def pieces() -> Iterator[bytes]:
        yield b"x"
        during.extend(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
        assert [*store.list("")] == []

    store.write("a/b", pieces())
    assert len(during) == 1 and during[0].startswith("a/.part-")
    (tmp_path / "a" / ".part-of-a-killed-write").write_bytes(b"half")
    assert [each.name for each in store.list("")] == ["a/b"]


def test_folders_that_are_empty_go_but_the_root_stays(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = open_store(f"file://{root}")
    store.write("a/b/c", [b"x"])
    store.write("a/d", [b"x"])
    store.delete(["a/b/c"])
    assert [path.name for path in (root / "a").iterdir()] == ["d"]
    store.delete(["a/d"])
    assert root.is_dir() and not [*root.iterdir()]


def test_a_folder_that_is_removed_before_the_first_file_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, removed = folder.make_folders, []

    def make_and_lose(place: Path) -> None:
        make(place)
        if len(removed) < 3:
            place.rmdir()
            removed.append(place)

    monkeypatch.setattr(folder, "make_folders", make_and_lose)
    store = open_store(f"file://{tmp_path}")
    store.write("a/b", [b"x"])
    assert b"".join(store.read("a/b")) == b"x" and len(removed) == 3


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_full_disk_is_a_full_store(small_disk: Path, size: int) -> None:
    """Few bytes meet the full disk only where the file is closed."""
    store = open_store(f"file://{small_disk}/store")
    store.write("a/first", [b"x"])
    with pytest.raises(OSError, match="No space"), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
    with pytest.raises((StoreFull, OSError)) as caught:
        store.write("a/second", [bytes(size)])
    assert isinstance(caught.value, StoreFull) and "write a/second" in str(caught.value)
    (small_disk / "ballast").unlink()
    store.write("a/second", [bytes(size)])
    assert sorted(path.name for path in (small_disk / "store" / "a").iterdir()) == ["first", "second"]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, StoreDenied),
        (errno.EROFS, StoreDenied),
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.ESTALE, StoreUnreachable),
    ],
)
def test_what_the_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreFault]
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    store = open_store(f"file://{tmp_path}")
    store.write("a", [b"old"])
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(kind, match=f"write a: {os.strerror(number)}") as caught:
        store.write("a", [b"new"])
    assert store.root in str(caught.value) and caught.value.what_to_do
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "nothing is left behind"
    assert b"".join(store.read("a")) == b"old"
