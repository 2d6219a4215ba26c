"""`stepwell page`: what the pipeline does, in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from stepwell.commands.common import JsonOption, SetOption, SpecOption, project_of, report_faults, show
from stepwell.service.client import ControlClient


def page(
    spec: SpecOption = None,
    conf: SetOption = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Open the page of the running service in a browser."""
    with report_faults(as_json):
        address = ControlClient(project_of(spec, conf).state_folder).page()
        is_open = not no_open and webbrowser.open(address)
        text = (
            "opened in the browser"
            if is_open
            else f"{address}\n(good once, within a minute, in a browser on this host)"
        )
        show({"url": address, "opened": is_open}, as_json=as_json, text=text)
