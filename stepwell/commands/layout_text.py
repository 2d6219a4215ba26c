"""The layout and its changes in words, for `layout`, `status` and the progress of a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from base.sizes import size_text
from base.slots import SLOTS
from stepwell.commands.common import plain_table

BAR_WIDTH = 40
"""Columns: the text beside it needs the rest of a narrow terminal."""


def time_text(seconds: float) -> str:
    if seconds < 1:
        return "less than 1 s"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def pause_text(seconds: float) -> str:
    """Returns the text for a time in which no step runs."""
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


def accepted_text(what: str, found: Mapping[str, Any]) -> str:
    """What a service answers if it is asked to pause, resume, reverse or end the change under way."""
    under_way = found.get("change")
    if under_way is None:
        return str(found["fault"] or "the change is settled")
    text = f"the service has accepted to {what} the change {rescale_text(under_way)}"
    if under_way["is_paused"] and under_way["mode"] == "cold":
        text += "\nThe change is cold, so no step runs before `stepwell layout resume`."
    elif under_way["is_paused"] and what == "reverse":
        text += "\nThe change is paused: `stepwell layout resume` lets it go on."
    return text


def layout_text(found: Mapping[str, Any]) -> RenderableType:
    """The workers with their shares, and the change under way."""
    table = plain_table("worker", "host", "process", "slots", "share", "state")
    for member in found["members"]:
        host, pid = (("-" if member[name] is None else str(member[name])) for name in ("host", "pid"))
        size = "-" if member["bytes"] is None else size_text(member["bytes"])
        table.add_row(str(member["worker"]), host, pid, f"{member['slots']:,}", share_text(member["slots"]), size)
    head = f"layout {found['number']} ({found['outcome']}): {found['shards']:,} shards, {found['policy']} policy"
    if not found["is_running"]:
        head += "; no service runs" + (", and the shares are those of the last checkpoint" if found["change"] else "")
    parts: list[RenderableType] = [head, table]
    if found["change"] is not None:
        parts.append(RescaleBar(found["change"], head=f"change {found['change']['number']}: "))
        if not found["is_running"]:
            parts.append("The next `stepwell run` goes on with it.")
    if found["automatic"] is not None:
        parts.append(escape(automatic_text(found["automatic"])))
    if found["fault"] is not None:
        parts.append(escape(f"the last change: {found['fault']}"))
    return Group(*parts)


def plan_text(found: Mapping[str, Any]) -> RenderableType:
    """What a change would move, how long that takes, and whether there is room for it."""
    now, then = found["workers"]["now"], found["workers"]["then"]
    table = plain_table("from", "to", "slots", "share", "state, about")
    for way in found["moves"]:
        table.add_row(
            f"worker {way['source']}",
            f"worker {way['destination']}",
            f"{way['slots']:,}",
            share_text(way["slots"]),
            "-" if way["bytes"] is None else size_text(way["bytes"]),
        )
    shards = found["shards"]
    parts: list[RenderableType] = [
        f"from {now} to {then} workers"
        + (f", {shards['now']:,} to {shards['then']:,} shards" if _differ(shards) else ""),
        *([table] if found["moves"] else []),
        f"{share_text(found['slots'])} of the slots would move" + _bytes_text(found),
    ]
    if found["expected"] is not None:
        parts.append(_expected_table(found["expected"]))
        parts.append("New workers take some seconds to start, and a checkpoint follows.")
    parts += [f"Free on the disk of {host}: {size_text(free)}." for host, free in sorted(found["free_bytes"].items())]
    if found["bytes"] is not None and any(found["bytes"] > free for free in found["free_bytes"].values()):
        parts.append("A change that has too little room on the disk of a destination is refused.")
    parts.append(_unsplit_text(found["unsplit"]))
    return Group(*parts)


def _differ(numbers: Mapping[str, int]) -> bool:
    return len(set(numbers.values())) > 1


def _bytes_text(found: Mapping[str, Any]) -> str:
    if found["bytes"] is None:
        return ". How large the state is, is known after the first checkpoint of a run."
    return f", about {size_text(found['bytes'])} of state."


def _expected_table(expected: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    table = plain_table("mode", "expected time", "no step runs for", "from")
    for mode, each in expected.items():
        least, most = map(time_text, each["seconds"])
        times = least if least == most else f"{least} if little is read, up to {most} under load"
        pause = "a cut at a time" if each["pause_s"] is None else f"about {pause_text(each['pause_s'])}"
        origin = "the last such change" if each["is_measured"] else "an estimate"
        table.add_row(mode, times, pause, origin)
    return table


def _unsplit_text(unsplit: Mapping[str, Any]) -> str:
    owner = unsplit["owner_then"]
    moves = "stays with" if owner == unsplit["owner_now"] else "moves to"
    return f"The state of aggregates without keys, of NOT IN and of constants lies in slot 0, which {moves} worker {owner} and cannot be split."
