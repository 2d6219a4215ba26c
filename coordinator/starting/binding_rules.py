"""What the step log says of the databases, for the binding of workers (binding.py)."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.specification import PipelineSpec
from coordinator.starting.binding import Rules, Standing, judge
from coordinator.starting.errors import StateLost
from coordinator.starting.layouts import owners_by_version
from io_kafka.step_log.state import StepLogState
from storage.identity import FoundDatabase


def rules_of(spec: PipelineSpec, state: StepLogState, log_id: str, distrusted: frozenset[int] = frozenset()) -> Rules:
    """What the step log says of the databases. `distrusted`: see Rules."""
    restorable = None if spec.store is None or why_not_restorable(state) is not None else state.stored
    owners = owners_by_version(state)
    if restorable is not None:
        owners.setdefault(restorable.version, restorable.placed.owners)
    hosts = state.rescale_hosts
    return Rules(
        pipeline=spec.name,
        log_id=log_id,
        generation=state.generation,
        owners=owners,
        is_fresh=not state.checkpoints and state.intent is None and state.first == 0,
        complete=max(state.checkpoints, default=None),
        pending=state.intent,
        accepts_older=not spec.state_location.on_cluster,
        restorable=None if restorable is None else restorable.version,
        distrusted=distrusted,
        avoided=None if hosts is None else hosts.avoided,
    )


def refuse_other_log(
    spec: PipelineSpec, rules: Rules, host: str, folder: str, databases: Iterable[FoundDatabase]
) -> None:
    """Raises StateLost if a database of this pipeline was created under another step log, and this log has no checkpoints. Then the old log was
    lost."""
    for found in databases:
        if found.worker in rules.numbers and judge(found, rules) is Standing.OTHER_LOG:
            raise StateLost(
                f"the database in {folder}/{found.worker:04d} (host {host}) belongs to another step log than the topic {spec.log_topic}, "
                "which was deleted and created again.",
                "Restore that topic, or retract all output and rebuild it with `stepwell run --full-refresh`.",
            )


def why_not_restorable(state: StepLogState) -> str | None:
    """Why no run can go on from the version that the checkpoint store has; None if one can."""
    if state.stored is None:
        return "no checkpoint was stored"
    version = state.stored.version
    if version.step < state.first:
        return f"the stored checkpoint is at step {version.step}, and the step log begins at step {state.first}"
    root = state.revisions.root
    if root is not None and version.step < root.step:
        return (
            f"the stored checkpoint is at step {version.step}, and revision {root.number} of the project began with step "
            f"{root.step}"
        )
    if version.step < state.replayed_from:
        return (
            f"the stored checkpoint is at step {version.step}, and steps before step {state.replayed_from} read batch tables whose rows are "
            "deleted"
        )
    return None
