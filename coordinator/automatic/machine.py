"""The machine that chooses the number of workers: samples of the load in, decisions with reasons out.

Guarantees: a change is asked for only in the phase WATCHING, when nothing blocks it, to another number of workers that the bounds and the task
slots allow and that was not refused a short time ago. After each change, whoever has made it, the machine rests for twice as long as it took.

The knowledge of the load grows in all phases, also while users alone change the layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from base.machine import Machine
from coordinator.automatic.choice import ChoiceInput, Surroundings, WorkersChoice, WorkersLimits, choose
from coordinator.automatic.knowledge import RATE_SAMPLES, Knowledge
from coordinator.automatic.load import LoadSample
from coordinator.automatic.phases import (
    AutoPhase,
    ChangeUnderWay,
    Cooling,
    NothingChanging,
    Off,
    Phase,
    RescaleAsked,
    Watching,
)
from coordinator.automatic.reasons import time, workers

REST_FACTOR = 2.0
"""How many times as long as a change took nothing is asked for after it: so changes get a third of the time at most."""

REST_SECONDS_MAX = 3600.0
"""After a change of many hours the load decides again."""

REFUSED_SECONDS = 600.0
"""For how long a number of workers that was refused is not asked for again; twice as long after each further time. Slots and disks are freed by
users, or by an autoscaler of nodes within some minutes."""

REFUSED_SECONDS_MAX = 6 * 3600.0

REFUSALS_MAX = 16
"""How many refused numbers are remembered, the last ones."""

PATIENCE_MAX = 8
"""How many times as long as usual fewer workers have to have been enough, at most: two hours, if a load comes back every hour."""

RETURN_WINDOWS = 4
"""If more workers are needed again within so many windows after there were fewer, then fewer were too soon, and the next time it takes twice as
long."""

NEVER_BEGUN = "it was taken back, or could not begin."


@dataclass(frozen=True)
class RefusedChange:
    """`times`: how often in a row."""

    until: float
    times: int
    why: str


class AutoMachine:
    """`limits`: None as long as users alone change the layout. `choice`: the last one. `patience`: how many times as long as usual fewer
    workers have to have been enough."""

    def __init__(self, step_rows_max: int, limits: WorkersLimits | None = None) -> None:
        self.known = Knowledge(step_rows_max)
        self.limits = limits
        self.machine = Machine[Phase](Off() if limits is None else Watching())
        self.refusals: dict[int, RefusedChange] = {}
        self.patience = 1
        self._lowered_at: float | None = None
        self.choice = WorkersChoice("off", None, "Users alone change the number of workers.")

    @property
    def phase(self) -> Phase:
        return self.machine.phase

    @property
    def is_asking(self) -> bool:
        """Whether a change was asked for and is not seen yet."""
        return isinstance(self.phase, RescaleAsked)

    # What happens

    def bound(self, limits: WorkersLimits | None) -> None:
        """From now on these limits count; None: users alone change the layout. What was refused may be asked for again."""
        self.limits = limits
        self.refusals.clear()
        if limits is None:
            self.machine.tell(AutoPhase.unbounded)
            self.choice = WorkersChoice("off", None, "Users alone change the number of workers.")
        else:
            self.machine.tell(AutoPhase.bounded)
            self.choice = WorkersChoice(
                "watching", None, "the bounds are new, and the next sample of the load is not over."
            )

    def remember(self, sample: LoadSample) -> None:
        """A sample of an earlier run. It is remembered, and nothing is decided."""
        self.known.observe(sample)

    def interrupt(self, seconds: float) -> None:
        """Nobody has sampled for so long."""
        self.known.interrupt(seconds)

    def take(self, sample: LoadSample, surroundings: Surroundings) -> WorkersChoice:
        """The next sample, and what follows from it. A choice with a number of workers has to be asked for, and `refused` told if that fails."""
        self.known.observe(sample)
        self._follow(sample, surroundings)
        self.choice = self._choose(sample, surroundings)
        if self.choice.workers is not None:
            self._check_choice(self.choice.workers, surroundings)
            self._learn_patience(self.choice)
            self.machine.tell(Watching.asked, sample.workers, self.choice.workers)
        self.check()
        return self.choice

    def refused(self, why: str) -> None:
        """The change that was asked for was refused."""
        assert isinstance(self.phase, RescaleAsked), self.machine.with_story("nothing was asked for")
        self._remember_refusal(self.phase.target, why)
        self.machine.tell(RescaleAsked.refused)

    def withdrawn(self) -> None:
        """The change that was asked for could not be made because another one came before it. That says nothing of its number of workers."""
        self.machine.tell(RescaleAsked.refused)

    def _learn_patience(self, choice: WorkersChoice) -> None:
        assert self.limits is not None
        now, window_s = self.known.now, RETURN_WINDOWS * self.limits.lower_after_s * self.patience
        if choice.kind == "idle":
            if self._lowered_at is not None and now - self._lowered_at > window_s:
                self.patience = 1  # fewer workers were enough for long
            self._lowered_at = now
        elif choice.kind in ("backlog", "load") and self._lowered_at is not None and now - self._lowered_at <= window_s:
            self.patience = min(PATIENCE_MAX, 2 * self.patience)
            self._lowered_at = None

    def _follow(self, sample: LoadSample, surroundings: Surroundings) -> None:
        """The phase, as the sample shows it."""
        if isinstance(self.phase, Cooling) and self.known.now >= self.phase.until:
            self.machine.tell(Cooling.rested)
        match self.phase:
            case Off():
                return
            case Watching() | RescaleAsked() | Cooling():
                if sample.is_changing:
                    self.machine.tell(NothingChanging.changing)
            case ChangeUnderWay():
                pass
            case _:
                assert_never(self.phase)
        if isinstance(self.phase, ChangeUnderWay) and not sample.is_changing:
            self._settled(self.phase, sample.workers, surroundings)

    def _settled(self, phase: ChangeUnderWay, number: int, surroundings: Surroundings) -> None:
        if phase.target == number:
            self.refusals.pop(number, None)
        elif phase.target is not None:
            self._remember_refusal(phase.target, surroundings.fault or NEVER_BEGUN)
        rest_s = max(RATE_SAMPLES * self._sample_s, min(REST_SECONDS_MAX, REST_FACTOR * self.known.took_s))
        self.machine.tell(ChangeUnderWay.settled, self.known.now + rest_s)

    @property
    def _sample_s(self) -> float:
        return self.known.recent[-1].seconds if self.known.recent else 0.0

    def _remember_refusal(self, number: int, why: str) -> None:
        before = self.refusals.pop(number, None)
        times = 1 if before is None else before.times + 1
        for_s = min(REFUSED_SECONDS_MAX, REFUSED_SECONDS * 2 ** (times - 1))
        self.refusals[number] = RefusedChange(self.known.now + for_s, times, why)
        while len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]

    # What follows

    def _choose(self, sample: LoadSample, surroundings: Surroundings) -> WorkersChoice:
        match self.phase:
            case Off():
                return self.choice
            case RescaleAsked(target=target):
                return WorkersChoice("blocked", None, f"a change to {workers(target)} was asked for.")
            case ChangeUnderWay():
                return WorkersChoice("blocked", None, "a change of the layout is under way.")
            case Cooling(until=until):
                left = time(until - self.known.now)
                return WorkersChoice(
                    "cooling", None, f"the last change took {time(self.known.took_s)}; the next one may come in {left}."
                )
            case Watching():
                return self._of_watching(sample, surroundings)
            case _:
                assert_never(self.phase)

    def _of_watching(self, sample: LoadSample, surroundings: Surroundings) -> WorkersChoice:
        if surroundings.blocked:
            return WorkersChoice("blocked", None, surroundings.blocked)
        if sample.is_disturbed:
            return WorkersChoice(
                "watching", None, "the last sample says nothing of the load: the run began, recovered or paused in it."
            )
        return choose(ChoiceInput(self.known, self._within(surroundings), surroundings, self._refused_now()))

    def _within(self, surroundings: Surroundings) -> WorkersLimits:
        assert self.limits is not None, "nothing is decided without bounds"
        within = self.limits.within(surroundings.slots)
        return replace(within, lower_after_s=within.lower_after_s * self.patience)

    def _refused_now(self) -> dict[int, str]:
        return {number: each.why for number, each in self.refusals.items() if self.known.now < each.until}

    # Invariants

    def _check_choice(self, number: int, surroundings: Surroundings) -> None:
        limits, story = self._within(surroundings), self.machine.with_story
        assert isinstance(self.phase, Watching) and not surroundings.blocked, story("a change that nothing allows")
        assert limits.least <= number <= limits.most, story(f"{number} workers, outside of {limits}")
        assert number != self.known.workers, story("a change to the present number of workers")
        assert number not in self._refused_now(), story(f"{number} workers were refused")

    def check(self) -> None:
        """Asserts the invariants; a failure is a bug in Stepwell."""
        self.known.check()
        assert (self.limits is None) == isinstance(self.phase, Off), self.machine.with_story("bounds in another phase")
        assert self.limits is None or 1 <= self.limits.least <= self.limits.most
        assert len(self.refusals) <= REFUSALS_MAX and 1 <= self.patience <= PATIENCE_MAX
        if isinstance(self.phase, RescaleAsked):
            assert self.phase.origin != self.phase.target, self.machine.with_story("nothing changes")
