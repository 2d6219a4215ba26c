"""What is shipped for monitoring: a dashboard for Grafana, and alert rules for Prometheus. `stepwell metrics` prints them."""

from __future__ import annotations

from importlib import resources

DASHBOARD = "grafana-dashboard.json"
ALERTS = "alerts.yml"


def shipped_text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()
