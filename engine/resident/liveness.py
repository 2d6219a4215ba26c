"""Decides from heartbeats whether a worker lives: a function of what arrived and when, without I/O, clock or threads.

    dead      nothing has arrived from it for `silence_s`
    frozen    it lives but makes no progress for `progress_s`, while every other worker waits
    stuck     it has not answered, and says for `progress_s` that it waits, as all who have not answered do: a message was lost

The other reason for a verdict, a closed connection, needs no decision. A verdict may be wrong: a machine that swaps looks like a dead one. So
nothing depends on it but speed. The verdict leads to a recovery, and what a condemned worker does later is fenced.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from engine.resident.messages import Beat


@dataclass(frozen=True)
class Limits:
    """In seconds. `progress_s` is the least time; steps that take long extend it (`slowest_factor`)."""

    silence_s: float = 5.0
    progress_s: float = 30.0
    slowest_factor: float = 10.0


@dataclass(frozen=True)
class Verdict:
    worker: int
    reason: str


@dataclass
class _Seen:
    heard_at: float
    progressed_at: float
    waiting_since: float | None
    progress: tuple[int, int, int] = (-1, -1, -1)


@dataclass
class Liveness:
    """Times are readings of one monotonic clock, in seconds."""

    limits: Limits
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def heard(self, worker: int, now: float) -> None:
        """A frame of any kind has arrived from the worker."""
        seen = self._seen.setdefault(worker, _Seen(now, now, now))
        seen.heard_at = now

    def beat(self, worker: int, beat: Beat, now: float) -> None:
        self.heard(worker, now)
        seen, progress = self._seen[worker], (beat.step, beat.stage, beat.done)
        if progress != seen.progress or beat.waiting:
            seen.progress, seen.progressed_at = progress, now
        if not beat.waiting:
            seen.waiting_since = None
        elif seen.waiting_since is None:
            seen.waiting_since = now

    def verdict(self, now: float, slowest_step_s: float) -> Verdict | None:
        """The worker that must be replaced, if there is one. `slowest_step_s`: how long a slow step took lately."""
        progress_s = max(self.limits.progress_s, self.limits.slowest_factor * slowest_step_s)
        for worker, seen in sorted(self._seen.items()):
            silent_s = now - seen.heard_at
            if silent_s > self.limits.silence_s:
                return Verdict(worker, f"it has been silent for {silent_s:.1f} s (limit {self.limits.silence_s:g} s)")
            stuck_s = now - seen.progressed_at
            if seen.waiting_since is None and stuck_s > progress_s and self._others_wait(worker):
                step, stage, _ = seen.progress
                return Verdict(
                    worker,
                    f"it has made no progress in step {step}, stage {stage} for {stuck_s:.1f} s (limit {progress_s:g} s), and all others wait",
                )
        return None

    def stuck(self, unanswered: Collection[int], asked_at: float, now: float) -> Verdict | None:
        """A verdict if all workers that have not answered an order of `asked_at` have said for `progress_s` that they wait."""
        since = [self._seen[worker].waiting_since for worker in unanswered]
        waiting_s = min((now - max(asked_at, at) for at in since if at is not None), default=0.0)
        if None in since or waiting_s <= self.limits.progress_s:
            return None
        return Verdict(
            min(unanswered),
            f"it waits, and has not answered for {waiting_s:.1f} s (limit {self.limits.progress_s:g} s)",
        )

    def _others_wait(self, worker: int) -> bool:
        return all(seen.waiting_since is not None for other, seen in self._seen.items() if other != worker)
