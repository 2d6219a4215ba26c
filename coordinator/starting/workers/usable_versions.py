"""Which versions a run can go on from, as the step log says.

A run has to replay all steps since the version, which the step log must have. Whoever asks gets the answer here: a start that opens databases,
and the commands that go back to a stored version or copy one.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.version import EMPTY, VersionId
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
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


def restorable(state: StepLogState) -> CheckpointStored | None:
    """The version that the checkpoint store has; None if there is none, or no run can go on from it."""
    stored = state.stored
    return None if stored is None or why_not_replayed(stored.version.step, state) is not None else stored


def owners_by_version(state: StepLogState) -> dict[VersionId, Mapping[int, str]]:
    """The births of the workers that own slots, by number, in every version that a run may open: the intended one, the last complete one,
    and while there is none of these, the empty one."""
    layout = state.current_layout
    known = {version for version in (state.intent, *state.checkpoints[-1:]) if version is not None}
    owners: dict[VersionId, Mapping[int, str]] = {version: state.placed[version].owners for version in known}
    if not state.checkpoints:
        owners[EMPTY] = layout.placed.owners
    return owners
