"""A host is replaced while steps go on, whatever happens meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.inbox import PendingRequest
from coordinator.rescale.requests import LayoutRequest, ReplaceRequest
from storage.host_folder import database_folder
from tests.sampling import sampled
from tests.simulator.disk import Folder
from tests.simulator.scheduler import Process
from tests.simulator.test_scenarios import MANY_KEYS, ROWS, WEATHER, SpreadScript

FORMER, OTHER = "host0", "host1"
POINTS = (
    "layout.intended",
    "workers.created",
    "copy.sent",
    "cut.exported",
    "cut.done",
    "settle.completed",
    "bury.renamed",
)


class Hosts(SpreadScript):
    """Two hosts, to which three tasks come by turns, so the first one has two workers. `is_full`: Spark uses up the slots of the first one
    before those of the other."""

    def __init__(self) -> None:
        super().__init__(replace(WEATHER, hosts=2, workers=3, slots=3, register_s=4.0))
        self.asked: list[PendingRequest[LayoutRequest]] = []
        self.is_full = False

    def free_hosts(self) -> list[str]:
        return sorted(super(SpreadScript, self).free_hosts())[:1] if self.is_full else super().free_hosts()

    def run_for_a_while(self) -> None:
        self.send(ROWS + MANY_KEYS)
        self.start(available_now=True)
        self.run_to_the_end()
        assert len(self.databases(FORMER)) == 2 and len(self.databases(OTHER)) == 1
        self.send(ROWS)

    def ask(self, run: Process, request: ReplaceRequest) -> None:
        """When its first step is complete."""

        def now() -> None:
            self.is_full = True
            self.asked.append(self.runs[run].layout.put(request))

        self.at[run.name, "step.complete"] = now

    def databases(self, host: str) -> set[str]:
        """The folders of databases on the disk of a host."""
        folder = self.disk.root.entries[host]
        for name in ("p", "workers"):
            assert isinstance(folder, Folder)
            folder = folder.entries[name]
        assert isinstance(folder, Folder)
        return {name for name in folder.entries if not name.startswith(".")}

    def fault_of(self, run: Process) -> str:
        """What the status says of the last change of the layout."""
        return (self.boards[run].show()["layout_fault"] or "") if run in self.boards else ""

    def needed(self) -> set[str]:
        """The folders of the workers of the layout. One that nobody needs stays on a host until a worker comes there."""
        layout = self.oracle.layouts.layout
        assert layout is not None and len(layout) == 3
        return {database_folder(worker, birth) for worker, (birth, _) in layout.items()}


@pytest.mark.parametrize("to", [None, OTHER])
def test_everything_of_a_host_moves_although_tasks_come_to_it_first(to: str | None) -> None:
    world = Hosts()
    with world.alive():
        world.run_for_a_while()
        run = world.start(available_now=True)
        world.ask(run, ReplaceRequest(FORMER, to))
        world.run_to_the_end()
        assert world.ended[run] is None and world.asked[0].fault is None
        assert not world.databases(FORMER) and len(world.databases(OTHER)) == 3
        assert world.databases(OTHER) == world.needed()
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize(
    ("host", "to", "says"),
    [
        ("host7", None, "no worker is on host host7; nothing was changed. The workers are on host0"),
        ("/elsewhere", None, "no worker is on host /elsewhere"),
        (FORMER, FORMER, "host0 is host host0 itself"),
    ],
)
def test_what_is_no_host_to_replace_is_refused(host: str, to: str | None, says: str) -> None:
    world = Hosts()
    with world.alive():
        world.run_for_a_while()
        world.ask(world.start(available_now=True), ReplaceRequest(host, to))
        world.run_to_the_end()
        assert says in str(world.asked[0].fault)
        world.drain()


@pytest.mark.long
def test_a_host_without_free_task_slots_elsewhere_stays() -> None:
    """There is one task slot on the other host, and two workers need one each."""
    world = Hosts()
    world.weather = replace(world.weather, slots=2)
    with world.alive():
        world.run_for_a_while()
        run = world.start(available_now=False)
        world.ask(run, ReplaceRequest(FORMER))
        world.scheduler.run_until(lambda: bool(world.fault_of(run)))
        assert "2 workers need a task slot each on another host than host0" in world.fault_of(run)
        world.runs[run].ask("stop")
        world.run_to_the_end()
        assert len(world.databases(FORMER)) == 2
        world.drain()


@pytest.mark.parametrize("whom", ["coordinator", "worker"])
@pytest.mark.parametrize("point", sampled(POINTS, 4))
def test_a_replacement_is_broken_off_at_every_point(point: str, whom: str) -> None:
    """What goes on with it puts no new worker back on the host."""
    world = Hosts()
    with world.alive():
        world.run_for_a_while()
        run = world.start(available_now=True)
        world.ask(run, ReplaceRequest(FORMER))

        def break_off() -> None:
            tasks = [process for process in world.processes if process.alive and process.owner is run]
            world.kill(run if whom == "coordinator" else tasks[-1], "by the script")

        world.at[run.name, point] = break_off
        world.run_to_the_end()
        world.send(ROWS)
        world.drain()
        needed = world.needed()
        assert needed <= world.databases(OTHER) and not needed & world.databases(FORMER)
