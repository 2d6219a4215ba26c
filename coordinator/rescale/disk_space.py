"""Whether a rescale has room on the disks of the workers that get slots: decisions without I/O.

The sources free what they have given away only in later checkpoints, so what moves is needed beside all that is there. It is needed more
than once for a while: a destination writes it beside its checkpoint and folds it then. So a rescale that passes may still fill a disk. Then
the run ends at its last checkpoint, and the next one goes on with the rescale."""

from __future__ import annotations

from collections.abc import Mapping

from base.fault import ExitCode, Fault
from base.slots import SlotSet
from coordinator.rescale.slot_moves import SlotMoves
from engine.resident.crew import DiskUse


class NoDiskSpace(Fault):
    """A rescale would move more than is free on the disk of a host. Nothing was changed."""

    exit_code = ExitCode.STATE

    def __init__(self, host: str, needed_bytes: int, free_bytes: int) -> None:
        self.host, self.needed_bytes, self.free_bytes = host, needed_bytes, free_bytes
        super().__init__(
            f"the change would move about {needed_bytes:,} bytes of state to {host}, and {free_bytes:,} bytes are free on the disk of its "
            "databases; nothing was changed.",
            "Free some space on that disk, or ask for another number of workers. `stepwell layout plan` shows what would move.",
        )


def needed_bytes(
    moves: SlotMoves, owned: Mapping[int, SlotSet], disk_use: Mapping[int, DiskUse], host_of: Mapping[int, str]
) -> dict[str, int]:
    """About how many bytes each host gets. `owned`: the slots of the workers now. `host_of`: of each destination. All slots of a worker
    count as equally large, as in `stepwell layout plan`."""
    needed: dict[str, int] = {}
    for (source, destination), slots in moves.items():
        moved = disk_use[source].state_bytes * len(slots) // len(owned[source])
        needed[host_of[destination]] = needed.get(host_of[destination], 0) + moved
    return needed


def why_no_disk_space(
    needed: Mapping[str, int], free: Mapping[str, int], names: Mapping[str, str]
) -> NoDiskSpace | None:
    """The fault of the rescale that needs so much on each host; None if there is room on all. `names`: of the hosts, for users."""
    for host, moved in sorted(needed.items()):
        if moved > free[host]:
            return NoDiskSpace(names[host], moved, free[host])
    return None
