"""How workers are started: each is a job of its own, so that they come, go and fail one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.resident.entry import Assignment
from engine.resident.transport import Transport


class Job(Protocol):
    """The job of one worker."""

    @property
    def failure(self) -> Exception | None:
        """Why the job has ended, if it has; None while it runs or waits for a task slot."""

    def cancel(self) -> None:
        """Ends the job and frees its task slot. Returns at once."""


class Launcher(Protocol):
    """Starts workers."""

    @property
    def slots(self) -> int | None:
        """How many workers can run at once, if that is known before any is started and does not change."""

    def slots_now(self) -> int | None:
        """How many workers could run at once at this moment; None if nobody answers. Takes a bounded time."""

    def start(self, assignment: Assignment) -> Job: ...


@dataclass(frozen=True)
class Cluster:
    """Where the workers of a run live. `make_transport` makes the coordinator's end of the network, which each term has of its own."""

    launcher: Launcher
    make_transport: Callable[[], Transport]
