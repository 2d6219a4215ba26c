"""`stepwell layout auto`: lets Stepwell choose the number of workers, ends that, or shows what it would have chosen. See docs/layouts.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from base.limits import WORKERS_MAX
from stepwell.commands.common import JsonOption, SetOption, SpecOption, plain_table, project_of, report_faults, show
from stepwell.commands.layout_text import automatic_text, time_text
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, ServiceSilent

if TYPE_CHECKING:
    from coordinator.automatic.replay import Replayed


def auto(
    least: Annotated[
        int | None, typer.Option("--min", min=1, max=WORKERS_MAX, help="At least so many workers.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", min=1, max=WORKERS_MAX, help="At most so many workers.")] = None,
    *,
    off: Annotated[bool, typer.Option("--off", help="From now on only commands change the number of workers.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would have been decided over the recorded load; change nothing."),
    ] = False,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let Stepwell choose the number of workers between --min and --max, by the load; or end that with --off."""
    if off and (least is not None or most is not None or dry_run):
        raise typer.BadParameter("--off has no bounds and no --dry-run")
    if not off and (least is None or most is None):
        raise typer.BadParameter("give --min and --max, or --off")
    if least is not None and most is not None and least > most:
        raise typer.BadParameter(f"--min is {least}, and --max is less: {most}")
    with report_faults(as_json):
        project = project_of(spec, conf)
        if dry_run:
            assert least is not None and most is not None
            found = _replay(project, least, most)
            show(found, as_json=as_json, text=_replay_text(found))
            return
        body = {"off": True} if off else {"min": least, "max": most}
        layout = _ask(project, body)
        show(layout, as_json=as_json, text=_text(layout))


def _ask(project: Project, body: dict[str, Any]) -> dict[str, Any]:
    try:
        return ControlClient(project.state_folder).ask_layout("auto", body)
    except NotRunning as fault:
        raise NotRunning(
            fault.message,
            "Start it with `stepwell run`. The settings stepwell.workers.min and stepwell.workers.max do the same from its start on.",
        ) from None


def _text(layout: dict[str, Any]) -> str:
    if layout["automatic"] is None:
        return "only commands change the number of workers now"
    return automatic_text(layout["automatic"])


def _replay(project: Project, least: int, most: int) -> dict[str, Any]:
    """What would have been decided over the recorded load. Raises StepwellError if there is none."""
    from coordinator.automatic.choice import Surroundings, WorkersLimits
    from coordinator.automatic.load_file import LOAD_FILE, read_load
    from coordinator.automatic.replay import replay

    file, settings = project.state_folder / LOAD_FILE, project.settings.stepwell
    try:
        recorded = read_load(file)
    except OSError as fault:
        raise StepwellError(f"the recorded load {file} cannot be read: {fault}.") from fault
    if not recorded.samples:
        raise StepwellError(
            f"no load was recorded yet in {file}.", "A running service records it, a sample every ten seconds."
        )
    told = _last_status(project)
    sizes, live = told.get("worker_bytes") or {}, told.get("layout", {}).get("measured", {}).get("live")
    replayed = replay(
        [sample for _, sample in recorded.samples],
        [at for at, _ in recorded.samples],
        recorded.gaps,
        limits=WorkersLimits(least, most, settings.workers_drain, settings.workers_lower_after),
        step_rows_max=settings.step_rows_max,
        surroundings=Surroundings(
            state_bytes=sum(sizes.values()) if sizes else None,
            bytes_per_s=None if live is None else live["bytes_per_s"],
        ),
    )
    return _as_json(replayed, recorded.damaged)


def _last_status(project: Project) -> dict[str, Any]:
    """What the service, or the last run, says of the sizes and of how fast slots move."""
    client = ControlClient(project.state_folder)
    try:
        return client.status()
    except (NotRunning, ServiceSilent):
        return client.last_run() or {}


def _as_json(replayed: Replayed, damaged: int) -> dict[str, Any]:
    return {
        "decisions": [
            {
                "at": each.at,
                "from": each.workers,
                "to": each.choice.workers,
                "decision": each.choice.kind,
                "reason": each.choice.reason,
                "is_computed": each.is_computed,
            }
            for each in replayed.decisions
        ],
        "last": {"decision": replayed.last.kind, "reason": replayed.last.reason},
        "workers": replayed.workers,
        "seconds": round(replayed.seconds, 1),
        "worker_hours": {
            "recorded": round(replayed.worker_s_recorded / 3600, 2),
            "then": round(replayed.worker_s / 3600, 2),
        },
        "lag_max": {"recorded": replayed.lag_max_recorded, "then": replayed.lag_max},
        "damaged_lines": damaged,
    }


def _replay_text(found: dict[str, Any]) -> RenderableType:
    hours, lags = found["worker_hours"], found["lag_max"]
    parts: list[RenderableType] = [f"over {time_text(found['seconds'])} of recorded load"]
    if found["decisions"]:
        table = plain_table("time (UTC)", "workers", "because")
        for each in found["decisions"]:
            moment = datetime.fromtimestamp(each["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
            table.add_row(moment, f"{each['from']} to {each['to']}", escape(f"{each['decision']}: {each['reason']}"))
        parts.append(table)
    else:
        parts.append("The number of workers would not have changed.")
    parts.append(escape(f"At the end, {found['last']['decision']}: {found['last']['reason']}"))
    parts.append(
        f"Hours of workers: {hours['then']:,.2f} instead of {hours['recorded']:,.2f}. "
        f"Largest lag: {lags['then']:,} rows instead of {lags['recorded']:,}."
    )
    if any(each["is_computed"] for each in found["decisions"]):
        parts.append("After the first change, the load is computed from what the workers were expected to manage.")
    if found["damaged_lines"]:
        parts.append(f"{found['damaged_lines']} damaged lines of the record were left out.")
    return Group(*parts)
