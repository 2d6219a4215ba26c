"""The layout and its changes in words, for `layout`, `status` and the progress of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from base.slots import SLOTS


def size_text(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def time_text(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def share_text(slots: int) -> str:
    return f"{100 * slots / SLOTS:.1f} %"


def shares_text(members: Mapping[str, Mapping[str, Any]]) -> str:
    """How many workers there are, and the lowest and the highest share of them."""
    if not members:
        return "-"
    count = f"{len(members)} worker{'s' if len(members) > 1 else ''}"
    slots = [member["slots"] for member in members.values()]
    low, high = share_text(min(slots)), share_text(max(slots))
    return (
        f"{count}, {low} of the slots" + (" each" if len(members) > 1 else "")
        if low == high
        else f"{count}, {low} to {high} of the slots"
    )


def rate_of(change: Mapping[str, Any]) -> float | None:
    """Bytes per second since the change has begun to move; None if it is not known."""
    return change["bytes_moved"] / change["seconds"] if change.get("seconds") else None


def change_text(change: Mapping[str, Any]) -> str:
    """A change under way: what it leads to, and how far it is."""
    count = change["workers"]
    parts = [f"to {count} worker{'s' if count > 1 else ''}, {change['mode']}"]
    if change.get("is_paused"):
        parts.append("paused")
    left, rate = change.get("bytes_left"), rate_of(change)
    if "bytes_moved" in change:
        parts.append(f"{size_text(change['bytes_moved'])} moved")
    if not change["slots_left"]:
        parts.append("waiting for its checkpoint")
    elif left is None:
        parts.append(f"{share_text(change['slots_left'])} of the slots left")
    else:
        parts.append(f"{size_text(left)} left")
    if rate:
        parts.append(f"{size_text(rate)}/s")
    if change.get("seconds_left"):
        parts.append(f"about {time_text(change['seconds_left'])} to go")
    if change.get("cuts"):
        parts.append(f"longest cut {change['longest_cut_ms']:g} ms")
    return ", ".join(parts)


def done_text(change: Mapping[str, Any]) -> str:
    """A change that is settled: what it moved, how long that took, and how long it held a step up."""
    moved = f"{size_text(change['bytes_moved'])} moved in {time_text(change['elapsed_s'])}"
    if change["mode"] == "cold":
        return f"{moved}, in which no step ran"
    if change["mode"] == "hot":
        return f"{moved}; no step ran for {change['cuts_ms']:g} ms of that"
    return f"{moved} and {change['cuts']} cuts, the longest of which took {change['longest_cut_ms']:g} ms"
