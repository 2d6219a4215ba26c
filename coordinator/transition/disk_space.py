"""Whether the hosts have space on their disks for a transition: decisions without I/O.

New nodes lie beside the previous ones until the switch. What they will need is not known before they are filled. The estimate is the bytes of
the nodes that fill them. An aggregate over a large table needs less, and a join may need more. So a transition that passes may fill a disk.
Then the run ends at its last checkpoint, and the next one goes on with the transition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from coordinator.revisions.requests import TransitionRefused
from engine.resident.crew import Crew, DiskUse


@dataclass(frozen=True)
class DiskSpace:
    """The space on the disks of the workers. `node_bytes`: of the state of each node on all workers, by number; empty if it is not known yet.
    `disk_use`: of each worker. `folders`: of the databases of each worker, for users."""

    node_bytes: Mapping[int, int]
    disk_use: Mapping[int, DiskUse]
    folders: Mapping[int, str]

    @staticmethod
    def on_hosts(node_bytes: Mapping[int, int], crew: Crew) -> DiskSpace:
        """Returns the space that these workers have now."""
        return DiskSpace(node_bytes, crew.disk_use, {number: member.folder for number, member in crew.members.items()})

    def check(self, fed_nodes: Collection[int]) -> None:
        """Raises TransitionRefused if there is no space for new nodes that are filled from the state of these nodes. `fed_nodes`: their
        numbers."""
        needed = sum(self.node_bytes.get(number, 0) for number in fed_nodes)
        every = sum(use.state_bytes for use in self.disk_use.values())
        of_host: dict[str, list[int]] = {}
        for worker, use in sorted(self.disk_use.items()):
            of_host.setdefault(use.host, []).append(worker)
        for workers in of_host.values():
            share = sum(self.disk_use[worker].state_bytes for worker in workers) / every if every else 0.0
            free = min(self.disk_use[worker].free_bytes for worker in workers)
            if (here := int(needed * share)) > free:
                raise TransitionRefused(
                    f"the new nodes may need about {here:,} bytes beside the state that is there, and {free:,} bytes are free on the disk of "
                    f"{self.folders[workers[0]]}. Nothing was changed.",
                    "Free some space on that disk, and ask again.",
                )
