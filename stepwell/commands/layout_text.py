"""The layout and its changes in words, for `layout`, `status` and the progress of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from base.sizes import size_text
from base.slots import SLOTS

BAR_WIDTH = 40
"""Columns: the text beside it needs the rest of a narrow terminal."""


def time_text(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def pause_text(seconds: float) -> str:
    """Of a time in which no step runs."""
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else time_text(seconds)


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


def rescale_text(change: Mapping[str, Any]) -> str:
    """A change under way: what it leads to, and how far it is."""
    count = change["workers"]
    parts = [f"to {count} worker{'s' if count > 1 else ''}, {change['mode']}"]
    if change.get("state"):
        parts.append(change["state"])
    left, rate = change.get("bytes_left"), change.get("bytes_per_s")
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
    pause = f"no step could begin for up to {change['longest_pause_ms']:g} ms"
    if change["mode"] == "live":
        return f"{moved} and {change['cuts']} cuts; {pause}"
    return f"{moved}; {pause}"


def automatic_text(automatic: Mapping[str, Any]) -> str:
    """Between which numbers of workers Stepwell chooses, and its last decision with the reason."""
    bounds = f"Stepwell chooses {automatic['min']} to {automatic['max']} workers"
    if automatic["reason"] is None:
        return f"{bounds}, when the pipeline runs."
    return f"{bounds}. {automatic['decision']}: {automatic['reason']}"


class RescaleBar:
    """A change under way: what `rescale_text` says, and on a terminal a bar of the bytes that have moved."""

    def __init__(self, change: Mapping[str, Any], fault: str | None = None, head: str = "") -> None:
        self._change = change
        self._text = head + rescale_text(change) + ("" if fault is None else f"; {fault}")

    def __str__(self) -> str:
        return self._text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield share_bar(moved_share(self._change))
        yield escape(str(self))


def percent(share: float) -> str:
    """Rounded down, because 100 % means that nothing is left. 0.29 is a little less in binary."""
    return f"{int(100 * share + 1e-9)} %"


def share_bar(share: float | None) -> RenderableType:
    """A bar of this part of the whole; None if it is not known."""
    if share is None:
        return ProgressBar(total=None, width=BAR_WIDTH)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=1.0, completed=share, width=BAR_WIDTH), percent(share))
    return bar


def moved_share(change: Mapping[str, Any]) -> float | None:
    """The part of the bytes that has moved; None if they are not counted yet."""
    moved, left = change.get("bytes_moved", 0), change.get("bytes_left")
    if left is None:
        return None
    return 1.0 if moved + left == 0 else float(moved / (moved + left))
