"""`stepwell restore`: goes back to a version of the checkpoint store. The next run replays the steps since, and compares their output."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any

import typer

from coordinator.specification import log_topic_of, transactional_id_of
from coordinator.storing.backups import missing_objects, why_not_reached
from coordinator.storing.manifest import Manifest
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.writer import FencedLog, PipelineWriter
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from stepwell.commands.common import JsonOption, SpecOption, note, project_of, report_faults, show
from stepwell.commands.steps import read_log
from stepwell.commands.store_access import begins_of, log_id_of, manifest_to_restore, store_of
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.holder import wait_for_turn
from storage.remote.objects_protocol import ObjectStore


def restore(
    backup: Annotated[
        str | None, typer.Option("--backup", metavar="NAME", help="Default: the checkpoint that was stored last.")
    ] = None,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")] = False,
    spec: SpecOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go back to a stored checkpoint. No service may run. Nothing is taken back: the next run computes the steps since again, and compares
    them."""
    with report_faults(as_json):
        project = project_of(spec)
        store, log = store_of(project), read_log(project)
        name, digest, manifest = manifest_to_restore(store, project, log, backup)
        found = _judged(project, store, log, manifest)
        if not is_dry:
            _record(project, name, digest, manifest)
        show(found, as_json=as_json, text=_text(found, is_dry=is_dry))


def _judged(project: Project, store: ObjectStore, log: StepLogState, manifest: Manifest) -> dict[str, Any]:
    """What a restore would do. Raises StepwellError if it cannot be done."""
    reasons = why_not_reached(manifest, log, log_id_of(project), begins_of(project, log))
    missing = missing_objects(store, manifest)
    if missing:
        reasons.append(
            f"the store has no object {missing[0]}" + (f" and {len(missing) - 1} others" if missing[1:] else "")
        )
    version = manifest.version
    if reasons:
        raise StepwellError(
            f"version {version.version}, before step {version.step}, cannot be restored: {'; '.join(reasons)}. Nothing was changed.",
            "Choose another backup (`stepwell backup list`), or rebuild the state from the input with `stepwell run --full-refresh`.",
        )
    return {
        "version": version.version,
        "step": version.step,
        "workers": len(manifest.placed.owners),
        "steps_to_replay": log.steps - version.step,
    }


def _record(project: Project, name: str, digest: str, manifest: Manifest) -> None:
    """Claims the pipeline, so that no run goes on from a later checkpoint, and records the version. Raises HeldByAnother and faults of Kafka."""
    kafka, settings = KafkaSettings.parse(project.settings.kafka), project.settings.stepwell
    turn = wait_for_turn(project.name, lambda: read_log(project), settings.takeover_silence, take_over=False, say=note)
    writer = PipelineWriter(FencedLog(kafka, transactional_id_of(project.name), log_topic_of(project.name)))
    try:
        epoch = writer.start(pipeline=project.name, host=socket.gethostname(), pid=os.getpid(), expect_epoch=turn)
        record = CheckpointStored(
            epoch=epoch, version=manifest.version, placed=manifest.placed, manifest=name, digest=digest, restores=True
        )
        writer.append([record])
    finally:
        writer.close()


def _text(found: dict[str, Any], *, is_dry: bool) -> str:
    workers = "1 worker" if found["workers"] == 1 else f"{found['workers']} workers"
    what = f"version {found['version']}, before step {found['step']}, of {workers}"
    steps = f"{found['steps_to_replay']:,} steps" if found["steps_to_replay"] != 1 else "1 step"
    if is_dry:
        return f"would go back to {what}, and replay {steps}; the step log and the inputs reach back to it"
    return f"the next `stepwell run` goes on from {what}, and replays {steps}"
