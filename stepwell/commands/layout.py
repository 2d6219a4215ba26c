"""`stepwell layout`: which worker owns which part of the state, and how that is changed. See docs/layouts.md.

`show` asks the service, and reads the step log if none runs. `plan` reads the log in any case. `change` makes the change itself if none runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import Group, RenderableType

from base.limits import WORKERS_MAX
from stepwell.commands.common import (
    JsonOption,
    SetOption,
    SpecOption,
    err,
    keep_showing,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.layout_auto import auto
from stepwell.commands.layout_facts import (
    Told,
    chosen_policy,
    free_bytes,
    last_run_of,
    read_layout,
    status_if_it_answers,
    status_of,
)
from stepwell.commands.layout_text import (
    accepted_text,
    done_text,
    layout_text,
    plan_text,
    rescale_text,
)
from stepwell.errors import StepwellError
from stepwell.project.loading import Project
from stepwell.project.units import parse_bytes, parse_duration
from stepwell.service.client import ControlClient, LayoutAsAsked, NotRunning

if TYPE_CHECKING:
    from engine.model.layout import PolicyName

app = typer.Typer(
    help="Which worker owns which part of the state, and how that is changed.",
    no_args_is_help=True,
    add_completion=False,
)

WorkersOption = Annotated[int, typer.Option("--workers", min=1, max=WORKERS_MAX, help="Of the layout to come.")]
PolicyOption = Annotated[
    bool | None,
    typer.Option(
        "--fixed/--dynamic",
        help="How many shards there are: a fixed number, or one that follows the workers. Default: as now.",
    ),
]

NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Return when the service has accepted the change.")]
WaitOption = Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Wait for so long at most.")]

_TIME = re.compile(r".*\d\s*(us|ms|s)\s*", re.IGNORECASE)


@app.command("show")
def show_layout(
    spec: SpecOption = None,
    conf: SetOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the workers with their shares, and how far a change is."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        if watch:
            keep_showing(lambda: _layout_now(project), layout_text, as_json=as_json)
        found = _layout_now(project)
        show(found, as_json=as_json, text=layout_text(found))


def _layout_now(project: Project) -> dict[str, Any]:
    """Returns the layout as the service has it. Without its answer, it is the one in the step log."""
    from stepwell.inspection.layouts import of_log, of_service

    status = status_if_it_answers(project)
    if status is not None and status["layout"]:
        return of_service(status)
    last = last_run_of(project) or {}
    recorded = read_layout(project)
    return of_log(recorded.record, recorded.log, last.get("worker_bytes", {}))


@app.command()
def plan(
    workers: WorkersOption,
    is_fixed: PolicyOption = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a change would move, and about how long it would take."""
    with report_faults(as_json):
        from coordinator.starting.layouts import layout_of
        from stepwell.inspection.layouts import plan_of

        project = project_of(spec, conf)
        recorded = read_layout(project)
        if recorded.log.rescale is not None:
            raise StepwellError(
                "a change of the layout is under way, and no other one can be planned before it is settled.",
                "`stepwell layout show` shows how far it is.",
            )
        policy = chosen_policy(project, _policy_name(is_fixed))
        told = Told(status_if_it_answers(project), last_run_of(project))
        found = plan_of(
            layout_of(recorded.record),
            workers,
            policy,
            told.state_bytes,
            measured=told.measured,
            free=free_bytes(project, told.status),
        )
        show(found, as_json=as_json, text=plan_text(found))


@app.command()
def change(
    workers: WorkersOption,
    *,
    mode: Annotated[
        str | None,
        typer.Option(
            help="live: copies while steps go on, and moves a little between them. cold: stops the steps until all has moved. "
            "Default: live if a service runs."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES,TIME",
            help="What a live change copies before a cut, and what the cut may take: 4m, 20ms, or 4m,20ms.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="What decides which slots a cut of a live change moves. batches: neighbouring slots within the budget. "
            "damion, icadd: protocols that move keys one by one, here slots. Default: batches."
        ),
    ] = None,
    is_fixed: PolicyOption = None,
    no_wait: NoWaitOption = False,
    wait: WaitOption = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the number of workers. Without a running service, the command claims the pipeline, makes a cold change and leaves."""
    _refuse_both(no_wait, wait)
    mode = _mode_now(mode)
    if mode == "cold":
        _refuse_of_live(budget, protocol)
    from io_kafka.step_log.layout_records import CutProtocol, RescaleMode

    bounds, policy = _parsed_budget(budget), _policy_name(is_fixed)
    with report_faults(as_json):
        _refuse_other(mode, get_args(RescaleMode), "a mode of a change")
        _refuse_other(protocol, get_args(CutProtocol), "a protocol of a live change")
        project = project_of(spec, conf)
        try:
            if status_of(project) is None:
                _refuse_without_service(mode, budget, protocol, no_wait or wait is not None)
                status = _rescale_offline(project, workers, policy)
            else:
                body = {"workers": workers, "mode": mode or "live", "protocol": protocol or "batches", **bounds}
                if policy is not None:
                    body["policy"] = policy
                client = ControlClient(project.state_folder)
                status = _ask_rescale(
                    client, "change", body, workers=workers, no_wait=no_wait, wait=wait, quiet=as_json
                )
        except LayoutAsAsked as needless:
            found = _layout_now(project)
            show(found, as_json=as_json, text=Group(needless.message, layout_text(found)))
            return
        _show_rescale(status, as_json=as_json)


@app.command()
def replace(
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST[=NEW]",
            help="The host that is to be free, as `layout show` names it, or the folder of its databases. NEW: the one that takes its place; "
            "without it, Spark decides.",
        ),
    ],
    no_wait: NoWaitOption = False,
    wait: WaitOption = None,
    *,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move everything that the workers of a host have to new workers on other hosts, while steps go on. It needs a running service on a
    cluster."""
    _refuse_both(no_wait, wait)
    former, is_named, new = host.partition("=")
    if not former or (is_named and not new):
        raise typer.BadParameter(f"{host}: write HOST or HOST=NEW", param_hint="HOST[=NEW]")
    with report_faults(as_json):
        client = ControlClient(project_of(spec, conf, may_lack=True).state_folder)
        workers = len(client.status()["layout"]["members"])
        body = {"host": former, "to": new or None}
        status = _ask_rescale(client, "replace", body, workers=workers, no_wait=no_wait, wait=wait, quiet=as_json)
        _show_rescale(status, as_json=as_json)


app.command()(auto)


@app.command()
def pause(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Stop the moves of the change under way. Steps go on if it is live."""
    _ask(spec, conf, "pause", as_json)


@app.command()
def resume(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Go on with a change that is paused."""
    _ask(spec, conf, "resume", as_json)


@app.command()
def reverse(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Move everything back, so that the layout is what it was before the change."""
    _ask(spec, conf, "reverse", as_json)


@app.command()
def abort(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Move nothing more: the slots stay with the workers that have them now, and that becomes the layout."""
    _ask(spec, conf, "abort", as_json)


def _refuse_both(no_wait: bool, wait: float | None) -> None:
    if no_wait and wait is not None:
        raise typer.BadParameter("give --no-wait or --wait, not both")


def _refuse_of_live(budget: str | None, protocol: str | None) -> None:
    """Raises BadParameter for an option that a cold change does not have."""
    if budget is not None:
        raise typer.BadParameter(
            "a cold change has no budget, because no step runs during its cuts", param_hint="--budget"
        )
    if protocol not in (None, "batches"):
        raise typer.BadParameter("a cold change goes by no protocol", param_hint="--protocol")


# Requests


def _ask_rescale(
    client: ControlClient,
    what: str,
    body: dict[str, Any],
    *,
    workers: int,
    no_wait: bool,
    wait: float | None,
    quiet: bool,
) -> dict[str, Any]:
    """Asks the service for a change to so many workers, and returns the last status of it; with `no_wait` the first one. `wait`: seconds at
    most."""
    from stepwell.commands.rescale import follow

    asked = client.ask_layout(what, body)
    return client.status() if no_wait else follow(client, asked, workers, wait, quiet=quiet)


def _rescale_offline(project: Project, workers: int, policy_name: PolicyName | None) -> dict[str, Any]:
    from stepwell.commands.rescale import refuse_without_need, rescale_offline

    policy = chosen_policy(project, policy_name)
    recorded = read_layout(project)
    refuse_without_need(recorded.record, recorded.log, workers, policy)
    return rescale_offline(project, workers, policy, is_recorded=recorded.log.revision is not None)


def _policy_name(is_fixed: bool | None) -> PolicyName | None:
    """What --fixed or --dynamic names; None without either."""
    if is_fixed is None:
        return None
    return "fixed" if is_fixed else "dynamic"


def _mode_now(mode: str | None) -> str | None:
    """Scripts may name a mode of an earlier release."""
    from io_kafka.step_log.layout_records import FORMER_MODES

    now = FORMER_MODES.get(mode)
    if now is None:
        return mode
    err.print(
        f"note: there is no mode {mode} any more. The change is {now}, which copies as {mode} did, without its pause."
    )
    return now


def _refuse_other(word: str | None, known: Sequence[str], what: str) -> None:
    if word is not None and word not in known:
        raise StepwellError(f"{word} is not {what}.", f"Use one of {', '.join(known)}.")


def _refuse_without_service(mode: str | None, budget: str | None, protocol: str | None, waits: bool) -> None:
    asked = {
        f"--mode {mode}": mode == "live",
        "--budget": budget is not None,
        f"--protocol {protocol}": protocol is not None,
        "--no-wait or --wait": waits,
    }
    needed = next((option for option, is_given in asked.items() if is_given), None)
    if needed is not None:
        raise NotRunning(
            f"no service runs for this project, and {needed} needs one.",
            "Start it with `stepwell run`, or leave the option out: the change is cold then, and the command returns when it is settled.",
        )


def _ask(spec: Path | None, conf: list[str] | None, what: str, as_json: bool) -> None:
    with report_faults(as_json):
        found = ControlClient(project_of(spec, conf, may_lack=True).state_folder).ask_layout(what)
        show(found, as_json=as_json, text=accepted_text(what, found))


def _parsed_budget(text: str | None) -> dict[str, Any]:
    """The fields of the request. A part with a unit of time (us, ms, s) is a time, and any other one a size."""
    found: dict[str, Any] = {}
    for part in () if text is None else text.split(","):
        try:
            if _TIME.fullmatch(part):
                name, bound = "budget_ms", 1e3 * parse_duration(part)
            else:
                name, bound = "budget_bytes", parse_bytes(part)
        except ValueError as fault:
            raise typer.BadParameter(f"{part} {fault}; a time is written as 20ms", param_hint="--budget") from None
        if name in found or bound <= 0:
            raise typer.BadParameter(
                f"{text}: write one size, one time, or both, above 0: 4m,20ms", param_hint="--budget"
            )
        found[name] = bound
    return found


# For users


def _show_rescale(status: dict[str, Any], *, as_json: bool) -> None:
    from stepwell.inspection.layouts import of_service

    found = of_service(status)
    if found["change"] is not None:
        text: RenderableType = f"the change has begun: {rescale_text(found['change'])}"
    else:
        done = found["last_change"]
        what = "" if done is None else f": {done_text(done)}"
        text = Group(f"the change is settled{what}", layout_text(found))
    show(found, as_json=as_json, text=text)
