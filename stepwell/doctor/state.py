"""Checks of the state on this machine: whether the databases can be opened, whether there is a version in which they own all slots, and why a
service does not answer.

A rescale makes databases that `circuit.json` does not name, and a run that goes on with it after a crash removes those that own
nothing any more. So the slots that the databases own are judged, and not their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from base.slots import SlotSet, drop_empty, why_no_partition
from base.version import VersionId
from coordinator.starting.workers.circuit_file import StateOwner, read_owner
from stepwell.doctor.check import Check
from stepwell.project.loading import Project
from stepwell.service.endpoint import read_endpoint, who_answers
from stepwell.service.last_run import read_last_run
from stepwell.service.silence import why_silent
from storage.database import Database
from storage.errors import CorruptFile, CorruptRecord, NoDatabase, StorageError
from storage.host_folder import HostFolder
from storage.identity import FoundDatabase

_REBUILD = "Restore the storage folder, or rebuild the state with `stepwell run --full-refresh`."
_RESTORE = "`stepwell run` makes it again of the last checkpoint in the checkpoint store."


def state_checks(project: Project, may_be_empty: Callable[[], bool] = lambda: False) -> list[Check]:
    """`may_be_empty`: whether the step log says that no database has anything yet, so that the next run makes them. It is asked only if there
    are none, as after a first start that was refused."""
    return [_databases(project, may_be_empty), _endpoint(project.state_folder)]


def found_here(project: Project) -> tuple[FoundDatabase, ...]:
    """The databases of the project on this machine; none on a cluster, where only its workers can look at them."""
    return () if project.on_cluster else project.databases.look()


def _databases(project: Project, may_be_empty: Callable[[], bool]) -> Check:
    folder = project.state_folder
    owner = read_owner(folder)
    if owner is None:
        if not project.on_cluster and project.databases.databases.is_dir():
            return Check("state", "FAIL", f"databases in {folder}, and nothing says whose they are", _REBUILD)
        return Check("state", "OK", f"none in {folder}: the first run makes it")
    if owner.pipeline != project.name:
        return Check(
            "state", "FAIL", f"it is pipeline {owner.pipeline}'s", "Give each project a `storage:` of its own."
        )
    if project.on_cluster:
        return _on_hosts(folder, owner)
    if not project.databases.names() and may_be_empty():
        return Check("state", "OK", f"no databases in {folder} yet: the first run that goes on makes them")
    found = _versions(project.databases, owner)
    if found.what_to_do == _REBUILD and project.settings.stepwell.store is not None:
        return replace(found, level="WARN", what_to_do=_RESTORE)
    return found


def _on_hosts(folder: Path, owner: StateOwner) -> Check:
    """Where the databases of a cluster are, as the last run has told. Nobody but its workers can look at them."""
    last = read_last_run(folder)
    places = sorted(
        {f"{worker['host']}:{worker['folder']}" for worker in (last or {}).get("workers", ()) if "folder" in worker}
    )
    where = ", ".join(places) or "in stepwell.local.dir of the hosts"
    return Check("state", "OK", f"{len(owner.databases)} databases on the hosts of the cluster: {where}; not looked at")


def _versions(folder: HostFolder, owner: StateOwner) -> Check:
    found: dict[str, dict[VersionId, SlotSet]] = {}
    faults: list[StorageError] = []
    for name in sorted({*folder.names(), *owner.databases}):
        try:
            found[name] = Database.owned_by_version(folder.databases / name)
        except NoDatabase as fault:
            if name in owner.databases:
                faults.append(fault)
        except StorageError as fault:
            faults.append(fault)
    for version in sorted({version for held in found.values() for version in held}, reverse=True):
        owned = {name: held[version] for name, held in found.items() if version in held}
        if why_no_partition(dict(enumerate(owned.values()))) is None:
            return _whole(version, drop_empty(owned), owner)
    if faults:
        return _not_read(faults[0])
    shown = "; ".join(
        f"{name}: {', '.join(f'{v.version} (step {v.step}) with {owned}' for v, owned in held.items())}"
        for name, held in found.items()
    )
    return Check("state", "FAIL", f"at no checkpoint do the databases own each slot once: {shown}", _REBUILD)


def _not_read(fault: StorageError) -> Check:
    """Only what is damaged or gone has to be restored. What the system refuses, such as by a mount without rights, may be whole."""
    is_lost = isinstance(fault, NoDatabase | CorruptFile | CorruptRecord)
    return Check("state", "FAIL", fault.message, _REBUILD if is_lost or not fault.what_to_do else fault.what_to_do)


def _whole(version: VersionId, owners: Mapping[str, SlotSet], owner: StateOwner) -> Check:
    """All slots have an owner at `version`."""
    text = f"{len(owners)} of {len(owners)} databases at checkpoint {version.version}, before step {version.step}"
    if set(owners) == set(owner.databases):
        return Check("state", "OK", text)
    return Check(
        "state",
        "OK",
        f"{text}; the last settled layout had {len(owner.databases)}, so a change of the layout is under way, or was just settled",
    )


def _endpoint(folder: Path) -> Check:
    endpoint = read_endpoint(folder)
    if endpoint is None:
        return Check("service", "OK", "not running")
    if who_answers(endpoint.url) is None:
        silence = why_silent(folder, endpoint)
        return Check("service", "WARN", silence.found, silence.what_to_do)
    return Check("service", "OK", f"running: process {endpoint.pid}, {endpoint.url}")
