"""Many seeds, in one process or two: the first that fails, with its story; and what befell all of them together."""

from __future__ import annotations

import multiprocessing
import random
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulator.weather import Weather
from tests.simulator.world import World

STORY_LINES_SHOWN = 60
CHUNK_SEEDS = 25


@dataclass
class Failure:
    seed: int
    text: str


@dataclass
class Findings:
    """`happened`: faults, by kind. `seen`: what the pipelines did meanwhile."""

    seeds: int = 0
    points: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.seeds += other.seeds
        self.points += other.points
        self.happened += other.happened
        self.seen += other.seen
        self.failures += other.failures


def run(
    seeds: Iterable[int],
    failures_max: int = 1,
    weather: Mapping[str, Any] | None = None,
    tell: Callable[[Failure], None] = lambda failure: None,
) -> Findings:
    """Simulates these seeds one after another, until `failures_max` of them have failed. `weather`: the fields of the weather that no
    seed draws. `tell` is called with each failure as soon as it is found."""
    findings = Findings()
    for seed in seeds:
        world = World(seed, replace(Weather.of(random.Random(seed)), **weather) if weather else None)
        try:
            world.run()
        except Exception:
            findings.failures.append(failure := Failure(seed, told(world, traceback.format_exc())))
            tell(failure)
        findings.add(Findings(1, world.scheduler.points, world.story.happened, Counter(world.oracle.seen)))
        if len(findings.failures) >= failures_max:
            break
    return findings


def run_side_by_side(first: int, count: int, processes: int = 2) -> Findings:
    """The same over processes; stops early where one has failed."""
    findings = Findings()
    chunks = [range(at, min(at + CHUNK_SEEDS, first + count)) for at in range(first, first + count, CHUNK_SEEDS)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for found in pool.imap(run, chunks):
            findings.add(found)
            if findings.failures:
                break
    return findings


def told(world: World, failure: str) -> str:
    lines = list(world.story.text())
    left_out = [f"... {len(lines) - STORY_LINES_SHOWN} lines before"] if len(lines) > STORY_LINES_SHOWN else []
    again = f"seed {world.seed} failed; the whole story: python -m tests.simulator {world.seed}"
    return "\n".join([again, *left_out, *lines[-STORY_LINES_SHOWN:], failure.strip(), again])
