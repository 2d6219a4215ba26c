"""What a service and its process for queries must agree on: see query_process.py."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.project.loading import Project

NOT_HERE = b'{"not_here"'
"""With it begins an answer that says why there is none."""


@dataclass(frozen=True)
class Started:
    """The project as the service was started with it. `idle_s`: without a query for so long the process ends; None if it stays."""

    project: Project
    idle_s: float | None
