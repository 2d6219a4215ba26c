"""All that is remembered of the samples: what the present workers have managed, what was asked of them, and what former changes have brought.

Time is the sum of the samples' lengths, so nothing here reads a clock. A change of the number of workers is seen in the samples, whoever asked
for it. Each one is a **trial**: as soon as the steps are as large as half of those before it, their costs say what it has brought."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from coordinator.automatic.capacities import Capacities
from coordinator.automatic.load import LoadSample
from coordinator.automatic.step_costs import StepCosts, costs_of

UP_SAMPLES = 3
"""How many samples in a row have to speak for more workers because of a backlog: one may be a pause of the machine, and three are half a
minute."""

RATE_SAMPLES = 6
"""Over so many samples the rate of arrival is a median. So a burst that is over after two of them counts as a backlog, and not as a rate."""

COST_SAMPLES = 90
"""Over so many samples the costs of steps are estimated: a quarter of an hour, in which a state hardly grows."""

DEMANDS_MAX = 2160
"""How many moments are remembered for the question whether fewer workers are enough: six hours. A change that takes longer than a quarter of
that is not made to save workers."""

SATURATED_SHARE = 0.85
"""From this busy share on the workers have no time left. The rest are checkpoints, and the way from one step to the next: services with a
backlog were measured at 0.89 to 1."""

BACKLOG_STEPS = 3
"""A lag of so many of the largest steps is a backlog. Two of them are under way at any time, also without one."""

JUDGED_PART = 0.5
"""A change is judged by steps of at least this part of the rows of the largest steps before it, and if at least this part of their cost is
that of their rows, or if there was a backlog before and after. Small steps become slower with more workers, and say nothing of a backlog."""

SURE_SAMPLES = 30
"""After so many samples since a change, what is measured counts alone. Before, it counts in proportion beside what was known or expected."""

BARREN_PART = 0.1
"""The part of linear growth that more workers have to bring. If they brought less than this, they have brought nothing. A verdict that noise has
made costs one change back."""

BARREN_SECONDS = 6 * 3600.0
"""For how long more workers are not tried again after they have brought nothing: cores do not come by themselves, but a user may move the
pipeline."""


@dataclass(frozen=True)
class Demand:
    """What was asked of the workers at one moment. `lag`: in rows."""

    at: float
    seconds: float
    arrived_per_s: float
    lag: int


@dataclass(frozen=True)
class Trial:
    """A change that was not judged yet. `costs`, `was_saturated`: before it."""

    origin: int
    workers: int
    costs: StepCosts
    was_saturated: bool


@dataclass(frozen=True)
class GainVerdict:
    """`gain`: how many times as fast as `origin` so many workers are."""

    origin: int
    workers: int
    gain: float
    at: float

    @property
    def is_barren(self) -> bool:
        """Whether more workers have brought nothing."""
        return self.workers > self.origin and self.gain < 1 + BARREN_PART * (self.workers / self.origin - 1)


@dataclass
class Knowledge:
    """`step_rows_max`: how many rows a step may have. `workers`: since the last change; None before the first sample. `recent`: the last samples
    since then that tell of the load. `backlog_rows`: from how many rows on a lag is a backlog. `changing_s`: for how long the change under way
    is under way. `settled_at`, `took_s`: when the last change ended, and how long it took. `barren`: the last verdict that more workers have
    brought nothing, as long as it counts."""

    step_rows_max: int
    now: float = 0.0
    workers: int | None = None
    recent: deque[LoadSample] = field(default_factory=lambda: deque(maxlen=RATE_SAMPLES))
    since: deque[LoadSample] = field(default_factory=lambda: deque(maxlen=COST_SAMPLES))
    arrivals: deque[float] = field(default_factory=lambda: deque(maxlen=RATE_SAMPLES))
    demands: deque[Demand] = field(default_factory=lambda: deque(maxlen=DEMANDS_MAX))
    capacities: Capacities = field(default_factory=Capacities)
    costs: StepCosts | None = None
    trial: Trial | None = None
    barren: GainVerdict | None = None
    last: GainVerdict | None = None
    backlog_rows: float = 0.0
    changing_s: float = 0.0
    settled_at: float = 0.0
    took_s: float = 0.0

    def observe(self, sample: LoadSample) -> None:
        """The next sample, in order."""
        assert sample.seconds > 0, f"a sample of {sample.seconds} s"
        self.now += sample.seconds
        self.workers = sample.workers if self.workers is None else self.workers
        self._forget_barren()
        if sample.is_changing:
            self.changing_s += sample.seconds
        elif self.changing_s or sample.workers != self.workers:
            self._settle(sample.workers)
        if not sample.is_disturbed:
            self.arrivals.append(sample.arrived_per_s)
            self.demands.append(Demand(self.now, sample.seconds, self.arrived_per_s, sample.lag))
        if sample.is_of_load:
            self.recent.append(sample)
            self.since.append(sample)
            of_recent = costs_of(self.recent)
            self.backlog_rows = 0.0 if of_recent is None else BACKLOG_STEPS * of_recent.rows_max
            self._measure()

    def _forget_barren(self) -> None:
        """After a long time more workers may be tried again, as if they had never been."""
        if self.barren is not None and self.now - self.barren.at > BARREN_SECONDS:
            self.capacities = self.capacities.without_above(self.barren.origin)
            self.barren = None

    def interrupt(self, seconds: float) -> None:
        """Nobody has sampled for so long, because the pipeline did not run or was not looked at."""
        self.now += seconds
        self._forget_barren()
        self.workers, self.costs, self.trial, self.changing_s = None, None, None, 0.0
        for window in (self.recent, self.since, self.arrivals, self.demands):
            window.clear()
        self.settled_at = self.now

    def _settle(self, workers: int) -> None:
        """A change has ended, perhaps without another number of workers."""
        assert self.workers is not None
        origin, self.workers = self.workers, workers
        if workers != origin:
            self._expect(origin, workers)
            self.trial = None if self.costs is None else Trial(origin, workers, self.costs, self.is_saturated)
            if self.barren is not None and workers > self.barren.origin:
                self.barren = None  # a user tries it again
        self.took_s, self.changing_s, self.settled_at = self.changing_s, 0.0, self.now
        self.recent.clear()
        if workers != origin:
            self.since.clear()
            self.costs = None

    def _expect(self, origin: int, workers: int) -> None:
        """Until it is measured, the relation is the one that was expected."""
        before, then = self.capacities.rows_per_s_of(origin), self.capacities.rows_per_s_of(workers)
        if before is not None and then is not None:
            self.capacities = self.capacities.with_relation(origin, workers, then / before, self.now)

    def _measure(self) -> None:
        assert self.workers is not None
        self.costs = costs_of(self.since)
        if self.costs is None:
            return
        self._judge(self.costs)
        measured, before = self.costs.rows_per_s(self.step_rows_max), self.capacities.rows_per_s_of(self.workers)
        part = 1.0 if before is None else min(1.0, len(self.since) / SURE_SAMPLES)
        mean = measured if before is None else before ** (1 - part) * measured**part
        self.capacities = self.capacities.with_measured(self.workers, mean, self.now)

    def _judge(self, costs: StepCosts) -> None:
        """Compares the costs of steps before and after a change, at the largest size that both had."""
        trial = self.trial
        if trial is None or len(self.since) < RATE_SAMPLES or costs.rows_max < JUDGED_PART * trial.costs.rows_max:
            return
        rows = min(costs.rows_max, trial.costs.rows_max)
        tells = min(costs.rows_part(rows), trial.costs.rows_part(rows)) >= JUDGED_PART
        if not tells and not (trial.was_saturated and self.is_saturated):
            return
        verdict = GainVerdict(trial.origin, trial.workers, trial.costs.ms_at(rows) / costs.ms_at(rows), self.now)
        self.trial, self.last = None, verdict
        self.capacities = self.capacities.with_relation(verdict.origin, verdict.workers, verdict.gain, self.now)
        if verdict.is_barren:
            self.barren = verdict

    # What it says now

    @property
    def lag(self) -> int:
        """The lag at the end of the last sample that tells of the load."""
        return self.recent[-1].lag if self.recent else 0

    @property
    def arrived_per_s(self) -> float:
        """The median over the last samples."""
        return median(self.arrivals) if self.arrivals else 0.0

    @property
    def arriving_per_s(self) -> float:
        """The rows that arrive in a second: `arrived_per_s`, or the median over the very last samples if it is higher: a load that grows is
        noticed in half the time."""
        return max(self.arrived_per_s, median(list(self.arrivals)[-UP_SAMPLES:]) if self.arrivals else 0.0)

    @property
    def has_backlog(self) -> bool:
        """Whether there was a backlog in all of the last samples."""
        last = self._last
        return len(last) == UP_SAMPLES and all(sample.lag > self.backlog_rows for sample in last)

    @property
    def is_saturated(self) -> bool:
        """Whether the workers had a backlog in all of the last samples, and no time left. Then what they managed is what they can."""
        return self.has_backlog and self.busy_share >= SATURATED_SHARE and any(sample.rows for sample in self._last)

    @property
    def busy_share(self) -> float:
        """Over the last samples."""
        return sum(s.busy_share * s.seconds for s in self._last) / max(1e-9, sum(s.seconds for s in self._last))

    @property
    def lag_growth_per_s(self) -> float:
        """By how many rows a second the lag has grown over the last samples; below 0 if it has shrunk."""
        if len(self.recent) < 2:
            return 0.0
        return (self.recent[-1].lag - self.recent[0].lag) / sum(s.seconds for s in list(self.recent)[1:])

    @property
    def rows_per_s(self) -> float | None:
        """What the present workers manage: as they did under a backlog, or else by the costs of their steps; None if nothing is known."""
        if self.workers is None:
            return None
        if self.is_saturated:
            return sum(s.rows for s in self._last) / sum(s.seconds for s in self._last)
        return self.capacities.rows_per_s_of(self.workers)

    @property
    def is_trusted(self) -> bool:
        """Whether a backlog, or large steps and others, say what the workers manage. Without that it is only known what they did."""
        costs = self.costs
        return self.is_saturated or (
            costs is not None and costs.ms_per_row is not None and costs.reaches(self.step_rows_max)
        )

    def rows_per_s_of(self, workers: int) -> float | None:
        """What so many workers would manage, in rows per second: in the relation that was learnt to what the present ones do."""
        now = self.rows_per_s
        assert self.workers is not None
        at_present, then = self.capacities.rows_per_s_of(self.workers), self.capacities.rows_per_s_of(workers)
        if now is None or at_present is None or then is None:
            return None
        return now * then / at_present

    def demands_of(self, seconds: float) -> Iterator[Demand]:
        """The last ones, since so many seconds and not from before the last change, the latest first."""
        since = max(self.now - seconds, self.settled_at)
        for demand in reversed(self.demands):
            if demand.at <= since:
                return
            yield demand

    @property
    def _last(self) -> list[LoadSample]:
        return list(self.recent)[-UP_SAMPLES:]

    def check(self) -> None:
        """Asserts the invariants; a failure is a bug in Stepwell."""
        self.capacities.check()
        assert self.changing_s >= 0 and self.took_s >= 0 and self.settled_at <= self.now
        assert all(sample.is_of_load for sample in self.since)
        assert all(sample.workers == self.workers for sample in self.since), "samples of other workers"
        assert all(a.at < b.at for a, b in pairwise(list(self.demands)[-2:])), "moments out of order"
        assert self.trial is None or self.trial.workers == self.workers != self.trial.origin
        assert self.barren is None or (self.barren.is_barren and self.now - self.barren.at <= BARREN_SECONDS)
