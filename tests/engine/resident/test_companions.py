"""A companion is a process of its own, and ends with its task."""

from __future__ import annotations

import pickle
import subprocess
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from engine.resident.companions import Companions
from engine.resident.entry import GONE_EXIT_CODE, Assignment
from tests.engine.resident.local_cluster import Log, ThreadJob, ThreadLauncher, crew, setup_of

END_SECONDS_MAX = 60.0


class Told(ThreadLauncher):
    """Starts nothing, and keeps what tasks are told."""

    def start(self, assignment: Assignment) -> ThreadJob:
        self.assignment = assignment
        return ThreadJob()


def test_a_companion_registers_and_ends_with_its_task(tmp_path: Path) -> None:
    launcher = Told(lambda: Log(1))
    with closing(crew(setup_of(tmp_path, 1), launcher, register_s=END_SECONDS_MAX)) as made:
        made.launch()
        companions = Companions(lambda: pickle.dumps(replace(launcher.assignment, is_companion=True)))
        companions.start()
        made.recruiting.wait_for_candidates()
        (process,) = companions._processes
        (candidate,) = made.recruiting.candidates
        assert candidate.registered.is_companion and candidate.registered.pid == process.pid
        assert process.stdin is not None
        process.stdin.close()  # as the end of the task's process does
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS_MAX)
        assert process.returncode == GONE_EXIT_CODE


def test_a_task_ends_after_its_companions(tmp_path: Path) -> None:
    launcher = Told(lambda: Log(1))
    made = crew(setup_of(tmp_path, 1), launcher, register_s=END_SECONDS_MAX)
    made.launch()
    companions = Companions(lambda: pickle.dumps(replace(launcher.assignment, is_companion=True)))
    companions.start()
    made.recruiting.wait_for_candidates()
    (process,) = companions._processes
    assert process.poll() is None
    made.close()  # the coordinator is gone, and the companion notices that by itself
    companions.wait()
    assert process.returncode == GONE_EXIT_CODE
