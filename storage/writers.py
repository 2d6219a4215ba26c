"""The lock of an environment's writer. The lock file names its holder, and a process waits for the lock with a
deadline.

A process waits for LMDB's own writer lock without a deadline, and cannot learn who holds it. A process that is stopped
while it holds that lock (a zombie worker, or a coordinator that was suspended) would block all its successors. So each
writer first acquires this lock, a `flock` on a separate file in which it stores its pid. The holder of this lock finds
LMDB's lock free. The kernel releases it when its process dies.

A holder of an *older* term is killed after a second: whoever has started the newer term has given it up, so it can only
be in the way. Any other holder that has not released the lock by the deadline is named in the error. What a database
calls its epoch is the number of a term (base/term.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from base.term import Term
from storage.errors import WriterBlocked

LOCK_FILE = "writer"
OLDER_HOLDER_SECONDS_MAX = 1.0  # for a holder of an older term to finish its transaction
WAIT_SECONDS_MAX = 20.0  # a fold of some hundred megabytes takes a few seconds; a process that takes longer hangs
DEATH_SECONDS_MAX = 5.0  # from SIGKILL to the lock's release; a process that takes longer hangs in the kernel
POLL_SECONDS_MIN = 0.0005  # a step's transaction often waits only for the commit of the one before
POLL_SECONDS_MAX = 0.05
HOLDER_BYTES_MAX = 256


@dataclass(frozen=True)
class Holder:
    """The holder of the lock. `started`: when its process started, in seconds since 1970; pids are reused, so the pid
    alone is ambiguous."""

    pid: int
    started: float
    epoch: int

    def __str__(self) -> str:
        return f"process {self.pid} (term {Term.of(self.epoch)})"


@contextmanager
def hold_lock(folder: Path, epoch: int) -> Iterator[None]:
    """Holds the lock of the environment in `folder`. It is not reentrant: a second attempt in the same process waits,
    and then fails. Raises WriterBlocked, FileNotFoundError."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, folder, epoch)
        try:
            _write_holder(descriptor, Holder(os.getpid(), _own_start(), epoch))
            yield
        finally:
            # Closing alone does not release it: a child that was forked in the meantime shares the open file, and would
            # keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path, epoch: int) -> None:
    """Acquires the lock, if necessary by killing a holder of an older term. Raises WriterBlocked."""
    if _try_until(descriptor, min(OLDER_HOLDER_SECONDS_MAX, WAIT_SECONDS_MAX)):
        return
    holder = _read_holder(descriptor)
    is_older = holder is not None and holder.epoch < epoch and holder.pid in _pids_holding(descriptor)
    if not is_older and _try_until(descriptor, WAIT_SECONDS_MAX - OLDER_HOLDER_SECONDS_MAX):
        return
    pids = _pids_holding(descriptor)
    if not pids and _try_until(descriptor, DEATH_SECONDS_MAX):
        return  # it was released while we looked
    holder = _read_holder(descriptor)
    if holder is None or holder.pid not in pids:
        # The file still names a predecessor, or no holder yet. The kernel knows the pid, but the epoch is unknown.
        raise WriterBlocked(folder, f"process {' or '.join(map(str, pids)) or '(unknown)'}", WAIT_SECONDS_MAX)
    if holder.epoch < epoch and _kill_holder(holder) and _try_until(descriptor, DEATH_SECONDS_MAX):
        return
    raise WriterBlocked(folder, str(holder), WAIT_SECONDS_MAX)


def _try_until(descriptor: int, seconds_max: float) -> bool:
    """Tries to lock until the deadline. Returns whether this process holds the lock."""
    deadline = time.monotonic() + seconds_max
    pause = POLL_SECONDS_MIN
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, POLL_SECONDS_MAX)


def _pids_holding(descriptor: int) -> list[int]:
    """The pids that hold a lock on this file, as the kernel lists them. The holder that the file names may be a
    predecessor."""
    inode = str(os.fstat(descriptor).st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [int(line[4]) for line in lines if line[1] == "FLOCK" and line[5].rpartition(":")[2] == inode]


def _kill_holder(holder: Holder) -> bool:
    """Kills the holder, unless it is this process or its pid now belongs to another process. Returns whether the lock
    can be expected to become free."""
    if holder.pid == os.getpid():
        return False
    try:
        process = psutil.Process(holder.pid)
        if process.create_time() != holder.started:
            return False
        process.kill()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return True


_start_by_pid: dict[int, float] = {}


def _own_start() -> float:
    pid = os.getpid()
    if pid not in _start_by_pid:
        _start_by_pid.clear()  # a forked child inherits its parent's entry
        _start_by_pid[pid] = psutil.Process(pid).create_time()
    return _start_by_pid[pid]


def _write_holder(descriptor: int, holder: Holder) -> None:
    """Stores the holder in one write of a fixed length, so that a reader sees either the old holder or the new one."""
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode().ljust(HOLDER_BYTES_MAX), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """The holder that the file names, or None."""
    try:
        return Holder(**json.loads(os.pread(descriptor, HOLDER_BYTES_MAX, 0)))
    except (ValueError, TypeError):
        return None  # it is not written yet, or truncated
