"""A campaign of losses: who is lost, how, and when is drawn, and the oracle judges each round.

A victim is the service, Spark's JVM, one worker or all of them. It is killed, or put to sleep for a while. `SOAK_CAMPAIGN` says how many rounds
there are; each has a pipeline of its own, so it can be repeated alone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from base.fault import ExitCode
from tests.end_to_end.harness import Playground, Resolved, service
from tests.end_to_end.test_processes import (
    ended,
    java_of,
    judge,
    project,
    runs_until,
    send,
    steps_seen,
    workers_of,
)

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("SOAK_CAMPAIGN", "8"))

LOSSES = 6
"""Of one round."""

SLEEP_SECONDS_MAX = 4.0
"""Longer than a worker may be silent here, and too short for a run to count as dead."""

VICTIMS = ("service", "JVM", "one worker", "all workers")


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_losses_drawn_at_random(play: Playground, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    resolved, log = project(play, stepwell_worker_silence="2s"), tmp_path / "service.log"
    left = LOSSES
    with play.oracle(resolved) as oracle:
        while left:
            with service(resolved, log) as process:
                lives = True
                while lives and left:
                    left -= 1
                    send(play, chance.randint(20, 60))
                    # A step between two losses: three without one end a run.
                    steps = steps_seen(oracle, resolved) + chance.randint(1, 3)
                    runs_until(process, log, oracle, resolved, steps)
                    time.sleep(0.3 * chance.random())  # a random moment, not a guess of one
                    lives = lose(chance, process, log, resolved)
        judge(play, resolved, oracle)


def lose(chance: random.Random, process: subprocess.Popen[bytes], log: Path, resolved: Resolved) -> bool:
    """Returns whether the service lives."""
    victim, number = chance.choice(VICTIMS), chance.choice((signal.SIGKILL, signal.SIGSTOP))
    match victim:
        case "service":
            victims = [process.pid]
        case "JVM":
            victims = [java_of(process).pid]
        case "one worker":
            victims = [chance.choice(workers_of(resolved))]
        case _:
            victims = workers_of(resolved)
    signal_each(victims, number)
    if number == signal.SIGSTOP:
        time.sleep(SLEEP_SECONDS_MAX * chance.random())
        signal_each(victims, signal.SIGCONT)
    elif victim == "service":
        process.wait()
        return False
    elif victim == "JVM":
        ended(process, log, ExitCode.MACHINE, "Spark's JVM has ended; nothing is lost, run again")
        return False
    return True


def signal_each(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a worker that was replaced meanwhile
            os.kill(pid, number)
