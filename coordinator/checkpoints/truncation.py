"""How the step log is kept short: when it gets a snapshot, and when its beginning is deleted.

Guarantees: what is left of the log begins with a snapshot. It suffices to replay from the earliest version of every worker, and it has the
records of the last `kept` steps. Deletion is not fenced and need not be: the offset is a function of the log, so a late request of an older
run deletes nothing that was still needed.

Not every checkpoint has a snapshot, because a snapshot holds the layout and all positions, some 10 KB and more. Spread over many
steps it costs no more per step than the step's own record. A start reads and compares all snapshots.
"""

from __future__ import annotations

from collections.abc import Callable

from base.logger import Logger
from io_kafka.clients.topics import Topics
from io_kafka.errors import NotAuthorized
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.checkpoints.truncation")

SNAPSHOT_STEPS_MIN = 100
"""Steps between two snapshots. A snapshot of 50 KB then costs 500 bytes per step, which is about the size of a step's own record."""

REFUSED_SECONDS = 3600.0
"""The time between two requests to delete the beginning of the log, if the broker refuses them to this user: often enough to notice that
somebody has granted the right, and rare enough for a log."""

TRUNCATE_STEPS_MIN = 10_000
"""The least number of steps that one deletion removes: about ten MB. Less is not worth a request to the broker, because a start reads ten
MB in about a second."""


def snapshot_due(state: StepLogState, steps_min: int) -> bool:
    """Whether enough steps were committed since the last snapshot. It is asked at each checkpoint."""
    return state.steps - (state.snapshots[-1][1] if state.snapshots else 0) >= steps_min


def truncate(topics: Topics, state: StepLogState, earliest: int, kept: int, steps_min: int) -> int | None:
    """Deletes the beginning of the log, but for what a replay from step `earliest` needs and for the last `kept` steps. `earliest` is the step
    of the earliest version that any worker can open. Returns the offset at which the log begins now, which the caller tells its state, or None
    if too little could be deleted to be worth a request."""
    assert earliest <= state.steps
    point = state.truncation_point(min(earliest, state.steps - kept))
    if point is None or dict(state.snapshots)[point] - state.snapshots[0][1] < steps_min:
        return None
    topics.delete_below({TopicPartition(state.topic, 0): point})
    _log.info("step log truncated", offset=point)
    return point


class Truncation:
    """The truncations of one run. A log that cannot be truncated grows. That is no reason to stop, so it is reported once an hour."""

    def __init__(self, topics: Topics, monotonic: Callable[[], float]) -> None:
        self._topics, self._monotonic = topics, monotonic
        self._refused_at: float | None = None

    def make(self, state: StepLogState, earliest: int, kept: int, steps_min: int) -> int | None:
        """Does what `truncate` does. Returns None also if the broker refuses it, or has refused it lately."""
        if self._refused_at is not None and self._monotonic() - self._refused_at < REFUSED_SECONDS:
            return None
        try:
            return truncate(self._topics, state, earliest, kept, steps_min)
        except NotAuthorized as fault:
            self._refused_at = self._monotonic()
            _log.warning(
                "the step log cannot be truncated, so it grows; grant the right Delete on its topic",
                topic=state.topic,
                fault=fault.message,
            )
            return None
