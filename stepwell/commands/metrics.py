"""`stepwell metrics`: what Prometheus gets from the service, and what is shipped for it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stepwell.commands.common import SetOption, SpecOption, project_of, report_faults
from stepwell.service.client import ControlClient
from stepwell.service.monitoring import ALERTS, DASHBOARD, shipped_text


def metrics(
    spec: SpecOption = None,
    conf: SetOption = None,
    *,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Print a dashboard for Grafana (JSON).")] = False,
    alerts: Annotated[bool, typer.Option("--alerts", help="Print alert rules for Prometheus (YAML).")] = False,
) -> None:
    """Show the metrics of the service, or the dashboard and the alert rules that come with them."""
    if dashboard and alerts:
        raise typer.BadParameter("give --dashboard or --alerts")
    with report_faults():
        if dashboard or alerts:
            text = shipped_text(DASHBOARD if dashboard else ALERTS)
        else:
            text = ControlClient(project_of(spec, conf).state_folder).metrics()
        sys.stdout.write(text)
