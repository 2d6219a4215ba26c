"""What a worker is doing: its thread writes it down, and the thread of the heartbeat reports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.resident.mesh import Mesh
from engine.resident.messages import Beat
from engine.resident.transport import Transport


@dataclass
class WorkerProgress:
    """What the heartbeat reports. The worker's thread writes it, and the thread of the heartbeat reads it."""

    cpu_s: Callable[[], float]
    """What the worker's thread has used."""
    transport: Transport
    step: int = -1
    stage: int = -1
    waiting: bool = True

    def beat(self) -> Beat:
        return Beat(
            step=self.step,
            stage=self.stage,
            cpu_ms=int(1e3 * self.cpu_s()),
            bytes_moved=self.transport.bytes_moved,
            waiting=self.waiting,
        )


class WatchedMesh:
    """The peers of a step, with notes for the heartbeat."""

    def __init__(self, mesh: Mesh, progress: WorkerProgress) -> None:
        self._mesh, self._progress = mesh, progress

    def exchange(self, step: int, stage: int, rows: Any) -> Any:
        self._progress.stage, self._progress.waiting = stage, True
        try:
            return self._mesh.exchange(step, stage, rows)
        finally:
            self._progress.stage, self._progress.waiting = stage + 1, False

    def abandon(self, step: int, stage: int) -> None:
        self._mesh.abandon(step, stage)
