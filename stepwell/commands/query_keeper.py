"""What a service does to answer queries: it keeps a process that does nothing else (query_process.py).

The process is apart from the service, because a query may need any amount of memory and time. Whatever becomes of it, the steps go
on. One query is under way at a time, a few wait, and each has a deadline, at which the process is ended. So a query that is
not answered here costs nobody but the one who asks, whose command then answers it by itself.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil

from engine.resident.preload import PLACE_VARIABLE
from stepwell.commands.query_started import NOT_HERE, Started
from stepwell.project.loading import Project
from stepwell.service.endpoint import QUERY_SECONDS_MAX
from stepwell.service.queries import NotAnswered, QueryBody

MODULE = f"{__package__}.query_process"

WAITING_MAX = 4
"""Queries at once, with the one under way. Each takes a thread of the control endpoint, which has 40."""

IDLE_SECONDS_MAX = 600.0
"""From the last query to the end of the process. A user who explores asks once in a few minutes."""

END_SECONDS_MAX = 5.0
"""For the process to end after its input has. It does at once, unless the machine is busy."""

PART_BYTES = 1 << 16
"""Of an answer that are read at once: what a pipe holds."""


class QueryKeeper:
    """Starts and ends the process. Threads may call it beside each other. `close` ends the process for good."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._chosen = project.settings.stepwell.query_process
        self._places = threading.BoundedSemaphore(WAITING_MAX)
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._is_closed = False

    def begin(self) -> None:
        """The service has begun its work: from now on the process is there if it always is to be."""
        if self._chosen == "always":
            with self._lock:
                self._started()

    def answer(self, body: QueryBody) -> bytes:
        """The answer of the process. Raises NotAnswered."""
        if self._chosen == "never":
            raise NotAnswered("stepwell.query.process is never")
        if not self._places.acquire(blocking=False):
            raise NotAnswered(f"{WAITING_MAX} queries are asked at the moment")
        deadline = time.monotonic() + QUERY_SECONDS_MAX
        try:
            if not self._lock.acquire(timeout=QUERY_SECONDS_MAX):
                raise NotAnswered(f"the queries before this one have taken {QUERY_SECONDS_MAX:g} s")
            try:
                return self._answered(body.model_dump_json().encode() + b"\n", deadline)
            finally:
                self._lock.release()
        finally:
            self._places.release()

    def close(self) -> None:
        """A query that is under way is not answered any more."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.end()

    def _answered(self, line: bytes, deadline: float) -> bytes:
        """By the process that is there or, if that has ended meanwhile, by another one."""
        former = self._process
        answer = self._started().ask(line, deadline)
        if answer is None and former is not None and self._process is former:
            self._process = None
            answer = self._started().ask(line, deadline)
        if answer is None:
            self._end()
            raise NotAnswered("the process that answers queries has ended, or has not answered in time")
        if answer.startswith(NOT_HERE):
            raise NotAnswered(json.loads(answer)["not_here"])
        return answer

    def _started(self) -> _Process:
        if self._process is None or not self._process.is_alive():
            if self._is_closed:
                raise NotAnswered("the service is ending")
            idle_s = None if self._chosen == "always" else IDLE_SECONDS_MAX
            self._process = _Process(Started(self._project, idle_s))
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


class _Process:
    """One process, from its start to its end."""

    def __init__(self, started: Started) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment.pop(PLACE_VARIABLE, None)  # which is for the workers
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the service
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._requests, self._replies = self._popen.stdin, self._popen.stdout
        self._write(pickle.dumps(started))

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, line: bytes, deadline: float) -> bytes | None:
        """The answer; None if the process has ended, or has not answered before the deadline. After that it has to be ended."""
        self._write(line)
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        parts: list[bytes] = []
        while (left_s := deadline - time.monotonic()) > 0:
            if not poll.poll(1000 * left_s):
                continue
            part = os.read(self._replies.fileno(), PART_BYTES)
            parts.append(part)
            if not part:
                return None
            if part.endswith(b"\n"):
                return b"".join(parts)
        return None

    def end(self) -> None:
        """The process ends with its input, and its JVM with it, unless that is too busy to notice."""
        family: list[psutil.Process] = []
        with suppress(psutil.Error):
            own = psutil.Process(self._popen.pid)
            family = [own, *own.children(recursive=True)]
        with suppress(OSError):
            self._requests.close()
        for process in psutil.wait_procs(family, END_SECONDS_MAX)[1]:
            with suppress(psutil.Error):
                process.kill()
        self._popen.wait()
        self._replies.close()

    def _write(self, content: bytes) -> None:
        with suppress(OSError):  # it has ended, which its answer tells
            self._requests.write(content)
            self._requests.flush()
