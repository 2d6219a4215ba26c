"""`stepwell restore`: goes back to a version of the checkpoint store. The next run replays the steps since, and compares their output.

With --from the project gets a copy of another pipeline's state (copying.py), and with --to databases are made in another folder (restore_to.py).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from base.term import Term
from coordinator.cloning.source import StoredVersion
from coordinator.storing.backups import kept_for_next_run, why_not_reached
from coordinator.storing.presence import check_objects
from io_kafka.step_log.records import CheckpointStored
from io_kafka.step_log.state import StepLogState
from stepwell.commands.choices import AppendOption, FromNowOption, chosen_of
from stepwell.commands.claiming import claim_pipeline
from stepwell.commands.common import JsonOption, SetOption, SpecOption, project_of, report_faults, show
from stepwell.commands.steps import read_log
from stepwell.commands.store_access import (
    WantedVersion,
    begins_of,
    log_id_of,
    store_of,
    version_to_restore,
    while_it_is_replaced,
)
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from storage.remote.objects_protocol import ObjectStore

if TYPE_CHECKING:
    from stepwell.commands.restore_to import RestoreReport


def restore(
    *,
    backup: Annotated[
        str | None, typer.Option("--backup", metavar="NAME", help="Default: the checkpoint that was stored last.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=0, help="The same, by the number of the version.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PIPELINE", help="Begin with the state of this pipeline. The project's own must be new."
        ),
    ] = None,
    origin_store: Annotated[
        str | None,
        typer.Option(
            "--from-store", metavar="URI", help="The checkpoint store of that pipeline, if it is not the project's."
        ),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FOLDER", help="Make the databases below this storage folder, and change nothing else."
        ),
    ] = None,
    from_now: FromNowOption = None,
    append: AppendOption = None,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")] = False,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go back to a stored checkpoint, or begin with that of another pipeline. No service may run, except with --to. Nothing is taken back: the
    next run computes the steps since again, and compares them."""
    wanted = _parse_wanted(backup, version)
    chosen = chosen_of(from_now, append, None, None, gradual=False)
    for given, needed in ((origin_store, "--from-store"), (from_now, "--from-now"), (append, "--append")):
        if given and origin is None:
            raise typer.BadParameter("it belongs to --from PIPELINE", param_hint=needed)
    if folder is not None:
        _check_folder(folder, has_origin=origin is not None)
    with report_faults(as_json):
        project = project_of(spec, conf)
        if origin is not None:
            from stepwell.commands.copying import CopyOrder, copy  # it plans the files

            copied = copy(project, CopyOrder(origin, origin_store, wanted, chosen, is_dry))
            show(copied.to_json(), as_json=as_json, text=copied.text)
        elif folder is not None:
            made = _make_databases(project, wanted, Path(folder), is_dry=is_dry)
            show(made.to_json(), as_json=as_json, text=made.text)
        else:
            found = _restore_own(project, wanted, is_dry=is_dry)
            show(found, as_json=as_json, text=_text(found, is_dry=is_dry))


def _check_folder(folder: str, *, has_origin: bool) -> None:
    """Raises BadParameter for a folder that is not one, or that goes with another pipeline."""
    if has_origin:
        raise typer.BadParameter(
            "a copy of another pipeline is made in the checkpoint store, and restored by its first run: leave it out",
            param_hint="--to",
        )
    if not folder.strip():
        raise typer.BadParameter("it names no folder", param_hint="--to")


def _make_databases(project: Project, wanted: WantedVersion, folder: Path, *, is_dry: bool) -> RestoreReport:
    """Makes the databases of the wanted version below the folder. Nothing else changes."""
    from stepwell.commands.restore_to import restore_to

    _, stored = _wanted_now(project, store_of(project), wanted)
    return restore_to(project, stored, folder, is_dry=is_dry)


def _restore_own(project: Project, wanted: WantedVersion, *, is_dry: bool) -> dict[str, Any]:
    """Lets the pipeline go back to the wanted version, or tells what that would do."""
    store = store_of(project)
    planned = _plan_restore(project, *_wanted_now(project, store, wanted))
    return planned if is_dry else _go_back(project, store, wanted)


def _parse_wanted(backup: str | None, version: int | None) -> WantedVersion:
    if backup is not None and version is not None:
        raise typer.BadParameter("give the name of a backup or a version, not both", param_hint="--version")
    return WantedVersion(backup, version)


def _wanted_now(project: Project, store: ObjectStore, wanted: WantedVersion) -> tuple[StepLogState, StoredVersion]:
    """The step log, and the version that is wanted with all its objects. Raises StepwellError if there is none, and faults of Kafka and of the
    store: ObjectMissing or DamagedPack if an object of the version cannot be used."""

    def attempt() -> tuple[StepLogState, StoredVersion]:
        log = read_log(project)
        stored = version_to_restore(store, project.name, log, wanted)
        check_objects(store, stored.manifest)
        return log, stored

    return while_it_is_replaced(attempt, is_last=wanted.is_last)


def _plan_restore(project: Project, log: StepLogState, stored: StoredVersion) -> dict[str, Any]:
    """What a restore would do. Raises StepwellError if it cannot be done."""
    manifest = stored.manifest
    version = manifest.version
    reasons = why_not_reached(manifest, log, log_id_of(project), begins_of(project, log))
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


def _go_back(project: Project, store: ObjectStore, wanted: WantedVersion) -> dict[str, Any]:
    """Claims the pipeline, so that no run goes on from a later checkpoint, and records the version. It is looked for again after the claim,
    because a service that has ended since may have replaced it. Returns what was done. Raises HeldByAnother, what `_plan_restore` raises, and
    faults of Kafka."""
    writer = claim_pipeline(project)
    with closing(writer.log):
        try:
            log, stored = _wanted_now(project, store, wanted)
            found = _plan_restore(project, log, stored)
            name, digest = stored.name, stored.digest
            if not wanted.is_last:  # the backup may be deleted before the next run has restored it
                name, digest = kept_for_next_run(store, stored.manifest, Term(writer.epoch, 0))
            record = CheckpointStored(
                epoch=writer.epoch,
                version=stored.manifest.version,
                placed=stored.manifest.placed,
                manifest=name,
                digest=digest,
                restores=True,
            )
            writer.log.append([record])
        finally:
            writer.log.record_end()
    return found


def _text(found: dict[str, Any], *, is_dry: bool) -> str:
    workers = "1 worker" if found["workers"] == 1 else f"{found['workers']} workers"
    what = f"version {found['version']}, before step {found['step']}, of {workers}"
    steps = f"{found['steps_to_replay']:,} steps" if found["steps_to_replay"] != 1 else "1 step"
    if is_dry:
        return f"would go back to {what}, and replay {steps}; the step log and the inputs reach back to it"
    return f"the next `stepwell run` goes on from {what}, and replays {steps}"
