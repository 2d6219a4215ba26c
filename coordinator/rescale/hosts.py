"""The hosts of a rescale: which tasks become the new workers, and whether their hosts have room for what moves there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from base.slots import SlotSet
from coordinator.rescale.actions import Wish
from coordinator.rescale.disk_space import NoDiskSpace, needed_bytes, why_no_disk_space
from coordinator.rescale.slot_moves import slot_moves
from engine.resident.crew import Crew
from engine.resident.registration import Candidate
from io_kafka.step_log.layout_records import HostsPart
from storage.host_folder import StateLocation


def may_become_worker(task: Candidate, hosts: HostsPart | None) -> bool:
    """Whether the task may become a new worker of a rescale with these hosts."""
    if hosts is None:
        return True
    is_wanted = hosts.wanted is None or task.registered.is_on(hosts.wanted)
    return is_wanted and not task.registered.is_on(hosts.avoided)


def usable_tasks(crew: Crew, hosts: HostsPart | None) -> list[Candidate]:
    """The tasks that may become new workers."""
    return [task for task in crew.recruiting.candidates if may_become_worker(task, hosts)]


def tasks_for(new: Sequence[int], crew: Crew, hosts: HostsPart | None) -> dict[int, int]:
    """A task for each new worker, on the hosts that have the fewest. There is one that fits for each."""
    busy = Counter(member.folder_name for member in crew.members.values())
    chosen: dict[int, int] = {}
    left = usable_tasks(crew, hosts)
    for number in new:
        task = min(left, key=lambda task: (busy[task.registered.folder_name], task.serial))
        left.remove(task)
        busy[task.registered.folder_name] += 1
        chosen[number] = task.serial
    return chosen


def why_no_disk_space_for(
    wish: Wish, owned: Mapping[int, SlotSet], crew: Crew, location: StateLocation
) -> NoDiskSpace | None:
    """Returns why the disks of the hosts have no space for the rescale; None if they have. It looks at the hosts that are known by now: before
    there are tasks for new workers, their hosts are not, unless there is one host. `owned`: the slots of the workers now."""
    target, disk_use = wish.aim.target, crew.disk_use
    host_of = {number: use.host for number, use in disk_use.items()}
    free = {use.host: use.free_bytes for use in disk_use.values()}
    names = {member.folder_name: f"host {member.host}" for member in crew.members.values()}
    new = [number for number in target.members if number not in host_of]
    if not location.on_cluster:
        (host,) = free
        host_of |= dict.fromkeys(new, host)
        free[host] = location.here.free_bytes()  # now, and not at the last checkpoint
    elif len(usable_tasks(crew, wish.hosts)) >= len(new):
        tasks = {task.serial: task.registered for task in crew.recruiting.candidates}
        for number, serial in tasks_for(new, crew, wish.hosts).items():
            host_of[number] = tasks[serial].folder_name
            free[tasks[serial].folder_name] = tasks[serial].free_bytes
            names[tasks[serial].folder_name] = f"host {tasks[serial].host}"
    moves = {ends: slots for ends, slots in slot_moves(owned, target.owned).items() if ends[1] in host_of}
    return why_no_disk_space(needed_bytes(moves, owned, disk_use, host_of), free, names)
