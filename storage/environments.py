"""LMDB environments. Each is opened once in a process, shared by its threads, and never carried over a fork.

This is the only module that names LMDB. These are the rules of LMDB 0.9 and py-lmdb 3 that it follows:
- A process may open a file only once. So all handles are in one table, by path. A file that was replaced under its path
  (it has another inode) is another environment.
- An environment must not be used, nor even closed, on the other side of a fork, because closing it clears the parent's
  reader slots. So idle environments are closed just before a fork, and reopened at their next use. The table is only a
  cache.
- A named database cannot be opened without the writer's lock, which a fenced process may hold. So each environment has
  only its main database.
- Opening a folder without a data file would create an empty environment. So the file must exist, unless `create` is
  called.
- LMDB writes its lock file through a memory map. If that file has a hole and the disk is full, such a write raises
  SIGBUS. So the blocks of the file are allocated before.
- py-lmdb touches every page of a value when it makes a view of it, so a value is read whole whatever is looked up in it.
  `readahead` lets the kernel read more than one page at a time then. A cursor over keys alone touches no value.
- The map may be huge, because the file grows only as it is filled. `writemap` stays off, because with it a full disk
  would crash the process.
- Views of values end with their transaction, and no transaction outlives its `with`, because a forgotten one makes the
  file grow.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb

from storage import durable
from storage.errors import CorruptFile, DiskRoom, ForkedWhileOpen, StorageError, StorageFull
from storage.paced_writes import write_paced
from storage.writers import hold_lock

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
MAP_BYTES_MAX = 1 << 40  # address space, not memory: 1 TiB of state for each worker; 100 such maps fit into 47 bits
META_PAGES = 2
READERS_MAX = 1024  # workers and queries on one host that read at the same time
REPLACED_MAX = 16  # each means that another process has replaced the environment while this one waited
LOCK_FILE_BYTES = 68 << 10  # READERS_MAX slots of 64 bytes, and LMDB's header
VERIFIED_KEYS_MAX = 1 << 16
"""A few MB of keys whose values were verified. When it is full, it is emptied, and values are verified once more."""

DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})  # LMDB reports a half-written page as EIO


class Gone(StorageError):
    """The environment's folder has been removed: its layer was folded or discarded in the meantime."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} has been removed.")
        self.folder = folder


class Replaced(StorageError):
    """Another environment has taken the place of this one (committed.py)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} has been replaced.")


@dataclass(frozen=True)
class Usage:
    """How much of its file an environment uses. `free_bytes`: free on the disk. `transactions`: the number of the last
    one that was committed."""

    file_bytes: int
    used_bytes: int
    free_bytes: int
    transactions: int


class Reader:
    """A read transaction: one snapshot. All views of values end with it."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn

    def get(self, key: bytes) -> memoryview | None:
        """The value of a key, or None."""
        view: memoryview | None = self._txn.get(key)
        return view

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, memoryview]:
        """The values of those sorted keys that are there. It does not use the cursor's getmulti, which makes a view of
        every key too, and took four times as long with views instead of copies."""
        get = self._txn.get
        return {key: view for key in keys if (view := get(key)) is not None}

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """All (key, value) whose key begins with `prefix`, in the order of the keys."""
        return self.items_from(prefix, prefix)

    def items_from(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yields what `items` yields, from the first key that is not below `start`."""
        with self._txn.cursor() as cursor:
            if not cursor.set_range(start):
                return
            for view, value in cursor:
                key = bytes(view)
                if not key.startswith(prefix):
                    return
                yield key, value

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """All keys that begin with `prefix`, in their order. Their values are not touched."""
        with self._txn.cursor() as cursor:
            if not cursor.set_range(prefix):
                return
            for view in cursor.iternext(keys=True, values=False):
                key = bytes(view)
                if not key.startswith(prefix):
                    return
                yield key


class Writer(Reader):
    """The write transaction; an environment has one at a time. The next change invalidates a view that it returned:
    copy it before."""

    def put_many(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Sets the values of several keys, which ascend."""
        with self._txn.cursor() as cursor:
            cursor.putmulti(items)

    def put(self, key: bytes, value: bytes | memoryview) -> None:
        """Sets the value of a key."""
        self._txn.put(key, value)

    def delete(self, key: bytes) -> None:
        """Deletes a key. It is no error if the key is absent."""
        self._txn.delete(key)

    def delete_all(self, prefix: bytes) -> None:
        """Deletes all keys that begin with `prefix`."""
        with self._txn.cursor() as cursor:
            while cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix):
                cursor.delete()


class Environment:
    """One open environment. `users` is the number of its users in this process; it can be closed only at 0. If `retired`
    is set, it is closed as soon as possible, unless it is used again before. `verified` has the keys whose values need
    not be verified again."""

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
                readahead=True,
            )

    def remember_verified(self, key: bytes) -> None:
        """Adds a key to `verified`, which is bounded by VERIFIED_KEYS_MAX."""
        if len(self.verified) >= VERIFIED_KEYS_MAX:
            self.verified.clear()
        self.verified.add(key)

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """A read transaction."""
        with _faults(self.folder), self._handle.begin(buffers=True) as txn:
            yield Reader(txn)

    @contextmanager
    def write(self, epoch: int) -> Iterator[Writer]:
        """A write transaction. It waits for the writer's lock (writers.py). It commits when the body ends, and syncs if
        the environment is synced; it aborts when the body raises. Raises WriterBlocked, Gone, Replaced, StorageFull."""
        with ExitStack() as stack:
            try:
                with disk_faults(self.folder):
                    stack.enter_context(hold_lock(self.folder, epoch))
                inode = (self.folder / DATA_FILE).stat().st_ino
            except FileNotFoundError:
                raise Gone(self.folder) from None
            if inode != self.inode:
                raise Replaced(self.folder)
            stack.enter_context(_faults(self.folder))
            self._handle.reader_check()  # slots of killed readers would keep old pages from being reused
            yield Writer(stack.enter_context(self._handle.begin(write=True, buffers=True)))

    def usage(self) -> Usage:
        """The pages of the list of free pages count as free. They are few."""
        with disk_faults(self.folder), _faults(self.folder):
            pages, info = self._handle.stat(), self._handle.info()
            used = META_PAGES + pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
            room_bytes = shutil.disk_usage(self.folder).free
        return Usage((info["last_pgno"] + 1) * pages["psize"], used * pages["psize"], room_bytes, info["last_txnid"])

    def copy_to(self, folder: Path, is_wanted: Callable[[], bool]) -> int:
        """Makes a durable copy without free pages, of a snapshot, in a folder that is not there. Returns the number of the last transaction
        before the snapshot; if no other one is committed meanwhile, the copy has them all. Raises StorageFull, Gone if
        another process removes the copy, and Unwanted as soon as `is_wanted` says no."""
        transactions = self.usage().transactions
        try:
            with disk_faults(folder), _faults(folder):
                folder.mkdir()
                with write_paced(folder / DATA_FILE, is_wanted) as descriptor:
                    self._handle.copyfd(descriptor, compact=True)
                durable.sync(folder)
        except FileNotFoundError:
            raise Gone(folder) from None
        return transactions

    def close(self) -> None:
        """Closes it. It must have no users."""
        self._handle.close()


class _Table:
    """The open environments of this process, by folder."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: dict[Path, Environment] = {}
        # Environments that the parent used when it forked. They are kept and never touched.
        self.inherited: list[Environment] = []


_table = _Table()


@contextmanager
def open_environment(folder: Path, *, synced: bool) -> Iterator[Environment]:
    """The environment in `folder`. It is opened if it is not open yet. Raises Gone if there is none, ForkedWhileOpen,
    CorruptFile."""
    environment = _acquire(folder, synced)
    try:
        yield environment
    finally:
        with _table.lock:
            environment.users -= 1
            if environment.retired:
                _close_if_unused(environment)


def _acquire(folder: Path, synced: bool) -> Environment:
    """The environment in `folder`, with one more user."""
    with _table.lock:
        for _ in range(REPLACED_MAX):
            try:
                inode = (folder / DATA_FILE).stat().st_ino
            except FileNotFoundError:
                break
            with suppress(FileNotFoundError, Replaced):
                known = _find(folder, inode, synced)
                known.users += 1
                known.retired = False
                return known
        _retire(folder)
        raise Gone(folder)


def _find(folder: Path, inode: int, synced: bool) -> Environment:
    """The environment of this data file, which is opened if it is not open yet."""
    known = _table.open.get(folder)
    if known is not None and known.inode != inode:
        _drop(known)
        known = None
    if known is None:
        if any(environment.inode == inode for environment in _table.inherited):
            raise ForkedWhileOpen(folder)
        known = _open(folder, inode, synced)
        if (folder / DATA_FILE).stat().st_ino != inode:
            known.close()  # it may have the lock file of one environment and the data of another
            raise Replaced(folder)
        _table.open[folder] = known
    return known


def _open(folder: Path, inode: int, synced: bool) -> Environment:
    """Opens an environment. The address space of a process has room for some hundred maps, and a long-lived process,
    such as Spark's worker, may hold that many idle ones. Where the room is used up, the idle environments are closed
    first."""
    try:
        return Environment(folder, inode, synced=synced)
    except MemoryError:
        idle = [other for other, environment in _table.open.items() if environment.users == 0]
        if not idle:
            raise
    for other in idle:
        _retire(other)
    return Environment(folder, inode, synced=synced)


def _allocate_lock(folder: Path) -> None:
    """Allocates the blocks of LMDB's lock file where they are missing. Nothing else opens that file, because closing a
    second descriptor of a lock file in use would release LMDB's locks."""
    file = folder / LOCK_FILE
    if file.exists() and file.stat().st_blocks * 512 >= LOCK_FILE_BYTES:
        return
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, LOCK_FILE_BYTES)
    finally:
        os.close(descriptor)


def create(folder: Path, *, synced: bool) -> None:
    """Creates an empty environment in a new folder."""
    folder.mkdir()
    (folder / DATA_FILE).touch()
    with open_environment(folder, synced=synced):
        pass


@contextmanager
def lock_writer(folder: Path, epoch: int) -> Iterator[None]:
    """Keeps all others from writing to the environment in `folder`, which need not be open, whatever its name becomes. Raises WriterBlocked."""
    with disk_faults(folder), hold_lock(folder, epoch):
        yield


def retire_except(database: Path, keep: frozenset[Path] = frozenset()) -> None:
    """Closes this process's environments in the folder `database` that are not in `keep`, each when its last user is
    done."""
    with _table.lock:
        for folder in [f for f in _table.open if f.parent == database and f not in keep]:
            _retire(folder)


def close_all() -> None:
    """Closes every environment of this process, each when its last user is done."""
    with _table.lock:
        for folder in list(_table.open):
            _retire(folder)


def remove(folder: Path) -> None:
    """Removes a layer's folder. It is renamed first, so that no process opens a half-removed one."""
    with _table.lock:
        _retire(folder)
    removed = folder.with_name(f"removed-{folder.name}")
    try:
        folder.rename(removed)
    except FileNotFoundError:
        return  # another process has removed it
    shutil.rmtree(removed, ignore_errors=True)  # the next `open` removes what is left


def _retire(folder: Path) -> None:
    """Closes an environment when its last user is done."""
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
    """Retires an environment as `_retire` does, and no new user can acquire it."""
    del _table.open[environment.folder]
    environment.retired = True
    _close_if_unused(environment)


@contextmanager
def _faults(folder: Path) -> Iterator[None]:
    """Turns LMDB's errors into storage's, and a lack of memory into a MemoryError."""
    try:
        yield
    except (lmdb.MapFullError, lmdb.DiskError) as fault:
        raise _full(folder, fault) from fault
    except (
        lmdb.InvalidError,
        lmdb.CorruptedError,
        lmdb.PageNotFoundError,
        lmdb.PageFullError,  # it says "internal error": a page's own account of its free space is wrong
        lmdb.CursorFullError,  # and here the tree is deeper than any that LMDB makes
        lmdb.BadTxnError,  # something within this transaction failed before, which LMDB has not told
        lmdb.VersionMismatchError,
        lmdb.PanicError,
    ) as fault:
        _forget_broken(folder)
        raise CorruptFile(folder, str(fault)) from fault
    except SystemError as fault:  # py-lmdb raises it around an error of a cursor
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
        if getattr(fault, "code", None) == errno.ENOMEM:
            raise MemoryError(f"{folder}: {fault}") from fault
        raise _unusable(folder, fault) from fault


@contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """Turns the file system's errors into storage's. It encloses only storage's own code, because a caller's OSError
    has nothing to do with this folder."""
    try:
        yield
    except OSError as fault:
        if fault.errno in DISK_ERRNOS:
            raise _full(folder, fault) from fault
        raise


def _forget_broken(folder: Path) -> None:
    """After a failed write of its meta page, LMDB refuses an environment until it is reopened. So it leaves the
    table."""
    with _table.lock:
        if folder in _table.open:
            _drop(_table.open[folder])


def _unusable(folder: Path, fault: lmdb.Error) -> StorageError:
    """What the system says, such as of a folder that is mounted for reading alone. LMDB begins it with the path."""
    reason = str(fault).removeprefix(f"{folder}: ")
    return StorageError(
        f"The database in {folder} cannot be used: {reason}. The last checkpoint is intact.",
        "Correct the mount, the owner, the rights or the limit that this names, and run again.",
    )


def _full(folder: Path, fault: Exception) -> StorageFull:
    room = None
    with suppress(OSError):
        found = os.statvfs(folder)
        room = DiskRoom(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)
    return StorageFull(folder, str(fault), room)


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
