"""A pipeline as the machine of automatic layouts sees it: a queue of rows, and workers that read it in steps.

A step takes fixed_ms(workers) + rows * row_us / speedup(workers) microseconds, with noise. Its rows are those that wait, as far as a step may
have so many. So lightly loaded pipelines have many small steps, as real ones do. A checkpoint in each sample holds the steps for a moment. A
change of the layout takes a time, in which the workers keep most of their rate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator.automatic.choice import Surroundings, WorkersChoice, WorkersLimits
from coordinator.automatic.load import NO_STEPS, SAMPLE_SECONDS, LoadSample, StepClass
from coordinator.automatic.machine import AutoMachine

Load = Callable[[float], float]
"""The rows that arrive in a second, by time in seconds."""

IDLE_SECONDS = 0.2
"""Between two looks for rows. The real pipeline looks more often; here it is only time of the test."""

MOVING_PART = 0.85
"""What the workers keep of their time during a change."""


def linear(workers: int) -> float:
    return float(workers)


def saturating(cores: int) -> Callable[[int], float]:
    """More workers than cores bring nothing."""
    return lambda workers: float(min(workers, cores))


def sublinear(workers: int) -> float:
    """Each worker costs some of the others' time, as decision 0044 models it."""
    return workers / (1 + 0.06 * (workers - 1))


@dataclass
class World:
    """`pause_s`: how long a checkpoint holds the steps. `move_s`: how long a change takes. `noise`: by which part the time of a step varies.
    `refuses`: why a change to a number of workers is refused; empty if it is not. `rates`: how many the load has, one an hour. `history`:
    (time, workers, lag, choice) after each sample. `changes`: (time, from, to, kind)."""

    load: Load
    workers: int = 1
    speedup: Callable[[int], float] = linear
    row_us: float = 20.0
    fixed_ms: float = 100.0
    step_rows_max: int = 100_000
    limits: WorkersLimits | None = field(default_factory=lambda: WorkersLimits(1, 8))
    move_s: float = 20.0
    state_bytes: int = 100_000_000
    noise: float = 0.05
    slots: int | None = None
    seed: int = 1
    sample_s: float = SAMPLE_SECONDS
    pause_s: float = 0.15
    refuses: Callable[[int], str] = lambda workers: ""
    now: float = 0.0
    lag: float = 0.0
    rates: int = 1

    def __post_init__(self) -> None:
        self.machine = AutoMachine(self.step_rows_max, self.limits)
        self.random = random.Random(self.seed)
        self.history: list[tuple[float, int, float, WorkersChoice]] = []
        self.changes: list[tuple[float, int, int, str]] = []
        self._target: tuple[int, float] | None = None  # of the change under way, and when it ends
        self._over_s = 0.0  # by which the last step has exceeded its sample

    def capacity(self, workers: int) -> float:
        """With the largest steps, in rows per second."""
        ms = self.fixed_ms + self.step_rows_max * self.row_us / 1e3 / self.speedup(workers)
        return 1e3 * self.step_rows_max / ms

    def change_by_hand(self, workers: int) -> None:
        self._target = workers, self.now + self.move_s

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.sample()

    def sample(self, surroundings: Surroundings | None = None) -> WorkersChoice:
        """One interval, and what the machine decides at its end."""
        was_changing = self._target is not None
        begins, lag_before = self.now, self.lag
        busy_s, rows, classes = self._steps(begins, was_changing)
        self.now = begins + self.sample_s
        if self._target is not None and self.now >= self._target[1]:
            self.workers, self._target = self._target[0], None
        arrived = round(self.lag - lag_before + rows)
        said = LoadSample(
            seconds=self.sample_s,
            busy_s=min(busy_s, self.sample_s),
            rows=rows,
            arrived=max(0, arrived),
            lag=round(self.lag),
            workers=self.workers,
            classes=classes,
            is_changing=was_changing,
        )
        choice = self.machine.take(said, surroundings or Surroundings(slots=self.slots, state_bytes=self.state_bytes))
        if choice.workers is not None:
            self._ask(choice)
        self.history.append((self.now, self.workers, self.lag, choice))
        return choice

    def _ask(self, choice: WorkersChoice) -> None:
        assert choice.workers is not None and self._target is None
        why = self.refuses(choice.workers)
        if why:
            self.machine.refused(why)
            return
        self.changes.append((self.now, self.workers, choice.workers, choice.kind))
        self._target = choice.workers, self.now + self.move_s

    def _steps(self, begins: float, is_changing: bool) -> tuple[float, int, dict[int, StepClass]]:
        at, end = begins + self._over_s, begins + self.sample_s
        busy_s, rows, classes = self._over_s, 0, dict[int, StepClass]()
        seen = begins
        slower = 1 / MOVING_PART if is_changing else 1.0
        at += self.pause_s
        while at < end:
            self.lag += self.load(at) * max(0.0, at - seen)
            seen = max(seen, at)
            if self.lag < 1:
                at += IDLE_SECONDS
                continue
            taken = int(min(self.lag, self.step_rows_max))
            ms = self.fixed_ms + taken * self.row_us / 1e3 / self.speedup(self.workers)
            ms *= slower * max(0.3, self.random.gauss(1.0, self.noise))
            self.lag -= taken
            at += ms / 1e3
            busy_s += ms / 1e3
            rows += taken
            size = taken.bit_length()
            classes[size] = classes.get(size, NO_STEPS).with_step(taken, ms)
        self.lag += self.load(end) * max(0.0, end - seen)
        self._over_s = max(0.0, at - end)
        return busy_s - self._over_s, rows, classes

    # What is asserted

    @property
    def kinds(self) -> list[str]:
        return [kind for *_, kind in self.changes]

    def lag_s(self, since: float = 0.0) -> float:
        """The longest time, in seconds, that any backlog would have taken at the capacity of the greatest number of workers."""
        assert self.limits is not None
        most = max(self.capacity(n) for n in range(self.limits.least, self.limits.most + 1))
        return max(lag / most for at, _, lag, _ in self.history if at >= since)

    def turns(self, within_s: float) -> int:
        """How often up was followed by down and up again within so many seconds."""
        ways = [(at, (after > before) - (after < before)) for at, before, after, _ in self.changes]
        return sum(
            1
            for (at, first), (_, second), (end, third) in zip(ways, ways[1:], ways[2:], strict=False)
            if (first, second, third) == (1, -1, 1) and end - at <= within_s
        )


def steady(rows_per_s: float) -> Load:
    return lambda at: rows_per_s


def sampled(loads: Sequence[float], each_s: float) -> Load:
    """One rate after the other; the last one stays."""
    return lambda at: loads[min(len(loads) - 1, int(at / each_s))]
