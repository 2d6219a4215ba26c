"""Whether a run can go on from the state at a step: it has to replay all steps since, which the step log must have.

One function for whoever asks: a start that opens databases, and the commands that go back to a stored version or copy one.
"""

from __future__ import annotations

from io_kafka.step_log.value import LogValue


def why_not_replayed(step: int, log: LogValue) -> str | None:
    """Why no run can go on from a state whose next step is `step`; None if one can. It is a clause that follows a name of that state."""
    if step > log.steps:
        return f"the step log ends before step {log.steps}"
    if step < log.first:
        return f"the step log begins at step {log.first}"
    root = log.revisions.root
    if root is not None and step < root.step:
        return f"revision {root.number} of the project began with step {root.step}"
    if step < log.replayed_from:
        return f"steps before step {log.replayed_from} read batch tables whose rows are deleted"
    return None
