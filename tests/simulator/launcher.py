"""Spark, as far as it starts a worker for each job: the worker is a process of its own that runs the project's `live`.

Each host has a folder of its own and some task slots, and a task comes to any host that has a free slot. A host may be away: then no task
comes to it.

A task may come late, never, or die at once. A job that is cancelled ends its process a little later, or never: then a worker that was given up
goes on beside its replacement, until it notices that its coordinator is gone. So does every worker of a coordinator that dies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from base.fault import Fault
from engine.resident.entry import Assignment, live
from io_kafka.clients.raw import RawBatch
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.offsets import OffsetRange
from tests.simulator.network import Network
from tests.simulator.scheduler import Process, Strand

LATE_SECONDS = (0.01, 0.5, 2.0, 12.0)
FATES = ("late", "late", "never", "dies at once", "dies soon")
SOON_POINTS = 60
"""A worker comes by about so many points until it has joined its peers."""

CANCEL_POINTS = (0, 0, 5, 30)
"""After how many points a job that is cancelled ends its process."""

FOREVER_SECONDS = 1e9
"""Spark waits for a task slot as long as the job is not cancelled."""

ASLEEP_POINTS = (0, 100, 400)
"""The same for a process that is stopped. It may go on before that."""


class Surroundings(Protocol):
    """What jobs ask of their world."""

    rng: random.Random
    network: Network

    def point(self, place: str) -> None: ...
    def count(self, kind: str) -> None: ...
    def pass_time(self, seconds: float) -> None: ...
    def fate(self, place: str, fates: Sequence[str]) -> str | None: ...
    def tell(self, what: str) -> None: ...
    def alarm(self, points: int, action: Callable[[], None]) -> None: ...
    def start_task(self, name: str, owner: Process | None = None) -> Process: ...
    def free_hosts(self) -> list[str]: ...
    def folder_of(self, host: str) -> Path | None: ...
    def wait_for(self, until: Callable[[], bool], seconds: float) -> bool: ...
    def spawn(self, name: str, process: Process, work: Callable[[], None]) -> Strand: ...
    def kill(self, process: Process, why: str) -> None: ...
    def end(self, process: Process) -> None: ...
    def wake_later(self, process: Process) -> None: ...


def kill(world: Surroundings, process: Process, why: str) -> None:
    if process.alive:
        world.kill(process, why)


class SimReader:
    """The project's reader, without its thread that reads ahead: that thread is a real one, and only a cache."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._reader = RangeReader(settings)

    def read(
        self, ranges: Sequence[OffsetRange], *, ahead: bool = False, bytes_max: int | None = None
    ) -> list[RawBatch]:
        return self._reader.read(ranges, bytes_max=bytes_max)

    def document(self, topic: str, digest: str) -> str:
        return self._reader.document(topic, digest)

    def close(self) -> None:
        self._reader.close()


class TaskEnded(Exception):
    """As Spark's exception of a job."""


class SimJob:
    """The job of one worker. `strand`: None if its task never comes."""

    def __init__(self, world: Surroundings, process: Process, strand: Strand | None) -> None:
        self._world, self.process, self._strand = world, process, strand

    @property
    def failure(self) -> Exception | None:
        return TaskEnded("the task has ended") if self._strand is not None and self._strand.done else None

    def cancel(self) -> None:
        world, process = self._world, self.process
        world.point("cancel")
        process.is_given_up = True
        if not process.alive:
            return
        if process.stopped:
            world.wake_later(process)
        if not world.fate("cancel", ("never",)):
            points = world.rng.choice(ASLEEP_POINTS if process.stopped else CANCEL_POINTS)
            world.alarm(points, lambda: kill(world, process, "its job is cancelled"))


class SimLauncher:
    """Starts each worker in a process and a strand of its own, for the coordinator that acts."""

    slots: int | None = None

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._started = 0

    def slots_now(self) -> int | None:
        """Spark does not answer."""
        return None

    def start(self, assignment: Assignment) -> SimJob:
        world, self._started = self._world, self._started + 1
        world.point("start a task")
        return self._start(assignment, None)

    def _start(self, assignment: Assignment, task: Process | None) -> SimJob:
        """`task`: the one whose companion this is; None for a task."""
        world = self._world
        process = world.start_task(f"task{self._started}", None if task is None else task.owner)
        process.attempt, process.is_companion = assignment.term.attempt, task is not None
        if task is not None:
            task.companions.append(process)
        fate = world.fate("worker", FATES)
        if fate == "never":
            process.alive = False
            return SimJob(world, process, None)
        if fate == "dies soon":
            world.alarm(world.rng.randrange(SOON_POINTS), lambda: kill(world, process, "anywhere"))
        work = partial(self._live, assignment, process, fate)
        if task is not None:
            work = partial(self._live_on, task.host, assignment, process, fate)
        return SimJob(world, process, world.spawn(process.name, process, work))

    def _live(self, assignment: Assignment, process: Process, fate: str | None) -> None:
        world = self._world
        owner = process.owner
        assert owner is not None
        world.wait_for(lambda: bool(world.free_hosts()) or process.is_given_up or not owner.alive, FOREVER_SECONDS)
        if not (free := world.free_hosts()):
            world.end(process)
            return
        self._live_on(world.rng.choice(free), assignment, process, fate)

    def _live_on(self, host: str, assignment: Assignment, process: Process, fate: str | None) -> None:
        world = self._world
        process.host = host
        if fate == "late":
            world.pass_time(world.rng.choice(LATE_SECONDS))
        if fate == "dies at once":
            self._end(process, "by Spark")
        transport = world.network.transport()
        folder = assignment.setup.state_location.on_host(world.folder_of(process.host))
        try:
            live(
                assignment,
                transport,
                make_reader=SimReader,
                end_process=lambda reason: self._end(process, reason),
                folder=folder,
                start_companion=lambda: self._accompany(assignment, process),
            )
        except Fault as fault:
            world.tell(f"the task fails: {fault}")
        transport.close()
        world.wait_for(lambda: not any(companion.alive for companion in process.companions), FOREVER_SECONDS)
        world.end(process)

    def _accompany(self, assignment: Assignment, process: Process) -> None:
        """A companion ends with its task at the latest."""
        self._started += 1
        self._world.count("companion")
        self._start(replace(assignment, is_companion=True), process)

    def _end(self, process: Process, reason: str) -> None:
        """As the end of a process: it does not return."""
        self._world.kill(process, reason)
        self._world.point("end")
