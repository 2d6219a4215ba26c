"""The table of all metrics, in the order in which they are documented."""

from __future__ import annotations

from stepwell.service.metrics.changes import OF_CHANGES
from stepwell.service.metrics.metric import Metric
from stepwell.service.metrics.state import OF_STATE
from stepwell.service.metrics.steps import OF_STEPS

SECTIONS: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    ("Input, steps and output", OF_STEPS),
    ("Service, state and checkpoints", OF_STATE),
    ("Changes of the layout and of the project", OF_CHANGES),
)

METRICS = tuple(metric for _, metrics in SECTIONS for metric in metrics)
