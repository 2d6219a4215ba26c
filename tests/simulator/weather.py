"""How bad it is in a world: drawn for each seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from faults.points import CHECKPOINT, LAYOUT, RUN_POINTS, Point

BENIGN = {"marker": 6.0, "arrive": 2.0, "resume": 2.0}
ACTIVE = {"input": 4.0, "request": 0.5, "grow": 0.1, "layout": 1.0, "revision": 1.0}
OF_STORE = ("lose a disk", "lose databases", "store away")
FAULTS = ("kill", "machine", "stop", "second", "time out", "kill a worker", "away")
"""What may happen at a point, by weight: always; while input grows; and while there are faults, by weights of the seed."""

FREQUENCY = {"admin": 0.1, "fetch": 0.1, "watermarks": 0.1, "commit": 4.0, "cancel": 3.0, "connect": 3.0, "store": 2.0}
"""Of trouble at a place: most of what fails ends a run, or sends it back to its checkpoint, and teaches little; what becomes of a commit is what
matters."""

PROTOCOL_CHANCE = 0.2
"""Of a live change. The machines of a protocol have an entry for each slot, which takes them some tenths of a second."""

TARGET_CHANCE = 0.2
"""Of a crash at a visit of a point that the seed chose: points that are visited rarely have their turn too."""

PLACES = (
    "database sync",
    "database committed",
    "sync of a folder",
    "rename",
    "mkdir",
    "sent",
    "commit",
    "commit, answered",
)
"""Between two writes or two calls, where no crash point is. A seed may choose one, and PLACE_CHANCE is that of a crash at a visit."""

PLACE_CHANCE = 0.02

SELDOM_REACHED: frozenset[Point] = frozenset(
    point for point in CHECKPOINT if point.startswith(("checkpoint", "compact"))
) | set(LAYOUT)

RARE: tuple[tuple[str, ...], ...] = (
    ("checkpoint.truncated",),
    ("checkpoint.truncated",),
    ("checkpoint.folded",),
    ("checkpoint.frozen", "checkpoint.completed"),
    ("checkpoint.snapshot", "fold.inside", "fold.synced"),
    ("cut.exported",),
    ("copy.sent",),
    ("copies.inside",),
    ("absorb.inside", "workers.joined"),
    ("release.inside", "absorb.done", "compact.copied"),
    ("release.done", "cut.done", "workers.created"),
    ("compact.copied", "release.inside"),
    ("compact.copied", "compact.exchanged", "release.done"),
    ("settle.completed", "bury.renamed"),
    (),
)
"""Points that worlds seldom come to: most of them mean to crash at some. A crash at one of a checkpoint keeps the world from the later ones,
so the last one stands alone, and twice."""


RARE_OF_STORE: tuple[tuple[str, ...], ...] = (
    ("spool.half", "pack.half"),
    ("pack.uploaded", "manifest.written"),
    ("stored.recorded", "collect.half"),
    ("restore.half",),
    ("restore.done", "restore.half"),
    (),
)
"""The same of the checkpoint store."""

STORE_SHARE = 0.5
"""Of the worlds: the others have no checkpoint store, and lose no disk."""

STEADY_SHARE = 0.6
"""Of the worlds with a store. In the others, runs end so often that little is stored before faults end."""


@dataclass(frozen=True)
class Weather:
    """Chances at a point, or at a place of trouble; many of them 0, for what is rare hides behind what is frequent. `points`: how long there are
        faults; `messages`: of input; `snapshot_steps`: between two snapshots of the log, and two truncations. `step_bytes`: the bound of a
        step's input, where a message has about 12. `hosts`: one is local mode, and several are a cluster. `resized`: the chance that a run is
        started with another number of workers. `errors`: whether some rows of the view of sums are in error. `edited`: the chance that a run is
        started with another name of a view. `failing`: the chance that new nodes of a transition fail in a step, or the switch. `store`: what
    steps do if the checkpoint store is late by more than `lag_s`; None without one. `store_faults`: the chance of trouble at a call of it.
    `slots`: of each host of a cluster. `shrink_after_s`: see PipelineSpec."""

    workers: int
    points: int
    interference: float
    switching: float
    client: float
    network: float
    task: float
    crash_point: float
    sleep: float
    crash_targets: tuple[str, ...]
    crash_places: tuple[str, ...]
    weights: dict[str, float]
    register_s: float
    silence_s: float
    progress_s: float
    checkpoint_s: float
    rows: int
    messages: int
    snapshot_steps: int
    available_now: float
    step_bytes: int | None
    hosts: int
    resized: float
    errors: bool
    edited: float
    failing: float
    store: Literal["pause", "continue"] | None = None
    lag_s: float = 0.0
    store_faults: float = 0.0
    slots: int = 4
    shrink_after_s: float | None = None

    @staticmethod
    def of(rng: random.Random) -> Weather:
        drawn = Weather._of_all(rng)
        later = random.Random()
        later.setstate(rng.getstate())  # it takes no draw from the world
        stored = drawn._with_store(random.Random(later.random()))
        return stored._with_slots(random.Random(later.random()))

    def _with_slots(self, rng: random.Random) -> Weather:
        """With a host away, two task slots are fewer than most layouts need, and one is fewer than nearly all."""
        return replace(self, slots=rng.choice((2, 4)), shrink_after_s=rng.choice((0.1, 0.5, 6.0, None)))

    def _with_store(self, rng: random.Random) -> Weather:
        if rng.random() >= STORE_SHARE:
            return self
        is_calm = rng.random() < 0.1
        steady = self._steady(rng) if rng.random() < STEADY_SHARE else self
        faults = {kind: 0 if is_calm else rng.choice((0, 0.1, 0.3, 1)) for kind in OF_STORE}
        return replace(
            steady,
            store=rng.choice(("pause", "continue")),
            lag_s=rng.choice((0.05, 0.3, 2.0, 1000.0)),
            store_faults=0.0 if is_calm else rng.choice((0, 0.02, 0.1)),
            crash_targets=steady.crash_targets if is_calm else (*steady.crash_targets, *rng.choice(RARE_OF_STORE)),
            weights={**steady.weights, **faults, "backup": rng.choice((0, 0.2))},
        )

    def _steady(self, rng: random.Random) -> Weather:
        """With little else that befalls it, so that there is something to store, and to lose."""
        seldom = {kind: weight * rng.choice((0, 0.1)) for kind, weight in self.weights.items() if kind in FAULTS}
        return replace(
            self,
            points=max(self.points, 2500),
            client=self.client / 10,
            network=self.network / 10,
            task=self.task / 10,
            crash_point=self.crash_point / 10,
            crash_targets=(),
            crash_places=(),
            weights={**self.weights, **seldom},
        )

    @staticmethod
    def _of_all(rng: random.Random) -> Weather:
        calm = rng.random() < 0.05
        faults = {name: rng.choice((0, 0.1, 0.3, 1)) for name in FAULTS}
        return Weather(
            workers=rng.choice((1, 2, 2, 3)),
            points=rng.randint(400, 5600),
            interference=rng.choice((0.02, 0.04, 0.08)),
            switching=rng.choice((0.02, 0.1)),
            client=0.0 if calm else rng.choice((0, 0.01, 0.03, 0.1)),
            network=0.0 if calm else rng.choice((0, 0.003, 0.01, 0.02)),
            task=0.0 if calm else rng.choice((0, 0.02, 0.1)),
            crash_point=0.0 if calm else rng.choice((0, 0.003, 0.01)),
            sleep=rng.choice((0, 0.3, 0.6)),
            crash_targets=() if calm else (*rng.sample(RUN_POINTS, rng.choice((0, 2, 5))), *rng.choice(RARE)),
            crash_places=() if calm else tuple(rng.sample(PLACES, rng.choice((0, 1)))),
            weights={
                **BENIGN,
                **ACTIVE,
                **({} if calm else faults),
                "expire": rng.choice((0, 0, 0.1, 1)),
                "revision": rng.choice((1, 4)),
            },
            register_s=rng.choice((4, 15)),
            silence_s=rng.choice((2.5, 5)),
            progress_s=rng.choice((6, 30)),
            checkpoint_s=rng.choice((0.01, 0.05, 0.2)),
            rows=rng.choice((1, 3, 6)),
            messages=rng.randint(8, 40),
            snapshot_steps=rng.choice((1, 1, 3)),
            available_now=rng.choice((0, 0.3)),
            step_bytes=rng.choice((None, 15, 40)),
            hosts=rng.choice((1, 2)),
            resized=rng.choice((0, 0.2)),
            errors=rng.choice((False, True)),
            edited=rng.choice((0, 0.3)),
            failing=rng.choice((0, 0, 0.1, 0.4)),
        )
