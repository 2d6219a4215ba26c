"""What a run counts and measures, for users and for monitoring: counters, distributions, the last hour by minutes, and what went wrong.

Guarantees: nothing here decides what the pipeline does. All of it is bounded: by the project's partitions and views, by constants, and by the
last hour. A step costs some microseconds, whatever its rows are. The loop's thread writes, and any thread may read.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from base.secrets import hidden
from engine.model.circuit import Circuit
from engine.operators.findings import Work, add_work

STEP_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The bounds of a step's time and of its parts. A step of a few rows takes 5 ms, and one of 400,000 rows of a large project some seconds."""

CHECKPOINT_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The bounds of a checkpoint's time. A fold of some GB takes a minute on a slow disk."""

LATENCY_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""The bounds of the time from a message to its commit. Under a backlog that is as old as the backlog."""

MINUTES = 60
"""How many minutes the history has: the last hour."""

MINUTE_BOUNDS_MS = tuple(round(1.2**power, 3) for power in range(62))
"""The bounds of the step times in the history: from 1 ms to 70 s, so that a percentile is exact to 20 %."""

RecoveryReason = Literal["worker_lost", "divided_again", "state_damaged", "transition_failed"]
RECOVERY_REASONS: tuple[RecoveryReason, ...] = get_args(RecoveryReason)
"""Why a run goes back to its last checkpoint."""

EVENTS_MAX = 20
"""How many of the last faults are kept. A person reads the last few; the log has all."""

EVENT_CHARACTERS_MAX = 1000

LAG_SAMPLE_SECONDS = 1.0
LAG_WINDOW_SECONDS = 30.0
"""Whether the lag falls is judged over this time: a checkpoint, which stops the steps for some seconds, does not make it rise."""


class Histogram:
    """How often a value was at most each of the ascending `bounds`, or beyond them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Adds what another one with the same bounds has observed."""
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, part: float) -> float | None:
        """The bound below which this part of the values lies; None without values. A value beyond all bounds counts as the last one."""
        left = part * self.count
        if not self.count:
            return None
        for bound, count in zip(self.bounds, self.counts, strict=False):
            left -= count
            if left <= 0:
                return bound
        return self.bounds[-1]

    def copy(self) -> Histogram:
        made = Histogram(self.bounds)
        made.counts, made.sum = list(self.counts), self.sum
        return made


class PartitionRead(NamedTuple):
    """What a step has read of one partition. A timestamp in milliseconds since 1970 is None if it is not known."""

    topic: str
    partition: int
    messages: int
    bytes: int
    oldest_ms: int | None
    newest_ms: int | None


class TopicWritten(NamedTuple):
    """The messages that a step has written to one topic, and the bytes of their keys and values."""

    topic: str
    messages: int
    bytes: int
    is_dead_letter: bool = False


@dataclass(frozen=True)
class SettledStep:
    """A step whose output is in the log. `rows`: of its input. `took_ms`: from its division to the end of the write of its output, and
    `write_ms` that write alone."""

    number: int
    rows: int
    took_ms: float
    write_ms: float
    is_replay: bool


@dataclass(frozen=True, kw_only=True)
class StepMeasured:
    """`parts_ms`: see StepTimes. `work`: that of all workers together, by the name for users, such as `view totals`."""

    took_ms: float
    parts_ms: Mapping[str, float]
    reads: Sequence[PartitionRead] = ()
    written: Sequence[TopicWritten] = ()
    work: Mapping[str, Work] = field(default_factory=dict)
    replayed: bool = False


@dataclass
class Minute:
    """The steps of one minute. `at`: its number since 1970."""

    at: int
    steps: int = 0
    rows: int = 0
    step_ms: Histogram = field(default_factory=lambda: Histogram(MINUTE_BOUNDS_MS))
    latency: Histogram = field(default_factory=lambda: Histogram(LATENCY_SECONDS))


@dataclass(frozen=True)
class NotedFault:
    """Something that went wrong: when, in seconds since 1970, of which kind, and what the user can do."""

    at: float
    kind: str
    text: str
    what_to_do: str = ""


@dataclass(frozen=True)
class ProjectShown:
    """The circuit whose views have answers, and the topics of sources and outputs by their name for users."""

    circuit: Circuit
    topics: Mapping[str, tuple[str, ...]]


@dataclass
class Measurements:
    """A copy of what was measured, which its reader owns. Counters begin with the run."""

    step: Histogram
    parts: dict[str, Histogram]
    checkpoint: Histogram
    latency: dict[str, Histogram]
    read_messages: dict[tuple[str, int], int]
    read_bytes: dict[tuple[str, int], int]
    written_messages: dict[str, int]
    written_bytes: dict[str, int]
    dead_letters: dict[str, int]
    work: dict[str, Work]
    error_rows: dict[str, int]
    recoveries: dict[str, int]
    newest_ms: dict[tuple[str, int], int]
    minutes: list[Minute]
    events: list[NotedFault]


class Measures:
    """The measures of one run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._project: ProjectShown | None = None
        self._step, self._checkpoint = Histogram(STEP_SECONDS), Histogram(CHECKPOINT_SECONDS)
        self._parts: dict[str, Histogram] = {}
        self._latency: dict[str, Histogram] = {}
        self._read_messages: dict[tuple[str, int], int] = {}
        self._read_bytes: dict[tuple[str, int], int] = {}
        self._written_messages: dict[str, int] = {}
        self._written_bytes: dict[str, int] = {}
        self._dead_letters: dict[str, int] = {}
        self._work: dict[str, Work] = {}
        self._error_rows: dict[str, int] = {}
        self._recoveries: dict[str, int] = {}
        self._newest_ms: dict[tuple[str, int], int] = {}
        self._minutes: deque[Minute] = deque(maxlen=MINUTES)
        self._events: deque[NotedFault] = deque(maxlen=EVENTS_MAX)
        self._lags: deque[tuple[float, int]] = deque(maxlen=int(LAG_WINDOW_SECONDS / LAG_SAMPLE_SECONDS) + 1)

    def note_step(self, found: StepMeasured) -> None:
        """A step whose output is committed, or was compared in a replay. A replay has no latency, because its output was there before."""
        now = time.time()
        with self._lock:
            minute = self._minute(now)
            minute.steps += 1
            minute.step_ms.observe(found.took_ms)
            self._step.observe(1e-3 * found.took_ms)
            for name, ms in found.parts_ms.items():
                self._parts.setdefault(name, Histogram(STEP_SECONDS)).observe(1e-3 * ms)
            for read in found.reads:
                self._note_read(read, minute, None if found.replayed else now)
            if not found.replayed:
                self._note_written(found.written)
            for name, work in found.work.items():
                add_work(self._work, name, work)

    def _note_read(self, read: PartitionRead, minute: Minute, committed_at: float | None) -> None:
        where = (read.topic, read.partition)
        minute.rows += read.messages
        self._read_messages[where] = self._read_messages.get(where, 0) + read.messages
        self._read_bytes[where] = self._read_bytes.get(where, 0) + read.bytes
        if read.newest_ms is not None:
            self._newest_ms[where] = read.newest_ms
        if read.oldest_ms is not None and committed_at is not None:
            seconds = max(0.0, committed_at - 1e-3 * read.oldest_ms)
            self._latency.setdefault(read.topic, Histogram(LATENCY_SECONDS)).observe(seconds)
            minute.latency.observe(seconds)

    def _note_written(self, written: Iterable[TopicWritten]) -> None:
        for each in written:
            if each.is_dead_letter:
                self._dead_letters[each.topic] = self._dead_letters.get(each.topic, 0) + each.messages
            self._written_messages[each.topic] = self._written_messages.get(each.topic, 0) + each.messages
            self._written_bytes[each.topic] = self._written_bytes.get(each.topic, 0) + each.bytes

    def note_checkpoint(self, took_ms: float) -> None:
        with self._lock:
            self._checkpoint.observe(1e-3 * took_ms)

    def note_recovery(self, reason: RecoveryReason, fault: BaseException) -> None:
        """The run goes back to its last checkpoint."""
        with self._lock:
            self._recoveries[reason] = self._recoveries.get(reason, 0) + 1
        self.note_event("recovery", fault)

    def show_project(self, project: ProjectShown) -> None:
        """What was measured of topics that the project does not read is forgotten: their age would grow for ever."""
        topics = {topic for each in project.topics.values() for topic in each}
        with self._lock:
            self._project = project
            self._latency = {topic: each for topic, each in self._latency.items() if topic in topics}
            for known in (self._read_messages, self._read_bytes, self._newest_ms):
                for where in [where for where in known if where[0] not in topics]:
                    del known[where]

    @property
    def project(self) -> ProjectShown | None:
        """None before the first step can begin."""
        with self._lock:
            return self._project

    def show_error_rows(self, rows: Mapping[str, int]) -> None:
        """How many rows give an error now, by the name for users of what they belong to."""
        with self._lock:
            self._error_rows = dict(rows)

    def note_event(self, kind: str, fault: BaseException) -> None:
        """Keeps the fault. Secrets leave its text before it is cut, because a part of one would not be found later."""
        what_to_do = hidden(str(getattr(fault, "what_to_do", "") or ""))
        text = hidden(str(getattr(fault, "message", "") or fault))[:EVENT_CHARACTERS_MAX]
        with self._lock:
            self._events.append(NotedFault(time.time(), kind, text, what_to_do))

    def note_lag(self, rows: int) -> None:
        """The number of messages of all partitions that are not read, when the broker has been asked."""
        now = time.monotonic()
        with self._lock:
            if not self._lags or now - self._lags[-1][0] >= LAG_SAMPLE_SECONDS:
                self._lags.append((now, rows))

    @property
    def is_lag_falling(self) -> bool:
        """Whether fewer messages are left to read than at the first of the samples, none of which is older than twice LAG_WINDOW_SECONDS."""
        since = time.monotonic() - 2 * LAG_WINDOW_SECONDS
        with self._lock:
            lags = [rows for at, rows in self._lags if at >= since]
        return len(lags) > 1 and lags[-1] < lags[0]

    @property
    def newest_ms(self) -> dict[tuple[str, int], int]:
        """The timestamp of the newest message that was read of each partition, in milliseconds since 1970, by topic and partition."""
        with self._lock:
            return dict(self._newest_ms)

    def show(self) -> Measurements:
        with self._lock:
            now = int(time.time() // 60)
            return Measurements(
                step=self._step.copy(),
                parts={name: each.copy() for name, each in self._parts.items()},
                checkpoint=self._checkpoint.copy(),
                latency={topic: each.copy() for topic, each in self._latency.items()},
                read_messages=dict(self._read_messages),
                read_bytes=dict(self._read_bytes),
                written_messages=dict(self._written_messages),
                written_bytes=dict(self._written_bytes),
                dead_letters=dict(self._dead_letters),
                work=dict(self._work),
                error_rows=dict(self._error_rows),
                recoveries=dict(self._recoveries),
                newest_ms=dict(self._newest_ms),
                minutes=[_copy(each) for each in self._minutes if each.at > now - MINUTES],
                events=list(self._events),
            )

    def _minute(self, now: float) -> Minute:
        at = int(now // 60)
        if not self._minutes or self._minutes[-1].at != at:
            self._minutes.append(Minute(at))
        return self._minutes[-1]


def _copy(minute: Minute) -> Minute:
    return Minute(minute.at, minute.steps, minute.rows, minute.step_ms.copy(), minute.latency.copy())


def lag_seconds(lag: Mapping[str, int], newest_ms: Mapping[tuple[str, int], int], now: float) -> dict[str, float]:
    """How old the newest message is that was read of each partition with a lag, in seconds; 0 for one without a lag. A partition of which this
    run has read nothing yet, although there is something, is left out. `lag`: messages, by "topic/partition". `newest_ms`: see Measurements."""
    found: dict[str, float] = {}
    newest = {f"{topic}/{partition}": ms for (topic, partition), ms in newest_ms.items()}
    for where, messages in lag.items():
        if not messages:
            found[where] = 0.0
        elif where in newest:
            found[where] = max(0.0, now - 1e-3 * newest[where])
    return found
