"""Which number of workers the knowledge speaks for, and why: decisions without I/O, clock or randomness.

    more workers    quickly: a backlog in three samples that the present workers would not drain in time, or a rate of arrival that takes
                    more than UTILISATION_MAX of what they manage. As many as are expected to drain it in time and to have a reserve
    fewer workers   slowly: what was asked of the workers over the whole window would have fitted them, with a margin
    the former ones if more workers have brought nothing

Between UTILISATION_TARGET and UTILISATION_MAX nothing happens, and fewer workers are only taken if they are used to UTILISATION_LOW at most. So
a load has to grow by the factor UTILISATION_MAX / UTILISATION_LOW to undo a change, and noise does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from coordinator.automatic.knowledge import RATE_SAMPLES, UP_SAMPLES, Knowledge
from coordinator.automatic.reasons import manage, needs, rate, rows, time, workers
from coordinator.rescale.cut_budget import LIVE_SHARE
from coordinator.rescale.forecast import COLD_BYTES_PER_S, LIVE_SLOWER_MAX, moved_share

UTILISATION_MAX = 0.85
"""The largest part of what the workers manage that may arrive. Beyond it a checkpoint, or a minute with some more rows, makes a backlog."""

UTILISATION_TARGET = 0.7
"""The largest utilisation of more workers, so that a load that still grows does not ask for another change at once."""

UTILISATION_LOW = 0.6
"""The largest utilisation of fewer workers, in the busiest minute of the window."""

DRAIN_PART = 0.5
"""The part of the time that a backlog may take. Fewer workers would have to drain each backlog of the window within this part."""

GROWTH_MAX = 2
"""How many times as many workers a change leads to at most, unless so many were there before: what is expected of numbers that were not tried
is a guess, and the next change knows more."""

GAIN_MIN = 1.05
"""How many times as fast more workers have to be. Less is noise, and a change costs more."""

START_SECONDS = 10.0
"""The time for new workers to start, and for the checkpoint that ends a change."""

LIVE_PART = 1 - LIVE_SHARE
"""How much of their rate the workers keep during a live rescale."""

NEARLY = 0.98
"""The part of the best number's rate that a smaller number of workers has to reach. It is as good then, because the rates are estimates."""

WINDOWS_PER_MOVE = 4
"""Fewer workers are only taken if they have been enough for as many times as long as the change would take."""

COVERED_PART = 0.9
"""The part of a window that has to have samples which tell of the load. So a run that recovers again and again is no reason for fewer
workers."""

Stays = Literal[
    "off", "blocked", "cooling", "watching", "fits", "waiting", "elsewhere", "cost", "no gain", "limit", "refused"
]
Changes = Literal["bounds", "backlog", "load", "idle", "barren"]
Kind = Stays | Changes
"""Why nothing changes, or why something does."""


@dataclass(frozen=True)
class WorkersChoice:
    """`workers`: the number to change to; None to stay. `reason`: for users."""

    kind: Kind
    workers: int | None
    reason: str


@dataclass(frozen=True)
class WorkersLimits:
    """What users allow. `drain_s`: in how many seconds a backlog has to be gone. `lower_after_s`: for how long fewer workers have to have been
    enough."""

    least: int
    most: int
    drain_s: float = 300.0
    lower_after_s: float = 900.0

    def within(self, slots: int | None) -> WorkersLimits:
        """Returns these limits with no more workers than Spark has task slots. `slots`: None if that is not known."""
        if slots is None:
            return self
        return WorkersLimits(min(self.least, slots), min(self.most, slots), self.drain_s, self.lower_after_s)


@dataclass(frozen=True)
class Surroundings:
    """What a decision depends on beside the load. `blocked`: why no change may be asked for now; empty if it may. `slots`: of Spark, as far as
    they are known. `state_bytes`: of all state, None before the first checkpoint. `bytes_per_s`: of the last live change; None if none was
    measured. `fault`: why the last change could not begin."""

    blocked: str = ""
    slots: int | None = None
    state_bytes: int | None = None
    bytes_per_s: float | None = None
    fault: str = ""

    def seconds(self, now: int, then: int, *, is_busy: bool) -> float:
        """About how long a live change takes, as `stepwell layout plan` says."""
        usual = COLD_BYTES_PER_S / LIVE_SLOWER_MAX if is_busy else COLD_BYTES_PER_S
        return START_SECONDS + (self.state_bytes or 0) * moved_share(now, then) / (self.bytes_per_s or usual)


@dataclass(frozen=True)
class ChoiceInput:
    """All that a choice is made of. `refused`: the numbers of workers that were refused a short time ago, with the reasons."""

    known: Knowledge
    limits: WorkersLimits
    surroundings: Surroundings
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def present(self) -> int:
        assert self.known.workers is not None
        return self.known.workers


def choose(given: ChoiceInput) -> WorkersChoice:
    """What the knowledge speaks for. There was a sample."""
    present, limits = given.present, given.limits
    if not limits.least <= present <= limits.most:
        return _within_bounds(given)
    barren = _barren(given)
    if barren is not None:
        return barren
    if len(given.known.recent) < UP_SAMPLES:
        seen = len(given.known.recent)
        return _stay("watching", f"{seen} of {UP_SAMPLES} samples of the load of {workers(present)} are there.")
    return _up(given) or _down(given)


def _stay(kind: Kind, reason: str) -> WorkersChoice:
    return WorkersChoice(kind, None, reason)


def _within_bounds(given: ChoiceInput) -> WorkersChoice:
    present, limits = given.present, given.limits
    number = limits.least if present < limits.least else limits.most
    if number in given.refused:
        return _stay("refused", f"{workers(number)} were refused: {given.refused[number]}")
    few = "fewer" if present < number else "more"
    slots = "" if given.surroundings.slots is None else f", and Spark has {given.surroundings.slots} task slots"
    bounds = f"{limits.least} to {workers(limits.most)}"
    return WorkersChoice("bounds", number, f"{workers(present)} are {few} than the bounds allow: {bounds}{slots}.")


def _barren(given: ChoiceInput) -> WorkersChoice | None:
    """Back to as many workers as were as fast."""
    verdict, present = given.known.barren, given.present
    if verdict is None or present <= verdict.origin:
        return None
    number = max(verdict.origin, given.limits.least)
    if number == present or number in given.refused:
        return None
    return WorkersChoice(
        "barren",
        number,
        f"{workers(verdict.workers)} are {verdict.gain:.2f} times as fast as {verdict.origin}: they bring nothing, so the change is undone, and "
        f"more than {verdict.origin} are not tried again for some hours. Perhaps the cores are used up.",
    )


# More workers


def _up(given: ChoiceInput) -> WorkersChoice | None:
    """None if the present workers are enough."""
    known, limits = given.known, given.limits
    can, lag = known.rows_per_s, known.lag
    if can is None:
        return None
    if known.has_backlog:
        arrives = known.arriving_per_s
        said = f"{rate(arrives)} arrive, and {manage(given.present, can)}"
        waits = f"{rows(lag)} wait and {said}"
        if not known.is_saturated:
            return _with_time_left(given, waits)
        drain_s = lag / (can - arrives) if can > arrives else float("inf")
        if drain_s > limits.drain_s:
            why = f"{waits}: {needs(given.present, drain_s)}, and {time(limits.drain_s)} are allowed."
            return _more(given, "backlog", why, drain_s)
    arrives = known.arrived_per_s
    said = f"{rate(arrives)} arrive, and {manage(given.present, can)}"
    if arrives > UTILISATION_MAX * can and known.is_trusted and len(known.recent) == RATE_SAMPLES:
        return _more(given, "load", f"{said}: that is {100 * arrives / can:.0f} % of it.", None)
    return None


def _with_time_left(given: ChoiceInput, waits: str) -> WorkersChoice | None:
    """There is a backlog, and the workers have time: something else blocks the steps, such as Kafka or a slow disk."""
    if given.known.lag_growth_per_s <= 0:
        return None
    busy = f"steps run only {100 * given.known.busy_share:.0f} % of the time"
    return _stay("elsewhere", f"{waits}, but {busy}: more workers would not help.")


def _more(given: ChoiceInput, kind: Kind, why: str, drain_s: float | None) -> WorkersChoice:
    """`drain_s`: how long the present workers need for the backlog; None if there is none."""
    known, limits, present = given.known, given.limits, given.present
    can = known.rows_per_s
    assert can is not None
    if present == limits.most:
        return _stay("limit", f"{why} The bounds, or the task slots, allow no more than {workers(present)}.")
    most = min(limits.most, max(GROWTH_MAX * present, known.capacities.tried_max))
    if known.barren is not None and most > known.barren.origin:
        most = known.barren.origin
        if most <= present:
            return _stay("no gain", f"{why} But {_brought(given)}.")
    candidates = [number for number in range(present + 1, most + 1) if number not in given.refused]
    if not candidates:
        return _stay("refused", f"{why} {workers(present + 1)} were refused: {given.refused[present + 1]}")
    number = next((n for n in candidates if _is_enough(given, n, drain_s)), None)
    if number is None:
        best = max(known.rows_per_s_of(n) or 0.0 for n in candidates)
        number = next(n for n in candidates if (known.rows_per_s_of(n) or 0.0) >= NEARLY * best)
    then = known.rows_per_s_of(number) or 0.0
    if then < GAIN_MIN * can:
        return _stay("no gain", f"{why} But {manage(number, then)}: hardly more.")
    if drain_s is not None:
        done_s = _done_s(given, number)
        if done_s >= drain_s < float("inf"):
            return _stay("cost", f"{why} But with the change, {needs(number, done_s)}.")
    return WorkersChoice(kind, number, f"{why} {manage(number, then)[0].upper() + manage(number, then)[1:]}.")


def _brought(given: ChoiceInput) -> str:
    verdict = given.known.barren
    assert verdict is not None
    return f"{workers(verdict.workers)} were {verdict.gain:.2f} times as fast as {verdict.origin}"


def _is_enough(given: ChoiceInput, number: int, drain_s: float | None) -> bool:
    known = given.known
    then = known.rows_per_s_of(number) or 0.0
    arrives = known.arrived_per_s if drain_s is None else known.arriving_per_s
    if arrives > UTILISATION_TARGET * then:
        return False
    return drain_s is None or _done_s(given, number) - _move_s(given, number) <= given.limits.drain_s


def _move_s(given: ChoiceInput, number: int) -> float:
    return given.surroundings.seconds(given.present, number, is_busy=True)


def _done_s(given: ChoiceInput, number: int) -> float:
    """In how many seconds the backlog is gone if the change begins now. Meanwhile the present workers go on with less time."""
    known = given.known
    can, then, move_s = known.rows_per_s or 0.0, known.rows_per_s_of(number) or 0.0, _move_s(given, number)
    arrives = known.arriving_per_s
    left = max(0.0, known.lag + (arrives - LIVE_PART * can) * move_s)
    spare = then - arrives
    return move_s + (left / spare if spare > 0 else float("inf"))


# Fewer workers


def _down(given: ChoiceInput) -> WorkersChoice:
    known, limits, present = given.known, given.limits, given.present
    fits = f"{rate(known.arrived_per_s)} arrive, and {manage(present, known.rows_per_s)}."
    if known.has_backlog and known.rows_per_s is not None:
        spare = known.rows_per_s - known.arrived_per_s
        left_s = known.lag / spare if spare > 0 else float("inf")
        return _stay("fits", f"{rows(known.lag)} wait, and {needs(present, left_s)}.")
    if present == limits.least:
        return _stay("fits", fits)
    number = _enough(given, limits.lower_after_s)
    if number is None:
        return _stay("fits", fits)
    window_s = max(limits.lower_after_s, WINDOWS_PER_MOVE * given.surroundings.seconds(present, number, is_busy=False))
    seen_s = sum(demand.seconds for demand in known.demands_of(window_s))
    if seen_s < COVERED_PART * window_s or known.now - known.settled_at < window_s:
        return _stay("waiting", f"{fits} {number} would do, for {time(seen_s)} of {time(window_s)} so far.")
    number = _enough(given, window_s)
    if number is None:
        return _stay("fits", fits)
    if number in given.refused:
        return _stay("refused", f"{fits} {workers(number)} were refused: {given.refused[number]}")
    most = max(demand.arrived_per_s for demand in known.demands_of(window_s))
    then = known.rows_per_s_of(number)
    return WorkersChoice(
        "idle", number, f"For {time(window_s)} at most {rate(most)} have arrived, and {manage(number, then)}."
    )


def _enough(given: ChoiceInput, window_s: float) -> int | None:
    """The least number of workers, below the present one, for which all demands of the window would have been small enough."""
    known, limits = given.known, given.limits
    demands, backlog = list(known.demands_of(window_s)), known.backlog_rows
    if not demands:
        return None
    most = max(demand.arrived_per_s for demand in demands)
    waiting = [demand for demand in demands if demand.lag > backlog]
    for number in range(limits.least, given.present):
        can = known.rows_per_s_of(number)
        if can is None:
            if most == 0 and not waiting:
                return number
            continue
        if most <= UTILISATION_LOW * can and all(
            demand.lag <= DRAIN_PART * limits.drain_s * (can - demand.arrived_per_s) for demand in waiting
        ):
            return number
    return None
