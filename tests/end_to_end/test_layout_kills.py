"""The service, its workers and its JVM, killed at any moment while the number of workers changes, under load, with the oracle watching.

Nothing is armed and nothing is watched for: a process is killed after a random time, wherever the change is then. `SOAK_LAYOUT_KILLS` says how
often in each mode.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient
from tests.end_to_end import everything
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, pids, service, wait_until
from tests.end_to_end.test_processes import java_of

pytestmark = pytest.mark.soak

KILLS = int(os.environ.get("SOAK_LAYOUT_KILLS", "10"))
ROUTES = {"cold": (3, 1, 4, 2), "live": (4, 3, 2)}
"""The numbers of workers that are asked for in turn. The state begins with two workers."""

VICTIMS = ("service", "service", "worker", "JVM")
LATEST_S = 2.5
"""After the change was asked for. A change takes about a second."""

SETTLED_ROUNDS = 3
"""In every third round a change is settled before the kill."""


class Campaign:
    """One pipeline that is killed again and again."""

    def __init__(self, play: Playground, resolved: Resolved, mode: str, seed: int) -> None:
        self.play, self.resolved, self.mode, self.random = play, resolved, mode, random.Random(seed)
        self.client = ControlClient(resolved.project.project.state_folder)
        self.asked = 0
        self.rounds = 0

    def send(self) -> None:
        self.rounds += 1
        everything.send(self.play, self.rounds, orders=60)

    def round(self, log: Path, *, settles: bool) -> None:
        """Starts the service, asks for a change, and kills. `settles`: only after the change that is under way, because on a busy machine none
        might end otherwise."""
        self.send()
        with service(self.resolved, log) as process:
            self.wait(process, lambda status: status["phase"] == "run" and "layout" in status)
            self.ask(process)
            self.send()
            if settles:
                self.wait(process, lambda status: "change" not in status["layout"])
            time.sleep(self.random.uniform(0, LATEST_S))
            self.kill(process, self.random.choice(VICTIMS))

    def ask(self, process: subprocess.Popen[bytes]) -> None:
        """For the next number of workers; or, of a live change that is under way, sometimes for its end."""
        layout = self.status(process)["layout"]
        if "change" in layout:
            if self.mode == "live" and self.random.random() < 0.5:
                with suppress(StepwellError):  # it is settled meanwhile
                    self.client.ask_layout(self.random.choice(["reverse", "abort"]))
            return
        route = ROUTES[self.mode]
        workers = route[self.asked % len(route)]
        if workers != len(layout["members"]):
            budget = {"budget_bytes": 3000} if self.mode == "live" else {}
            self.client.ask_layout("change", {"workers": workers, "mode": self.mode, **budget})
        self.asked += 1

    def kill(self, process: subprocess.Popen[bytes], victim: str) -> None:
        if victim == "JVM":
            java_of(process).kill()
            process.wait(WAIT_SECONDS_MAX)
            return
        if victim == "worker":
            status = self.status(process)
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self.random.choice(pids(status))).kill()
            self.wait(process, lambda now: now["recoveries"] > status["recoveries"] and now["phase"] == "run")
        process.kill()
        process.wait()

    def status(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        return self.wait(process, lambda status: True)

    def wait(self, process: subprocess.Popen[bytes], until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def reached() -> bool:
            assert process.poll() is None, f"the service ended by itself: {process.returncode}"
            with suppress(StepwellError):  # it does not answer yet
                found.append(self.client.status())
            return bool(found) and until(found[-1])

        wait_until(reached)
        return found[-1]


@pytest.mark.parametrize("mode", ROUTES)
def test_killed_at_random_while_the_layout_changes(play: Playground, tmp_path: Path, mode: str) -> None:
    everything.make_topics(play)
    conf = {"stepwell.step.rows.max": 30, "stepwell.workers": 2, "stepwell.checkpoint.interval": "700ms"}
    resolved = play.resolve(everything.FILES, conf)
    campaign = Campaign(play, resolved, mode, seed=len(mode))
    with play.oracle(resolved) as oracle:
        for number in range(1, KILLS + 1):
            campaign.round(tmp_path / "service.log", settles=number % SETTLED_ROUNDS == 0)
        campaign.send()
        play.run(replace(resolved, spec=replace(resolved.spec, workers_now=3)))
        log = play.log(resolved)
        assert log.layout is not None and log.rescale is None and len(log.layout.placed.members) == 3
        assert log.layout.number > 1, "no change was settled"
        story = oracle.verify(play.batch(resolved), sample=3, seed=len(mode))
    assert 0 not in play.check(resolved).values()
    oracle.verify_twin(play.twin(resolved, story, workers=2))
