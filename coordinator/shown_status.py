"""What a status means that a service shows as JSON, for commands that have nothing else of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WAITING_FOR_KAFKA = "waiting for Kafka"


def next_step_of(status: Mapping[str, Any]) -> int:
    """The step that comes next, by a status as a service shows it."""
    has_run = status["steps_run"] + status["steps_replayed"] > 0
    return int(status["step"] + 1 if has_run else status["checkpoint_step"])
