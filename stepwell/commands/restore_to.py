"""`stepwell restore --to FOLDER`: the databases of a stored version below another storage folder, for a look or for another disk.

It writes to that folder alone, so a service may run. A project whose `storage:` names the folder finds there what a start would download:
`stepwell query` answers from it, and `stepwell run` goes on from it if it is the version that was stored last. Each database appears whole or
not at all, so a command that was broken off is repeated.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.fault import ExitCode
from base.term import Term
from coordinator.cloning.source import StoredVersion, read_moment
from coordinator.revisions.document import PlanDocument
from coordinator.starting.workers.circuit_file import StateOwner
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from stepwell.commands.store_access import missed_text
from stepwell.errors import StepwellError
from stepwell.project.loading import STATE_FOLDER, Project
from storage.host_folder import HostFolder, StateLocation, database_folder
from storage.remote.errors import ObjectMissing
from storage.remote.restoring import restore
from storage.remote.retrying_store import RetryingStore

OLDEST = Term(0, 0)
"""The databases belong to no run. Any run may fence them."""


class NotRestored(StepwellError):
    """The folder cannot get the databases."""

    exit_code = ExitCode.STATE


@dataclass(frozen=True)
class RestoreReport:
    """What was made in the folder, or would be. `databases`: their folders. `is_last`: whether the version is the one that was stored last."""

    version: int
    step: int
    databases: tuple[str, ...]
    folder: str
    is_last: bool
    is_dry: bool

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "step": self.step, "folder": self.folder, "databases": list(self.databases)}

    @property
    def text(self) -> str:
        """The text for users."""
        what = f"{len(self.databases)} databases" if len(self.databases) != 1 else "1 database"
        of = f"of version {self.version}, before step {self.step}"
        if self.is_dry:
            return f"would make {what} {of} below {self.folder}, and change nothing else"
        use = "`stepwell run` goes on from there, and " if self.is_last else ""
        return f"{what} {of} below {self.folder}. With `storage: {self.folder}` in the project file {use}`stepwell query` answers from there"


def restore_to(project: Project, stored: StoredVersion, folder: Path, *, is_dry: bool) -> RestoreReport:
    """Makes the databases of a version below the storage folder `folder`, and the file that says what they belong to. Raises NotRestored,
    CopyRefused, StorageFull, and faults of Kafka and of the store."""
    if project.settings.stepwell.local_dir is not None or project.on_cluster:
        raise NotRestored(
            "the databases of this project are not in its storage folder but in `stepwell.local.dir` of its hosts, so --to would make some that "
            "no command finds.",
            "Leave out --to: a start on a host without databases makes them there. For a look, use a project without spark.master and "
            "stepwell.local.dir.",
        )
    storage = folder.resolve()
    if storage == project.storage:
        raise NotRestored(
            f"{storage} is the storage folder of the project itself.",
            "Leave out --to: a start makes there what is missing. `stepwell restore` alone goes back to an earlier version.",
        )
    kafka, manifest = KafkaSettings.parse(project.settings.kafka), stored.manifest
    moment = read_moment(kafka, Topics(kafka), stored)
    state = storage / STATE_FOLDER
    host = StateLocation(project.name, state, None, on_cluster=False).here
    births = manifest.placed.owners
    missing = _missing(host, stored)
    if not is_dry:
        try:
            for worker in missing:
                host.databases.mkdir(parents=True, exist_ok=True)
                path = host.of_worker(worker, births[worker])
                _download(stored, worker, path)
            _owner(project.name, stored, moment.document).write(state, os.getpid())
        except OSError as fault:
            raise NotRestored(
                f"nothing can be written to {storage}: {fault.strerror}.", "Name another folder with --to."
            ) from fault
    last = moment.log.stored
    return RestoreReport(
        version=manifest.version.version,
        step=manifest.version.step,
        databases=tuple(str(host.of_worker(worker, birth)) for worker, birth in sorted(births.items())),
        folder=str(storage),
        is_last=last is not None and last.version == manifest.version,
        is_dry=is_dry,
    )


def _download(stored: StoredVersion, worker: int, path: Path) -> None:
    manifest = stored.manifest
    try:
        restore(RetryingStore(stored.store), stored.chains[worker], path, manifest.identity(worker), OLDEST.number)
    except ObjectMissing as missing:
        raise NotRestored(
            missed_text(missing, manifest.pipeline),
            "`stepwell backup create NAME` keeps a version. Then restore that with --backup NAME, into an empty folder.",
        ) from missing


def _missing(host: HostFolder, stored: StoredVersion) -> list[int]:
    """The workers whose databases are to be made. Raises NotRestored if something else is there."""
    manifest = stored.manifest
    births, there = manifest.placed.owners, set[int]()
    for found in host.look():
        is_same = found.birth == births.get(found.worker) and found.identity == manifest.identity(found.worker)
        if not is_same or found.versions != (manifest.version,):
            raise NotRestored(
                f"there is another database in {host.of_worker(found.worker, found.birth)}. Nothing was changed.",
                "Name an empty folder with --to.",
            )
        there.add(found.worker)
    return sorted(births.keys() - there)


def _owner(pipeline: str, stored: StoredVersion, document: PlanDocument) -> StateOwner:
    births = stored.manifest.placed.owners
    return StateOwner(
        pipeline,
        document.circuit.fingerprint,
        document.circuit.to_json(),
        document.numbers,
        tuple(database_folder(worker, birth) for worker, birth in sorted(births.items())),
        marks=document.marks,
        made_with=document.made_with,
    )
