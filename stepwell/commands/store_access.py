"""What the commands about the checkpoint store share: the store of a project, its step log, and what a restore would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from coordinator.cloning.source import StoredVersion
from coordinator.storing.backups import backups, read_backup
from coordinator.storing.manifest import read_manifest
from coordinator.topic_names import log_topic_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from storage.remote.errors import ObjectMissing
from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore

T = TypeVar("T")

REPLACED_TRIES_MAX = 5
"""A service replaces what it has stored with each checkpoint, which takes seconds. So a second try finds the newer version, and with five a
service that stores several per second does not matter either."""


def store_of(project: Project) -> ObjectStore:
    """Raises StepwellError if the project names no store."""
    uri = project.settings.stepwell.store
    if uri is None:
        raise StepwellError(
            f"pipeline {project.name} has no checkpoint store.",
            "Name one with stepwell.store, such as s3://BUCKET/PREFIX or file:///PATH. See docs/durability.md.",
        )
    return open_store(uri)


def stored_of(pipeline: str, log: StepLogState) -> CheckpointStored:
    """The version that was stored last. Raises StepwellError if none was."""
    if log.stored is None:
        raise StepwellError(
            f"no checkpoint of {pipeline} is in the store.",
            "`stepwell run` stores each checkpoint as soon as stepwell.store is set.",
        )
    return log.stored


@dataclass(frozen=True)
class WantedVersion:
    """Which version is to be restored: that of a backup, or the one with this number. Neither: the one that was stored last."""

    backup: str | None = None
    version: int | None = None

    @property
    def is_last(self) -> bool:
        return self.backup is None and self.version is None


def version_to_restore(store: ObjectStore, pipeline: str, log: StepLogState, wanted: WantedVersion) -> StoredVersion:
    """The version that is wanted, of those that the store has: the one that was stored last, and those that backups keep. Raises StepwellError
    and StoreFault."""
    if wanted.backup is not None:
        name, digest, manifest = read_backup(store, pipeline, wanted.backup)
        return StoredVersion(store, name, digest, manifest)
    if wanted.version is None or (log.stored is not None and log.stored.version.version == wanted.version):
        stored = stored_of(pipeline, log)
        return StoredVersion(
            store, stored.manifest, stored.digest, read_manifest(store, stored.manifest, stored.digest)
        )
    found = backups(store, pipeline)
    for backup, _ in found:
        if backup.version == wanted.version:
            name, digest, manifest = read_backup(store, pipeline, backup.name)
            return StoredVersion(store, name, digest, manifest)
    last = [] if log.stored is None else [f"{log.stored.version.version} (stored last)"]
    there = ", ".join(
        [*(f"{backup.version} (backup {backup.name})" for backup, _ in found if not backup.problem), *last]
    )
    raise StepwellError(
        f"the store has no version {wanted.version} of {pipeline}. It has: {there or 'none'}.",
        "A store keeps the version that was stored last, and those for which `stepwell backup create` has made a backup.",
    )


def while_it_is_replaced(attempt: Callable[[], T], *, is_last: bool, say: Callable[[], None] = lambda: None) -> T:
    """What `attempt` returns, which reads the step log and then the objects of a version. It is called again if a service has stored a newer
    version in between and has deleted these objects; before that `say` is called. `is_last`: the version is the one that was stored last.
    Another one does not become newer, so it has one attempt. Raises ObjectMissing of the last attempt."""
    tries = Retrying(
        stop=stop_after_attempt(REPLACED_TRIES_MAX if is_last else 1),
        retry=retry_if_exception_type(ObjectMissing),
        before_sleep=lambda _: say(),
        reraise=True,
    )
    return tries(attempt)


def missed_text(missing: ObjectMissing, pipeline: str) -> str:
    """What to say of an object that is missed after the last attempt."""
    return (
        f"{missing.message.rstrip('.')}: {pipeline} has stored newer checkpoints meanwhile, or the object was deleted."
    )


def begins_of(project: Project, log: StepLogState) -> dict[TopicPartition, int]:
    """The first offsets of the inputs that are still there, also of those that only new nodes have read so far."""
    topics = Topics(KafkaSettings.parse(project.settings.kafka))
    read = {where.topic for where in log.next_offsets} | {
        r.topic for each in log.divisions.values() for r in each.again
    }
    return topics.begin_offsets(topics.existing(read))


def log_id_of(project: Project) -> str:
    """The topic id of the step log."""
    topic = log_topic_of(project.name)
    return Topics(KafkaSettings.parse(project.settings.kafka)).describe([topic])[topic].topic_id
