"""`stepwell revision`: which revision of the project is in force, and the transition to the next one. See docs/evolution.md.

`show` reads the step log if no service runs. All else needs a service.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from base.fault import Fault
from stepwell.commands.common import JsonOption, SetOption, SpecOption, keep_showing, project_of, report_faults, show
from stepwell.commands.transition_text import GOES_ON, ended_text, in_error_text, transition_text, whole_text
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, ServiceSilent

app = typer.Typer(
    help="Which revision of the project is in force, and the transition to the next one.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("show")
def show_revision(
    spec: SpecOption = None,
    conf: SetOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the revision in force, and how far the transition to the next one is."""
    with report_faults(as_json):
        look = _looks_at(project_of(spec, conf))
        if watch:
            keep_showing(look, _revision_text, as_json=as_json)
        found = look()
        show(found, as_json=as_json, text=_revision_text(found))


@app.command()
def pause(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Stop filling the new nodes. Steps go on."""
    _ask(spec, conf, "pause", as_json)


@app.command()
def resume(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Go on with a transition that is paused, or fill one that is detached from the beginning."""
    _ask(spec, conf, "resume", as_json)


@app.command()
def switch(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Make the switch that is held."""
    _ask(spec, conf, "switch", as_json)


@app.command()
def abort(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Take everything back: the revision in force stays."""
    _ask(spec, conf, "abort", as_json)


def _ask(spec: Path | None, conf: list[str] | None, what: str, as_json: bool) -> None:
    with report_faults(as_json):
        found = ControlClient(project_of(spec, conf, may_lack=True).state_folder).ask_revision(what)
        show(found, as_json=as_json, text=escape(_accepted_text(what, found)))


def _accepted_text(what: str, found: dict[str, Any]) -> str:
    if (under_way := found["transition"]) is not None:
        told = f"the service has accepted to {what} the transition: {transition_text(under_way)}"
        if what == "switch" and (wrong := in_error_text(under_way)):
            told += f"\nThe switch accepts rows in error: {wrong}"
        return f"{told}\n{GOES_ON}" if what in ("switch", "abort") else told
    ended = found["transition_last"]
    return "the transition is settled" if ended is None else ended_text(ended)


def _looks_at(project: Project) -> Callable[[], dict[str, Any]]:
    """What looks at the revision: at the service, or without its answer at the step log. The log is read once for each revision."""
    from stepwell.inspection.revisions import of_log, of_service

    client, records = ControlClient(project.state_folder), dict[int, Any]()

    def look() -> dict[str, Any]:
        try:
            status = client.status()
        except (NotRunning, ServiceSilent):
            log = _log(project)
            if log.revision is None:
                raise StepwellError(
                    f"the state of {project.name} has no revision yet.", "Its first run makes it: `stepwell run`."
                ) from None
            return of_log(log, _with_document(project, log.revision), project.name)
        number = status["revision"]
        if number not in records:
            records[number] = _record_beside_a_service(project)
        return of_service(status, project.name, records[number])

    return look


def _record_beside_a_service(project: Project) -> Any:
    """The record of the revision in force. None if it cannot be read: the service has said what matters."""
    try:
        record = _log(project).revision
    except Fault:
        return None
    return None if record is None else _with_document(project, record)


def _with_document(project: Project, record: Any) -> Any:
    from stepwell.commands import steps
    from stepwell.inspection.revisions import InForce

    return InForce(record, steps.read_document(project, record))


def _log(project: Project) -> Any:
    from stepwell.commands.steps import read_log

    return read_log(project)


def _revision_text(found: dict[str, Any]) -> RenderableType:
    since = "" if found["since_step"] is None else f", in force from step {found['since_step']:,} on"
    place = f"topic {found['plan_topic']}"
    plan = f"Its plan document is {found['plan']} in {place}." if found["plan"] else f"Its plan document is in {place}."
    parts: list[RenderableType] = [f"revision {found['revision']}{since}", escape(plan)]
    for each in found["counts_from"] or ():
        offsets = ", ".join(f"{where} from offset {at:,}" for where, at in each["offsets"].items())
        told = f"{', '.join(each['views'])}: source {each['source']} counts from revision {each['revision']} on ({offsets})"
        parts.append(escape(told))
    if found["transition"] is not None:
        parts += whole_text(found["transition"])
        if not found["is_running"]:
            parts.append("No service runs. The next `stepwell run` goes on with the transition.")
    elif found["transition_last"] is not None:
        parts.append(f"The last transition: {escape(ended_text(found['transition_last']))}.")
    for view, why in sorted((found.get("in_error") or {}).items()):
        parts.append(escape(f"View {view} is in error, and its output is withheld: {why}"))
    return Group(*parts)
