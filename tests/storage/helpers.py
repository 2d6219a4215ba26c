"""What storage's tests share: an identity, the content of a view as a dict, and a child process that stops at a given
access to a file."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import lmdb

from base.slots import ALL_SLOTS
from base.version import EMPTY, VersionId
from storage.database import Database, Transaction
from storage.identity import Identity
from storage.keys import record_key

ME = Identity(pipeline="flights", worker=0, database="6f1c0f0e-0000-4000-8000-000000000001")
_WITHIN_THE_PROCESS = frozenset(
    [
        "builtins",
        "sys",
        "time",
        "re",
        "collections",
        "itertools",
        "_functools",
        "_struct",
        "_thread",
        "_operator",
        "_xxhash",
        "xxhash._xxhash",
        "_stat",
    ]
)
"""Modules in C whose functions change nothing that outlives the process. A module that is forgotten here costs time and hides nothing."""
_READS = {
    "posix": {"stat", "lstat", "fstat", "statvfs", "scandir", "listdir", "getpid", "_path_normpath"},
    "DirEntry": {"is_dir"},
    "ScandirIterator": {"__exit__"},
    "Environment": {"stat", "info"},
    "Transaction": {"get", "cursor"},
    "Cursor": {"set_range", "key", "__exit__"},
}
"""Functions in C that only read, by their module or by the class of their object."""
children: set[int] = set()  # pids of children that have not been waited for
FAILED = 99  # exit status of a child whose body raised


def fresh(path: Path, epoch: int = 1) -> Database:
    """A new database, open at its empty version."""
    Database.create(path, ME, epoch, ALL_SLOTS)
    return Database.open(path, EMPTY, epoch=epoch, identity=ME)


def key(name: str, table: int = 1, slot: int = 0) -> bytes:
    return record_key(table, slot, name.encode())


def content(transaction: Transaction) -> dict[bytes, bytes]:
    return {k: bytes(value) for k, value in transaction.scan(b"")}


def committed(path: Path) -> tuple[VersionId, dict[bytes, bytes]]:
    with Database.read_committed(path) as (version, transaction):
        return version, content(transaction)


def step(database: Database, puts: dict[str, bytes], deletes: tuple[str, ...] = ()) -> int:
    """One step that writes. Returns the number of the next step."""
    with database.transaction() as transaction:
        for name, value in puts.items():
            transaction.put(key(name), value)
        for name in deletes:
            transaction.delete(key(name))
        following = transaction.get_step() + 1
        transaction.set_step(following)
    return following


def commit(database: Database, version: int, step_next: int) -> VersionId:
    made = VersionId(version, step_next, f"checkpoint-{version}-{step_next}")
    database.freeze(made)
    assert database.fold() == made
    return made


def in_child(body: Callable[[], object]) -> int:
    """Runs `body` in a forked child and returns its pid. The child ends with status 0, or with FAILED and a
    traceback."""
    pid = os.fork()
    if pid == 0:
        status = FAILED
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    children.add(pid)
    return pid


def leaves_the_process(function: Any) -> bool:
    """Whether a function in C may read or change what other processes see: files, locks, shared memory."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (lmdb.Environment, lmdb.Transaction, lmdb.Cursor)):
        return True
    return function is not os.fspath and (function.__module__ or type(owner).__module__) not in _WITHIN_THE_PROCESS


def only_reads(function: Any) -> bool:
    """A process that is killed before such an access leaves what it leaves if it is killed before the next one."""
    owner = getattr(function, "__self__", None)
    place = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__name__
    return function.__name__ in _READS.get(place, ())


def before_access(number: int, signal_number: int, body: Callable[[], Any]) -> Callable[[], Any]:
    """A version of `body` in which the process sends itself a signal before its `number`-th access to what other processes see.

    Between two accesses nothing changes for the others, so that a crash at every access is a crash at every moment. If the signal kills the
    process, accesses that only read do not count. A process that is only stopped goes on with what it has read, so for it they do.
    """
    kills = signal_number == signal.SIGKILL

    def run() -> Any:
        seen = 0

        def trace(frame: FrameType, event: str, function: Any) -> None:
            nonlocal seen
            if event == "c_call" and leaves_the_process(function) and not (kills and only_reads(function)):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal_number)

        sys.setprofile(trace)
        try:
            return body()
        finally:
            sys.setprofile(None)

    return run


def wait(pid: int) -> int:
    """The exit status of a child that has ended; if a signal killed it, minus the signal's number."""
    _, status = os.waitpid(pid, 0)
    children.discard(pid)
    return os.waitstatus_to_exitcode(status)


def wait_stopped(pid: int) -> bool:
    """Waits until the child has stopped itself. Returns False if it ended instead."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return True
    children.discard(pid)
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def kill_children() -> None:
    """Kills the children that a failed test left behind, which may be stopped."""
    while children:
        pid = children.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def resume(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
