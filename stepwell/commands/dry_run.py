"""`stepwell dry-run`: every view in a line, and what is not supported, without Kafka. `--explain VIEW` shows the circuit of a view.

Spark's JVM takes seconds to start. So this module loads little, and the rest is loaded meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from base.fault import ExitCode
from stepwell.commands.common import (
    JsonOption,
    SetOption,
    SpecOption,
    more_about,
    more_line,
    note,
    project_of,
    report_faults,
    show,
)
from stepwell.commands.definitions import planning_session
from stepwell.errors import Location, OwnMistake, ProjectError, did_you_mean, raise_all

if TYPE_CHECKING:
    from stepwell.inspection.dry_run import ProjectDescription
    from stepwell.lowering.driver import Lowered
    from stepwell.planning.plans import ResolvedProject


def dry_run(
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VIEW", help="Show also how this view is computed, and what it keeps. May be given several times."
        ),
    ] = None,
    spec: SpecOption = None,
    conf: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every view in a line, and what is not supported."""
    with report_faults(as_json):
        project = project_of(spec, conf)
        with planning_session(project, ends_with_process=True) as (session, kept):
            from stepwell.lowering import driver
            from stepwell.planning import resolver

            resolved, unresolved = resolver.resolve_with_errors(project, session, kept)
            lowered = driver.lower_with_errors(resolved)
        description = _description(resolved, lowered, unresolved)
        explained = _views_to_explain(description, explain or ())
        show(description.to_json(), as_json=as_json, text=description.renderable(explained))
        if errors := [*unresolved, *lowered.errors]:
            note(more_line(list(dict.fromkeys(link for error in errors for link in more_about(error)))))
            raise typer.Exit(int(_exit_code(errors)))


def _views_to_explain(description: ProjectDescription, asked: Sequence[str]) -> set[str]:
    """The names of the views that are asked for, which may be written in upper or lower case. Raises ProjectError for one that is not there."""
    known = {view.name.lower(): view.name for view in description.views}
    for name in asked:
        if name.lower() not in known:
            raise ProjectError(f"there is no view {name} to explain", did_you_mean(name, known.values(), "views"))
    return {known[name.lower()] for name in asked}


def _description(resolved: ResolvedProject, lowered: Lowered, unresolved: Sequence[ProjectError]) -> ProjectDescription:
    """The description to show. If a bug in Stepwell makes it fail, the errors found so far are raised with it."""
    from stepwell.inspection.dry_run import describe

    try:
        return describe(resolved, lowered, unresolved)
    except Exception as error:
        mistake = OwnMistake.of(error, None, Location(resolved.project.spec_file.name))
        raise_all([*unresolved, *lowered.errors, mistake])
        raise


def _exit_code(errors: Sequence[ProjectError]) -> ExitCode:
    return max((error.exit_code for error in errors), key=lambda code: code is ExitCode.INTERNAL)
