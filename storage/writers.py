"""The lock of an environment's one writer: held by whom is written down, waited for with a deadline, never for ever.

LMDB's own lock of the writer is waited for without end and without a name. A process that is stopped while it holds
it (a zombie task, a coordinator that was suspended) would block every successor. So every writer first takes this
lock, a `flock` on a side file in which it leaves its pid; who holds it finds LMDB's lock free. The kernel gives it
back when a process dies.

A holder that does not give way by the deadline is killed if it is of an *older epoch*: it is fenced already, and can
only stand in the way. Any other holder is named in the error.
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

from storage.errors import WriterBlocked

LOCK_FILE = "writer"
WAIT_SECONDS_MAX = 20.0  # a fold of some hundred megabytes is done in a few seconds; longer than that is a hung process
DEATH_SECONDS_MAX = 5.0  # from SIGKILL to the lock's release; more means that the process hangs in the kernel
POLL_SECONDS_MIN = 0.0005  # the next step's transaction often waits for the last one's commit only
POLL_SECONDS_MAX = 0.05
HOLDER_BYTES_MAX = 256


@dataclass(frozen=True)
class Holder:
    """Who holds the lock. `started`: the process's start, seconds since 1970, since pids are used again."""

    pid: int
    started: float
    epoch: int

    def __str__(self) -> str:
        return f"process {self.pid} (epoch {self.epoch})"


@contextmanager
def writing(folder: Path, epoch: int) -> Iterator[None]:
    """Holds the lock of the environment in `folder`. Not reentrant: a second try in one process waits, and fails."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(descriptor, folder, epoch)
        try:
            _write(descriptor, Holder(os.getpid(), _own_start(), epoch))
            yield
        finally:
            # Not by closing alone: a child forked meanwhile shares the open file, and would keep the lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: Path, epoch: int) -> None:
    if _wait(descriptor, WAIT_SECONDS_MAX):
        return
    pids = _holding(descriptor)
    if not pids and _wait(descriptor, DEATH_SECONDS_MAX):
        return  # it was given back while we looked
    holder = _read(descriptor)
    if holder is None or holder.pid not in pids:
        # A predecessor's name, or none yet: the kernel knows the pid, nobody the epoch.
        raise WriterBlocked(folder, f"process {' or '.join(map(str, pids)) or '(unknown)'}", WAIT_SECONDS_MAX)
    if holder.epoch < epoch and _kill(holder) and _wait(descriptor, DEATH_SECONDS_MAX):
        return
    raise WriterBlocked(folder, str(holder), WAIT_SECONDS_MAX)


def _wait(descriptor: int, seconds_max: float) -> bool:
    """True once the lock is ours, False after the deadline."""
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


def _holding(descriptor: int) -> list[int]:
    """Pids that hold a lock on this file, as the kernel lists them: a name in the file may be its predecessor's."""
    inode = str(os.fstat(descriptor).st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [int(line[4]) for line in lines if line[1] == "FLOCK" and line[5].rpartition(":")[2] == inode]


def _kill(holder: Holder) -> bool:
    """Kills the holder if it is the process that left its name, and not this one. True if the lock is worth another
    wait."""
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
        _start_by_pid.clear()  # a forked child has another pid
        _start_by_pid[pid] = psutil.Process(pid).create_time()
    return _start_by_pid[pid]


def _write(descriptor: int, holder: Holder) -> None:
    """One write of a fixed length, so that a reader sees the old name or the new one."""
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode().ljust(HOLDER_BYTES_MAX), 0)


def _read(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, HOLDER_BYTES_MAX, 0)))
    except (ValueError, TypeError):
        return None  # not written yet, or cut off
