"""`stepwell plan`: what the project in the files would do to the state and the outputs of the pipeline. It changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import typer

from base.fault import ExitCode
from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.loads import chosen_tables, with_loads, with_other_files
from coordinator.revisions.plan_key import key_of_project
from coordinator.revisions.planned import Planned, plan_change
from coordinator.revisions.requests import second_transition
from stepwell.commands.choices import AppendOption, FromNowOption, GradualOption, RetractOption, chosen_of
from stepwell.commands.common import (
    JsonOption,
    ReloadOption,
    SetOption,
    SpecOption,
    note,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.definitions import planning_session
from stepwell.inspection.recorded_revision import read_recorded
from stepwell.inspection.revision_text import revision_json, revision_text
from stepwell.lowering.driver import lower
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project
from stepwell.project.loading import Project

NOT_YET = "new"
"""The id of the loads of a transition that nobody has asked for. No load has it."""


@dataclass(frozen=True)
class PlanLook:
    """What the files would do. `number`: of the revision in force. `key`: of what was planned (`key_of_project`). `chosen`: by the user.
    `under_way`: see RecordedProject."""

    planned: Planned
    number: int
    key: str
    chosen: Chosen = NOTHING_CHOSEN
    under_way: int | None = None


def plan(
    *,
    spec: SpecOption = None,
    conf: SetOption = None,
    from_now: FromNowOption = None,
    append: AppendOption = None,
    retract: RetractOption = None,
    gradual: GradualOption = False,
    reload: ReloadOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the project in the files would do to state and outputs."""
    chosen = chosen_of(from_now, append, retract, reload, gradual=gradual)
    with report_faults(as_json):
        found = look_at(project_of(spec, conf), chosen)
        text = revision_text(found.planned, found.number)
        show({**revision_json(found.planned, found.number), "under_way": found.under_way}, as_json=as_json, text=text)
        if found.under_way is not None and not as_json:
            fault = second_transition(found.under_way)
            note(f"{fault.message[0].upper()}{fault.message[1:]} {fault.what_to_do}")
        if not found.planned.can_be_applied:
            raise typer.Exit(int(ExitCode.PROJECT))


def look_at(project: Project, chosen: Chosen = NOTHING_CHOSEN) -> PlanLook:
    """Starts Spark, which plans the files. Raises UnknownTable, ChoiceRefused, what `recorded` raises, and faults of the project."""
    with planning_session(project) as (session, kept):
        resolved = resolve(project, session, kept)
        now = document_of_project(resolved, lower(resolved))
    handles = chosen_tables(chosen.reload, now.inputs)
    in_force = read_recorded(project, now)
    number = in_force.number
    inputs = with_loads(now.inputs, in_force.document.inputs, handles, NOT_YET)
    facts = replace(in_force.facts, other_files=with_other_files(now.inputs, in_force.document.inputs))
    found = plan_change(in_force.document, replace(now, inputs=inputs), facts, chosen, number=number)
    return PlanLook(found, number, key_of_project(now), chosen, in_force.under_way)
