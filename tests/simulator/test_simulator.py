"""Seeds of the simulator: SUITE_SEEDS here, SOAK_SEEDS in `make soak`. A seed that fails tells its story and how to see it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.points import RUN_POINTS
from tests.simulator import oracle, sabotage, world
from tests.simulator.sabotage import MUTATIONS, Mutation, first_seed
from tests.simulator.seeds import Findings, run, run_side_by_side
from tests.simulator.world import World

SUITE_SEEDS, SOAK_SEEDS, COUNTED_SEEDS = 15, 10_000, 500
ROOT = Path(__file__).resolve().parents[2]

HAPPENS = {
    "a foreign transaction holds the division back": 400,
    "foreign commit": 150,
    "foreign abort": 150,
    "in topic grown": 60,
    "other topic grown": 15,
    "input expired": 70,
    "new nodes failed": 3,
    "new nodes killed a worker": 3,
    "the switch failed": 5,
    "the switch killed a worker": 15,
    "coordinator killed": 250,
    "coordinator stopped": 120,
    "second coordinator": 300,
    "zombie goes on": 100,
    "machine crashed": 120,
    "worker killed": 250,
    "worker stopped": 130,
    "worker: late": 40,
    "worker: never": 15,
    "worker: dies at once": 25,
    "worker: dies soon": 20,
    "a worker falls asleep at a point": 80,
    "a worker that was given up goes on": 50,
    "cancel: never": 100,
    "frame: broken": 90,
    "frame: half-open": 90,
    "frame: stalled": 90,
    "connect: refused": 40,
    "connect: no answer": 40,
    "transaction timed out": 25,
    "flush: failed": 35,
    "flush: unanswered": 35,
    "flush: connection mended": 35,
    "init: request lost": 30,
    "init: answer lost": 30,
    "commit: request lost": 55,
    "commit: answer lost": 55,
    "commit: late": 55,
    "commit: sent twice": 55,
    "commit: sent twice, answer lost": 55,
    "a late request is obeyed": 80,
    "a late request is refused": 100,
    "a writer waited for another": 10,
    "a holder of a lock was killed": 3,
    "crash at database sync": 3,
    "crash at database committed": 5,
    "crash at rename": 5,
    "crash at sync of a folder": 4,
    "asked: checkpoint": 150,
    "asked: stop": 70,
    "asked: pause": 70,
    "admin: no answer": 40,
    "fetch: connection lost": 30,
    "watermarks: no answer": 15,
    "host away": 230,
    "more tasks than workers": 280,
    "companion": 6,
    "two hosts hold a database of one number": 300,
    "ended by DatabaseMissing": 12,
    "asked: RescaleRequest": 500,
    "asked: ReplaceRequest": 40,
    "asked: TurnRequest": 120,
    "asked: PauseRequest": 120,
    "asked: another project": 800,
    "asked: abort": 40,
    "asked: switch": 50,
    "disk lost": 100,
    "old disk came back": 15,
    "database deleted": 60,
    "store away": 170,
    "backup": 40,
    "store: slow": 20,
    "store: write fails": 5,
    "store: write arrives late": 8,
    "store: answer of a write lost": 5,
    "store: read fails": 3,
    "ended by NoSlots": 20,
    "ended by RecoveryFailed": 60,
}
"""How often at least in COUNTED_SEEDS seeds; about a third of what was found. A simulator in which nothing happens any more would pass for
ever."""


IS_SEEN = {
    "steps": 8,
    "claims": 3,
    "checkpoints": 3,
    "cuts": 1 / 2,
    "voided": 1 / 30,
    "settled": 1 / 3,
    "turns": 1 / 5,
    "given": 1 / 2,
    "as planned": 1 / 12,
    "staged": 1 / 5,
    "ahead": 1 / 4,
    "counted": 1 / 5,
    "released": 1 / 10,
    "revisions": 11 / 10,
    "intents": 1 / 8,
    "read again": 1 / 2,
    "switches": 1 / 16,
    "switches after reading again": 1 / 60,
    "transitions settled": 1 / 12,
    "abort": 1 / 30,
    "detached": 1 / 15,
    "taken_back": 1 / 40,
    "resume": 1 / 40,
    "stored": 2,
    "deltas stored": 3,
    "restored": 1 / 4,
    "layouts restored": 1 / 120,
    "backups": 1 / 20,
}
"""What the pipelines do, and how often at least per seed. "settled" and "turns" are ends of changes of the layout, "given" and "as planned" are
slots that move undisturbed, "staged" are copies made before slots move, "ahead" are steps that run before the one before them is written, and
"counted" and "released" are rows in error, and "revisions" are projects that were recorded, of which each world has one. The
last five are of the checkpoint store, and the others of transitions: they begin, read ranges of messages again, switch, are settled, aborted,
detached, resumed, and taken back after a failed switch."""

ENOUGH = 8
"""What has to happen less often than this in so many seeds may not happen in them at all, and no change of the code is to blame."""


def judge(findings: Findings, seeds: int) -> None:
    assert not findings.failures, findings.failures[0].text
    assert findings.seeds == seeds
    share = seeds / COUNTED_SEEDS
    scarce = {
        kind: (findings.happened[kind], least)
        for kind, least in HAPPENS.items()
        if least * share >= ENOUGH and findings.happened[kind] < least * share
    }
    assert not scarce, f"these happened too rarely (found, least for {COUNTED_SEEDS} seeds): {scarce}"
    idle = {
        what: (findings.seen[what], least)
        for what, share in IS_SEEN.items()
        if (least := seeds * share) >= ENOUGH and findings.seen[what] <= least
    }
    assert not idle, f"the pipelines hardly ever did this (found, least for {seeds} seeds): {idle}"


def unharmed(findings: Findings, least: int) -> list[str]:
    """The crash points at which fewer than `least` coordinators and workers were killed. A backup is made by a command."""
    points = [point for point in RUN_POINTS if point != "backup.named"]
    return [point for point in points if findings.happened[f"crash at {point}"] < least]


def test_seeds() -> None:
    """In few seeds some crash points are not reached, and which ones moves with every change of the code: `make soak` kills at each."""
    judge(run(range(SUITE_SEEDS)), SUITE_SEEDS)


@pytest.mark.soak
def test_many_seeds() -> None:
    findings = run_side_by_side(0, SOAK_SEEDS)
    judge(findings, SOAK_SEEDS)
    left = unharmed(findings, least=SOAK_SEEDS // COUNTED_SEEDS)
    assert not left, f"hardly any coordinator or worker was killed at {left}"


def story(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.simulator", str(seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.long
def test_a_seed_gives_the_same_story_again() -> None:
    """In another process, with other hashes; and beside other seeds in one process."""
    told = story(7, "1")
    assert told == story(7, "2")
    run(range(5, 7))
    again = World(7)
    again.run()
    assert told.startswith("\n".join(again.story.text()))
    assert len(again.story.lines) > 100


SLOW = {
    "errors_of_the_client_not_heeded",
    "late_marker_taken_for_a_short_log",
    "stale_copies_taken_over",
    "cut_between_intent_and_freeze",
    "rescale_without_a_checkpoint_of_its_own",
    "rescale_settled_by_a_checkpoint_of_before",
    "databases_of_a_newer_run_removed",
    "worker_made_while_a_checkpoint_is_folded",
    "copies_kept_after_the_rescale",
    "resumed_from_the_middle",
    "a_replay_that_reads_other_messages_again",
    "a_cut_that_leaves_new_nodes_ahead",
    "expired_input_ends_the_run",
    "input_that_is_gone_in_a_switch_ends_the_run",
    "no_checkpoint_before_the_switch",
    "lost_workers_blamed_on_the_machine",
    "a_switch_that_is_taken_back_not_held",
}
"""Mutations that take more than a few seeds: they are tried in `make soak`."""

SAMPLE = 45
"""Every forty-fifth mutation is tried with each change of the code, and all of them in `make soak`: together they take some minutes."""

FEW_SEEDS, RARE_SEEDS = 60, 2000
"""Where a rare one is found moves when the code does."""


@pytest.mark.parametrize(
    ("place", "error", "is_misfit"),
    [
        (sabotage.__file__, "AttributeError: 'Crew' object has no attribute 'start'", True),
        (sabotage.__file__, "AssertionError: the worker is run before step 0", False),
        (oracle.__file__, "AttributeError: 'Oracle' object has no attribute 'sums'", False),
        (
            oracle.__file__,
            "TypeError: step_run_twice.<locals>.stages() takes 3 positional arguments but 4 were given",
            True,
        ),
        (oracle.__file__, "TypeError: stages() takes 3 positional arguments but 4 were given", False),
    ],
)
def test_a_mutation_that_fails_by_itself_shows_nothing(place: str, error: str, is_misfit: bool) -> None:
    trace = f'Traceback\n  File "{world.__file__}", line 1, in run\n    run()\n  File "{place}", line 2, in start\n    x()\n{error}'
    assert sabotage.fails_by_itself(f"seed 3 failed\n{trace}\nseed 3 failed") == is_misfit


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_a_mutation_names_what_is_there(mutation: Mutation) -> None:
    """Most of them are only tried in `make soak`."""
    with mutation():
        pass


SOON = [mutation for mutation in MUTATIONS if mutation.__name__ not in SLOW]
SAMPLED = SOON[::SAMPLE]


@pytest.mark.long
@pytest.mark.parametrize("mutation", SAMPLED, ids=lambda m: m.__name__)
def test_the_project_broken_on_purpose_is_noticed_soon(mutation: Mutation) -> None:
    assert first_seed(mutation, FEW_SEEDS) is not None


@pytest.mark.soak
@pytest.mark.parametrize("mutation", [m for m in SOON if m not in SAMPLED], ids=lambda m: m.__name__)
def test_all_mistakes_are_noticed_soon(mutation: Mutation) -> None:
    assert first_seed(mutation, FEW_SEEDS) is not None


@pytest.mark.soak
@pytest.mark.parametrize("mutation", [m for m in MUTATIONS if m.__name__ in SLOW], ids=lambda m: m.__name__)
def test_the_project_broken_on_purpose_is_noticed(mutation: Mutation) -> None:
    assert first_seed(mutation, RARE_SEEDS) is not None
