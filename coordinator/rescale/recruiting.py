"""Tasks for the workers that a rescale needs and that are not there yet."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from coordinator.rescale.hosts import usable_tasks
from coordinator.status import StatusBoard
from engine.resident.crew import Crew
from engine.resident.crew.recruiting import SPARES_MAX
from io_kafka.step_log.layout_records import HostsPart


class Recruits(Enum):
    """Whether all tasks that are needed have registered. `TIMED_OUT`: they had time enough, and have not."""

    PENDING = "pending"
    READY = "ready"
    TIMED_OUT = "timed out"


class RescaleRecruits:
    """The tasks that the rescales of one run wait for. `register_s`: how long new tasks have to register."""

    def __init__(self, register_s: float, board: StatusBoard, monotonic: Callable[[], float]) -> None:
        self.register_s, self._board, self._monotonic = register_s, board, monotonic
        self._until: float | None = None
        self._started = 0

    def forget(self) -> None:
        """Other tasks are needed from now on, or none."""
        self._until = None

    def look(self, crew: Crew, count: int, hosts: HostsPart | None) -> Recruits:
        """Has so many tasks started, and notices when they are there. Spark decides to which host a task comes. A task on another host than the
        wanted ones stays there, so that the next one comes elsewhere. Raises TaskLost."""
        if self._until is None:
            self._until = self._monotonic() + self.register_s
            self._started = count
            crew.recruiting.recruit(count)
        crew.check()
        if len(usable_tasks(crew, hosts)) >= count:
            self._until = None
            return Recruits.READY
        ended = len(crew.recruiting.candidates) + len(crew.recruiting.failed_recruits)
        if self._started <= ended < count + SPARES_MAX:
            self._started += 1
            crew.recruiting.recruit_another()
        return Recruits.TIMED_OUT if self._monotonic() > self._until else Recruits.PENDING

    def stop(self, crew: Crew, why: str) -> None:
        """Lets the tasks go that have registered, and tells users why."""
        crew.recruiting.dismiss()
        self._until = None
        self._board.update(layout_fault=why)
