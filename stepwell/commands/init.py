"""`stepwell init NAME`: a project folder that runs without changes against the local broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from stepwell.commands.common import JsonOption, report_faults, show
from stepwell.errors import ProjectError, did_you_mean
from stepwell.project.templates import EXAMPLES, write_project

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


def init(
    name: Annotated[str, typer.Argument(help="Of the project, and of its folder.")],
    *,
    example: Annotated[
        str | None,
        typer.Option(
            metavar="EXAMPLE", help="Make an example in place of the starter: orders, a shop with a generator."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new project."""
    with report_faults(as_json):
        folder = Path.cwd() / name
        if not _NAME.fullmatch(name):
            raise ProjectError(
                f"{name!r} cannot name a project",
                "Use letters, digits, _ and -, a letter first: topics will begin with it.",
            )
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ProjectError(f"{folder} is there already", "Choose another name, or move it away.")
        if example is not None and example not in EXAMPLES:
            raise ProjectError(f"there is no example {example!r}", did_you_mean(example, EXAMPLES, "examples"))
        files = [str(path.relative_to(folder)) for path in write_project(folder, name, example)]
        send = "python send.py 1000" if example is None else "python generate.py"
        commands = [f"cd {name}", "stepwell dev up", "stepwell dry-run", "stepwell run", send]
        text = f"made {folder}:\n  " + "\n  ".join(files) + "\nnext:\n  " + "\n  ".join(commands)
        text += "   # in another terminal, while it runs"
        show({"folder": str(folder), "files": files, "next": commands}, as_json=as_json, text=text)
