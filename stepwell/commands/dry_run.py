"""`stepwell dry-run`: the circuit of every view, and everything that is not supported, without Kafka."""

from __future__ import annotations

import typer

from stepwell.commands.common import Exit, JsonOption, SetOption, SpecOption, project_of, reported, show
from stepwell.commands.spark import spark_session
from stepwell.inspection.dry_run import describe
from stepwell.planning.plans import resolve


def dry_run(spec: SpecOption = None, conf: SetOption = None, as_json: JsonOption = False) -> None:
    """Show the circuit of every view, and what is not supported."""
    with reported(as_json):
        project = project_of(spec, conf)
        with spark_session(project) as session:
            description = describe(resolve(project, session))
        show(description.to_json(), as_json=as_json, text=description.renderable())
        if description.errors:
            raise typer.Exit(int(Exit.PROJECT))
