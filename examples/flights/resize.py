"""Changes the number of workers while the service runs, with `stepwell layout change`, and says what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from examples.flights.service import Service

LOOK_SECONDS = 0.02
"""Between two looks at the last step of the service. A step takes longer, as a rule."""


@dataclass(frozen=True)
class Resized:
    """`longest_step_ms`: of the steps that were seen meanwhile. `paused_ms`: how long no step could run."""

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
    longest_ms = 0.0
    with service.beginning("layout", "change", "--workers", str(before + more), "--mode", "live") as ended:
        while not ended():
            longest_ms = max(longest_ms, sum(service.look()["last_step"].values()))
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
        longest_step_ms=round(longest_ms, 1),
        paused_ms=0.0 if done["mode"] == "live" else done["cuts_ms"],
    )
