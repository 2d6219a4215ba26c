"""About how long a rescale takes, before it is made: for plans, and for who weighs whether it is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLD_BYTES_PER_S = 150e6
"""What a cold change moves, with the destination's writes and the fold. An estimate: disks differ. BENCHMARKS.md has what was measured."""

LIVE_SLOWER_MAX = 6.0
"""How much longer a live change takes if steps follow each other without a gap, because its copies share the cores and the disk with them. An
estimate. If nothing is to be read, a live change is about as fast as a cold one."""

Measured = Mapping[str, Mapping[str, float]]
"""By mode: the rate and the longest pause of the last change in this mode, as in `Status.layout`."""


def estimate_times(moved_bytes: int, measured: Measured) -> dict[str, dict[str, Any]]:
    """About how long a change takes that moves so much, by mode: the least and the most seconds, and the longest time without a step. What
    was measured of the last change in a mode goes before the estimates; `is_measured` says so. A cold change is its own pause."""
    cold_s = moved_bytes / COLD_BYTES_PER_S
    estimates = {
        "live": (cold_s, LIVE_SLOWER_MAX * cold_s, None),
        "cold": (cold_s, cold_s, cold_s),
    }
    found: dict[str, dict[str, Any]] = {}
    for mode, (least_s, most_s, pause_s) in estimates.items():
        if (last := measured.get(mode)) is not None:
            least_s = most_s = moved_bytes / last["bytes_per_s"]
            pause_s = least_s if mode == "cold" else last["pause_ms"] / 1e3
        seconds = [round(least_s, 3), round(most_s, 3)]
        pause_s = None if pause_s is None else round(pause_s, 3)
        found[mode] = {"seconds": seconds, "pause_s": pause_s, "is_measured": last is not None}
    return found


def moved_share(now: int, then: int) -> float:
    """The part of the state that moves from one number of workers to another: both policies move as little as any rule can."""
    return abs(now - then) / max(now, then)
