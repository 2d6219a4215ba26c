"""The metrics of a status board as tests ask for them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from coordinator.status import StatusBoard
from stepwell.service.metrics.exposition import Exposition


def samples_in(text: str) -> dict[str, float]:
    """By name without `stepwell_`, followed by the values of the labels except the pipeline, each after a colon."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [value for name, value in sample.labels.items() if name != "pipeline"]
            found[":".join([sample.name.removeprefix("stepwell_"), *labels])] = sample.value
    return found


def samples_of(board: StatusBoard) -> dict[str, float]:
    return samples_in(Exposition(board).text()[0].decode())
