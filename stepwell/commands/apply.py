"""`stepwell apply`: the running service gets the project as it is in the files now. See docs/evolution.md.

It shows what `stepwell plan` shows, asks the user, and then the service. The service plans the files itself and refuses them if they are not
those that were shown.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from base.fault import ExitCode
from stepwell.commands.choices import AppendOption, FromNowOption, GradualOption, RetractOption, body_of, chosen_of
from stepwell.commands.common import (
    JsonOption,
    ReloadOption,
    SetOption,
    SpecOption,
    err,
    note,
    out,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.transition import AwaitedTransition, follow
from stepwell.commands.transition_text import GOES_ON, ended_text, transition_text, ways_out
from stepwell.project.loading import Project
from stepwell.service.client import ControlClient, NotRunning, RevisionRefused

if TYPE_CHECKING:
    from coordinator.revisions.choices import Chosen
    from stepwell.commands.plan import PlanLook


def apply(
    *,
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Fill the new nodes and stop before the switch, until `stepwell revision switch`."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return when the service has accepted the transition.")
    ] = False,
    reload: ReloadOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it begins.")] = False,
    from_now: FromNowOption = None,
    append: AppendOption = None,
    retract: RetractOption = None,
    gradual: GradualOption = False,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the project of the running service to that of the files, without a full refresh."""
    chosen = chosen_of(from_now, append, retract, reload, gradual=gradual)
    with report_faults(as_json):
        project = project_of(spec, conf)
        client = ControlClient(project.state_folder)
        _refuse_now(client)
        look = _shown_plan(project, chosen, as_json=as_json)
        if look.planned.is_nothing and look.planned.is_in_force:
            _show_in_force(client, look, as_json=as_json)
            return
        if not (look.planned.is_nothing or yes):
            _ask_user(as_json=as_json)
        status = client.status()
        _refuse_another_revision(status["revision"], look.number)
        expected = AwaitedTransition(status["revision"] + 1, hold, status["transition_last"])
        answer = _answer(client, look, hold=hold)
        if not no_wait:
            answer = follow(client, expected, answer, quiet=as_json)
        _show_end(answer, look, expected, as_json=as_json)


def _refuse_now(client: ControlClient) -> None:
    """Raises what needs no plan, which takes seconds."""
    from coordinator.revisions.requests import second_transition

    try:
        status = client.status()
    except NotRunning as gone:
        raise NotRunning(
            f"{gone.message.rstrip('.')}. `stepwell apply` needs a running service.",
            "`stepwell run --apply` starts it and applies the change. `stepwell run --as-recorded` starts it without the change, which can be "
            "applied then.",
        ) from None
    if status["transition"] is not None:
        fault = second_transition(status["transition"]["number"])
        raise RevisionRefused(fault.message, fault.what_to_do)
    if not status["revision"]:
        raise RevisionRefused(
            "the service starts, and no revision is in force yet.",
            "Ask again when `stepwell status` shows that it runs.",
        )


def _refuse_another_revision(in_force: int, shown: int) -> None:
    """Raises RevisionRefused if the plan that was shown starts from another revision than the one in force."""
    from coordinator.revisions.requests import another_revision

    if in_force != shown:
        fault = another_revision(in_force, shown)
        raise RevisionRefused(fault.message, fault.what_to_do)


def _shown_plan(project: Project, chosen: Chosen, *, as_json: bool) -> PlanLook:
    """Shows the plan. Ends the command if it is refused."""
    from stepwell.commands.plan import look_at  # Spark and the engine, which no refusal above needs
    from stepwell.inspection.revision_text import revision_json, revision_text

    look = look_at(project, chosen)
    is_refused = not look.planned.can_be_applied
    if is_refused or not as_json:
        text = revision_text(look.planned, look.number)
        show(revision_json(look.planned, look.number), as_json=as_json, text=text)
    if is_refused:
        note("The plan is refused, and nothing was asked of the service.")
        raise typer.Exit(int(ExitCode.PROJECT))
    return look


def _show_in_force(client: ControlClient, look: PlanLook, *, as_json: bool) -> None:
    """The end of a command that has nothing to ask of the service. Another revision for the same project would only be another number."""
    _show_status(
        client.status(),
        look,
        as_json=as_json,
        lines=[f"revision {look.number} is this project already: nothing to apply"],
    )


def _ask_user(*, as_json: bool) -> None:
    """Ends the command unless the user agrees. With --json the plan was not shown."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(
            "apply asks before it changes anything, which it cannot do with --json or without a terminal. Give this option to apply the plan "
            "unasked.",
            param_hint="--yes",
        )
    err.print("Apply this? \\[y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("Nothing was asked of the service.")
        raise typer.Exit(int(ExitCode.INTERRUPTED))


def _answer(client: ControlClient, look: PlanLook, *, hold: bool) -> dict[str, Any]:
    """The service's answer. It plans the files first, which takes seconds."""
    try:
        expected = {"expect_plan": look.key, "expect_revision": look.number}
        return client.ask_revision("apply", {"hold": hold, **expected, **body_of(look.chosen)})
    except KeyboardInterrupt:
        note("The service was asked already and may begin the transition. `stepwell revision show` tells.")
        raise


def _show_end(status: Mapping[str, Any], look: PlanLook, expected: AwaitedTransition, *, as_json: bool) -> None:
    """The last lines. A transition that waits for the user although nobody has asked for that has an exit code of its own."""
    _show_status(status, look, as_json=as_json, lines=_end_lines(status, look, expected))
    transition = status["transition"]
    if expected.stands_still(status) and not (expected.hold and transition["phase"] in ("held", "ready")):
        raise typer.Exit(int(ExitCode.STATE))


def _show_status(status: Mapping[str, Any], look: PlanLook, *, as_json: bool, lines: list[str]) -> None:
    """The plan and the status for programs, or the lines for people, because these have seen the plan."""
    from stepwell.inspection.revision_text import revision_json

    if as_json:
        answer = {name: status[name] for name in ("revision", "transition", "transition_last")}
        show({"plan": revision_json(look.planned, look.number), **answer}, as_json=True, text="")
    else:
        for line in lines:
            out.print(escape(line))


def _end_lines(status: Mapping[str, Any], look: PlanLook, expected: AwaitedTransition) -> list[str]:
    transition, ended = status["transition"], expected.ending(status)
    if ended is not None:
        return [ended_text(ended, look.planned.kept_share)]
    if status["revision"] >= expected.number:
        return [f"revision {status['revision']} is in force"]
    if expected.stands_still(status):
        return [transition_text(transition), *ways_out(transition)]
    begun = f"the transition to revision {expected.number}" if transition is None else transition_text(transition)
    return [f"the service has accepted it: {begun}. It goes on: {GOES_ON}"]
