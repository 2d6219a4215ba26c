"""Starts without enough task slots: they end with what Spark has, and have changed nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from base.fault import ExitCode
from engine.resident.entry import Assignment
from engine.resident.launcher import Cluster
from engine.resident.sockets import SocketTransport
from engine.resident.spark_launcher import SparkLauncher
from engine.resident.start_faults import NoSlots
from stepwell.spark.session import WORKER_SLOTS, cores
from tests.end_to_end import sums
from tests.end_to_end.harness import Playground
from tests.end_to_end.threads import LOOPBACK, ThreadLauncher, threads


def with_slots(slots: int) -> Cluster:
    cluster = threads()
    assert isinstance(cluster.launcher, ThreadLauncher)
    cluster.launcher.slots = slots
    return cluster


def test_spark_says_how_many_task_slots_it_has(play: Playground) -> None:
    assert SparkLauncher(play.spark.sparkContext, "p").slots_now() == cores() + WORKER_SLOTS


def test_a_start_without_enough_task_slots_ends_and_one_with_enough_goes_on(play: Playground) -> None:
    """The first start of a pipeline, and one that finds state."""
    play.topic("in")
    resolved = sums.project(play, workers=3)
    for rows, steps in ((8, 4), (4, 2)):
        play.send("in", sums.rows(0, rows))
        with pytest.raises(NoSlots, match=r"3 workers need 3 task slots at once, .*; Spark has 2 task slots\.") as few:
            play.run(resolved, with_slots(2))
        assert few.value.exit_code == ExitCode.MACHINE
        assert play.run(resolved, with_slots(3))["steps_run"] == steps
    assert play.check(resolved) == {"sums": 3}
    assert play.check_steps(resolved) == 6


class FewSlots(ThreadLauncher):
    """Spark with two task slots on a cluster: a third task waits for ever."""

    def start(self, assignment: Assignment) -> Any:
        return super().start(assignment) if len(self.jobs) < 2 else SimpleNamespace(failure=None, cancel=lambda: None)

    def slots_now(self) -> int:
        return 2


@pytest.mark.long
def test_a_start_that_has_to_change_the_layout_ends_without_enough_task_slots(play: Playground) -> None:
    """The change was not begun, so a start with fewer workers runs as before, and one with enough task slots makes it."""
    play.topic("in")
    play.send("in", sums.rows(0, 8))
    narrow, wide = sums.project(play, workers=1), sums.project(play, workers=3)
    play.run(narrow, threads())
    play.send("in", sums.rows(8, 4))
    impatient = replace(wide, spec=replace(wide.spec, register_s=1.0))
    with pytest.raises(NoSlots, match=r"2 workers need 2 task slots .*Spark has 2 task slots, in 1 of which") as few:
        play.run(impatient, Cluster(FewSlots(), partial(SocketTransport, LOOPBACK)))
    assert few.value.exit_code == ExitCode.MACHINE
    assert len(play.run(narrow, threads())["workers"]) == 1
    play.send("in", sums.rows(12, 4))
    assert len(play.run(wide, threads())["workers"]) == 3
    assert play.check(wide) == {"sums": 3}
    assert play.check_steps(wide) == 8
