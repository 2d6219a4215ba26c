"""`stepwell plan`: what the project in the files would do to the state and the outputs of the pipeline. It changes nothing."""

from __future__ import annotations

import typer

from base.fault import ExitCode
from coordinator.revisions.planned import planned
from stepwell.commands.common import JsonOption, SetOption, SpecOption, project_of, report_faults, show
from stepwell.commands.spark import spark_session
from stepwell.inspection.recorded import recorded
from stepwell.inspection.revision_text import revision_json, revision_text
from stepwell.lowering.driver import lower
from stepwell.planning.resolver import resolve
from stepwell.planning.revisions import document_of_project


def plan(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Show what the project in the files would do to state and outputs."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        with spark_session(project) as session:
            resolved = resolve(project, session)
            now = document_of_project(resolved, lower(resolved))
        in_force = recorded(project, now)
        found = planned(in_force.document, now, in_force.facts)
        show(revision_json(found, in_force.number), as_json=as_json, text=revision_text(found, in_force.number))
        if not found.can_be_applied:
            raise typer.Exit(int(ExitCode.PROJECT))
