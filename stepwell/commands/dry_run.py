"""`stepwell dry-run`: the circuit of every view, and everything that is not supported, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from base.fault import ExitCode
from stepwell.commands.common import (
    JsonOption,
    SetOption,
    SpecOption,
    more_about,
    note,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.definitions import planning_session
from stepwell.errors import Location, OwnMistake, ProjectError, raise_all
from stepwell.inspection.dry_run import Description, describe
from stepwell.lowering import driver
from stepwell.lowering.driver import Lowered
from stepwell.planning import resolver
from stepwell.planning.plans import ResolvedProject


def dry_run(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Show the circuit of every view, and what is not supported."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        with planning_session(project) as (session, kept):
            resolved, unresolved = resolver.survey(project, session, kept)
        lowered = driver.survey(resolved)
        description = _described(resolved, lowered, unresolved)
        show(description.to_json(), as_json=as_json, text=description.renderable())
        if errors := [*unresolved, *lowered.errors]:
            note(f"more: {', '.join(dict.fromkeys(link for error in errors for link in more_about(error)))}")
            raise typer.Exit(int(_exit_code(errors)))


def _described(resolved: ResolvedProject, lowered: Lowered, unresolved: Sequence[ProjectError]) -> Description:
    """The description to show. If a bug in Stepwell makes it fail, the errors found so far are raised with it."""
    try:
        return describe(resolved, lowered, unresolved)
    except Exception as error:
        mistake = OwnMistake.of(error, None, Location(resolved.project.spec_file.name))
        raise_all([*unresolved, *lowered.errors, mistake])
        raise


def _exit_code(errors: Sequence[ProjectError]) -> ExitCode:
    return max((error.exit_code for error in errors), key=lambda code: code is ExitCode.INTERNAL)
