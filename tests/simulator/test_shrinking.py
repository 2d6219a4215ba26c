"""A host is lost for good, and the others have too few task slots: the run goes on with fewer workers, whatever happens meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from coordinator.rescale.requests import ReplaceRequest, RescaleRequest
from engine.resident.start_faults import NoSlots
from io_kafka.step_log.layout_records import MoveStrategy
from tests.sampling import sampled
from tests.simulator.scheduler import Process
from tests.simulator.test_scenarios import MANY_KEYS, ROWS, STORE_WEATHER, WEATHER, Script
from tests.simulator.weather import Weather

LOST = "host1"


class Hosts(Script):
    """Two hosts with two task slots each. A task comes to the one with the fewest. `is_reversed`: the last host counts as the first."""

    def __init__(self, weather: Weather, workers: int = 3, *, hosts: int = 2, slots: int = 2) -> None:
        given = {"hosts": hosts, "slots": slots, "workers": workers, "shrink_after_s": 3.0, "register_s": 4.0}
        super().__init__(replace(weather, **given))
        self.is_reversed = False

    def free_hosts(self) -> list[str]:
        busy = Counter(process.host for process in self.processes if process.alive and process.owner is not None)
        sign = -1 if self.is_reversed else 1
        return sorted(super().free_hosts(), key=lambda host: (busy[host], sign * self.hosts.index(host)))[:1]

    def lose(self, host: str = LOST) -> None:
        """The host, its tasks and its disk; no executor comes there any more."""
        self.lose_disk(host)
        self.away.add(host)
        for process in self.processes:
            if process.alive and process.host == host:
                self.kill(process, "with its host")

    def workers(self) -> int:
        """Of the layout that the log has."""
        assert self.oracle.layouts.layout is not None
        return len(self.oracle.layouts.layout)


def run_for_a_while(world: Hosts) -> None:
    world.send(ROWS + MANY_KEYS)
    world.start(available_now=True)
    world.run_to_the_end()
    world.send(ROWS)


@pytest.mark.parametrize("workers", [3, 4])
def test_a_run_goes_on_with_as_many_workers_as_there_are_slots(workers: int) -> None:
    world = Hosts(STORE_WEATHER, workers)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True)
        world.at[run.name, "step.complete"] = world.lose
        world.run_to_the_end()
        assert world.ended[run] is None
        assert world.workers() == 2
        assert world.story.happened["companion"] == workers - 2
        world.send(ROWS)
        world.start(available_now=True)
        world.run_to_the_end()
        assert world.story.happened["companion"] == workers - 2, "there are enough slots now"
        world.drain()


@pytest.mark.long
def test_a_host_that_comes_back_in_time_is_waited_for() -> None:
    world = Hosts(STORE_WEATHER)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True)

        def lose() -> None:
            world.lose()
            world.alarm(40, lambda: world.away.discard(LOST))

        world.at[run.name, "step.complete"] = lose
        world.run_to_the_end()
        assert world.workers() == 3 and not world.story.happened["companion"]
        world.drain()


def test_a_database_that_is_nowhere_else_is_waited_for() -> None:
    """There is no store. The run ends, and goes on with all workers when the host is back."""
    world = Hosts(WEATHER)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True)

        def leave() -> None:
            world.away.add(LOST)
            for process in world.processes:
                if process.alive and process.host == LOST:
                    world.kill(process, "with its executor")

        world.at[run.name, "step.complete"] = leave
        world.run_to_the_end()
        assert isinstance(world.ended[run], NoSlots)
        world.away.clear()
        world.drain()
        assert world.workers() == 3 and not world.story.happened["companion"]


def test_a_new_state_does_not_begin_with_fewer_workers_than_were_asked_for() -> None:
    world = Hosts(STORE_WEATHER)
    with world.alive():
        world.away.add(LOST)
        world.send()
        run = world.start(available_now=True)
        world.run_to_the_end()
        assert isinstance(world.ended[run], NoSlots) and not world.story.happened["companion"]
        world.away.clear()
        world.drain()


@pytest.mark.parametrize(
    ("workers", "point"),
    sampled(
        [(n, point) for n in (2, 4) for point in ("layout.intended", "cut.done", "settle.completed")]
        + [(2, "bury.renamed")],
        3,
        several=True,
    ),
)
def test_a_host_is_lost_during_a_change_of_the_layout(workers: int, point: str) -> None:
    world = Hosts(STORE_WEATHER)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True)
        request = RescaleRequest(workers, MoveStrategy("live"))
        world.at[run.name, "step.complete"] = lambda: world.runs[run].layout.put(request)
        world.at[run.name, point] = world.lose
        world.run_to_the_end()
        assert world.workers() == 2
        world.drain()


@pytest.mark.long
@pytest.mark.parametrize("whom", ["coordinator", "companion", "its task"])
@pytest.mark.parametrize(
    "point",
    sampled(
        [
            "restore.half",
            "recovery.opened",
            "layout.intended",
            "cut.exported",
            "cut.done",
            "checkpoint.frozen",
            "bury.renamed",
        ],
        3,
    ),
)
def test_the_way_to_fewer_workers_is_broken_off_at_every_point(point: str, whom: str) -> None:
    """Also a second time, by the next run or recovery."""
    world = Hosts(STORE_WEATHER)
    with world.alive():
        run_for_a_while(world)
        first = world.start(available_now=True)

        def lose() -> None:
            world.lose()
            arm(first, again=True)

        world.at[first.name, "step.complete"] = lose

        def break_off(run: Process, again: bool) -> None:
            tasks = [p for p in world.processes if p.alive and p.owner is run]
            victims = {
                "coordinator": [run],
                "companion": [p for p in tasks if p.is_companion],
                "its task": [p for p in tasks if p.companions],
            }[whom]
            for process in victims[:1]:
                world.kill(process, "by the script")
            if again:
                arm(run, again=False)

        def arm(run: Process, *, again: bool) -> None:
            world.at[run.name, point] = lambda: break_off(run, again)

        world.run_to_the_end()
        if world.ended[first] is not None:
            second = world.start(available_now=True)
            arm(second, again=False)
            world.run_to_the_end()
        world.drain()
        assert world.workers() == 2
        again = point != "bury.renamed"  # then the last version has the owners of two workers
        assert world.story.happened["companion"] > again, "nothing was broken off"


@pytest.mark.long
@pytest.mark.parametrize("is_reversed", sampled([True, False], 2))
@pytest.mark.parametrize("whom", ["coordinator", "companion"])
@pytest.mark.parametrize("has_store", [True, False])
def test_companions_come_to_the_hosts_that_have_the_databases(has_store: bool, whom: str, is_reversed: bool) -> None:
    """One of two hosts has the databases of two workers, and one slot, from the first attempt on. The order in which tasks come is of no
    account. Without a store, that host has had two slots before."""
    world = Hosts(STORE_WEATHER, hosts=3, slots=1) if has_store else Hosts(WEATHER, hosts=2, slots=2)
    with world.alive():
        run_for_a_while(world)
        first = world.start(available_now=True)

        def break_off() -> None:
            world.is_reversed = is_reversed
            companions = [p for p in world.processes if p.alive and p.is_companion and p.owner is first]
            world.kill(first if whom == "coordinator" else companions[0], "by the script")

        def lose() -> None:
            if has_store:
                world.lose("host2")
                world.at[first.name, "recovery.opened"] = break_off
            else:
                world.weather = replace(world.weather, slots=1)
                world.kill(first, "by the script")

        world.at[first.name, "step.complete"] = lose
        world.run_to_the_end()
        world.is_reversed = is_reversed
        world.drain()
        assert world.workers() == 2 and world.story.happened["companion"] > has_store


@pytest.mark.long
def test_a_start_that_asks_for_more_workers_than_there_are_slots_goes_on_with_those_that_it_has() -> None:
    """As a unit file does that names the number of workers, after a host was lost."""
    world = Hosts(WEATHER)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True, workers=5)
        world.run_to_the_end()
        assert world.ended[run] is None and world.workers() == 3
        fault = world.boards[run].show()["layout_fault"]
        assert "2 workers need 2 task slots at once, and 1 workers have registered" in fault
        world.drain()


def test_a_host_that_is_lost_while_it_is_replaced_needs_no_replacement_any_more() -> None:
    """Its worker was restored on the other host, which has no task slot for another one. Tasks come to the host again, where none may be."""
    world = Hosts(STORE_WEATHER, workers=2)
    with world.alive():
        run_for_a_while(world)
        run = world.start(available_now=True)

        def lose() -> None:
            world.lose()
            world.alarm(4, lambda: world.away.discard(LOST))

        world.at[run.name, "step.complete"] = lambda: world.runs[run].layout.put(ReplaceRequest(LOST))
        world.at[run.name, "layout.intended"] = lose
        world.run_to_the_end()
        assert world.ended[run] is None and world.workers() == 2
        world.drain()
