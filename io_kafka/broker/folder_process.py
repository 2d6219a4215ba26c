"""A process that keeps its files in one folder, so that any other process can find it and end it.

Guarantees: `find_process` finds the process whichever process started it, and never mistakes another process with the same pid for it. `end`
returns when the process has ended. With `die_with_parent` the process is killed when the process that started it ends, however that ends.

    folder/
      NAME.log   the output of the process, from its last start
      NAME.pid   pid and creation time of the process, while it runs
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

STOP_SECONDS_MAX = 30
"""A clean stop of a broker takes 1 to 2 s, and one of a Spark daemon less. After a SIGKILL a broker recovers from its log."""

POLL_SECONDS = 0.05

LOG_TAIL_LINES = 12

TREE_LOOKS_MAX = 100
"""A process forks children in its first seconds only. A tree that still grows after so many looks is not one of ours."""


class FolderProcess:
    """The process `name` of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The id of the process; None if it does not run."""
        process = self.find_process()
        return None if process is None else process.pid

    def find_process(self) -> psutil.Process | None:
        try:
            kept = json.loads(self._pid_file.read_text())
            process = psutil.Process(kept["pid"])
            same = process.create_time() == kept["born"] and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return process if same else None

    def descendants(self) -> list[psutil.Process]:
        """What the process has started, and what that has started, and so on; nothing if it does not run."""
        process = self.find_process()
        return [] if process is None else _descendants(process)

    def spawn(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, die_with_parent: bool = False
    ) -> None:
        """Starts the process in a session of its own, so that Ctrl-C in this terminal does not reach it. `environment` None inherits ours."""
        with self.log.open("wb") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                env=environment,
            )
        self._child = child
        self._pid_file.write_text(json.dumps({"pid": child.pid, "born": psutil.Process(child.pid).create_time()}))
        if die_with_parent:
            self._watch()

    def has_ended(self) -> bool:
        """Whether the process that this object has spawned has ended by itself."""
        assert self._child is not None
        return self._child.poll() is not None

    def end(self, sign: signal.Signals) -> None:
        """Sends the signal, and SIGKILL after STOP_SECONDS_MAX. Does nothing if the process does not run."""
        process = self.find_process()
        if process is not None:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(sign)
                if not _wait_for_end(process):
                    process.kill()
                    _wait_for_end(process)
        self.reap()

    def kill_tree(self) -> None:
        """Sends SIGKILL to the process and to all that it has started, as the loss of a host does. Does nothing if the process does not run."""
        process = self.find_process()
        if process is not None:
            tree = _stopped_tree(process)
            for each in tree:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            for each in tree:
                _wait_for_end(each)
        self.reap()

    def reap(self) -> None:
        """Ends the watcher, then waits for the child. In the other order the watcher could kill another process with the child's pid."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if self._child is not None:
            self._child.wait(STOP_SECONDS_MAX)
            self._child = None
        self._pid_file.unlink(missing_ok=True)

    def tail(self) -> str:
        """The last lines of the log, without stack traces."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = [line for line in text.splitlines() if not line.startswith("\t")]
        return f"The end of {self.log}:\n" + "\n".join(lines[-LOG_TAIL_LINES:])

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def _watch(self) -> None:
        """Starts a shell that kills the process when a pipe closes which only we hold, even if we are killed."""
        assert self._child is not None
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -9 "$1"', "sh", str(self._child.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


@contextmanager
def start_lock(folder: Path) -> Iterator[bool]:
    """Yields whether this process alone may start what lives in `folder` while the body runs."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _stopped_tree(root: psutil.Process) -> list[psutil.Process]:
    """The process and all its descendants, stopped, so that none can start another one or get away from its parent."""
    tree: list[psutil.Process] = []
    for _ in range(TREE_LOOKS_MAX):
        new = [each for each in (root, *_descendants(root)) if each not in tree]
        if not new:
            return tree
        for each in new:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        tree += new
    raise AssertionError(f"the tree of process {root.pid} still grows after {TREE_LOOKS_MAX} looks")


def _descendants(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _wait_for_end(process: psutil.Process) -> bool:
    """Waits for the end of the process, and returns whether it has ended. A zombie counts as ended, because only its parent can reap it."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            process.wait(POLL_SECONDS)
            return True
        except psutil.NoSuchProcess:
            return True
        except psutil.TimeoutExpired:
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    continue
            return True
    return False
