"""Checks of the state on this machine: whether every worker's database can be opened, whether they have a version in common, and whether a
dead service has left its endpoint."""

from __future__ import annotations

from pathlib import Path

from base.version import VersionId
from coordinator.circuit_file import StateOwner, read_owner
from coordinator.core import NoCommonVersion, common_version
from stepwell.doctor.check import Check
from stepwell.project.loading import Project
from stepwell.service.endpoint import read_endpoint, who_answers
from stepwell.service.last_run import read_last_run
from storage.database import Database
from storage.errors import StorageError
from storage.host_folder import HostFolder

_REBUILD = "Restore the storage folder, or rebuild the state with `stepwell run --full-refresh`."


def state_checks(project: Project) -> list[Check]:
    return [_databases(project), _endpoint(project.state_folder)]


def _databases(project: Project) -> Check:
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
    return _on_hosts(folder, owner) if project.on_cluster else _versions(project.databases, owner)


def _on_hosts(folder: Path, owner: StateOwner) -> Check:
    """Where the databases of a cluster are, as the last run has told. Nobody but its workers can look at them."""
    last = read_last_run(folder)
    places = sorted(
        {f"{worker['host']}:{worker['folder']}" for worker in (last or {}).get("workers", ()) if "folder" in worker}
    )
    where = ", ".join(places) or "in stepwell.local.dir of the hosts"
    return Check("state", "OK", f"{len(owner.databases)} databases on the hosts of the cluster: {where}; not looked at")


def _versions(folder: HostFolder, owner: StateOwner) -> Check:
    found: dict[int, tuple[VersionId, ...]] = {}
    for worker, name in enumerate(owner.databases):
        try:
            found[worker] = Database.versions(folder.databases / name)
        except StorageError as fault:
            return Check("state", "FAIL", str(fault), _REBUILD)
    try:
        latest = common_version(found)
    except NoCommonVersion as fault:
        return Check("state", "FAIL", str(fault), _REBUILD)
    return Check(
        "state",
        "OK",
        f"{len(owner.databases)} of {len(owner.databases)} databases at checkpoint {latest.version}, before step {latest.step}",
    )


def _endpoint(folder: Path) -> Check:
    endpoint = read_endpoint(folder)
    if endpoint is None:
        return Check("service", "OK", "not running")
    alive = who_answers(endpoint.url)
    if alive is None:
        return Check(
            "service",
            "WARN",
            f"process {endpoint.pid} was killed and left its endpoint file",
            "`stepwell run` replaces it.",
        )
    return Check("service", "OK", f"running: process {endpoint.pid}, {endpoint.url}")
