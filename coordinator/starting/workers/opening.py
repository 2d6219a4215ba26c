"""The version that a run goes on from.

    databases fenced -> versions of all workers, intersected -> the latest one opened everywhere -> their slots compared with the log's

Guarantees: the version that is opened holds no step whose output is not committed. In it, each slot has one owner, the one that the step log
says.
"""

from __future__ import annotations

from collections.abc import Mapping

from base.common_version import NoCommonVersion, common_version
from base.slots import SlotSet, why_no_partition
from base.version import EMPTY, VersionId
from coordinator.starting.errors import StateLost
from coordinator.starting.workers.bind_workers import StartFindings
from coordinator.starting.workers.usable_versions import why_not_replayed
from engine.errors import TaskLost
from engine.resident.crew import Crew
from faults.points import reached
from io_kafka.step_log.state import StepLogState


def open_latest(crew: Crew, state: StepLogState, found: StartFindings) -> tuple[VersionId, Mapping[int, SlotSet]]:
    """Fences every database, and opens the latest version that all workers have and that has no other owners. Returns it, and the slots that
    each worker owns in it.

    Raises StateLost if the step log does not reach that version: no version may hold a step whose output is not committed (invariant 6). Raises
    NoCommonVersion, or TaskLost if the databases must be bound again."""
    fenced = crew.fence()
    reached("recovery.versions")
    owners, bound = found.expected.owners, found.bound
    versions = _usable({worker: held.versions for worker, held in fenced.items()}, owners, bound.births)
    try:
        version = common_version(versions)
    except NoCommonVersion as fault:
        # The run before may have opened a checkpoint in some databases after their hosts had reported them, and before the fence.
        changed = sorted(worker for worker, held in fenced.items() if set(held.versions) != bound.versions[worker])
        if changed:
            raise TaskLost(
                f"the database of worker {changed[0]} has changed since its host reported it: {fault}"
            ) from fault
        raise
    reason = why_not_replayed(version.step, state)
    if reason is not None:
        raise StateLost(
            f"the databases are at step {version.step}, and {reason}.",
            "The step log lost records, or belongs to another pipeline: restore it, or run with --full-refresh."
            if version.step > state.steps
            else "An old copy of the storage folder was put back: restore a later one, or run with --full-refresh.",
        )
    reached("recovery.chosen")
    owned = crew.open(version, fenced)
    reached("recovery.opened")
    check_owned(version, owned, state)
    return version, owned


def _usable(
    held: Mapping[int, tuple[VersionId, ...]],
    owners: Mapping[VersionId, Mapping[int, str]],
    births: Mapping[int, str],
) -> dict[int, tuple[VersionId, ...]]:
    """The versions of each worker that the log knows and that have these owners. If none of them is common to all, also those that it does not
    know, such as a backup's."""
    known = {worker: tuple(v for v in versions if owners.get(v) == births) for worker, versions in held.items()}
    if set.intersection(*map(set, known.values())):
        return known
    return {worker: tuple(v for v in versions if owners.get(v, births) == births) for worker, versions in held.items()}


def check_owned(version: VersionId, owned: Mapping[int, SlotSet], state: StepLogState) -> None:
    """Raises StateLost unless each slot has one owner, and the one that the step log says. It says nothing of a version that is older than its
    last checkpoints, such as a backup of the storage folder."""
    layout = state.current_layout
    stored = state.stored.placed if state.stored is not None and state.stored.version == version else None
    recorded = state.placed.get(version, layout.placed if version == EMPTY else stored)
    said = owned if recorded is None else recorded.owned
    for worker, slots in sorted(owned.items()):
        if said[worker] != slots:
            raise _not_bound_fault(version, f"worker {worker} owns {slots}, and the step log says {said[worker]}")
    if (why_not := why_no_partition(owned)) is not None:
        raise _not_bound_fault(version, why_not)


def _not_bound_fault(version: VersionId, what: str) -> StateLost:
    return StateLost(
        f"the databases at version {version.version} (step {version.step}) do not belong together: {what}.",
        "Restore the storage folder that belongs to this pipeline, or rebuild the state with `stepwell run --full-refresh`.",
    )
