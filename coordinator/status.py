"""The status of a running pipeline, as plain data. The loop's thread writes it, and any thread may read it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict, Unpack

from coordinator.measures import Measures, ProjectShown
from coordinator.shown_status import ENDED_PHASES, LAG_IS_STALE, WAITING_FOR_KAFKA, ServicePhase
from engine.model.circuit import View

RATE_STEPS = 50
"""The number of steps over which rows/s is averaged: enough to be steady, and few enough to follow a change."""

IDLE_SECONDS = 5.0
"""A pipeline without a step for so long, and for twice as long as its longest step has taken lately, is idle: its rate is 0."""

WITHOUT_KAFKA: tuple[ServicePhase, ...] = ("starting", *ENDED_PHASES)
"""The phases in which a pipeline waits for no broker."""


@dataclass
class StepTimes:
    """The parts of the last step's time, in milliseconds. `read`, `compute` and `state` are the slowest worker's. `exchange` is the rest:
    the exchange between workers, and the way to them and back."""

    divide: float = 0.0
    read: float = 0.0
    compute: float = 0.0
    state: float = 0.0
    exchange: float = 0.0
    write: float = 0.0


@dataclass
class Status:
    """What a service shows of itself, as JSON. Counters start with this run."""

    pipeline: str
    epoch: int = 0
    revision: int = 0
    """The revision of the project that answers."""
    phase: ServicePhase = "starting"
    step: int = 0
    """The last one that the state has; 0 before the first one too."""
    steps_run: int = 0
    steps_replayed: int = 0
    steps_to_replay: int = 0
    """The recorded steps that the state has not yet."""
    rows: int = 0
    rows_per_s: float = 0.0
    lag: dict[str, int] = field(default_factory=dict)
    """The number of offsets not yet read, by "topic/partition"."""
    lag_is_stale: bool = False
    """The lag may be more now: no broker answers, or no step is divided, and so nobody asks the broker."""
    blocked: dict[str, int] = field(default_factory=dict)
    """How many messages wait behind a transaction that its producer has not ended, by partition. The lag does not count them."""
    kafka_up: bool = True
    kafka_away_since: float | None = None
    """Since when no broker answers, in seconds since 1970. The phase is WAITING_FOR_KAFKA then."""
    kafka_fault: str | None = None
    """Why none answers."""
    last_step: StepTimes = field(default_factory=StepTimes)
    checkpoint_version: int = 0
    checkpoint_step: int = 0
    checkpoint_age_s: float = 0.0
    """How long there has been something that the last checkpoint does not have; 0 if it has everything."""
    checkpoint_ms: float = 0.0
    state_bytes: dict[str, int] = field(default_factory=dict)
    disk_bytes: dict[str, int] = field(default_factory=dict)
    worker_bytes: dict[str, int] = field(default_factory=dict)
    """The live state of each worker in the last checkpoint."""
    skipped: dict[str, int] = field(default_factory=dict)
    """The messages that were left out, by source handle: malformed ones, and those that say nothing of the table, as Debezium's op m."""
    late: dict[str, int] = field(default_factory=dict)
    """The rows that views have left out because they were behind their watermark."""
    watermarks: dict[str, float] = field(default_factory=dict)
    """In seconds since 1970."""
    idle: list[str] = field(default_factory=list)
    """The sources that watermarks have left out in the last step, because they are silent."""
    in_error: dict[str, str] = field(default_factory=dict)
    """The views that have no answer, and the outputs that have no message for a row, with the error of one row."""
    workers: list[dict[str, str | int]] = field(default_factory=list)
    """The host, the process id, the folder of databases and the free bytes of its disk, of each."""
    layout: dict[str, Any] = field(default_factory=dict)
    """The owners of the slots, the rescale under way, the last one that was settled, and by mode how fast the last one has moved and how long no
    step could begin (rescale/rescale_shown.py)."""
    layout_fault: str | None = None
    """Why the last rescale could not begin."""
    transition: dict[str, Any] | None = None
    """The way to the next revision (transition/report.py)."""
    transition_last: dict[str, Any] | None = None
    """How the last transition has ended."""
    store: dict[str, Any] | None = None
    """The checkpoint store (storing/store_shown.py); None without one."""
    automatic: dict[str, Any] | None = None
    """How Stepwell chooses the number of workers (automatic/automatic_shown.py); None if it does not."""
    recoveries: int = 0
    recovery_ms: float = 0.0
    error: str | None = None


class StatusChanges(TypedDict, total=False):
    """The fields of `Status` that are set by `update`, with the types that they have there."""

    epoch: int
    revision: int
    phase: ServicePhase
    step: int
    steps_to_replay: int
    lag: dict[str, int]
    blocked: dict[str, int]
    kafka_up: bool
    kafka_away_since: float | None
    kafka_fault: str | None
    checkpoint_version: int
    checkpoint_step: int
    state_bytes: dict[str, int]
    disk_bytes: dict[str, int]
    worker_bytes: dict[str, int]
    idle: list[str]
    in_error: dict[str, str]
    workers: list[dict[str, str | int]]
    layout: dict[str, Any]
    layout_fault: str | None
    transition: dict[str, Any] | None
    transition_last: dict[str, Any] | None
    store: dict[str, Any] | None
    automatic: dict[str, Any] | None
    recoveries: int
    recovery_ms: float
    error: str | None


@dataclass(frozen=True)
class LayoutStatus:
    """The fields of `Status` of the same names. They are replaced and not changed."""

    worker_bytes: Mapping[str, int]
    layout: Mapping[str, Any]
    layout_fault: str | None


class StatusBoard:
    """The status behind a lock. `measures`: what the run counts and measures beside it."""

    def __init__(self, pipeline: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._monotonic = threading.Lock(), monotonic
        self._status = Status(pipeline)
        self.measures = Measures()
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=RATE_STEPS)  # end, rows and seconds of a step
        self._checkpoint_at = monotonic()
        self._uncovered_since: float | None = None  # since when there is a step that the last checkpoint does not have

    def update(self, **changes: Unpack[StatusChanges]) -> None:
        with self._lock:
            for name, value in changes.items():
                setattr(self._status, name, value)

    def note_step(self, step: int, rows: int, times: StepTimes, *, replayed: bool, skipped: Mapping[str, int]) -> None:
        with self._lock:
            status = self._status
            status.step, status.last_step = step, times
            status.steps_run += not replayed
            status.steps_replayed += replayed
            status.rows += rows
            for handle, count in skipped.items():
                status.skipped[handle] = status.skipped.get(handle, 0) + count
            now, took_s = self._monotonic(), 1e-3 * sum(asdict(times).values())
            if self._recent and now - took_s - self._recent[-1][0] > IDLE_SECONDS:
                self._recent.clear()  # the time without input says nothing of the rate
            self._recent.append((now, rows, took_s))
            if self._uncovered_since is None:
                self._uncovered_since = now

    def _rows_per_s(self, now: float) -> float:
        if len(self._recent) < 2 or not self._status.kafka_up:
            return 0.0
        longest_s = max(took_s for _, _, took_s in self._recent)
        if now - self._recent[-1][0] > max(IDLE_SECONDS, 2 * longest_s):
            return 0.0
        elapsed = self._recent[-1][0] - self._recent[0][0]
        return round(sum(rows for _, rows, _ in list(self._recent)[1:]) / max(elapsed, 1e-9), 1)

    def kafka_is_away(self, since: float, fault: str) -> None:
        """No broker answers. `since`: in seconds since 1970."""
        self.update(kafka_up=False, kafka_away_since=since, kafka_fault=fault)

    def kafka_is_back(self) -> None:
        self.update(kafka_up=True, kafka_away_since=None, kafka_fault=None)

    def show_project(self, project: ProjectShown) -> None:
        """Shows this project from now on. What is known of a view that it lacks is forgotten."""
        self.measures.show_project(project)
        views = {node.name for node in project.circuit.nodes if isinstance(node, View)}
        with self._lock:
            known = self._status.watermarks
            self._status.watermarks = {view: at for view, at in known.items() if view in views}

    def note_event_time(self, late: Mapping[str, int], watermarks_us: Mapping[str, int]) -> None:
        """What a step says of event time: the late rows by view, and the watermarks after it."""
        with self._lock:
            for view, rows in late.items():
                self._status.late[view] = self._status.late.get(view, 0) + rows
            self._status.watermarks.update({view: at / 1e6 for view, at in watermarks_us.items()})

    def show_in_error(self, views: dict[str, str]) -> dict[str, str]:
        """Sets `in_error`, and returns what it was."""
        with self._lock:
            before, self._status.in_error = self._status.in_error, views
            return before

    def note_checkpoint(self, version: int, step: int, took_ms: float) -> None:
        with self._lock:
            self._checkpoint_at = self._monotonic()
            if self._status.step < step:
                self._uncovered_since = None
            self._status.checkpoint_version, self._status.checkpoint_step = version, step
            self._status.checkpoint_ms = round(took_ms, 1)
        self.measures.note_checkpoint(took_ms)

    def lag_rows(self) -> int | None:
        """In all partitions; None as long as nobody has looked."""
        with self._lock:
            return sum(self._status.lag.values()) if self._status.lag else None

    def layout_status(self) -> LayoutStatus:
        """What `show` has of the layout, without a copy of everything else."""
        with self._lock:
            status = self._status
            return LayoutStatus(status.worker_bytes, status.layout, status.layout_fault)

    def of_probes(self) -> tuple[str, Mapping[str, int]]:
        """The phase, as `show` has it, and `lag`, which is replaced and not changed. Anyone may ask for it at any rate, so nothing is copied."""
        with self._lock:
            return self._phase(), self._status.lag

    def _phase(self) -> ServicePhase:
        status = self._status
        return WAITING_FOR_KAFKA if not status.kafka_up and status.phase not in WITHOUT_KAFKA else status.phase

    def show(self) -> dict[str, Any]:
        with self._lock:
            status, now = self._status, self._monotonic()
            uncovered = self._uncovered_since
            status.checkpoint_age_s = 0.0 if uncovered is None else round(now - max(uncovered, self._checkpoint_at), 1)
            status.rows_per_s = self._rows_per_s(now)
            phase = self._phase()
            status.lag_is_stale = phase in LAG_IS_STALE
            return {**asdict(status), "phase": phase}
