"""Backups: manifests that keep their objects, and going back to one.

A backup is a copy of the manifest of a stored version under a name of its own. Nothing is copied but that: the objects that it names stay until
it is deleted (collecting.py).

A restore goes back to a version within the same step log: the steps since then are replayed, and their output is compared with what is in the
topics. So the log must still have these steps, and the topics the input of them. `why_not_reached` says what is missing, before anything is
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from base.term import Term
from coordinator.starting.workers.usable_versions import why_not_replayed
from coordinator.storing.manifest import (
    DamagedManifest,
    Manifest,
    UploadName,
    backup_name,
    backup_objects,
    backups_of,
    manifest_name,
    read_manifest,
    read_with_digest,
    root_of,
    write_manifest,
)
from coordinator.storing.presence import check_objects, packs_in
from faults.points import reached
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from storage.remote.errors import DamagedPack, ObjectMissing, StoreFault
from storage.remote.objects_protocol import ObjectStore

REASONS_MAX = 5
"""How many reasons are named why a restore is refused. A topic may have hundreds of partitions."""


class BadBackup(StoreFault):
    """A name that no backup can have, or that one has already."""


@dataclass(frozen=True)
class Backup:
    """`bytes`: of the objects that it keeps, compressed. `problem`: why it cannot be read or restored; empty if nothing is known."""

    name: str
    version: int
    step: int
    workers: int
    bytes: int
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def object_of(pipeline: str, name: str) -> str:
    """The name of the object of a backup. Raises BadBackup."""
    where = f"{backups_of(pipeline)}/{name}.json"
    if backup_name(where) != name:
        raise BadBackup(
            f"{name!r} is no name of a backup.",
            "A name begins with a letter or a digit, and has letters, digits, '-', '_' and '.', at most 100.",
        )
    return where


def create(store: ObjectStore, pipeline: str, name: str, stored: CheckpointStored) -> Backup:
    """Keeps the stored version. Raises BadBackup if there is a backup of that name, ObjectMissing if the version was replaced by a newer one
    meanwhile, DamagedPack if an object of it cannot be used, and other StoreFaults."""
    where = object_of(pipeline, name)
    if where in backup_objects(store, pipeline):
        raise BadBackup(f"There is a backup {name} already.", "Give another name, or delete that one.")
    manifest = read_manifest(store, stored.manifest, stored.digest)
    write_manifest(store, where, manifest)
    reached("backup.named")
    # A run may have stored a newer version since and may have deleted what only this one needs, before it could see the backup.
    try:
        check_objects(store, manifest)
    except (ObjectMissing, DamagedPack):
        store.delete([where])
        raise
    return _backup(name, manifest)


def delete(store: ObjectStore, pipeline: str, name: str) -> None:
    """The objects that nothing else needs go with the next stored checkpoint. Raises BadBackup if there is no such backup, and StoreFault."""
    where = object_of(pipeline, name)
    if where not in backup_objects(store, pipeline):
        raise _no_backup(name)
    store.delete([where])


def read_backup(store: ObjectStore, pipeline: str, name: str) -> tuple[str, str, Manifest]:
    """(its object, the digest of that, the manifest). Raises BadBackup if there is no such backup, and StoreFault."""
    where = object_of(pipeline, name)
    try:
        manifest, digest = read_with_digest(store, where)
    except ObjectMissing:
        raise _no_backup(name) from None
    if manifest.pipeline != pipeline:
        raise DamagedManifest(where, f"is one of pipeline {manifest.pipeline}")
    return where, digest, manifest


def kept_for_next_run(store: ObjectStore, manifest: Manifest, term: Term) -> tuple[str, str]:
    """Writes the manifest of a backup among those of stored versions, under the term of whoever goes back to it. Then the backup may be deleted
    before, or while, the next run restores it. Returns the name and the digest of the object. Raises StoreFault."""
    root = root_of(manifest.pipeline, manifest.log_id, manifest.generation)
    name = manifest_name(root, UploadName(manifest.version, term, 0))
    return name, write_manifest(store, name, manifest)


def _no_backup(name: str) -> BadBackup:
    return BadBackup(f"There is no backup {name}.", "`stepwell backup list` shows those that there are.")


def backups(store: ObjectStore, pipeline: str) -> list[tuple[Backup, Manifest | None]]:
    """All, by version, each with its manifest. One that cannot be read says why, and has none. Raises StoreFault."""
    found: list[tuple[Backup, Manifest | None]] = []
    for where in backup_objects(store, pipeline):
        name = backup_name(where) or ""
        try:
            _, _, manifest = read_backup(store, pipeline, name)
            found.append((_backup(name, manifest), manifest))
        except StoreFault as fault:
            found.append((Backup(name, version=-1, step=-1, workers=0, bytes=0, problem=str(fault)), None))
    return sorted(found, key=lambda pair: (pair[0].version, pair[0].name))


def _backup(name: str, manifest: Manifest) -> Backup:
    size = sum(pack.bytes for pack in packs_in(manifest))
    return Backup(name, manifest.version.version, manifest.version.step, len(manifest.placed.owners), size)


def why_not_reached(
    manifest: Manifest, log: StepLogState, log_id: str, begins: Mapping[TopicPartition, int]
) -> list[str]:
    """Why the pipeline cannot go back to this version; empty if it can. `log_id`: the topic id of the step log. `begins`: the first offset of
    each input partition that is still there."""
    version = manifest.version
    if manifest.log_id != log_id:
        return ["it was made under another step log, which was deleted since"]
    if log.refresh is not None:
        return [
            f"a full refresh has begun generation {log.refresh.generation}, and the next `stepwell run` completes it"
        ]
    if manifest.generation != log.generation:
        return [f"it is of generation {manifest.generation}, and a full refresh has begun generation {log.generation}"]
    reason = why_not_replayed(version.step, log)
    if reason is not None:
        return [f"its next step is {version.step}, and {reason}"]
    return list(_lost_input(version.step, log, begins))[:REASONS_MAX]


def _lost_input(step: int, log: StepLogState, begins: Mapping[TopicPartition, int]) -> Iterable[str]:
    """Each partition of which a step is to be replayed whose input has expired."""
    seen: set[TopicPartition] = set()
    for number in range(step, log.division_next):
        division = log.divisions[number]
        is_filled = log.revisions.passage_that_fills(number) is not None  # otherwise a replay runs without new nodes
        for r in (*division.ranges, *(division.again if is_filled else ())):
            if r.start == r.end or r.where in seen:
                continue
            seen.add(r.where)
            begin = begins.get(r.where)
            if begin is None:
                yield f"step {number} reads {r.where}, which does not exist any more"
            elif begin > r.start:
                yield f"step {number} reads {r.where} from offset {r.start:,}, and the topic begins with offset {begin:,}"
