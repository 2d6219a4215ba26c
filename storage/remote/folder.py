"""The checkpoint store in a folder, which several hosts may share (`file://`, such as a mounted NFS).

An object is a temporary file in its own folder first, which is synced and then renamed; then the folder is synced. A write that was killed
leaves a file `.part-*`, which is no object.
"""

from __future__ import annotations

import builtins
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xxhash import xxh3_128

from storage.durable import make_folders, sync
from storage.remote.errors import ObjectMissing, StoreDenied, StoreFault, StoreFull, StoreUnreachable
from storage.remote.objects_protocol import PARTIAL, PIECE_BYTES_MAX, ObjectInfo, WrittenObject, check_name
from storage.remote.uri import StoreUri

FOLDER_TRIES_MAX = 20
"""Whoever deletes the last object of a folder removes the folder, perhaps between its making and the first file. A writer that loses this race
twenty times in a row has another problem."""

_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FolderStore:
    """The objects below an absolute folder, which is made by the first write."""

    def __init__(self, uri: StoreUri) -> None:
        self.root = uri.text
        self._folder = Path(uri.path)

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        place = self._place(name)
        with self._faults("write", name):
            draft, descriptor = self._begin(place.parent)
        digest, size = xxh3_128(), 0
        file = open(descriptor, "wb")  # noqa: PTH123, SIM115  a descriptor; a `with` would raise what its own end meets on a full disk
        try:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                with self._faults("write", name):
                    file.write(piece)
            with self._faults("write", name):
                file.flush()
                os.fsync(file.fileno())
                file.close()
                draft.replace(place)
                sync(place.parent)
        except BaseException:
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                draft.unlink()
            raise
        return WrittenObject(size, digest.hexdigest())

    def read(self, name: str) -> Iterator[bytes]:
        with self._faults("read", name), self._place(name).open("rb") as file:
            while piece := file.read(PIECE_BYTES_MAX):
                yield piece

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        start = self._place(prefix.rstrip("/")) if prefix.strip("/") else self._folder
        with self._faults("list", prefix):
            waiting = [start]
            while waiting:
                for entry in self._entries(waiting.pop()):
                    if entry.is_dir():
                        waiting.append(Path(entry.path))
                    elif not entry.name.startswith(PARTIAL):
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            yield ObjectInfo(str(Path(entry.path).relative_to(self._folder)), entry.stat().st_size)

    def delete(self, names: Iterable[str]) -> None:
        folders: set[Path] = set()
        for name in names:
            place = self._place(name)
            with self._faults("delete", name), suppress(*_MISSING):
                place.unlink()
            folders.add(place.parent)
        for folder in folders:
            self._remove_empty(folder)

    def _place(self, name: str) -> Path:
        return self._folder / check_name(name)

    def _begin(self, folder: Path) -> tuple[Path, int]:
        """A new temporary file in the folder, and its descriptor."""
        draft = folder / f"{PARTIAL}{uuid.uuid4().hex}"
        for _ in range(FOLDER_TRIES_MAX):
            with suppress(FileNotFoundError):
                make_folders(folder)
                return draft, os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        raise FileNotFoundError(errno.ENOENT, f"the folder was removed {FOLDER_TRIES_MAX} times", str(folder))

    def _entries(self, folder: Path) -> builtins.list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return [*entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _remove_empty(self, folder: Path) -> None:
        """Removes the folder and those above it up to the root, as long as they are empty."""
        while folder != self._folder and folder.is_relative_to(self._folder):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass  # another process was quicker
            except OSError:
                return
            folder = folder.parent

    @contextmanager
    def _faults(self, operation: str, name: str) -> Iterator[None]:
        """Turns what the system says into a fault."""
        try:
            yield
        except OSError as error:
            if operation == "read" and isinstance(error, _MISSING):
                raise ObjectMissing(self.root, name) from None
            raise self._fault(error, operation, name) from error

    def _fault(self, error: OSError, operation: str, name: str) -> StoreFault:
        doing = f"{operation} {name or 'its root'}"
        reason = f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
        if error.errno in _DENIED:
            what_to_do = f"Let the user that runs the workers read and write {self._folder} on every host."
            return StoreDenied(self.root, doing, reason, what_to_do, right=operation)
        return (StoreFull if error.errno in _FULL else StoreUnreachable)(self.root, doing, reason)
