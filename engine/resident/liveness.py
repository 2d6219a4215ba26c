"""Decides from heartbeats whether a worker lives: a function of what arrived and when.

    silent    nothing has arrived from it for `silence_s`
    stalled   it lives, but for `progress_s` its thread has used no CPU and moved no byte, and no worker that has not answered makes progress
    stuck     all workers that have not answered wait, and for `progress_s` they have moved nothing and no other has answered: a message was lost

The CPU that a worker uses while it waits is not progress. It takes the coordinator's pings, which cost a millisecond every few seconds.

The other reason for a verdict, a closed connection, needs no decision. A verdict may be wrong: a machine that swaps looks like a dead one. So
nothing depends on it but speed. The verdict leads to a recovery, and what a condemned worker does later is fenced.

Only time counts in which the process that judges was there to hear something (WatchedTime). If the whole machine stood still for half a minute,
nobody was silent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from engine.resident.messages import Beat


@dataclass(frozen=True)
class LivenessLimits:
    """How long a worker may give no sign of life, and make no progress, in seconds. `progress_s` is the least time; steps that take long extend
    it (`slowest_factor`)."""

    silence_s: float = 5.0
    progress_s: float = 30.0
    slowest_factor: float = 10.0


@dataclass
class WatchedTime:
    """A clock that leaves out when this process stood still: two readings are at most `gap_s_max` apart, in seconds. `read` gives the monotonic
    time."""

    read: Callable[[], float]
    gap_s_max: float
    _at: float | None = None
    _watched_s: float = 0.0

    def now(self) -> float:
        at = self.read()
        self._watched_s += min(at - (at if self._at is None else self._at), self.gap_s_max)
        self._at = at
        return self._watched_s


@dataclass(frozen=True)
class LivenessVerdict:
    worker: int
    reason: str


@dataclass
class _Seen:
    heard_at: float
    progressed_at: float
    is_waiting: bool = True
    progress: tuple[int, int, int, int] = (-1, -1, -1, -1)
    bytes_arrived: int = 0


@dataclass
class Liveness:
    """What has been heard of each worker, and the verdict over those that are silent, stalled or stuck. Times are readings of one monotonic
    clock, in seconds."""

    limits: LivenessLimits
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def heard(self, worker: int, now: float, bytes_arrived: int) -> None:
        """`bytes_arrived`: how much has come from the worker until now, also parts of a frame. A worker that is sending a large frame is not
        silent, although its heartbeats wait behind that frame."""
        seen = self._seen.setdefault(worker, _Seen(now, now))
        if bytes_arrived != seen.bytes_arrived:
            seen.heard_at, seen.bytes_arrived = now, bytes_arrived

    def beat(self, worker: int, beat: Beat, now: float) -> None:
        seen = self._seen[worker]
        cpu_ms = seen.progress[2] if beat.waiting else beat.cpu_ms
        progress = (beat.step, beat.stage, cpu_ms, beat.bytes_moved)
        if progress != seen.progress or beat.waiting != seen.is_waiting:
            seen.progressed_at = now
        seen.progress, seen.is_waiting = progress, beat.waiting

    def forget(self, worker: int) -> None:
        """The worker has ended as it should."""
        self._seen.pop(worker, None)

    def find_silent(self, now: float) -> LivenessVerdict | None:
        """The worker from which nothing has come for too long, if there is one."""
        for worker, seen in sorted(self._seen.items()):
            silent_s = now - seen.heard_at
            if silent_s > self.limits.silence_s:
                return LivenessVerdict(
                    worker, f"it has been silent for {silent_s:.1f} s (limit {self.limits.silence_s:g} s)"
                )
        return None

    def find_stopped(
        self, unanswered: Collection[int], since: float, slowest_step_s: float, now: float
    ) -> LivenessVerdict | None:
        """The worker because of which an order is not answered, if none of those that have not answered makes progress: the lowest that works
        and is stalled, or else the lowest of those that all wait for something that does not come. `since`: when the order was given, or when
        another worker has answered it last, because they may have waited for that one. `slowest_step_s`: how long a slow step took lately."""
        progress_s = max(self.limits.progress_s, self.limits.slowest_factor * slowest_step_s)
        stuck_s = {worker: now - max(since, self._seen[worker].progressed_at) for worker in unanswered}
        if not stuck_s or min(stuck_s.values()) <= progress_s:
            return None
        stalled = [worker for worker in unanswered if not self._seen[worker].is_waiting]
        worker = min(stalled or unanswered)
        step, stage, *_ = self._seen[worker].progress
        doing = f"it has made no progress in step {step}, stage {stage}" if stalled else "it waits, as all others do,"
        return LivenessVerdict(worker, f"{doing} for {stuck_s[worker]:.1f} s (limit {progress_s:g} s)")
