"""`stepwell graph`: the project as a picture of its sources, views and outputs, without Kafka and without a running service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stepwell.commands.common import SetOption, SpecOption, note, project_of, report_faults
from stepwell.commands.definitions import planning_session
from stepwell.lowering.driver import lower
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.service.page.graph import graph_of
from stepwell.service.page.pictures import PictureFormat, picture


def graph(
    form: Annotated[PictureFormat, typer.Option("--format", help="What to write.")] = "svg",
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Where, if not to standard output.")] = None,
    spec: SpecOption = None,
    conf: SetOption = None,
) -> None:
    """Draw the project: its sources, views and outputs."""
    with report_faults():
        project = project_of(spec, conf)
        with planning_session(project) as (session, kept):
            resolved = resolve(project, session, kept)
        drawn = picture(graph_of(lower(resolved)), topics_of(resolved), form)
        if to is None:
            sys.stdout.write(drawn)
        else:
            to.write_text(drawn, encoding="utf-8")
            note(f"wrote {to}")


def topics_of(resolved: ResolvedProject) -> dict[str, str]:
    """What each source reads and each output writes, by the name for users."""
    read = {
        f"source {source.handle}": f"topic {', '.join(source.topics)}" for source in resolved.sources if source.topics
    }
    written = {
        f"output {view.name}": f"topic {view.output.topic}" for view in resolved.views if view.output is not None
    }
    return {**read, **written}
