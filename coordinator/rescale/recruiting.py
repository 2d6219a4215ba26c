"""Tasks for the workers that a rescale needs and that are not there yet."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from coordinator.status import StatusBoard
from engine.resident.crew import Crew


class Recruits(Enum):
    """Whether all tasks that are needed have registered. `LATE`: there was time enough, and they have not."""

    WAITED_FOR = "waited for"
    THERE = "there"
    LATE = "late"


class Recruiting:
    """Of one run. `register_s`: how long new tasks have to register."""

    def __init__(self, register_s: float, board: StatusBoard, monotonic: Callable[[], float]) -> None:
        self.register_s, self._board, self._monotonic = register_s, board, monotonic
        self._until: float | None = None

    def forget(self) -> None:
        """Other tasks are needed from now on, or none."""
        self._until = None

    def look(self, crew: Crew, count: int) -> Recruits:
        """Has so many tasks started, and notices when they are there. Raises TaskLost."""
        if self._until is None:
            self._until = self._monotonic() + self.register_s
            crew.recruiting.recruit(count)
        crew.check()
        if len(crew.recruiting.candidates) >= count:
            self._until = None
            return Recruits.THERE
        return Recruits.LATE if self._monotonic() > self._until else Recruits.WAITED_FOR

    def stop(self, crew: Crew, why: str) -> None:
        """Lets the tasks go that have registered, and tells users why."""
        crew.recruiting.dismiss()
        self._until = None
        self._board.update(layout_fault=why)
