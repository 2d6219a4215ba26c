"""`stepwell backup`: versions of the checkpoint store that are kept. They work with and without a running service, and fence nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group

from base.fault import ExitCode
from base.sizes import size_text
from coordinator.shown_status import ENDED_PHASES, next_step_of
from coordinator.storing import backups as kept
from coordinator.storing.backups import REASONS_MAX, Backup, why_not_reached
from coordinator.storing.manifest import DamagedManifest, backup_name, backup_objects, read_manifest
from coordinator.storing.presence import lost_of_each
from coordinator.storing.verifying import Verifying
from stepwell.commands.common import (
    JsonOption,
    SetOption,
    SpecOption,
    note,
    plain_table,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.steps import read_log
from stepwell.commands.store_access import begins_of, log_id_of, store_of, stored_of, while_it_is_replaced
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning
from storage.remote.errors import ObjectMissing, StoreFault
from storage.remote.retrying_store import RetryingStore

app = typer.Typer(help="Keep checkpoints of the checkpoint store.", no_args_is_help=True, add_completion=False)

STORED_SECONDS_MAX = 600.0
"""How long a backup waits until the service has stored its present checkpoint. A first upload of 100 GB takes about so long."""

ASK_SECONDS = 5.0
"""Between two orders to make a checkpoint."""

LAST = "the version that was stored last"
"""How the text of `verify` calls it."""

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the backup.")]


@app.command()
def create(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Default: the time, in UTC.")] = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the present state. A running service makes a checkpoint and stores it; steps go on."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        store = store_of(project)
        chosen = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ") if name is None else name
        kept.object_of(project.name, chosen)  # a bad name is refused before anything is stored
        _have_stored(project)
        found = while_it_is_replaced(
            lambda: kept.create(store, project.name, chosen, stored_of(project.name, read_log(project))), is_last=True
        )
        text = f"backup {found.name}: version {found.version}, before step {found.step}, {size_text(found.bytes)}"
        show(found.to_json(), as_json=as_json, text=text)


def _have_stored(project: Project) -> None:
    """If a service runs, it makes a checkpoint and stores it. Without one, the last stored version is what there is. A store that is away is
    waited for, and one that refuses a right is not. What it has refused before does not count: the right may have been granted since. Raises
    StepwellError and StoreFault."""
    client = ControlClient(project.state_folder)
    try:
        before = client.status()
    except NotRunning:
        return
    if before.get("store") is None:
        raise StepwellError(
            "the running service has no checkpoint store: it was started before stepwell.store was set.",
            "Stop it with `stepwell stop`, and start it again.",
        )
    wanted, told, refusals = next_step_of(before), "", _refusals(before)
    deadline = time.monotonic() + STORED_SECONDS_MAX
    while time.monotonic() < deadline:
        client.ask("checkpoint")  # again, because one that was under way may be of an earlier step
        now = _status_within(ASK_SECONDS, client, wanted)
        if now is None or now["phase"] in ENDED_PHASES:
            raise NotRunning(
                "the service ended meanwhile, and the backup was not made.", "Make it without the service."
            )
        if _is_over(now, wanted):
            return
        fault = (now["store"] or {}).get("fault")
        if _refusals(now) > refusals:
            raise StoreFault(f"The running service cannot store its checkpoint, and the backup was not made: {fault}")
        if fault and fault != told:
            told = fault
            note(f"waiting for the store, for {STORED_SECONDS_MAX:.0f} s at most: {fault}")
    fault = (client.status()["store"] or {}).get("fault") or "it is slow"
    raise StepwellError(
        f"the service has not stored its checkpoint within {STORED_SECONDS_MAX:.0f} s: {fault}",
        "`stepwell status` shows what the store does, and `stepwell doctor` tries it.",
    )


def _status_within(seconds: float, client: ControlClient, wanted: int) -> dict[str, Any] | None:
    """The first status that is over, or the last one; None if the service has ended."""
    until = time.monotonic() + seconds
    return client.wait(lambda status: _is_over(status, wanted) or time.monotonic() > until, 2 * seconds)


def _refusals(status: dict[str, Any]) -> int:
    """How often the store has refused the service a right; 0 from a service of a release that does not count it."""
    return int((status["store"] or {}).get("refusals", 0))


def _is_over(status: dict[str, Any], wanted: int) -> bool:
    step = (status["store"] or {}).get("step")
    return status["phase"] in ENDED_PHASES or (step is not None and step >= wanted)


@app.command("list")
def list_backups(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Show the backups, and whether the step log and the inputs still reach back to them."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        found = _judge_backups(project)
        show([backup.to_json() for backup in found], as_json=as_json, text=_list_text(found))


def _judge_backups(project: Project) -> list[Backup]:
    store, log = store_of(project), read_log(project)
    log_id, begins = log_id_of(project), begins_of(project, log)
    found = kept.backups(store, project.name)
    readable = [manifest for _, manifest in found if manifest is not None]
    lost = dict(zip(map(id, readable), lost_of_each(store, readable), strict=True))
    judged: list[Backup] = []
    for backup, manifest in found:
        if manifest is not None:
            reasons = why_not_reached(manifest, log, log_id, begins)
            gone = lost[id(manifest)]
            problem = reasons[0] if reasons else f"{len(gone)} of its objects are missing or damaged" if gone else ""
            backup = replace(backup, problem=problem)
        judged.append(backup)
    return judged


def _list_text(found: list[Backup]) -> Group | str:
    if not found:
        return "no backups"
    table = plain_table("backup", "version", "before step", "workers", "bytes", "can be restored")
    for backup in found:
        table.add_row(
            backup.name,
            str(backup.version),
            str(backup.step),
            str(backup.workers),
            size_text(backup.bytes),
            f"no: {backup.problem}" if backup.problem else "yes",
        )
    return Group(table)


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: all backups, and the version that was stored last.")
    ] = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the objects of backups whole, and compare them with their checksums. A store that breaks off is waited for. Nothing is written."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        store = RetryingStore(store_of(project))
        verifying = Verifying(store)
        names = (
            [name] if name is not None else sorted(filter(None, map(backup_name, backup_objects(store, project.name))))
        )
        found = {f"backup {each}": _verify_backup(verifying, project.name, each) for each in names}
        if name is None:
            found[LAST] = while_it_is_replaced(lambda: _verify_last(verifying, project), is_last=True)
        show(
            {shown: [fault.message for fault in faults] for shown, faults in found.items()},
            as_json=as_json,
            text=_verified_text(found, verifying),
        )
        if any(found.values()):
            raise typer.Exit(ExitCode.STATE)


def _verify_backup(verifying: Verifying, pipeline: str, name: str) -> list[StoreFault]:
    """What is wrong with the objects of a backup, or with its manifest. Raises BadBackup if there is none, and faults of the store."""
    try:
        _, _, manifest = kept.read_backup(verifying.store, pipeline, name)
    except DamagedManifest as fault:
        return [fault]
    return verifying.verify(manifest)


def _verify_last(verifying: Verifying, project: Project) -> list[StoreFault]:
    """What is wrong with the objects of the version that was stored last. Raises ObjectMissing if one is missing, which a service may have
    deleted because it has stored a newer version since; and faults of the store and of Kafka."""
    stored = stored_of(project.name, read_log(project))
    faults = verifying.verify(read_manifest(verifying.store, stored.manifest, stored.digest))
    for fault in faults:
        if isinstance(fault, ObjectMissing):
            raise fault
    return faults


def _verified_text(found: dict[str, list[StoreFault]], verifying: Verifying) -> str:
    reasons = {shown: "; ".join(fault.message for fault in faults[:REASONS_MAX]) for shown, faults in found.items()}
    lines = [f"{shown}: {reason or 'whole'}" for shown, reason in reasons.items()]
    count = len(verifying.object_faults)
    return "\n".join([*lines, f"{count} object{'s' if count != 1 else ''} read, {size_text(verifying.read_bytes)}"])


@app.command()
def delete(name: NameArgument, spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Delete a backup. What only it needs goes with the next stored checkpoint."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        kept.delete(store_of(project), project.name, name)
        show({"deleted": name}, as_json=as_json, text=f"backup {name} is deleted")
