"""Seeds of the simulator: 500 here, 10,000 in `make soak`. A seed that fails tells its story and how to see it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.points import POINTS
from tests.simulator.sabotage import MUTATIONS, Mutation, first_seed
from tests.simulator.seeds import Findings, run, run_side_by_side
from tests.simulator.world import World

SUITE_SEEDS, SOAK_SEEDS = 500, 10_000
ROOT = Path(__file__).resolve().parents[2]

HAPPENS = {
    "a foreign transaction holds the division back": 400,
    "foreign commit": 150,
    "foreign abort": 150,
    "input topic grown": 50,
    "coordinator killed": 200,
    "coordinator stopped": 100,
    "second coordinator": 250,
    "zombie goes on": 80,
    "machine crashed": 100,
    "task killed": 80,
    "task: lost before": 50,
    "task: lost within": 50,
    "task: lost after": 50,
    "task: beside": 50,
    "task: zombie": 100,
    "a task that was given up goes on": 80,
    "task run again": 400,
    "stage: run again": 40,
    "transaction timed out": 15,
    "task: broken off": 10,
    "job: results broken off": 10,
    "flush: failed": 40,
    "flush: unanswered": 40,
    "flush: connection mended": 40,
    "init: request lost": 25,
    "init: answer lost": 25,
    "commit: request lost": 40,
    "commit: answer lost": 40,
    "commit: late": 40,
    "commit: sent twice": 40,
    "commit: sent twice, answer lost": 40,
    "a late request is obeyed": 10,
    "a late request is refused": 150,
    "a writer waited for another": 40,
    "a holder of a lock was killed": 5,
    "crash at database sync": 5,
    "crash at database committed": 5,
    "crash at rename": 5,
    "crash at sync of a folder": 4,
    "asked: checkpoint": 100,
    "asked: stop": 50,
    "asked: pause": 50,
    "admin: no answer": 30,
    "fetch: connection lost": 80,
    "watermarks: no answer": 10,
}
"""How often at least, in 500 seeds; about a third of what was found. A simulator in which nothing happens any more would pass for ever."""

CRASHES_AT_A_POINT_MIN = 1


def judge(findings: Findings, seeds: int) -> None:
    assert not findings.failures, findings.failures[0].text
    assert findings.seeds == seeds
    share = seeds / SUITE_SEEDS
    scarce = {
        kind: (findings.happened[kind], least)
        for kind, least in HAPPENS.items()
        if findings.happened[kind] < least * share
    }
    assert not scarce, f"these happened too rarely (found, least for {SUITE_SEEDS} seeds): {scarce}"
    unharmed = [point for point in POINTS if findings.happened[f"crash at {point}"] < CRASHES_AT_A_POINT_MIN * share]
    assert not unharmed, f"no coordinator or task was killed at {unharmed}"
    seen = findings.seen
    assert seen["cuts"] > seeds // 2, seen
    assert seen["steps"] > 8 * seeds and seen["claims"] > 3 * seeds and seen["checkpoints"] > 3 * seeds, seen


def test_seeds() -> None:
    judge(run(range(SUITE_SEEDS)), SUITE_SEEDS)


@pytest.mark.soak
def test_many_seeds() -> None:
    judge(run_side_by_side(0, SOAK_SEEDS), SOAK_SEEDS)


def story(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.simulator", str(seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_seed_gives_the_same_story_again() -> None:
    """In another process, with other hashes; and beside other seeds in one process."""
    told = story(7, "1")
    assert told == story(7, "2")
    run(range(5, 7))
    world = World(7)
    world.run()
    assert told.startswith("\n".join(world.story.text()))
    assert len(world.story.lines) > 100


SLOW = {
    "task_of_any_step_accepted",
    "databases_asked_and_not_fenced",
    "late_attempt_opens_again",
    "open_keeps_the_newer_version",
    "versions_told_apart_by_number_alone",
    "killed_fold_not_synced",
    "killed_freeze_in_the_way",
    "errors_of_the_client_not_heeded",
}
"""Mutations that take more than a few seeds: they are tried in `make soak`."""

FEW_SEEDS, RARE_SEEDS = 30, 2000
"""The rarest ones have been found at seeds 102 and 140; they move when the code does."""


@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.__name__ not in SLOW], ids=lambda m: m.__name__)
def test_the_project_broken_on_purpose_is_noticed_soon(mutation: Mutation) -> None:
    assert first_seed(mutation, FEW_SEEDS) is not None


@pytest.mark.soak
@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.__name__ in SLOW], ids=lambda m: m.__name__)
def test_the_project_broken_on_purpose_is_noticed(mutation: Mutation) -> None:
    assert first_seed(mutation, RARE_SEEDS) is not None
