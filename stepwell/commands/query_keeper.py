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
from stepwell.inspection.query_request import NOT_HERE
from stepwell.project.loading import Project
from stepwell.service.endpoint import QUERY_SECONDS_MAX
from stepwell.service.queries import NotAnswered, QueryBody
from stepwell.spark.launch import without_secrets

MODULE = f"{__package__}.query_process"

WAITING_MAX = 4
"""Queries at once, with the one under way. Each takes a thread of the control endpoint, which has 40."""

IDLE_SECONDS_MAX = 600.0
"""From the last query to the end of the process. A user who explores asks once in a few minutes."""

MEMORY_BYTES_MAX = 1 << 30
"""The largest memory of the process and its JVM after an answer. They begin with half of it."""

END_SECONDS_MAX = 5.0
"""The time for the process to end after its input has ended. It ends at once, unless the machine is busy."""

PART_BYTES = 1 << 16
"""The number of bytes of an answer that are read at once: what a pipe holds."""


class QueryKeeper:
    """Starts and ends the process. Threads may call it beside each other. `close` ends the process for good."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._chosen = project.settings.stepwell.query_process
        self._places = threading.BoundedSemaphore(WAITING_MAX)
        self._lock = threading.Lock()  # of what follows
        self._process: _Process | None = None
        self._end_later: threading.Timer | None = None
        self._is_closed = False

    def begin(self) -> None:
        """The service has begun its work: from now on the process is there if it always is to be."""
        if self._chosen == "always":
            with self._lock, suppress(NotAnswered):
                self._running_process()

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
                return self._answer(body.model_dump_json().encode() + b"\n", deadline)
            finally:
                self._plan_end()
                self._lock.release()
        finally:
            self._places.release()

    def close(self) -> None:
        """A query that is under way is not answered any more."""
        self._is_closed = True
        is_idle = self._lock.acquire(blocking=False)
        if not is_idle:
            if (process := self._process) is not None:
                process.end()
            self._lock.acquire()
        try:
            self._plan_end()
            self._end(waits_for_jvm=not is_idle)
        finally:
            self._lock.release()

    def _answer(self, line: bytes, deadline: float) -> bytes:
        """By the process that is there or, if that has ended meanwhile, by another one."""
        was_there = self._process is not None
        try:
            answer = self._running_process().ask(line, deadline)
            if answer is None and was_there:
                self._end()
                answer = self._running_process().ask(line, deadline)
        except TimeoutError:
            self._end()
            raise NotAnswered(f"it is not answered within {QUERY_SECONDS_MAX:g} s") from None
        if answer is None:
            self._end()
            raise NotAnswered("the process that answers queries ends, as its JVM does")
        if answer.startswith(NOT_HERE):
            raise NotAnswered(json.loads(answer)["not_here"])
        return answer

    def _running_process(self) -> _Process:
        if self._is_closed:
            raise NotAnswered("the service is ending")
        if self._process is None:
            try:
                self._process = _Process(self._project)
            except OSError as fault:
                raise NotAnswered(f"no process for queries can be started: {fault}") from None
            if self._is_closed:  # meanwhile, and `close` has not seen this one
                self._process.end()
        return self._process

    def _plan_end(self) -> None:
        """The process ends if it is idle for long, and at once if it has needed much memory. A later query starts another one."""
        if self._end_later is not None:
            self._end_later.cancel()
            self._end_later = None
        if self._process is None or self._is_closed:
            return
        is_large = self._process.memory_bytes() > MEMORY_BYTES_MAX
        if is_large or self._chosen != "always":
            self._end_later = threading.Timer(0.0 if is_large else IDLE_SECONDS_MAX, self._end_unless_asked)
            self._end_later.daemon = True
            self._end_later.start()

    def _end_unless_asked(self) -> None:
        with self._lock:
            if self._end_later is threading.current_thread():  # otherwise another query has come meanwhile
                self._end_later = None
                self._end()

    def _end(self, *, waits_for_jvm: bool = True) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(waits_for_jvm=waits_for_jvm)
            process.close()


class _Process:
    """One process, from its start to its end."""

    def __init__(self, project: Project) -> None:
        inherited = without_secrets(os.environ, project.settings.secret_variables)
        environment = {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
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
        self._write(pickle.dumps(project))

    def ask(self, line: bytes, deadline: float) -> bytes | None:
        """The answer; None if the process has ended. Raises TimeoutError at the deadline: then it has to be ended."""
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
        raise TimeoutError

    def memory_bytes(self) -> int:
        """Returns the memory of the process and its JVM."""
        with suppress(psutil.Error):
            return sum(process.memory_info().rss for process in self._family())
        return 0

    def end(self, *, waits_for_jvm: bool = True) -> None:
        """The process ends with its input, and its JVM with it, unless that is too busy to notice. May be called again. `waits_for_jvm`: an
        idle JVM needs seconds to end, and nobody has to wait for that."""
        family = self._family() if waits_for_jvm else []
        with suppress(OSError):
            self._requests.close()
        for process in psutil.wait_procs(family, END_SECONDS_MAX)[1]:
            with suppress(psutil.Error):
                process.kill()
        self._popen.wait()

    def close(self) -> None:
        """After its end, when nobody asks any more."""
        self._replies.close()

    def _family(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            own = psutil.Process(self._popen.pid)
            return [own, *own.children(recursive=True)]
        return []

    def _write(self, content: bytes) -> None:
        with suppress(OSError, ValueError):  # it has ended, which its answer shows
            self._requests.write(content)
            self._requests.flush()
