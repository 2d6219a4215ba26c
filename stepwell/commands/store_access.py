"""What the commands about the checkpoint store share: the store of a project, its step log, and what a restore would do."""

from __future__ import annotations

from coordinator.specification import log_topic_of
from coordinator.storing.backups import read_backup
from coordinator.storing.manifest import Manifest, read_manifest
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from storage.remote.objects import open_store
from storage.remote.objects_protocol import ObjectStore


def store_of(project: Project) -> ObjectStore:
    """Raises StepwellError if the project names no store."""
    uri = project.settings.stepwell.store
    if uri is None:
        raise StepwellError(
            f"pipeline {project.name} has no checkpoint store.",
            "Name one with stepwell.store, such as s3://BUCKET/PREFIX or file:///PATH. See docs/durability.md.",
        )
    return open_store(uri)


def stored_of(project: Project, log: StepLogState) -> CheckpointStored:
    """The version that was stored last. Raises StepwellError if none was."""
    if log.stored is None:
        raise StepwellError(
            f"no checkpoint of {project.name} is in the store.",
            "`stepwell run` stores each checkpoint as soon as stepwell.store is set.",
        )
    return log.stored


def manifest_to_restore(
    store: ObjectStore, project: Project, log: StepLogState, backup: str | None
) -> tuple[str, str, Manifest]:
    """(its object, the digest of that, the manifest) of a backup, or of the version that was stored last. Raises StepwellError and
    StoreFault."""
    if backup is not None:
        return read_backup(store, project.name, backup)
    stored = stored_of(project, log)
    return stored.manifest, stored.digest, read_manifest(store, stored.manifest, stored.digest)


def begins_of(project: Project, log: StepLogState) -> dict[TopicPartition, int]:
    """The first offsets of the inputs that are still there."""
    topics = Topics(KafkaSettings.parse(project.settings.kafka))
    there = topics.names()
    return topics.begin_offsets(sorted({where.topic for where in log.positions} & there))


def log_id_of(project: Project) -> str:
    """The topic id of the step log."""
    topic = log_topic_of(project.name)
    return Topics(KafkaSettings.parse(project.settings.kafka)).describe([topic])[topic].topic_id
