"""What a status means that a service shows as JSON, for commands that have nothing else of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

ServicePhase = Literal[
    "starting",
    "recovering",
    "run",
    "paused",
    "changing",
    "stopping",
    "stopped",
    "failed",
    "waiting for the checkpoint store",
    "waiting for Kafka",
]
"""What a service does. In `changing` no step begins for some moments, because the layout changes."""

WAITING_FOR_KAFKA: Final = "waiting for Kafka"
WAITING_FOR_STORE: Final = "waiting for the checkpoint store"

LAG_IS_STALE: tuple[ServicePhase, ...] = ("recovering", "paused", "stopping", WAITING_FOR_STORE, WAITING_FOR_KAFKA)
"""In which no step is divided, so that the lag is what it was when the last one was."""

ENDED_PHASES: tuple[ServicePhase, ...] = ("stopped", "failed")
READY_PHASES: tuple[ServicePhase, ...] = ("run", "changing")
"""In which a pipeline keeps up with its input."""


def next_step_of(status: Mapping[str, Any]) -> int:
    """The step that comes next, by a status as a service shows it."""
    has_run = status["steps_run"] + status["steps_replayed"] > 0
    return int(status["step"] + 1 if has_run else status["checkpoint_step"])
