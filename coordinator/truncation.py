"""How the step log is kept short: when it gets a snapshot, and when its beginning is deleted.

Guarantees: every worker's earliest version can be replayed from what is left, and the last `kept` steps can be told; what is left begins with a
snapshot. Deleting is not fenced and need not be: the point is a function of the log, so a late request of an older run deletes no
more than was deletable already.

Why not a snapshot at every checkpoint: it holds the circuit, the layout and all positions, some 10 to 100 KB. One for many steps costs
a step no more than its own record does; a start reads and compares them all.
"""

from __future__ import annotations

import structlog

from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.state import StepLogState

_log = structlog.get_logger("coordinator.truncation")

SNAPSHOT_STEPS_MIN = 100
"""Steps between two snapshots: 50 KB of snapshot are then 500 bytes a step, about a step's own record."""

TRUNCATE_STEPS_MIN = 10_000
"""Steps that one deletion removes at least: about ten MB. A request to the broker for less is not worth it, and reading as much at a
start takes about a second."""


def snapshot_due(state: StepLogState, steps_min: int) -> bool:
    """At a checkpoint: whether enough steps were committed since the last snapshot."""
    return state.steps - (state.snapshots[-1][1] if state.snapshots else 0) >= steps_min


def truncate(topics: Topics, state: StepLogState, earliest: int, kept: int, steps_min: int) -> int | None:
    """Deletes what neither a replay from step `earliest`, that of the earliest version any worker can open, nor a question for one
    of the last `kept` steps needs. Returns the offset at which the log begins now; None where it was not worth it."""
    assert earliest <= state.steps
    point = state.truncation_point(min(earliest, state.steps - kept))
    if point is None or dict(state.snapshots)[point] - state.snapshots[0][1] < steps_min:
        return None
    topics.delete_below({TopicPartition(state.topic, 0): point})
    state.truncated(point)
    _log.info("step log truncated", offset=point)
    return point
