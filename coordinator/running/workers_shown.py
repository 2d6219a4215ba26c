"""The workers, as the status shows them."""

from __future__ import annotations

from coordinator.status import StatusBoard
from engine.resident.crew import Crew


def show_workers(crew: Crew, board: StatusBoard) -> None:
    board.update(
        workers=[
            {
                "worker": number,
                "host": m.host,
                "address": m.address.host,
                "release": m.release,
                "pid": m.pid,
                "folder": m.folder,
                "free_bytes": crew.disk_use[number].free_bytes,
            }
            for number, m in crew.members.items()
        ],
        worker_bytes={str(number): use.state_bytes for number, use in sorted(crew.disk_use.items())},
    )
