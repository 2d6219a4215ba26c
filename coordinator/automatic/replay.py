"""What the machine would have decided over a recorded load: without I/O, clock or randomness.

Up to the first decision the samples are what was recorded. From then on there is another number of workers than there was, so the queue is
computed: the rows that arrived are the recorded ones, and the workers manage what the machine expected of their number when it decided. Where
the computed queue and number are those of the record again, the record counts again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.automatic.choice import Surroundings, WorkersChoice, WorkersLimits
from coordinator.automatic.load import LoadSample
from coordinator.automatic.machine import AutoMachine


@dataclass(frozen=True)
class ReplayedDecision:
    """`at`: seconds since 1970. `workers`: before it. `is_computed`: whether an earlier decision has made the load another one than was
    recorded."""

    at: float
    workers: int
    choice: WorkersChoice
    is_computed: bool


@dataclass(frozen=True)
class Replayed:
    """`decisions`: the changes. `last`: what was decided after the last sample. `worker_s`: how many seconds all workers together would have
    had, and `worker_s_recorded` had. `lag_max`, `lag_max_recorded`: the largest lags, in rows."""

    decisions: tuple[ReplayedDecision, ...]
    last: WorkersChoice
    workers: int
    seconds: float
    worker_s: float
    worker_s_recorded: float
    lag_max: int
    lag_max_recorded: int


class _Queue:
    """The load as it would have been. `workers`: of the machine's last decision; None while it is the recorded number."""

    def __init__(self, machine: AutoMachine, surroundings: Surroundings) -> None:
        self._machine, self._surroundings = machine, surroundings
        self.workers: int | None = None
        self._rates: tuple[float, float] = (0.0, 0.0)  # of the workers before the change, and after it
        self._before = 0
        self._moving_s = 0.0
        self._lag = 0.0

    def decide(self, sample: LoadSample, workers: int) -> None:
        known = self._machine.known
        self._before = sample.workers
        self._rates = (known.rows_per_s or 0.0, known.rows_per_s_of(workers) or 0.0)
        self._moving_s = self._surroundings.seconds(sample.workers, workers, is_busy=sample.busy_share > 0.5)
        self.workers, self._lag = workers, float(sample.lag)

    def what_it_sees(self, sample: LoadSample) -> LoadSample:
        """What the machine would have seen instead."""
        if self.workers is None:
            return sample
        is_moving = self._moving_s > 0
        self._moving_s -= sample.seconds
        rate = self._rates[0] if is_moving else self._rates[1]
        waiting = self._lag + sample.arrived
        taken = min(waiting, rate * sample.seconds) if rate else waiting
        self._lag = waiting - taken
        if not is_moving and self.workers == sample.workers and self._lag <= sample.lag:
            self.workers = None
            return sample
        return replace(
            sample,
            rows=round(taken),
            lag=round(self._lag),
            busy_s=sample.seconds * (taken / (rate * sample.seconds) if rate else 0.0),
            classes={},
            workers=self._before if is_moving else self.workers,
            is_changing=is_moving,
        )


def replay(
    samples: Sequence[LoadSample],
    ends: Sequence[float],
    gaps: Sequence[float],
    *,
    limits: WorkersLimits,
    step_rows_max: int,
    surroundings: Surroundings,
) -> Replayed:
    """`ends`: of the samples, in seconds since 1970. `gaps`: for how long nobody has sampled before each. There is at least one sample."""
    machine = AutoMachine(step_rows_max, limits)
    queue = _Queue(machine, surroundings)
    decisions: list[ReplayedDecision] = []
    worker_s = worker_s_recorded = 0.0
    lags, lags_recorded = [0], [0]
    for sample, at, gap_s in zip(samples, ends, gaps, strict=True):
        if gap_s:
            machine.interrupt(max(0.0, gap_s))
        seen = queue.what_it_sees(sample)
        is_computed = queue.workers is not None
        choice = machine.take(seen, surroundings)
        if choice.workers is not None:
            decisions.append(ReplayedDecision(at, seen.workers, choice, is_computed))
            queue.decide(seen, choice.workers)
        worker_s += seen.workers * seen.seconds
        worker_s_recorded += sample.workers * sample.seconds
        lags.append(seen.lag)
        lags_recorded.append(sample.lag)
    assert machine.known.workers is not None, "nothing was sampled"
    return Replayed(
        decisions=tuple(decisions),
        last=machine.choice,
        workers=machine.known.workers,
        seconds=sum(sample.seconds for sample in samples),
        worker_s=worker_s,
        worker_s_recorded=worker_s_recorded,
        lag_max=max(lags),
        lag_max_recorded=max(lags_recorded),
    )
