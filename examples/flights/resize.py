"""Changes the number of workers while the service runs, with `stepwell layout change`, and says what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from examples.flights.service import Service

LOOK_SECONDS = 0.1
"""Between two looks whether the command has ended."""


@dataclass(frozen=True)
class Resized:
    """All are the service's own figures. `longest_step_ms`: of the steps meanwhile. `paused_ms`: the longest time in which no step could begin
    because of the change."""

    workers_before: int
    workers_after: int
    mode: str
    bytes_moved: int
    seconds: float
    cuts: int
    longest_cut_ms: float
    longest_step_ms: float
    paused_ms: float


def resize(service: Service, more: int) -> Resized:
    """Adds so many workers, live. Raises ServiceFailed."""
    before = len(service.look()["layout"]["members"])
    with service.beginning("layout", "change", "--workers", str(before + more), "--mode", "live") as ended:
        while not ended():
            time.sleep(LOOK_SECONDS)
    done = service.look()["layout"]["last_change"]
    return Resized(
        workers_before=before,
        workers_after=done["workers"],
        mode=done["mode"],
        bytes_moved=done["bytes_moved"],
        seconds=done["elapsed_s"],
        cuts=done["cuts"],
        longest_cut_ms=done["longest_cut_ms"],
        longest_step_ms=done["longest_step_ms"],
        paused_ms=done["longest_pause_ms"],
    )
