"""LMDB environments: each is opened once in a process, shared by its threads, and never carried over a fork.

This is the only module that names LMDB. What it heeds (engine 0.9, py-lmdb 3):
- One file may be open once a process only; so all handles are in one table, by path. A file that was replaced under
  its path (another inode) is another environment.
- An environment must not be used, nor even closed, on the other side of a fork: closing clears the parent's reader
  slots. So the idle ones are closed just before a fork, and opened again at the next use. They are a cache, nothing
  more.
- Named databases cannot be opened without the writer's lock, which a zombie may hold: every environment has its main
  one only.
- Opening a folder without a data file would make an empty one. So the file must be there unless `create` is called.
- LMDB writes its lock file through a map: a hole in it, on a full disk, is a SIGBUS. So its blocks are allocated before.
- A map may be huge; the file grows as it is filled. `writemap` stays off: a full disk would crash the process.
- Views of values die with their transaction, and no transaction is kept beyond its `with`: a forgotten one lets the
  file grow.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lmdb

from storage.errors import CorruptFile, ForkedWhileOpen, StorageError, StorageFull
from storage.writers import writing

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
MAP_BYTES_MAX = 1 << 40  # address space, not memory: 1 TiB of state a worker; 100 such maps fit into 47 bits
READERS_MAX = 1024  # tasks and queries that read at one moment, on one host
LOCK_FILE_BYTES = 68 << 10  # READERS_MAX slots of 64 bytes, and LMDB's own header
VERIFIED_KEYS_MAX = 1 << 16  # remembered as verified; a few MB. When full it is emptied, and keys are hashed once more
DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})  # LMDB calls a half-written page EIO


class Gone(StorageError):
    """The environment's folder has been removed: its layer was folded or thrown away meanwhile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} has been removed.")
        self.folder = folder


class Reader:
    """A read transaction: one snapshot. All views end with it."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn

    def get(self, key: bytes) -> memoryview | None:
        view: memoryview | None = self._txn.get(key)
        return view

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        """Those of the sorted keys that are there. Not by the cursor's getmulti, which makes a view of every key as well:
        with views instead of copies it took four times as long."""
        get = self._txn.get
        return {key: view for key in keys if (view := get(key)) is not None}

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Records whose key begins with `prefix`, in order of their keys."""
        return self.items_from(prefix, prefix)

    def items_from(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """As `items`, from the first key that is not below `start`."""
        with self._txn.cursor() as cursor:
            if not cursor.set_range(start):
                return
            for view, value in cursor:
                key = bytes(view)
                if not key.startswith(prefix):
                    return
                yield key, value


class Writer(Reader):
    """The one write transaction. A view that it gave is dead after the next change: copy before."""

    def put_many(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._txn.cursor() as cursor:
            cursor.putmulti(items)

    def put(self, key: bytes, value: bytes | memoryview) -> None:
        self._txn.put(key, value)

    def delete(self, key: bytes) -> None:
        self._txn.delete(key)

    def delete_all(self, prefix: bytes) -> None:
        with self._txn.cursor() as cursor:
            while cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix):
                cursor.delete()


class Environment:
    """One open environment. `users`: transactions of this process that are under way; it is closed only at 0.
    `retired`: to be closed then, unless somebody takes it again before."""

    def __init__(self, folder: Path, inode: int, *, synced: bool) -> None:
        self.folder = folder
        self.inode = inode
        self.synced = synced
        self.users = 0
        self.retired = False
        self.verified: set[bytes] = set()
        with disk_faults(folder), _faults(folder):
            _allocate_lock(folder)
            self._handle = lmdb.open(
                str(folder),
                map_size=MAP_BYTES_MAX,
                max_readers=READERS_MAX,
                sync=synced,
                metasync=synced,
                create=False,
                readahead=False,
            )

    def remember_verified(self, key: bytes) -> None:
        if len(self.verified) >= VERIFIED_KEYS_MAX:
            self.verified.clear()
        self.verified.add(key)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with _faults(self.folder), self._handle.begin(buffers=True) as txn:
            yield Reader(txn)

    @contextmanager
    def write(self, epoch: int) -> Iterator[Writer]:
        """Commits when the body ends, synced if the environment is; aborts when it raises."""
        with ExitStack() as stack:
            try:
                with disk_faults(self.folder):
                    stack.enter_context(writing(self.folder, epoch))
            except FileNotFoundError:
                raise Gone(self.folder) from None
            stack.enter_context(_faults(self.folder))
            self._handle.reader_check()  # slots of killed readers would keep old pages from being used again
            yield Writer(stack.enter_context(self._handle.begin(write=True, buffers=True)))

    def close(self) -> None:
        self._handle.close()


class _Table:
    """The environments of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: dict[Path, Environment] = {}
        self.inherited: list[Environment] = []  # in use in the parent when it forked: kept, never touched


_table = _Table()


@contextmanager
def using(folder: Path, *, synced: bool) -> Iterator[Environment]:
    """The environment in `folder`, opened if it is not yet. Raises Gone if there is none."""
    environment = _take(folder, synced)
    try:
        yield environment
    finally:
        with _table.lock:
            environment.users -= 1
            if environment.retired:
                _close_if_unused(environment)


def _take(folder: Path, synced: bool) -> Environment:
    with _table.lock:
        try:
            inode = (folder / DATA_FILE).stat().st_ino
        except FileNotFoundError:
            _retire(folder)
            raise Gone(folder) from None
        known = _table.open.get(folder)
        if known is not None and known.inode != inode:
            _drop(known)
            known = None
        if known is None:
            if any(environment.inode == inode for environment in _table.inherited):
                raise ForkedWhileOpen(folder)
            try:
                known = _table.open[folder] = _opened(folder, inode, synced)
            except FileNotFoundError:
                raise Gone(folder) from None
        known.users += 1
        known.retired = False
        return known


def _opened(folder: Path, inode: int, synced: bool) -> Environment:
    """A process has address space for some hundred maps; a long-lived one, Spark's worker, may have that many idle ones. They give way."""
    try:
        return Environment(folder, inode, synced=synced)
    except StorageError as fault:
        idle = [other for other, environment in _table.open.items() if environment.users == 0]
        if getattr(fault.__cause__, "code", None) != errno.ENOMEM or not idle:
            raise
    for other in idle:
        _retire(other)
    return Environment(folder, inode, synced=synced)


def _allocate_lock(folder: Path) -> None:
    """Only where it is missing: closing a second descriptor of a lock file in use would give back LMDB's locks."""
    file = folder / LOCK_FILE
    if file.exists() and file.stat().st_blocks * 512 >= LOCK_FILE_BYTES:
        return
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, LOCK_FILE_BYTES)
    finally:
        os.close(descriptor)


def create(folder: Path, *, synced: bool) -> None:
    """Makes an empty environment in a new folder."""
    folder.mkdir()
    (folder / DATA_FILE).touch()
    with using(folder, synced=synced):
        pass


def retire_except(database: Path, keep: frozenset[Path] = frozenset()) -> None:
    """Closes this process's handles of the environments in a folder that are not in `keep`, each when its last user
    is done."""
    with _table.lock:
        for folder in [f for f in _table.open if f.parent == database and f not in keep]:
            _retire(folder)


def close_all() -> None:
    """Forgets every handle of this process, as its end would."""
    with _table.lock:
        for folder in list(_table.open):
            _retire(folder)


def remove(folder: Path) -> None:
    """Removes a layer. It is renamed first, so that nobody opens half of it."""
    with _table.lock:
        _retire(folder)
    grave = folder.with_name(f"removed-{folder.name}")
    try:
        folder.rename(grave)
    except FileNotFoundError:
        return  # it has been removed by another process
    shutil.rmtree(grave, ignore_errors=True)  # what is left is swept away by the next `open`


def _retire(folder: Path) -> None:
    environment = _table.open.get(folder)
    if environment is not None:
        environment.retired = True
        _close_if_unused(environment)


def _close_if_unused(environment: Environment) -> None:
    if environment.users == 0:
        environment.close()
        if _table.open.get(environment.folder) is environment:
            del _table.open[environment.folder]


def _drop(environment: Environment) -> None:
    """As retired, and nobody can take it again."""
    del _table.open[environment.folder]
    environment.retired = True
    _close_if_unused(environment)


@contextmanager
def _faults(folder: Path) -> Iterator[None]:
    """LMDB's errors as ours."""
    try:
        yield
    except (lmdb.MapFullError, lmdb.DiskError) as fault:
        raise _full(folder, fault) from fault
    except (
        lmdb.InvalidError,
        lmdb.CorruptedError,
        lmdb.PageNotFoundError,
        lmdb.VersionMismatchError,
        lmdb.PanicError,
    ) as fault:
        _forget_broken(folder)
        raise CorruptFile(folder, str(fault)) from fault
    except SystemError as fault:  # py-lmdb's, around an error of a cursor's own
        if isinstance(fault.__cause__, lmdb.Error):
            _forget_broken(folder)
            raise CorruptFile(folder, str(fault.__cause__)) from fault
        raise
    except lmdb.Error as fault:
        if getattr(fault, "code", None) in DISK_ERRNOS:
            _forget_broken(folder)
            raise _full(folder, fault) from fault
        if getattr(fault, "code", None) == errno.ENOENT:
            raise Gone(folder) from fault
        raise StorageError(f"{folder}: {fault}") from fault


@contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """The file system's errors as ours. For storage's own code only: a caller's OSError is not about this folder."""
    try:
        yield
    except OSError as fault:
        if fault.errno in DISK_ERRNOS:
            raise _full(folder, fault) from fault
        raise


def _forget_broken(folder: Path) -> None:
    """After a failed write of its meta page LMDB refuses an environment until it is opened again."""
    with _table.lock:
        if folder in _table.open:
            _drop(_table.open[folder])


def _full(folder: Path, fault: Exception) -> StorageFull:
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError:
        free_bytes = None
    return StorageFull(folder, str(fault), free_bytes)


def _before_fork() -> None:
    _table.lock.acquire()
    for folder in [folder for folder, environment in _table.open.items() if environment.users == 0]:
        _retire(folder)


def _after_fork_in_parent() -> None:
    _table.lock.release()


def _after_fork_in_child() -> None:
    global _table
    inherited = [*_table.inherited, *_table.open.values()]
    _table = _Table()
    _table.inherited = inherited


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
