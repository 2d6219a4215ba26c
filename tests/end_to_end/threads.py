"""A cluster whose workers are threads of the test's process, over real sockets, real databases and real Kafka.

A test can patch or arm what such a worker does; it cannot reach into Spark's processes. What differs from a process: a thread cannot be killed.
Where a process would end, the connections of the thread are cut at once, and the thread ends at the next thing that it sends or waits for.
Until then it acts for a worker that has been replaced, as a process does that slept.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.resident.entry import Assignment, live
from engine.resident.launcher import Cluster
from engine.resident.sockets import SocketTransport
from engine.resident.spark_launcher import JobEnded
from engine.resident.transport import Event
from faults.points import Crash
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings

LOOPBACK = "127.0.0.1"
END_SECONDS_MAX = 90.0
"""A worker whose connections are cut ends when its computation does."""

PULSE = "pulse"
"""The name of the threads that give signs of life. They end within a second after the worker, and nobody waits for them."""


class CutTransport(SocketTransport):
    """A transport whose connections another thread can end."""

    def cut(self) -> None:
        for connection in list(self._watched):
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)


class ThreadJob:
    """One worker. `launcher` learns of a crash before anybody can notice that the worker is gone. `variable`: what STEPWELL_LOCAL_DIR is on its
    host."""

    def __init__(self, assignment: Assignment, launcher: ThreadLauncher, variable: Path | None) -> None:
        self._launcher, self.variable = launcher, variable
        self._transport = CutTransport(LOOPBACK)
        self._outside = assignment.setup.kafka.outside
        outside = replace(assignment.setup.kafka.outside, start_thread=self._start_thread, freeze_memory=lambda: None)
        setup = replace(assignment.setup, kafka=replace(assignment.setup.kafka, outside=outside))
        self._assignment = replace(assignment, setup=setup)
        self.failure: Exception | None = None
        self.threads: list[threading.Thread] = []
        self._start_thread("worker", self._live)

    def cancel(self) -> None:
        """The coordinator has closed its connection, and that ends a worker."""

    def _live(self) -> None:
        try:
            folder = self._assignment.setup.state_location.on_host(self.variable)
            live(
                self._assignment,
                self._transport,
                make_reader=self._reader,
                end_process=self._end,
                folder=folder,
                start_companion=self._accompany,
            )
            self.failure = JobEnded("the worker has ended")
        except BaseException as end:
            self._note(end)
            raise
        finally:
            self._transport.close()

    def _accompany(self) -> None:
        self._launcher.accompany(replace(self._assignment, is_companion=True), self.variable)

    def _reader(self, settings: KafkaSettings) -> RangeReader:
        return RangeReader(replace(settings, outside=self._outside))

    def _end(self, reason: str) -> None:
        raise SystemExit(reason)

    def _start_thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
        if name != PULSE:
            self.threads.append(thread)
        thread.start()
        return thread

    def _guarded(self, work: Callable[[], None]) -> None:
        """What ends one thread of the worker ends the worker."""
        try:
            work()
        except BaseException as end:
            self._note(end)
            self._transport.cut()

    def _note(self, end: BaseException) -> None:
        if isinstance(end, Crash):
            self._launcher.crash = end
        self.failure = self.failure or (end if isinstance(end, Exception) else JobEnded(repr(end)))


class Waiting:
    """A job that gets no task slot."""

    failure: Exception | None = None

    def cancel(self) -> None:
        """It has not begun."""


class ThreadLauncher:
    """`crash`: the last one that ended a worker. `hosts`: the folders of the hosts to which the tasks come, one after the other; the last one
    gets the rest, up to `tasks_max` tasks of a run."""

    slots: int | None = None

    def __init__(self, hosts: Sequence[Path | None] = (None,), tasks_max: int | None = None) -> None:
        self.hosts, self.tasks_max = hosts, tasks_max
        self.jobs: list[ThreadJob] = []
        self.crash: Crash | None = None

    def slots_now(self) -> int | None:
        return self.slots

    def start(self, assignment: Assignment) -> ThreadJob | Waiting:
        if self.tasks_max is not None and len(self.jobs) >= self.tasks_max:
            return Waiting()
        job = ThreadJob(assignment, self, self.hosts[min(len(self.jobs), len(self.hosts) - 1)])
        self.jobs.append(job)
        return job

    def accompany(self, assignment: Assignment, folder: Path | None) -> None:
        self.jobs.append(ThreadJob(assignment, self, folder))

    def join(self) -> None:
        for job in self.jobs:
            for thread in job.threads:
                thread.join(END_SECONDS_MAX)
                assert not thread.is_alive(), f"a worker does not end: {job.failure}"


class _Following(SocketTransport):
    """The coordinator's end, which crashes as soon as a worker has crashed."""

    def __init__(self, host: str, launcher: ThreadLauncher) -> None:
        super().__init__(host)
        self._launcher = launcher

    def poll(self, seconds: float) -> list[Event]:
        events = super().poll(seconds)
        if self._launcher.crash is not None:
            raise Crash(str(self._launcher.crash))
        return events


def threads(*, one_for_all: bool = False, hosts: Sequence[Path | None] = (None,)) -> Cluster:
    """A new cluster. `one_for_all`: a crash in a worker also ends the coordinator, as a power cut does. `hosts`: see ThreadLauncher."""
    launcher = ThreadLauncher(hosts)
    if one_for_all:
        return Cluster(launcher, partial(_Following, LOOPBACK, launcher))
    return Cluster(launcher, partial(SocketTransport, LOOPBACK))
